// y[d, b] = sum of source[i, b] over the i with index[i] == d, in the order of i: no atomics, so
// the same bits every time. Each thread owns EACH results of a row; indices pass through workgroup
// memory.
const B = 64;
const COUNT = 64;
const SIZE = 4096;
const EACH = 1;

var<workgroup> rows: array<i32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let i = EACH * i32((group.x + group.y * groups.x) * 256u + t);
  var acc: array<Acc, EACH>;
  for (var first = 0; first < COUNT; first += 256) {
    let mine = first + i32(t);
    var row = -1;
    if (mine < COUNT) { row = i32(load_index(mine)); }
    rows[t] = row;
    workgroupBarrier();
    for (var k = 0; k < min(256, COUNT - first); k++) {
      if ((rows[k] == i / B) & (i < SIZE)) {
        for (var x = 0; x < EACH; x++) { acc[x] += load_source(first + k, i % B + x); }
      }
    }
    workgroupBarrier();
  }
  for (var x = 0; x < min(EACH, SIZE - i); x++) { store(i + x, acc[x]); }
}
