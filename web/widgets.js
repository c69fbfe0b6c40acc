// All widgets: each is a custom element that stands alone in a plain page.
//
//   <script type="module" src="widgets.js"></script>
//   <pf-pad></pf-pad>  <pf-bars names="cat, dog"></pf-bars>

export { Choice } from "./widgets/choice.js";
export { Slider } from "./widgets/slider.js";
export { Toggle } from "./widgets/toggle.js";
