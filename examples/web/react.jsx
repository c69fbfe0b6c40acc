// React 19 with Vite. The program was exported: python -m pyframe export moons.py --to public/moons
import "pyframe";
import { useState } from "react";
import { createRoot } from "react-dom/client";

function Moons() {
  const [loss, setLoss] = useState(null);
  return (
    <>
      <py-frame program="/moons/" loading="eager" autotrain epochs={1} ontrained={({ detail }) => setLoss(detail.loss)} />
      <output>{loss === null ? "It learns." : `Its loss is ${loss.toFixed(3)}.`}</output>
    </>
  );
}

createRoot(document.querySelector("#app")).render(<Moons />);
