// Functions that WGSL lacks, or whose edge cases PyTorch defines otherwise. The generator copies
// into a kernel those that it calls. NaN is told by its bits: compilers fold v != v to false.

fn pf_isnan_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn pf_isnan_i32(x: i32) -> bool { return false; }
fn pf_isnan_u32(x: u32) -> bool { return false; }
fn pf_isinf_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn pf_isinf_i32(x: i32) -> bool { return false; }
fn pf_isinf_u32(x: u32) -> bool { return false; }

// Infinity by way of a variable: as a constant expression it is an error.
fn pf_inf_f32() -> f32 { var bits = 0x7f800000u; return bitcast<f32>(bits); }
fn pf_ninf_f32() -> f32 { var bits = 0xff800000u; return bitcast<f32>(bits); }
fn pf_nan_f32() -> f32 { var bits = 0x7fc00000u; return bitcast<f32>(bits); }

fn pf_max_f32(a: f32, b: f32) -> f32 {
  if (pf_isnan_f32(a)) { return a; }
  if (pf_isnan_f32(b)) { return b; }
  return max(a, b);
}
fn pf_max_i32(a: i32, b: i32) -> i32 { return max(a, b); }
fn pf_max_u32(a: u32, b: u32) -> u32 { return max(a, b); }
fn pf_min_f32(a: f32, b: f32) -> f32 {
  if (pf_isnan_f32(a)) { return a; }
  if (pf_isnan_f32(b)) { return b; }
  return min(a, b);
}
fn pf_min_i32(a: i32, b: i32) -> i32 { return min(a, b); }
fn pf_min_u32(a: u32, b: u32) -> u32 { return min(a, b); }

// Whether x takes the place of a as the largest (smallest) so far; NaN beats all.
fn pf_wins_f32(x: f32, a: f32) -> bool { return x > a || (pf_isnan_f32(x) && !pf_isnan_f32(a)); }
fn pf_wins_i32(x: i32, a: i32) -> bool { return x > a; }
fn pf_wins_u32(x: u32, a: u32) -> bool { return x > a; }
fn pf_loses_f32(x: f32, a: f32) -> bool { return x < a || (pf_isnan_f32(x) && !pf_isnan_f32(a)); }
fn pf_loses_i32(x: i32, a: i32) -> bool { return x < a; }
fn pf_loses_u32(x: u32, a: u32) -> bool { return x < a; }

// Ints in the order of the numbers: both zeros are equal, NaN is the largest.
fn pf_sort_key_f32(x: f32) -> i32 {
  if (pf_isnan_f32(x)) { return 0x7fffffff; }
  if (x == 0.0) { return 0; }
  let bits = bitcast<i32>(x);
  return select(bits, bits ^ 0x7fffffff, bits < 0);
}
fn pf_sort_key_i32(x: i32) -> i32 { return x; }
fn pf_sort_key_u32(x: u32) -> i32 { return bitcast<i32>(x ^ 0x80000000u); }

fn pf_sign_f32(x: f32) -> f32 { if (pf_isnan_f32(x)) { return 0.0; } return sign(x); }
fn pf_sign_i32(x: i32) -> i32 { return sign(x); }
fn pf_sign_u32(x: u32) -> u32 { return min(x, 1u); }

fn pf_floor_f32(x: f32) -> f32 { return floor(x); }
fn pf_floor_i32(x: i32) -> i32 { return x; }
fn pf_floor_u32(x: u32) -> u32 { return x; }
fn pf_ceil_f32(x: f32) -> f32 { return ceil(x); }
fn pf_ceil_i32(x: i32) -> i32 { return x; }
fn pf_ceil_u32(x: u32) -> u32 { return x; }
fn pf_trunc_f32(x: f32) -> f32 { return trunc(x); }
fn pf_trunc_i32(x: i32) -> i32 { return x; }
fn pf_trunc_u32(x: u32) -> u32 { return x; }
fn pf_round_f32(x: f32) -> f32 { return round(x); }
fn pf_round_i32(x: i32) -> i32 { return x; }
fn pf_round_u32(x: u32) -> u32 { return x; }

fn pf_fmod_f32(a: f32, b: f32) -> f32 {
  if (pf_isinf_f32(b) && !pf_isinf_f32(a)) { return a; }
  return a - b * trunc(a / b);
}
fn pf_fmod_i32(a: i32, b: i32) -> i32 { return a % b; }
fn pf_fmod_u32(a: u32, b: u32) -> u32 { return a % b; }
fn pf_mod_f32(a: f32, b: f32) -> f32 {
  let r = pf_fmod_f32(a, b);
  return select(r, r + b, r != 0.0 && ((r < 0.0) != (b < 0.0)));
}
fn pf_mod_i32(a: i32, b: i32) -> i32 {
  let r = a % b;
  return select(r, r + b, r != 0 && ((r < 0) != (b < 0)));
}
fn pf_mod_u32(a: u32, b: u32) -> u32 { return a % b; }
fn pf_floordiv_f32(a: f32, b: f32) -> f32 {
  if (b == 0.0) { return a / b; }
  return round((a - pf_mod_f32(a, b)) / b);
}
fn pf_floordiv_i32(a: i32, b: i32) -> i32 { return (a - pf_mod_i32(a, b)) / b; }
fn pf_floordiv_u32(a: u32, b: u32) -> u32 { return a / b; }

// WGSL's pow is undefined for a negative base; an integer exponent then decides the sign.
fn pf_pow_f32(a: f32, b: f32) -> f32 {
  if (b == 0.0) { return 1.0; }
  if (b == 1.0) { return a; }
  if (b == 2.0) { return a * a; }
  if (b == 3.0) { return a * a * a; }
  if (pf_isnan_f32(a) || pf_isnan_f32(b)) { return a + b; }
  if (a == 1.0) { return 1.0; }
  let whole = b == trunc(b);
  let odd = whole && abs(b) < 16777216.0 && (i32(b) & 1) == 1;
  if (a < 0.0 && !whole && !pf_isinf_f32(a)) { return pf_nan_f32(); }
  if (a == 0.0) { return select(0.0, pf_inf_f32(), b < 0.0); }
  let size = pow(abs(a), b);
  return select(size, -size, a < 0.0 && odd);
}
fn pf_pow_i32(a: i32, b: i32) -> i32 {
  if (b < 0) {
    if (a == 1) { return 1; }
    if (a == -1) { return select(1, -1, (b & 1) != 0); }
    return 0;
  }
  var out = 1;
  var base = a;
  for (var e = b; e > 0; e >>= 1u) {
    if ((e & 1) == 1) { out *= base; }
    base *= base;
  }
  return out;
}
fn pf_pow_u32(a: u32, b: u32) -> u32 { return u32(pf_pow_i32(i32(a), i32(b))); }

// WGSL leaves the logarithm of what is not positive undefined, and lets sin and cos be off by 2^-11.
fn pf_log(x: f32) -> f32 {
  if (x < 0.0) { return pf_nan_f32(); }
  if (x == 0.0) { return pf_ninf_f32(); }
  return log(x);
}
fn pf_log2(x: f32) -> f32 {
  if (x < 0.0) { return pf_nan_f32(); }
  if (x == 0.0) { return pf_ninf_f32(); }
  return log2(x);
}
// x - k pi/2, k to the nearest: pi/2 in three parts (Cody & Waite 1980), good to |x| of some 1e4.
fn pf_quarter(x: f32) -> vec2<f32> {
  let k = round(x * 0.63661977);
  return vec2<f32>(k, ((x - k * 1.5703125) - k * 4.8382673412561417e-4) - k * 5.126688e-13);
}
fn pf_sin_part(r: f32) -> f32 {
  let z = r * r;
  return r + r * z * (-0.16666667 + z * (8.3333310e-3 + z * (-1.9839334e-4 + z * 2.7183114e-6)));
}
fn pf_cos_part(r: f32) -> f32 {
  let z = r * r;
  return 1.0 + z * (-0.5 + z * (4.1666668e-2 + z * (-1.3888397e-3 + z * 2.4760495e-5)));
}
fn pf_sin(x: f32) -> f32 {
  let q = pf_quarter(x);
  let k = i32(q.x) & 3;
  let v = select(pf_sin_part(q.y), pf_cos_part(q.y), (k & 1) == 1);
  return select(v, -v, k >= 2);
}
fn pf_cos(x: f32) -> f32 {
  let q = pf_quarter(x);
  let k = i32(q.x) & 3;
  let v = select(pf_cos_part(q.y), pf_sin_part(q.y), (k & 1) == 1);
  return select(v, -v, k == 1 || k == 2);
}
fn pf_tan(x: f32) -> f32 { return pf_sin(x) / pf_cos(x); }

// atan is rough on some drivers. Its series on |x| <= tan(pi/8), to which the rest is turned.
fn pf_atan_part(x: f32) -> f32 {
  let z = x * x;
  return x * (0.999999982 + z * (-0.333327969 + z * (0.199744048 + z * (-0.138514784
    + z * 0.0798496291))));
}
fn pf_atan_unit(x: f32) -> f32 { // 0 <= x <= 1
  if (x <= 0.41421356) { return pf_atan_part(x); }
  return 0.78539816 + pf_atan_part((x - 1.0) / (x + 1.0));
}
fn pf_atan(x: f32) -> f32 {
  if (pf_isnan_f32(x)) { return x; }
  let size = abs(x);
  var a = 1.5707963;
  if (size <= 1.0) { a = pf_atan_unit(size); } else { a -= pf_atan_unit(1.0 / size); }
  return pf_copysign(a, x);
}
fn pf_copysign(a: f32, b: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | (bitcast<u32>(b) & 0x80000000u));
}
fn pf_atan2(y: f32, x: f32) -> f32 {
  if (pf_isnan_f32(x) || pf_isnan_f32(y)) { return x + y; }
  let most = max(abs(x), abs(y));
  let least = min(abs(x), abs(y));
  var a = select(least / most, 1.0, least == most);
  if (most == 0.0) { a = 0.0; }
  a = pf_atan_unit(a);
  if (abs(y) > abs(x)) { a = 1.5707963 - a; }
  if (pf_signbit_f32(x)) { a = 3.1415927 - a; }
  return pf_copysign(a, y);
}
fn pf_asin(x: f32) -> f32 {
  if (pf_isnan_f32(x) || abs(x) > 1.0) { return pf_nan_f32(); }
  return pf_atan2(x, sqrt((1.0 - x) * (1.0 + x)));
}
fn pf_acos(x: f32) -> f32 {
  if (pf_isnan_f32(x) || abs(x) > 1.0) { return pf_nan_f32(); }
  return pf_atan2(sqrt((1.0 - x) * (1.0 + x)), x);
}
fn pf_hypot(a: f32, b: f32) -> f32 {
  if (pf_isinf_f32(a) || pf_isinf_f32(b)) { return pf_inf_f32(); }
  if (pf_isnan_f32(a) || pf_isnan_f32(b)) { return a + b; }
  let most = max(abs(a), abs(b));
  let r = min(abs(a), abs(b)) / select(most, 1.0, most == 0.0);
  return most * sqrt(1.0 + r * r);
}
fn pf_sinh(x: f32) -> f32 {
  let size = abs(x);
  if (size > 10.0) {
    let half = exp(0.5 * size); // exp(size) overflows before its half does
    return pf_copysign(0.5 * half * half, x);
  }
  let e = pf_expm1(size);
  return pf_copysign(0.5 * (e + e / (e + 1.0)), x);
}
fn pf_cosh(x: f32) -> f32 {
  let half = exp(0.5 * abs(x));
  return 0.5 * half * half + 0.5 / half / half;
}
fn pf_asinh(x: f32) -> f32 {
  let size = abs(x);
  if (size > 1e9) { return pf_copysign(log(size) + 0.69314718, x); }
  return pf_copysign(pf_log1p(size + size * size / (1.0 + sqrt(size * size + 1.0))), x);
}
fn pf_acosh(x: f32) -> f32 {
  if (pf_isnan_f32(x) || x < 1.0) { return pf_nan_f32(); }
  if (x > 1e9) { return log(x) + 0.69314718; }
  let t = x - 1.0;
  return pf_log1p(t + sqrt(2.0 * t + t * t));
}
fn pf_atanh(x: f32) -> f32 {
  let size = abs(x);
  if (size == 1.0) { return pf_copysign(pf_inf_f32(), x); }
  return pf_copysign(0.5 * pf_log1p(2.0 * size / (1.0 - size)), x);
}

fn pf_signbit_f32(x: f32) -> bool { return (bitcast<u32>(x) >> 31u) == 1u; }
fn pf_signbit_i32(x: i32) -> bool { return x < 0; }
fn pf_signbit_u32(x: u32) -> bool { return false; }
fn pf_nextafter(a: f32, b: f32) -> f32 {
  if (pf_isnan_f32(a) || pf_isnan_f32(b)) { return a + b; }
  if (a == b) { return b; }
  if (a == 0.0) { return pf_copysign(bitcast<f32>(1u), b); }
  let bits = bitcast<u32>(a);
  return bitcast<f32>(select(bits - 1u, bits + 1u, (a < b) == (a > 0.0)));
}
// e of x = m * 2^e, 0.5 <= |m| < 1; numbers below 2^-126 count as 0.
fn pf_exponent(x: f32) -> i32 {
  let e = i32((bitcast<u32>(x) >> 23u) & 255u);
  return select(e - 126, 0, e == 0 || e == 255);
}
// Shifts by less than 0 or by all bits and more leave 0, or the sign.
fn pf_shl_i32(a: i32, b: i32) -> i32 { return select(a << (u32(b) & 31u), 0, b < 0 || b > 31); }
fn pf_shl_u32(a: u32, b: u32) -> u32 { return select(a << (b & 31u), 0u, b > 31u); }
fn pf_shr_i32(a: i32, b: i32) -> i32 { return a >> select(u32(b), 31u, b < 0 || b > 31); }
fn pf_shr_u32(a: u32, b: u32) -> u32 { return a >> min(b, 31u); }
fn pf_gcd_i32(a: i32, b: i32) -> i32 { return i32(pf_gcd_u32(u32(abs(a)), u32(abs(b)))); }
fn pf_gcd_u32(a: u32, b: u32) -> u32 {
  var x = a;
  var y = b;
  while (y != 0u) {
    let rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

// exp overflows inside some drivers' tanh, and near 0 they lose its digits.
fn pf_tanh(x: f32) -> f32 {
  let y = select(tanh(clamp(x, -15.0, 15.0)), x, pf_isnan_f32(x));
  return select(y, x - x * x * x * 0.33333333, abs(x) < 0.02);
}
// Near 0, exp(x) - 1 and log(1 + x) lose the digits that matter, so series take their place.
fn pf_expm1(x: f32) -> f32 {
  if (abs(x) > 0.35) { return exp(x) - 1.0; }
  var p = 1.0 + x / 7.0;
  p = 1.0 + x / 6.0 * p;
  p = 1.0 + x / 5.0 * p;
  p = 1.0 + x / 4.0 * p;
  p = 1.0 + x / 3.0 * p;
  return x + x * x * 0.5 * p;
}
fn pf_log1p(x: f32) -> f32 {
  if (abs(x) > 0.35) { return pf_log(1.0 + x); }
  let s = x / (2.0 + x); // log(1 + x) = 2 atanh(s)
  let z = s * s;
  let tail = z * (0.33333334 + z * (0.2 + z * (0.14285715 + z * (0.11111111 + z * 0.09090909))));
  return 2.0 * s + 2.0 * s * tail;
}
// The rational approximation of pyframe/ops/mathfn.py.
fn pf_erf(v: f32) -> f32 {
  let x = clamp(v, -4.0, 4.0);
  let z = x * x;
  var p = -2.72614225801306e-10;
  p = p * z + 2.77068142495902e-08;
  p = p * z - 2.10102402082508e-06;
  p = p * z - 5.69250639462346e-05;
  p = p * z - 7.34990630326855e-04;
  p = p * z - 2.95459980854025e-03;
  p = p * z - 1.60960333262415e-02;
  var q = -1.45660718464996e-05;
  q = q * z - 2.13374055278905e-04;
  q = q * z - 1.68282697438203e-03;
  q = q * z - 7.37332916720468e-03;
  q = q * z - 1.42647390514189e-02;
  return select(x * p / q, v, pf_isnan_f32(v));
}

// Rounded to 8 bits of mantissa, ties to even.
fn pf_bfloat16(x: f32) -> f32 {
  if (pf_isnan_f32(x)) { return x; }
  let bits = bitcast<u32>(x);
  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}
