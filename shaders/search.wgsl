// y[r, j] = how many of the sequence's keys, which ascend in each row, are smaller than the value's.
const SIZE = 4096;
const M = 64;
const N = 64;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = i32(id.x + id.y * groups.x * 256u);
  if (i >= SIZE) { return; }
  let value = i32(load_value(i / M, i % M));
  var low = 0;
  var high = N;
  while (low < high) {
    let middle = (low + high) / 2;
    if (i32(load_sequence(i / M, middle)) < value) { low = middle + 1; } else { high = middle; }
  }
  store(i, low);
}
