// Normal quantiles, by Wichura's AS241 (PPND7, https://doi.org/10.2307/2347330): 7 digits, what
// float32 holds.

fn pf_normal(bits: u32) -> f32 {
  let p = (f32(bits >> 9u) + 0.5) * 1.1920928955078125e-7;
  return pf_quantile(p - 0.5, min(p, 1.0 - p));
}
// Four neighbouring words of the stream of a key and a draw, from a multiple of four on: a block of
// Philox4x32-10 (Salmon et al. 2011), whose other definition is in graph/functions.py.
fn pf_philox_four(k0: u32, k1: u32, draw: u32, at: i32) -> vec4<u32> {
  var x = vec4(u32(at) >> 2u, 0u, draw, 0u);
  var key = vec2(k0, k1);
  for (var round = 0; round < 10; round++) {
    let p = pf_product_u32(x.x, 0xD2511F53u);
    let q = pf_product_u32(x.z, 0xCD9E8D57u);
    x = vec4(q.x ^ x.y ^ key.x, q.y, p.x ^ x.w ^ key.y, p.y);
    key += vec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return x;
}
// The upper and the lower 32 bits of a product, from products of 16 bits.
fn pf_product_u32(x: u32, by: u32) -> vec2<u32> {
  let low = (x & 0xffffu) * (by & 0xffffu);
  let middle = (x >> 16u) * (by & 0xffffu) + (low >> 16u);
  let other = (middle & 0xffffu) + (x & 0xffffu) * (by >> 16u);
  return vec2((x >> 16u) * (by >> 16u) + (middle >> 16u) + (other >> 16u), x * by);
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
