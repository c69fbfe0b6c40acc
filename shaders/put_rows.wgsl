// y = base with y[index[i], b] = source[i, b]; the last of equal indices wins.
const B = 64;
const COUNT = 64;
const SIZE = 4096;
const EACH = 1;

var<workgroup> rows: array<i32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let i = EACH * i32((group.x + group.y * groups.x) * 256u + t);
  var winner = -1;
  for (var first = 0; first < COUNT; first += 256) {
    let mine = first + i32(t);
    var row = -1;
    if (mine < COUNT) { row = i32(load_index(mine)); }
    rows[t] = row;
    workgroupBarrier();
    for (var k = 0; k < min(256, COUNT - first); k++) {
      if (rows[k] == i / B) { winner = first + k; }
    }
    workgroupBarrier();
  }
  for (var at = i; at < min(i + EACH, SIZE); at++) {
    var v = load_base(at / B, at % B);
    if (winner >= 0) { v = load_source(winner, at % B); }
    store(at, v);
  }
}
