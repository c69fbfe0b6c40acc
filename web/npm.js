// What `import "pyframe"` runs of the npm package: <py-frame>, with the addresses of its files for Python in the
// form that bundlers follow, so that they come to lie beside the bundle. An element with `base="…"` asks there.

import { PyFrame } from "./pyframe.js";

export { PyFrame };

PyFrame.config = {
  version: "VERSION", // scripts/pack_npm writes it here
  early: new URL("./pyframe.tar.gz", import.meta.url).href,
  late: new URL("./pyframe-late.tar.gz", import.meta.url).href,
  datasets: { // a bundler would put the smaller ones into the script, as an address that pages may forbid to fetch
    digits: {
      "data/mnist10k/t10k-images-idx3-ubyte.gz":
        new URL("./data/mnist10k/t10k-images-idx3-ubyte.gz", import.meta.url).href,
      "data/mnist10k/t10k-labels-idx1-ubyte.gz":
        new URL("./data/mnist10k/t10k-labels-idx1-ubyte.gz?no-inline", import.meta.url).href,
      "data/mnist10k/train-images-idx3-ubyte.gz":
        new URL("./data/mnist10k/train-images-idx3-ubyte.gz", import.meta.url).href,
      "data/mnist10k/train-labels-idx1-ubyte.gz":
        new URL("./data/mnist10k/train-labels-idx1-ubyte.gz?no-inline", import.meta.url).href,
    },
    names: { "data/names.txt": new URL("./data/names.txt", import.meta.url).href },
    tinyshakespeare: {
      "data/tinyshakespeare.txt.gz": new URL("./data/tinyshakespeare.txt.gz", import.meta.url).href,
    },
  },
};
