// y = base with y[OFFSET + (o * D + place) * B + i] = value[o, i]; a place outside 0..D-1 is none
// (the op's guard raises the error).
const D = 64;
const B = 64;
const OFFSET = 0;
const END = 1;

fn element(at: i32) {
  let row = (at - OFFSET) / B;
  var v = load_base(at);
  if ((at >= OFFSET) & (row < END * D) & (row % D == i32(load_place()))) {
    v = load_value(row / D, (at - OFFSET) % B);
  }
  store(at, v);
}
