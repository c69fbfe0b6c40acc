// Special functions in float32, by the formulas of pyframe/ops/math/mathfn.py.

fn pf_lgamma(x: f32) -> f32 {
  if (pf_isnan_f32(x)) { return x; }
  if (pf_isinf_f32(x) | ((x <= 0.0) & (x == floor(x)))) { return pf_inf_f32(); }
  // near 1 and 2, where it is 0, the series of log(gamma(1 + d)) (DLMF 5.7.3)
  if (abs(x - 1.0) < 0.2) { return pf_lgamma_near(x - 1.0); }
  if (abs(x - 2.0) < 0.2) { return pf_lgamma_near(x - 2.0) + pf_log1p_f32(x - 2.0); }
  var z = select(x, 1.0 - x, x < 0.5);
  var product = 1.0;
  if (z < 6.0) { product *= z; z += 1.0; }
  if (z < 6.0) { product *= z; z += 1.0; }
  if (z < 6.0) { product *= z; z += 1.0; }
  if (z < 6.0) { product *= z; z += 1.0; }
  if (z < 6.0) { product *= z; z += 1.0; }
  if (z < 6.0) { product *= z; z += 1.0; }
  let r = 1.0 / (z * z);
  let series = (0.083333333 + r * (-2.7777778e-3 + r * (7.9365079e-4 - r * 5.952381e-4))) / z;
  let out = (z - 0.5) * (pf_log_f32(z) - 1.0) - 0.5 + 0.91893853 + series - pf_log_f32(product);
  if (x >= 0.5) { return out; }
  return 1.1447299 - pf_log_f32(abs(pf_sin_f32(3.1415927 * (x - round(x))))) - out;
}
fn pf_lgamma_near(d: f32) -> f32 {
  var p = 0.11133427;
  p = -0.12550967 + d * (0.11133427 - d * 0.10009946);
  p = 0.16955718 + d * (-0.14404990 + d * p);
  p = -0.27058081 + d * (0.20738555 - d * p);
  p = 0.82246703 + d * (-0.40068563 - d * p);
  return d * (-0.57721566 + d * p);
}
fn pf_digamma(x: f32) -> f32 {
  if (x == 0.0) { return select(pf_ninf_f32(), pf_inf_f32(), pf_signbit_f32(x)); }
  if ((x < 0.0) & (x == floor(x))) { return pf_nan_f32(); }
  var z = select(x, 1.0 - x, x < 0.0);
  var out = 0.0;
  if (z < 7.0) { out -= 1.0 / z; z += 1.0; }
  if (z < 7.0) { out -= 1.0 / z; z += 1.0; }
  if (z < 7.0) { out -= 1.0 / z; z += 1.0; }
  if (z < 7.0) { out -= 1.0 / z; z += 1.0; }
  if (z < 7.0) { out -= 1.0 / z; z += 1.0; }
  if (z < 7.0) { out -= 1.0 / z; z += 1.0; }
  if (z < 7.0) { out -= 1.0 / z; z += 1.0; }
  let r = 1.0 / (z * z);
  out += pf_log_f32(z) - 0.5 / z - r * (0.083333333 + r * (-8.3333333e-3 + r * 3.9682540e-3));
  if (x > 0.0) { return out; }
  return out - 3.1415927 / pf_tan_f32(3.1415927 * (x - round(x)));
}
fn pf_zeta(s: f32, q: f32) -> f32 {
  if (pf_isnan_f32(s) | pf_isnan_f32(q) | (s < 1.0)) { return pf_nan_f32(); }
  if ((s == 1.0) | ((q <= 0.0) & (q == floor(q)))) { return pf_inf_f32(); }
  if (q > 0.0) { return pf_zeta_part(s, q); }
  if (s != floor(s)) { return pf_nan_f32(); }
  let m = ceil(-q);
  let first = q + m;
  let left = pf_zeta_part(s, 1.0 - first) - pf_zeta_part(s, 1.0 - first + m);
  return pf_zeta_part(s, first) + select(-left, left, s - 2.0 * floor(s * 0.5) == 0.0);
}
fn pf_zeta_part(s: f32, q: f32) -> f32 {
  var out = 0.0;
  for (var k = 0; k < 8; k++) { out += pf_pow_f32(q + f32(k), -s); }
  let z = q + 8.0;
  let power = pf_pow_f32(z, -s);
  if (power == 0.0) { return out; }
  let r = 1.0 / (z * z);
  var factor = power * s / z;
  out += z * power / (s - 1.0) + 0.5 * power + factor * 0.083333333;
  factor *= (s + 1.0) * (s + 2.0) * r;
  out -= factor * 1.3888889e-3;
  factor *= (s + 3.0) * (s + 4.0) * r;
  return out + factor * 3.3068783e-5;
}

// exp(-x^2), of x^2 in two parts: rounded at once, it would cost half of the digits.
fn pf_exp_square(x: f32) -> f32 {
  let high = bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
  return pf_exp_f32(-high * high) * pf_exp_f32(-(x - high) * (x + high));
}
fn pf_erfcx_series(t: f32) -> f32 {
  var c = array<f32, 12>(1.17757893, -0.00459005458, -0.0842491334, 0.05920994, -0.0266586684,
    0.00907499767, -0.00241316354, 0.000490775837, -6.9169733e-05, 4.13902799e-06, 7.74038307e-07,
    -2.1886401e-07);
  var b0 = 0.0;
  var b1 = 0.0;
  for (var k = 11; k > 0; k--) {
    let b = c[k] + 2.0 * t * b0 - b1;
    b1 = b0;
    b0 = b;
  }
  return c[0] + t * b0 - b1;
}
fn pf_erfcx_part(x: f32) -> f32 {
  if (pf_isinf_f32(x)) { return 0.0; }
  return pf_erfcx_series((x - 3.75) / (x + 3.75)) / (1.0 + 2.0 * x);
}
fn pf_erfcx(x: f32) -> f32 {
  let size = pf_erfcx_part(abs(x));
  if (x >= 0.0) { return size; }
  if (x < -9.4) { return pf_inf_f32(); }
  return 2.0 / pf_exp_square(-x) - size;
}
fn pf_ndtri(p: f32) -> f32 {
  if (pf_isnan_f32(p) | (p < 0.0) | (p > 1.0)) { return pf_nan_f32(); }
  if (p == 0.0) { return pf_ninf_f32(); }
  if (p == 1.0) { return pf_inf_f32(); }
  return pf_quantile(p - 0.5, min(p, 1.0 - p));
}
fn pf_erfinv(x: f32) -> f32 {
  let size = abs(x);
  if (pf_isnan_f32(x) | (size > 1.0)) { return pf_nan_f32(); }
  if (size == 1.0) { return select(pf_ninf_f32(), pf_inf_f32(), x > 0.0); }
  return pf_quantile(0.5 * x, 0.5 * (1.0 - size)) * 0.70710678;
}

fn pf_i0_near(t: f32) -> f32 {
  var c = array<f32, 18>(0.338397637, -0.304682672, 0.171620902, -0.094901097, 0.0493052842,
    -0.0237374148, 0.0105464604, -0.00432431, 0.00163947562, -0.000576375575, 0.000188502885,
    -5.75419501e-05, 1.64484481e-05, -4.41673836e-06, 1.11738754e-06, -2.67079385e-07,
    6.04699502e-08, -1.30002501e-08);
  var b0 = 0.0;
  var b1 = 0.0;
  for (var k = 17; k > 0; k--) {
    let b = c[k] + 2.0 * t * b0 - b1;
    b1 = b0;
    b0 = b;
  }
  return c[0] + t * b0 - b1;
}
fn pf_i0_far(t: f32) -> f32 {
  var c = array<f32, 6>(0.402245206, 0.00336911648, 6.88975835e-05, 2.89137052e-06,
    2.04891859e-07, 2.26666899e-08);
  var b0 = 0.0;
  var b1 = 0.0;
  for (var k = 5; k > 0; k--) {
    let b = c[k] + 2.0 * t * b0 - b1;
    b1 = b0;
    b0 = b;
  }
  return c[0] + t * b0 - b1;
}
fn pf_i1_near(t: f32) -> f32 {
  var c = array<f32, 18>(0.126293593, -0.176416518, 0.102643659, -0.0529459812, 0.024726449,
    -0.0105640849, 0.00415642294, -0.00151357245, 0.000512285956, -0.000161760816, 4.78156511e-05,
    -1.32731637e-05, 3.47025131e-06, -8.56872026e-07, 2.00329475e-07, -4.44505913e-08,
    9.38153739e-09, -1.88724975e-09);
  var b0 = 0.0;
  var b1 = 0.0;
  for (var k = 17; k > 0; k--) {
    let b = c[k] + 2.0 * t * b0 - b1;
    b1 = b0;
    b0 = b;
  }
  return c[0] + t * b0 - b1;
}
fn pf_i1_far(t: f32) -> f32 {
  var c = array<f32, 6>(0.389288118, -0.00976109749, -0.000110588939, -3.88256481e-06,
    -2.51223624e-07, -2.63146885e-08);
  var b0 = 0.0;
  var b1 = 0.0;
  for (var k = 5; k > 0; k--) {
    let b = c[k] + 2.0 * t * b0 - b1;
    b1 = b0;
    b0 = b;
  }
  return c[0] + t * b0 - b1;
}
fn pf_i0e(v: f32) -> f32 {
  let x = abs(v);
  if (pf_isnan_f32(v)) { return v; }
  if (x <= 8.0) { return pf_i0_near(x * 0.25 - 1.0); }
  return pf_i0_far(16.0 / x - 1.0) / sqrt(x);
}
fn pf_i1e(v: f32) -> f32 {
  let x = abs(v);
  if (pf_isnan_f32(v)) { return v; }
  if (x <= 8.0) { return pf_i1_near(x * 0.25 - 1.0) * v; }
  return sign(v) * pf_i1_far(16.0 / x - 1.0) / sqrt(x);
}
