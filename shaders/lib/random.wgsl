// Philox4x32-10 (Salmon et al. 2011) and normal quantiles, as in pyframe/ops/mathfn.py.

fn pf_mulhi(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu; let a1 = a >> 16u;
  let b0 = b & 0xffffu; let b1 = b >> 16u;
  let mid = a1 * b0 + ((a0 * b0) >> 16u);
  let low = (mid & 0xffffu) + a0 * b1;
  return a1 * b1 + (mid >> 16u) + (low >> 16u);
}
// Word i of the stream: counter (i / 4, 0, draw, 0), word i % 4 of its block.
fn pf_philox(k0: u32, k1: u32, draw: u32, i: i32) -> u32 {
  var c = vec4<u32>(u32(i) >> 2u, 0u, draw, 0u);
  var key = vec2<u32>(k0, k1);
  for (var round = 0; round < 10; round++) {
    let h0 = pf_mulhi(c.x, 0xD2511F53u);
    let h1 = pf_mulhi(c.z, 0xCD9E8D57u);
    c = vec4<u32>(h1 ^ c.y ^ key.x, c.z * 0xCD9E8D57u, h0 ^ c.w ^ key.y, c.x * 0xD2511F53u);
    key += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
  }
  return c[u32(i) & 3u];
}
// Wichura's AS241 (PPND7, https://doi.org/10.2307/2347330): 7 digits, what float32 holds.
fn pf_normal(bits: u32) -> f32 {
  let p = (f32(bits >> 9u) + 0.5) * 1.1920928955078125e-7;
  return pf_quantile(p - 0.5, min(p, 1.0 - p));
}
// The quantile of q + 1/2, where tail is the lesser of that and 1 minus that.
fn pf_quantile(q: f32, tail: f32) -> f32 {
  if (abs(q) <= 0.425) {
    let r = 0.180625 - q * q;
    return q * (((59.10937472 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179)
      / (((67.1875636 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
  }
  let t = sqrt(-log(tail));
  var z = 0.0;
  if (t <= 5.0) {
    let r = t - 1.6;
    z = (((0.17023821103 * r + 1.3067284816) * r + 2.756815390) * r + 1.4234372777)
      / ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  } else {
    let r = t - 5.0;
    z = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150)
      / ((0.012258202635 * r + 0.24197894225) * r + 1.0);
  }
  return select(z, -z, q < 0.0);
}
