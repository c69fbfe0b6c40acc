// A package's files in one compressed piece (.tar.gz), which is smaller than a zip and quicker to unpack.

const BLOCK = 512; // bytes: a file has a head of one, and begins at the next
const text = new TextDecoder();

/** What gzip has packed; some servers let the browser unpack it. */
export async function gunzip(bytes) {
  if (!isPacked(bytes)) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** What gzip makes of it. */
export async function gzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export const isPacked = (bytes) => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Writes the files of a tar archive into a folder of Python's file system. */
export function unpack(tar, FS, folder) {
  const made = new Set();
  for (let at = 0; tar[at];) { // a head of zeros is the end
    const field = (from, to) => text.decode(tar.subarray(at + from, at + to)).split("\0")[0];
    const path = `${folder}/${field(0, 100)}`;
    const size = parseInt(field(124, 136), 8);
    const parent = path.slice(0, path.lastIndexOf("/"));
    if (!made.has(parent)) FS.mkdirTree(parent);
    made.add(parent);
    at += BLOCK;
    FS.writeFile(path, tar.slice(at, at + size), { canOwn: true });
    at += Math.ceil(size / BLOCK) * BLOCK;
  }
}
