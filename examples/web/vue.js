// Vue 3 with Vite. The program was exported: python -m pyframe export moons.py --to public/moons
// In a template, tell Vue what it is: vue({ template: { compilerOptions: { isCustomElement: (tag) => tag === "py-frame" } } })
import "pyframe";
import { createApp, h, ref } from "vue";

const loss = ref(null);

createApp(() => [
  h("py-frame", {
    program: "/moons/", loading: "eager", autotrain: true, epochs: 1, onTrained: ({ detail }) => { loss.value = detail.loss; },
  }),
  h("output", loss.value === null ? "It learns." : `Its loss is ${loss.value.toFixed(3)}.`),
]).mount("#app");
