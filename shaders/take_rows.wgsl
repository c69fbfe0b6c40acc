// y[i, b] = x[index[i], b]; an index outside 0..D-1 gives 0 (the op's guard raises the error).
const D = 64;
const B = 64;
const SIZE = 4096;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = i32(id.x + id.y * groups.x * 256u);
  if (i >= SIZE) { return; }
  let row = i32(load_index(i / B));
  var v = Acc(0);
  if ((row >= 0) & (row < D)) { v = load_x(row, i % B); }
  store(i, v);
}
