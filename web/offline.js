// Keeps an exported page for when there is no network. `pyframe export --offline` writes it beside the page with the
// digests of all files; as the page's script it makes itself the page's service worker.

const FILES = {}; // digests by path, as `fetch` takes them
const VERSION = ""; // a digest of those
const FRESH = ["index.html", "offline.js"]; // what is asked for each time: a new version may be there

if (globalThis.document) {
  const { src } = document.currentScript;
  navigator.serviceWorker?.register(src).catch((error) => console.warn(`This page is not kept for offline: ${error.message}`));
} else {
  const { scope } = registration;
  const prefix = `pyframe-offline ${scope} `;
  const name = prefix + VERSION;

  const fetched = (url, integrity) =>
    fetch(url, { integrity }).catch(() => fetch(url, { integrity, cache: "reload" })); // an older one was kept

  /** All files; what came before an error is there at the next try. */
  const fill = async () => {
    const cache = await caches.open(name);
    await cache.add(scope + FRESH[1]);
    await Promise.all(Object.entries(FILES).map(async ([path, integrity]) => {
      const url = scope + path;
      if (!await cache.match(url)) await cache.put(url, await fetched(url, integrity));
    }));
    await skipWaiting();
  };

  /** Other versions go once all of this one is there. */
  const take = async () => {
    const older = (await caches.keys()).filter((other) => other.startsWith(prefix) && other !== name);
    await Promise.all(older.map((other) => caches.delete(other)));
    await clients.claim();
  };

  const answer = async (request, path) => {
    const kept = await (await caches.open(name)).match(scope + path);
    if (!FRESH.includes(path)) return kept ?? fetch(request);
    return fetch(request).catch((error) => kept ?? Promise.reject(error));
  };

  addEventListener("install", (event) => event.waitUntil(fill()));
  addEventListener("activate", (event) => event.waitUntil(take()));
  addEventListener("fetch", (event) => {
    const { method, url } = event.request;
    const path = url.startsWith(scope) && (url.slice(scope.length).split(/[?#]/)[0] || FRESH[0]);
    if (method === "GET" && (path in FILES || path === FRESH[1])) event.respondWith(answer(event.request, path));
  });
}
