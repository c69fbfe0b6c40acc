// y[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]. TX x TY threads compute 4 x 4 results each;
// tiles of both operands pass through workgroup memory as vec4s, so that one load feeds 4 products.
// A CPU that plays a GPU has no use for them, and Chromium's takes a second to compile their zeroing.
const M = 64;
const N = 64;
const K = 64;
const BATCH = 1;
const TX = 16;
const TY = 16;
const BK = 16;
const BM = 4 * TY;
const BN = 4 * TX;
const TILED = true; // false on software adapters

alias Vec = vec4<Acc>;
var<workgroup> tile_a: array<Vec, BK * TY>;
var<workgroup> tile_b: array<Vec, BK * TX>;

fn a_at(batch: i32, m: i32, k: i32) -> Acc {
  if ((m < M) & (k < K)) { return load_a(batch, m, k); }
  return Acc(0);
}
fn b_at(batch: i32, k: i32, n: i32) -> Acc {
  if ((n < N) & (k < K)) { return load_b(batch, k, n); }
  return Acc(0);
}
fn rows(batch: i32, m: i32, k: i32) -> Vec {
  return Vec(a_at(batch, m, k), a_at(batch, m + 1, k), a_at(batch, m + 2, k), a_at(batch, m + 3, k));
}
fn columns(batch: i32, k: i32, n: i32) -> Vec {
  return Vec(b_at(batch, k, n), b_at(batch, k, n + 1), b_at(batch, k, n + 2), b_at(batch, k, n + 3));
}
fn put(batch: i32, m: i32, n: i32, v: Vec) {
  if (m >= M) { return; }
  let at = (batch * M + m) * N + n;
  if (n < N) { store(at, v.x); }
  if (n + 1 < N) { store(at + 1, v.y); }
  if (n + 2 < N) { store(at + 2, v.z); }
  if (n + 3 < N) { store(at + 3, v.w); }
}

@compute @workgroup_size(TX, TY)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>) {
  let g = i32(group.x + group.y * groups.x);
  let down = (M + BM - 1) / BM;
  let across = (N + BN - 1) / BN;
  let batch = g / (down * across);
  if (batch >= BATCH) { return; }
  let m0 = g / across % down * BM;
  let n0 = g % across * BN;
  let tx = i32(local.x);
  let ty = i32(local.y);
  let t = ty * TX + tx;
  var acc0 = Vec();
  var acc1 = Vec();
  var acc2 = Vec();
  var acc3 = Vec();
  if (TILED) {
    for (var k0 = 0; k0 < K; k0 += BK) {
      for (var i = t; i < BK * TY; i += TX * TY) {
        let k = k0 + i % BK;
        let m = m0 + 4 * (i / BK);
        tile_a[(i % BK) * TY + i / BK] = rows(batch, m, k);
      }
      for (var i = t; i < BK * TX; i += TX * TY) {
        let k = k0 + i / TX;
        let n = n0 + 4 * (i % TX);
        tile_b[i] = columns(batch, k, n);
      }
      workgroupBarrier();
      for (var k = 0; k < BK; k++) {
        let a = tile_a[k * TY + ty];
        let b = tile_b[k * TX + tx];
        acc0 += a.x * b;
        acc1 += a.y * b;
        acc2 += a.z * b;
        acc3 += a.w * b;
      }
      workgroupBarrier();
    }
  } else {
    for (var k = 0; k < K; k++) {
      let b = columns(batch, k, n0 + 4 * tx);
      let a = rows(batch, m0 + 4 * ty, k);
      acc0 += a.x * b;
      acc1 += a.y * b;
      acc2 += a.z * b;
      acc3 += a.w * b;
    }
  }
  let m = m0 + 4 * ty;
  let n = n0 + 4 * tx;
  put(batch, m, n, acc0);
  put(batch, m + 1, n, acc1);
  put(batch, m + 2, n, acc2);
  put(batch, m + 3, n, acc3);
}
