// Normal quantiles, by Wichura's AS241 (PPND7, https://doi.org/10.2307/2347330): 7 digits, what
// float32 holds.

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
