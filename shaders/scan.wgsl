// y[.., i, ..] = x[.., 0, ..] ∘ … ∘ x[.., i, ..], ∘ being +, *, max or the logarithm of the sum of
// exponentials: a workgroup for each row, 256 elements at a time (Hillis & Steele 1986), what came
// before carried along.
const KIND = 0;
const N = 64;
const INNER = 1;
const ROWS = 64;

var<workgroup> part: array<Acc, 256>;
var<workgroup> carry: Acc;

fn join(a: Acc, b: Acc) -> Acc {
  if (KIND == 0) { return a + b; }
  if (KIND == 1) { return a * b; }
  if (KIND == 2) { return max(a, b); }
  let apart = select(abs(f32(a) - f32(b)), 0.0, a == b);  // inf and inf too
  return max(a, b) + Acc(pf_log1p_f32(exp(-apart)));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let row = i32(group.x + group.y * groups.x);
  if (row >= ROWS) { return; }
  for (var first = 0; first < N; first += 256) {
    let i = first + i32(t);
    var v = Acc(0);
    if (i < N) { v = load_x(row / INNER, i, row % INNER); }
    part[t] = v;
    for (var step = 1u; step < 256u; step <<= 1u) {
      workgroupBarrier();
      if (t >= step) { v = join(part[t - step], v); }
      workgroupBarrier();
      part[t] = v;
    }
    if (first > 0) { v = join(carry, v); }
    workgroupBarrier();
    if (t == 255u) { carry = v; }
    workgroupBarrier();
    if (i < N) { store((row / INNER * N + i) * INNER + row % INNER, v); }
  }
}
