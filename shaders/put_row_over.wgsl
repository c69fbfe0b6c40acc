// y[OFFSET + (o * D + place) * B + i] = value[o, i], and elsewhere y stays as it is; a place outside
// 0..D-1 is none (the op's guard raises the error).
const D = 64;
const B = 64;
const OFFSET = 0;
const END = 1;

fn element(at: i32) {
  let place = i32(load_place());
  if ((place < 0) | (place >= D)) { return; }
  store(OFFSET + (at / B * D + place) * B + at % B, load_value(at / B, at % B));
}
