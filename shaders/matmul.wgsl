// y[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]. 16 x 16 threads, RM x RN results each; tiles
// of both operands pass through workgroup memory, A transposed so that a thread reads neighbours.
const M = 64;
const N = 64;
const K = 64;
const RM = 4;
const RN = 4;
const BK = 16;
const BM = 16 * RM;
const BN = 16 * RN;

var<workgroup> tile_a: array<array<Acc, BM>, BK>;
var<workgroup> tile_b: array<array<Acc, BN>, BK>;

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
  let batch = i32(group.z);
  let m0 = i32(group.y) * BM;
  let n0 = i32(group.x) * BN;
  let tx = i32(local.x);
  let ty = i32(local.y);
  let t = ty * 16 + tx;
  var acc: array<array<Acc, RN>, RM>;
  for (var k0 = 0; k0 < K; k0 += BK) {
    for (var i = t; i < BM * BK; i += 256) {
      let m = m0 + i / BK;
      let k = k0 + i % BK;
      var v = Acc(0);
      if (m < M && k < K) { v = load_a(batch, m, k); }
      tile_a[i % BK][i / BK] = v;
    }
    for (var i = t; i < BN * BK; i += 256) {
      let k = k0 + i / BN;
      let n = n0 + i % BN;
      var v = Acc(0);
      if (n < N && k < K) { v = load_b(batch, k, n); }
      tile_b[i / BN][i % BN] = v;
    }
    workgroupBarrier();
    for (var k = 0; k < BK; k++) {
      var row: array<Acc, RM>;
      for (var i = 0; i < RM; i++) { row[i] = tile_a[k][ty * RM + i]; }
      for (var j = 0; j < RN; j++) {
        let v = tile_b[k][tx + 16 * j];
        for (var i = 0; i < RM; i++) { acc[i][j] += row[i] * v; }
      }
    }
    workgroupBarrier();
  }
  for (var i = 0; i < RM; i++) {
    for (var j = 0; j < RN; j++) {
      let m = m0 + ty * RM + i;
      let n = n0 + tx + 16 * j;
      if (m < M && n < N) { store((batch * M + m) * N + n, acc[i][j]); }
    }
  }
}
