// The gradients of attention.wgsl from what it gave, without the scores in memory: p = exp(s - lse),
// ds = p (g . v - delta), delta being sum over e of g y minus the gradient of lse. The first
// workgroups have rows x of q and u of g, and walk z, k, and w, v: the gradient of q, sum over j of
// ds k, times scale. The others, `keys`, have rows x of k and u of v, and walk z, q, and w, g: the
// gradient of k, sum over i of ds q times scale, and that of v, sum over i of p g. Queries are
// scaled as they are loaded. With JOINT results lie as (BATCH, T, 3, H, D), else one after another.
//
// L threads side by side have two rows of x and u, each of them 16 numbers: vectors L apart.
const BATCH = 1;
const H = 1;
const REP = 1;
const T = 64;
const S = 64;
const D = 64;
const E = 64;
const L = 4;
const PAIRS = 16;
const EACH = 8;
const JOINT = false;
const CAUSAL = false;
const MASKED = false;
const DROPS = false;
const THREADS = L * PAIRS;
const ROWS = 2 * PAIRS;
const LEAST = -3.4028234e38;

alias Vec = vec4<Acc>;
alias Mat = mat4x4<Acc>;
var<workgroup> zs: array<Vec, EACH * 4 * L>;
var<workgroup> ws: array<Vec, EACH * 4 * L>;
var<workgroup> part: array<Vec, EACH * THREADS>;

fn q_at(b: i32, h: i32, i: i32, d: i32) -> Acc { return load_q(b, h, i, d) * load_scale(); }
fn z_at(keys: bool, b: i32, h: i32, n: i32, d: i32, end: i32) -> Acc {
  if ((d >= D) | (n >= end)) { return Acc(0); }
  if (keys) { return q_at(b, h, n, d); }
  return load_k(b, h, n, d);
}
fn w_at(keys: bool, b: i32, h: i32, n: i32, e: i32, end: i32) -> Acc {
  if ((e >= E) | (n >= end)) { return Acc(0); }
  if (keys) { return load_g(b, h, n, e); }
  return load_v(b, h, n, e);
}
fn row_x(keys: bool, b: i32, h: i32, i: i32, lane: i32) -> Mat {
  var m = Mat();
  for (var n = 0; n < 16; n++) {
    let d = 4 * (n / 4 * L + lane) + n % 4;
    if (d >= D) { continue; }
    if (keys) { m[n / 4][n % 4] = load_k(b, h, i, d); } else { m[n / 4][n % 4] = q_at(b, h, i, d); }
  }
  return m;
}
fn row_u(keys: bool, b: i32, h: i32, i: i32, lane: i32) -> Mat {
  var m = Mat();
  for (var n = 0; n < 16; n++) {
    let e = 4 * (n / 4 * L + lane) + n % 4;
    if (e >= E) { continue; }
    if (keys) { m[n / 4][n % 4] = load_v(b, h, i, e); } else { m[n / 4][n % 4] = load_g(b, h, i, e); }
  }
  return m;
}
fn dots(a: Mat, b: Mat) -> Acc {
  return dot(a[0], b[0]) + dot(a[1], b[1]) + dot(a[2], b[2]) + dot(a[3], b[3]);
}
// (ds, p) of query i and key j, from their products q . k and g . v.
fn weight(s: Acc, along: Acc, b: i32, h: i32, i: i32, j: i32) -> vec2<Acc> {
  if ((i >= T) | (j >= S)) { return vec2<Acc>(); }
  if (CAUSAL & (j > i)) { return vec2<Acc>(); }
  var score = s;
  if (MASKED) { score += load_mask(b, h, i, j); }
  if (score < LEAST) { return vec2<Acc>(); }
  let p = exp(score - load_lse(b, h, i));
  var keep = Acc(1);
  if (DROPS) {
    let at = ((u32(b * H + h)) * u32(T) + u32(i)) * u32(S) + u32(j);
    let bits = pf_philox_u32(load_seed(0), load_seed(1), load_seed(2), at);
    keep = select(1.0 / (1.0 - load_p()), 0.0, f32(bits >> 8u) * 5.9604645e-8 < load_p());
  }
  return vec2<Acc>(p * (along * keep - load_delta(b, h, i)), p * keep);
}
// Row i of the gradient of q, k or v: number `third`, with `heads` of so many rows, from `begin` on.
fn put(third: i32, begin: i32, heads: i32, rows: i32, b: i32, h: i32, i: i32, lane: i32, y: Mat, width: i32) {
  if (i >= rows) { return; }
  var at = begin + ((b * heads + h) * rows + i) * width;
  if (JOINT) { at = (((b * rows + i) * 3 + third) * heads + h) * width; }
  var m = y;
  for (var n = 0; n < 16; n++) {
    let d = 4 * (n / 4 * L + lane) + n % 4;
    if (d < width) { store(at + d, m[n / 4][n % 4]); }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  var id = i32(group.x + group.y * groups.x);
  let before = BATCH * H * ((T + ROWS - 1) / ROWS);
  let keys = id >= before;
  id -= select(0, before, keys);
  let rows = select(T, S, keys);
  let others = select(S, T, keys);
  let heads = select(H, H / REP, keys);
  let tiles = (rows + ROWS - 1) / ROWS;
  if (id >= BATCH * heads * tiles) { return; }
  let b = id / (heads * tiles);
  let h = id / tiles % heads;
  let first = id % tiles * ROWS;
  let t = i32(local);
  let lane = t % L;
  let home = t - lane;
  let i = first + t / L * 2;
  let x0 = row_x(keys, b, h, min(i, rows - 1), lane);
  let x1 = row_x(keys, b, h, min(i + 1, rows - 1), lane);
  let u0 = row_u(keys, b, h, min(i, rows - 1), lane);
  let u1 = row_u(keys, b, h, min(i + 1, rows - 1), lane);
  var dx0 = Mat();
  var dx1 = Mat();
  var du0 = Mat();
  var du1 = Mat();
  let begin = select(0, first / EACH * EACH, CAUSAL & keys);
  let end = select(others, min(others, first + ROWS), CAUSAL & !keys);
  for (var rep = 0; rep < select(1, REP, keys); rep++) {
    let head = select(h / REP, h * REP + rep, keys); // of what is walked
    for (var j = begin; j < end; j += EACH) {
      workgroupBarrier();
      for (var n = t; n < EACH * 4 * L; n += THREADS) {
        let d = n % (4 * L) * 4;
        let at = j + n / (4 * L);
        zs[n] = Vec(z_at(keys, b, head, at, d, others), z_at(keys, b, head, at, d + 1, others),
                    z_at(keys, b, head, at, d + 2, others), z_at(keys, b, head, at, d + 3, others));
        ws[n] = Vec(w_at(keys, b, head, at, d, others), w_at(keys, b, head, at, d + 1, others),
                    w_at(keys, b, head, at, d + 2, others), w_at(keys, b, head, at, d + 3, others));
      }
      workgroupBarrier();
      for (var n = 0; n < EACH; n++) {
        let at = n * 4 * L + lane;
        let z = Mat(zs[at], zs[at + L], zs[at + 2 * L], zs[at + 3 * L]);
        let w = Mat(ws[at], ws[at + L], ws[at + 2 * L], ws[at + 3 * L]);
        part[n * THREADS + t] = Vec(dots(x0, z), dots(x1, z), dots(u0, w), dots(u1, w));
      }
      workgroupBarrier();
      for (var n = lane; n < EACH; n += L) {
        let at = n * THREADS + home;
        var s = part[at];
        for (var l = 1; l < L; l++) { s += part[at + l]; }
        let o = j + n;
        var one = vec2<Acc>();
        var two = vec2<Acc>();
        if (keys) {
          one = weight(s.x, s.z, b, head, o, i);
          two = weight(s.y, s.w, b, head, o, i + 1);
        } else {
          one = weight(s.x, s.z, b, h, i, o);
          two = weight(s.y, s.w, b, h, i + 1, o);
        }
        part[at] = Vec(one, two);
      }
      workgroupBarrier();
      for (var n = 0; n < EACH; n++) {
        let at = n * 4 * L + lane;
        let p = part[n * THREADS + home];
        let z = Mat(zs[at], zs[at + L], zs[at + 2 * L], zs[at + 3 * L]);
        dx0 += p.x * z;
        dx1 += p.z * z;
        if (keys) {
          let w = Mat(ws[at], ws[at + L], ws[at + 2 * L], ws[at + 3 * L]);
          du0 += p.y * w;
          du1 += p.w * w;
        }
      }
    }
  }
  if (keys) {
    let begin_k = BATCH * H * T * D;
    let begin_v = begin_k + BATCH * heads * S * D;
    put(1, begin_k, heads, S, b, h, i, lane, dx0, D);
    put(1, begin_k, heads, S, b, h, i + 1, lane, dx1, D);
    put(2, begin_v, heads, S, b, h, i, lane, du0, E);
    put(2, begin_v, heads, S, b, h, i + 1, lane, du1, E);
  } else {
    put(0, 0, H, T, b, h, i, lane, dx0 * load_scale(), D);
    put(0, 0, H, T, b, h, i + 1, lane, dx1 * load_scale(), D);
  }
}
