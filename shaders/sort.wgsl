// The places of a row's int keys in ascending order, equal keys in the order of their places: a
// bitonic sort (Batcher 1968) of the row, filled up to a power of two, in workgroup memory.
const ROWS = 64;
const N = 64;
const P = 64;

var<workgroup> keys: array<i32, P>;
var<workgroup> places: array<i32, P>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let row = i32(group.x + group.y * groups.x);
  if (row >= ROWS) { return; }
  for (var i = i32(t); i < P; i += 256) {
    var key = 0x7fffffff;
    if (i < N) { key = i32(load_key(row, i)); }
    keys[i] = key;
    places[i] = i;
  }
  for (var size = 2; size <= P; size <<= 1u) {
    for (var gap = size >> 1u; gap > 0; gap >>= 1u) {
      workgroupBarrier();
      for (var i = i32(t); i < P / 2; i += 256) {
        let a = i / gap * gap * 2 + i % gap;
        let b = a + gap;
        let after = (keys[a] > keys[b]) | ((keys[a] == keys[b]) & (places[a] > places[b]));
        if (after == ((a & size) == 0)) {
          let key = keys[a];
          let place = places[a];
          keys[a] = keys[b];
          places[a] = places[b];
          keys[b] = key;
          places[b] = place;
        }
      }
    }
  }
  workgroupBarrier();
  for (var i = i32(t); i < N; i += 256) { store(row * N + i, places[i]); }
}
