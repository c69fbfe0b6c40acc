// All widgets: each is a custom element that stands alone in a plain page.
//
//   <script type="module" src="widgets.js"></script>
//   <pf-pad></pf-pad>  <pf-bars names="cat, dog"></pf-bars>

export { Bars } from "./widgets/bars.js";
export { Chart } from "./widgets/chart.js";
export { Chat } from "./widgets/chat.js";
export { Choice } from "./widgets/choice.js";
export { Image } from "./widgets/image.js";
export { Numbers } from "./widgets/numbers.js";
export { Pad } from "./widgets/pad.js";
export { Picture } from "./widgets/picture.js";
export { Points } from "./widgets/points.js";
export { Position } from "./widgets/position.js";
export { Samples } from "./widgets/samples.js";
export { Slider } from "./widgets/slider.js";
export { Text } from "./widgets/text.js";
export { Toggle } from "./widgets/toggle.js";
export { Values } from "./widgets/values.js";
