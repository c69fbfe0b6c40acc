// What an exported page loads must be what was exported: `fetch` checks each file that has a digest.

let guarded = false;

/** From now on `fetch` refuses other contents; `integrity` has digests by URL, relative to `base`. */
export function guard(integrity, base) {
  if (guarded || !integrity) return;
  guarded = true;
  const digests = new Map(Object.entries(integrity).map(([path, digest]) => [new URL(path, base).href, digest]));
  const plain = self.fetch;
  self.fetch = async (resource, options) => {
    const url = new URL(resource.url ?? resource, self.location.href);
    const digest = digests.get(url.origin + url.pathname);
    if (!digest) return plain(resource, options);
    try {
      return await plain(resource, { ...options, integrity: digest });
    } catch (error) { // the browser does not say what it was
      const response = await plain(resource, { ...options, cache: "reload", integrity: "" });
      if (!response.ok) return response;
      const fresh = await plain(resource, { ...options, integrity: digest }).catch(() => null); // an older one was cached
      if (fresh) return fresh;
      throw Object.assign(new Error(`${url.pathname.split("/").pop()} is not the file that was exported: its SHA-256 ` +
        `is another (${url}). Export the page again, and upload all of it.`), { name: "IntegrityError", cause: error });
    }
  };
}
