// y[b, h, i] = sum over j of softmax over j of (scale q[b, h, i] . k[b, g, j] + mask[b, h, i, j])
// times v[b, g, j], then for each (b, h, i) the logarithm of the sum of exponentials; REP heads h share
// one head g. The scores never lie in memory (Dao et al. 2022, arXiv 2205.14135): what is summed
// up shrinks as the largest score so far grows.
//
// L threads side by side have four queries, each of them 16 numbers of a query: vectors L apart. A
// workgroup has FOURS such groups, which walk the same keys; where queries are few, PARTS of them
// have the same queries, and each meets one of PARTS keys.
const BATCH = 1;
const H = 1;
const REP = 1;
const T = 64;
const S = 64;
const D = 64;
const E = 64;
const L = 4;
const FOURS = 16;
const PARTS = 1;
const EACH = 8;
const CAUSAL = false;
const MASKED = false;
const DROPS = false;
const THREADS = L * FOURS;
const BLOCK = EACH * PARTS;
const ROWS = 4 * FOURS / PARTS;
const SPARE = min(L - 1, 1);
const LEAST = -3.4028234e38;

alias Vec = vec4<Acc>;
alias Mat = mat4x4<Acc>;
var<workgroup> keys: array<Vec, BLOCK * 4 * L>;
var<workgroup> values: array<Vec, BLOCK * 4 * L>;
var<workgroup> part: array<Vec, max(EACH * THREADS, 18 * THREADS / PARTS * min(PARTS - 1, 1))>;

fn k_at(b: i32, g: i32, j: i32, d: i32) -> Acc {
  if ((d < D) & (j < S)) { return load_k(b, g, j, d); }
  return Acc(0);
}
fn v_at(b: i32, g: i32, j: i32, e: i32) -> Acc {
  if ((e < E) & (j < S)) { return load_v(b, g, j, e); }
  return Acc(0);
}
fn query(b: i32, h: i32, i: i32, lane: i32) -> Mat {
  var m = Mat();
  for (var n = 0; n < 16; n++) {
    let d = 4 * (n / 4 * L + lane) + n % 4;
    if (d < D) { m[n / 4][n % 4] = load_q(b, h, min(i, T - 1), d) * load_scale(); }
  }
  return m;
}
fn dots(a: Mat, b: Mat) -> Acc {
  return dot(a[0], b[0]) + dot(a[1], b[1]) + dot(a[2], b[2]) + dot(a[3], b[3]);
}
// The scores of queries i to i + 3, -inf where key j takes no part.
fn masked(s: Vec, b: i32, h: i32, i: i32, j: i32) -> Vec {
  var out = s;
  let none = pf_ninf_f32();
  if (j >= S) { return Vec(none); }
  if (MASKED) {
    for (var n = 0; n < 4; n++) { out[n] += load_mask(b, h, min(i + n, T - 1), j); }
  }
  if (CAUSAL) { out = select(Vec(none), out, vec4<i32>(j) <= vec4<i32>(i, i + 1, i + 2, i + 3)); }
  return out;
}
// What dropout makes of weights 1 at (i, j), of the random bits that have this place.
fn kept(b: i32, h: i32, i: i32, j: i32) -> Acc {
  let at = ((u32(b * H + h)) * u32(T) + u32(i)) * u32(S) + u32(j);
  let bits = pf_philox_u32(load_seed(0), load_seed(1), load_seed(2), at);
  return select(1.0 / (1.0 - load_p()), 0.0, f32(bits >> 8u) * 5.9604645e-8 < load_p());
}
fn put(b: i32, h: i32, i: i32, lane: i32, y: Mat, lse: Acc) {
  if (i >= T) { return; }
  let row = (b * H + h) * T + i;
  var m = y;
  for (var n = 0; n < 16; n++) {
    let e = 4 * (n / 4 * L + lane) + n % 4;
    if (e < E) { store(row * E + e, m[n / 4][n % 4]); }
  }
  if (lane == 0) { store(BATCH * H * T * E + row, lse); }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let id = i32(group.x + group.y * groups.x);
  let tiles = (T + ROWS - 1) / ROWS;
  if (id >= BATCH * H * tiles) { return; }
  let b = id / (H * tiles);
  let h = id / tiles % H;
  let first = id % tiles * ROWS;
  let t = i32(local);
  let lane = t % L;
  let home = t - lane;
  let mine = t / L % PARTS;
  let i = first + 4 * (t / L / PARTS);
  let q0 = query(b, h, i, lane);
  let q1 = query(b, h, i + 1, lane);
  let q2 = query(b, h, i + 2, lane);
  let q3 = query(b, h, i + 3, lane);
  var y0 = Mat();
  var y1 = Mat();
  var y2 = Mat();
  var y3 = Mat();
  var most = Vec(LEAST);
  var total = Vec();
  let last = select(S, min(S, first + ROWS), CAUSAL);
  for (var j = 0; j < last; j += BLOCK) {
    workgroupBarrier();
    for (var n = t; n < BLOCK * 4 * L; n += THREADS) {
      let d = n % (4 * L) * 4;
      let at = j + n / (4 * L);
      let g = h / REP;
      keys[n] = Vec(k_at(b, g, at, d), k_at(b, g, at, d + 1), k_at(b, g, at, d + 2), k_at(b, g, at, d + 3));
      values[n] = Vec(v_at(b, g, at, d), v_at(b, g, at, d + 1), v_at(b, g, at, d + 2), v_at(b, g, at, d + 3));
    }
    workgroupBarrier();
    for (var n = 0; n < EACH; n++) {
      let at = (n * PARTS + mine) * 4 * L + lane;
      let k = Mat(keys[at], keys[at + L], keys[at + 2 * L], keys[at + 3 * L]);
      part[n * THREADS + t] = Vec(dots(q0, k), dots(q1, k), dots(q2, k), dots(q3, k));
    }
    workgroupBarrier();
    for (var n = lane; n < EACH; n += L) {
      let at = n * THREADS + home;
      var s = part[at];
      for (var l = 1; l < L; l++) { s += part[at + l]; }
      part[at] = masked(s, b, h, i, j + n * PARTS + mine);
    }
    workgroupBarrier();
    var now = most;
    for (var n = 0; n < EACH; n++) { now = max(now, part[n * THREADS + home]); }
    let less = exp(most - now);
    most = now;
    total *= less;
    y0 *= less.x;
    y1 *= less.y;
    y2 *= less.z;
    y3 *= less.w;
    for (var n = lane; n < EACH; n += L) {
      let at = n * THREADS + home;
      var p = exp(part[at] - now);
      total += p;
      if (DROPS) {
        for (var r = 0; r < 4; r++) { p[r] *= kept(b, h, i + r, j + n * PARTS + mine); }
      }
      part[at + SPARE] = p;
    }
    workgroupBarrier();
    for (var n = 0; n < EACH; n++) {
      let at = (n * PARTS + mine) * 4 * L + lane;
      let v = Mat(values[at], values[at + L], values[at + 2 * L], values[at + 3 * L]);
      let p = part[n * THREADS + home + SPARE];
      y0 += p.x * v;
      y1 += p.y * v;
      y2 += p.z * v;
      y3 += p.w * v;
    }
  }
  // threads of one group have walked different keys since the last sum, groups of one part others
  workgroupBarrier();
  part[t] = total;
  workgroupBarrier();
  total = Vec();
  for (var l = 0; l < L; l++) { total += part[home + l]; }
  for (var other = 1; other < PARTS; other++) {
    workgroupBarrier();
    let at = (t / L / PARTS * L + lane) * 18;
    if (mine == other) {
      part[at] = most;
      part[at + 1] = total;
      for (var n = 0; n < 4; n++) {
        part[at + 2 + n] = y0[n];
        part[at + 6 + n] = y1[n];
        part[at + 10 + n] = y2[n];
        part[at + 14 + n] = y3[n];
      }
    }
    workgroupBarrier();
    if (mine == 0) {
      let now = max(most, part[at]);
      let a = exp(most - now);
      let c = exp(part[at] - now);
      most = now;
      total = a * total + c * part[at + 1];
      y0 = a.x * y0 + c.x * Mat(part[at + 2], part[at + 3], part[at + 4], part[at + 5]);
      y1 = a.y * y1 + c.y * Mat(part[at + 6], part[at + 7], part[at + 8], part[at + 9]);
      y2 = a.z * y2 + c.z * Mat(part[at + 10], part[at + 11], part[at + 12], part[at + 13]);
      y3 = a.w * y3 + c.w * Mat(part[at + 14], part[at + 15], part[at + 16], part[at + 17]);
    }
  }
  if (mine > 0) { return; }
  // a query that nothing takes part in gives 0 under a mask
  let nothing = (total == Vec()) & vec4<bool>(MASKED);
  let scale = select(1.0 / total, Vec(), nothing);
  let lse = select(most + log(total), Vec(pf_ninf_f32()), total == Vec());
  put(b, h, i, lane, scale.x * y0, lse.x);
  put(b, h, i + 1, lane, scale.y * y1, lse.y);
  put(b, h, i + 2, lane, scale.z * y2, lse.z);
  put(b, h, i + 3, lane, scale.w * y3, lse.w);
}
