// y[.., i, ..] = x[.., 0, ..] ∘ … ∘ x[.., i, ..], ∘ being +, *, max or the logarithm of the sum of
// exponentials. WIDTH threads share a row: four elements each, then their ends (Hillis & Steele
// 1986, from one half of the memory to the other and back), and what came before carried along.
const KIND = 0;
const N = 64;
const INNER = 1;
const ROWS = 64;
const WIDTH = 16;
const ALONE = false;
const PER = 256 / WIDTH;

var<workgroup> part: array<Acc, 512>;

fn join(a: Acc, b: Acc) -> Acc {
  if (KIND == 0) { return a + b; }
  if (KIND == 1) { return a * b; }
  if (KIND == 2) { return max(a, b); }
  let apart = select(abs(f32(a) - f32(b)), 0.0, a == b);  // inf and inf too
  return Acc(pf_max_f32(f32(a), f32(b)) + pf_log1p_f32(exp(-apart)));  // NaN too
}
fn at(row: i32, i: i32) -> Acc {
  if ((i < N) & (row < ROWS)) { return load_x(row / INNER, i, row % INNER); }
  return Acc(0);
}
fn put(row: i32, i: i32, v: Acc) {
  if ((i < N) & (row < ROWS)) { store((row / INNER * N + i) * INNER + row % INNER, v); }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let t = i32(local);
  let row = i32(group.x + group.y * groups.x) * PER + t / WIDTH;
  if (ALONE) {
    var v = at(row, 0);
    put(row, 0, v);
    for (var i = 1; i < N; i++) {
      v = join(v, at(row, i));
      put(row, i, v);
    }
    return;
  }
  let lane = t % WIDTH;
  var before = Acc(0);
  for (var first = 0; first < N; first += 4 * WIDTH) {
    let i = first + 4 * lane;
    var a = at(row, i);
    var b = join(a, at(row, i + 1));
    var c = join(b, at(row, i + 2));
    var d = join(c, at(row, i + 3));
    var sum = d;
    var half = 0;
    part[t] = sum;
    for (var step = 1; step < WIDTH; step <<= 1u) {
      workgroupBarrier();
      if (lane >= step) { sum = join(part[half + t - step], sum); }
      half = 256 - half;
      part[half + t] = sum;
    }
    workgroupBarrier();
    var prior = before;
    if (lane > 0) {
      prior = part[half + t - 1];
      if (first > 0) { prior = join(before, prior); }
    }
    if ((lane > 0) | (first > 0)) {
      a = join(prior, a);
      b = join(prior, b);
      c = join(prior, c);
      d = join(prior, d);
    }
    let all = part[half + t - lane + WIDTH - 1];
    if (first > 0) { before = join(before, all); } else { before = all; }
    put(row, i, a);
    put(row, i + 1, b);
    put(row, i + 2, c);
    put(row, i + 3, d);
    workgroupBarrier();
  }
}
