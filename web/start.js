// Starts a page that `pyframe export --python` has written, once all its code is what was exported.

import { guard } from "./guard.js";

const said = document.getElementById("checking");
const { content, dataset } = document.querySelector("meta[name=pyframe-config]");
const base = new URL("./", import.meta.url).href;

async function checked(url) {
  const name = url.split("/").pop();
  const response = await fetch(url).catch((error) => {
    throw error instanceof TypeError ? new Error(`${name} can't be had from ${url}: the server can't be reached.`) : error;
  });
  if (response.ok) return response;
  throw new Error(`${name} is missing: for ${url} the server says ${response.status}. Upload all of the exported page.`);
}

try {
  const config = new URL(content, document.baseURI).href;
  const response = await fetch(config, { integrity: dataset.integrity }).catch(() => {
    throw new Error("config.json is missing or not the file that was exported. Export the page again, and upload all of it.");
  });
  const { integrity } = await response.json();
  guard({ ...integrity, "config.json": dataset.integrity }, base);
  const code = Object.keys(integrity).filter((path) => /\.m?js$/.test(path));
  await Promise.all(code.map(async (path) => (await checked(new URL(path, base).href)).arrayBuffer()));
  await import("./pyframe.js");
  said.remove();
} catch (error) {
  said.textContent = error.message;
}
