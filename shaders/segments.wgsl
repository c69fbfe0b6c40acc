// y[d, b] = sum of source[order[k], b] over bounds[d] <= k < bounds[d + 1], in that order: each
// thread owns one result, so the same bits every time.
const B = 64;
const SIZE = 4096;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = i32(id.x + id.y * groups.x * 256u);
  if (i >= SIZE) { return; }
  let end = i32(load_bounds(i / B + 1));
  var acc = Acc(0);
  for (var k = i32(load_bounds(i / B)); k < end; k++) {
    acc += load_source(i32(load_order(k)), i % B);
  }
  store(i, acc);
}
