// Functions that WGSL lacks, or whose edge cases PyTorch defines otherwise. The generator copies
// into a kernel those that it calls. WGSL's compilers may take it that no number is NaN: they fold
// v != v to false, and v - v to 0. So NaN is told by its bits, and signs are turned in the bits.

fn pf_isnan_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn pf_isinf_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }

// Infinity by way of a variable: as a constant expression it is an error.
fn pf_inf_f32() -> f32 { var bits = 0x7f800000u; return bitcast<f32>(bits); }
fn pf_ninf_f32() -> f32 { var bits = 0xff800000u; return bitcast<f32>(bits); }
fn pf_nan_f32() -> f32 { var bits = 0x7fc00000u; return bitcast<f32>(bits); }

fn pf_neg(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u); }

// Whether neither is NaN.
fn pf_ordered(a: f32, b: f32) -> bool {
  return max(bitcast<u32>(a) & 0x7fffffffu, bitcast<u32>(b) & 0x7fffffffu) <= 0x7f800000u;
}
fn pf_eq(a: f32, b: f32) -> bool { return (a == b) & pf_ordered(a, b); }
fn pf_ne(a: f32, b: f32) -> bool { return !pf_eq(a, b); }
fn pf_lt(a: f32, b: f32) -> bool { return (a < b) & pf_ordered(a, b); }
fn pf_le(a: f32, b: f32) -> bool { return (a <= b) & pf_ordered(a, b); }

fn pf_max_f32(a: f32, b: f32) -> f32 {
  return select(select(max(a, b), b, pf_isnan_f32(b)), a, pf_isnan_f32(a));
}
fn pf_min_f32(a: f32, b: f32) -> f32 {
  return select(select(min(a, b), b, pf_isnan_f32(b)), a, pf_isnan_f32(a));
}

// Whether x takes the place of a as the largest (smallest) so far; NaN beats all.
fn pf_wins_f32(x: f32, a: f32) -> bool { return ((x > a) | pf_isnan_f32(x)) & !pf_isnan_f32(a); }
fn pf_loses_f32(x: f32, a: f32) -> bool { return ((x < a) | pf_isnan_f32(x)) & !pf_isnan_f32(a); }

// Ints in the order of the numbers: both zeros are equal, NaN is the largest.
fn pf_sort_key_f32(x: f32) -> i32 {
  if (pf_isnan_f32(x)) { return 0x7fffffff; }
  let bits = bitcast<i32>(x);
  return select(bits ^ ((bits >> 31u) & 0x7fffffff), 0, (bits & 0x7fffffff) == 0);
}

// Conversions. Ints are taken modulo 2^32, as C does in PyTorch; what has no int becomes 0.
fn pf_bool(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) != 0u; }
fn pf_i32(x: f32) -> i32 {
  let size = bitcast<u32>(x) & 0x7fffffffu;
  if (size < 0x4f000000u) { return i32(x); } // below 2^31
  if (size >= 0x5f000000u) { return 0; } // from 2^63 on
  return bitcast<i32>(u32(x - floor(x * 2.3283064365386963e-10) * 4294967296.0));
}
fn pf_u32(x: f32) -> u32 { return bitcast<u32>(pf_i32(x)); }

fn pf_sign_f32(x: f32) -> f32 { if (pf_isnan_f32(x)) { return 0.0; } return sign(x); }


// x * 2^e, |e| <= 252, in two steps that neither overflow nor underflow on the way.
fn pf_scale(x: f32, e: i32) -> f32 {
  let half = e >> 1u;
  return x * bitcast<f32>((half + 127) << 23u) * bitcast<f32>((e - half + 127) << 23u);
}
// The rest of |a| / |b| as C's fmod finds it, without error: long division of the mantissas, 8
// bits at a time.
fn pf_fmod_f32(a: f32, b: f32) -> f32 {
  let x = bitcast<u32>(a) & 0x7fffffffu;
  let y = bitcast<u32>(b) & 0x7fffffffu;
  if ((x >= 0x7f800000u) | (y > 0x7f800000u) | (y == 0u)) { return pf_nan_f32(); }
  if (x < y) { return a; }
  let p = pf_mantissa(x);
  let q = pf_mantissa(y);
  let inverse = 1.0 / f32(q.x);
  var rest = select(p.x, p.x - q.x, p.x >= q.x);
  for (var left = i32(p.y - q.y); left > 0; left -= 8) {
    rest <<= u32(min(left, 8));
    rest -= u32(f32(rest) * inverse) * q.x; // the quotient may be off by one
    rest = min(rest, rest + q.x);
    rest = min(rest, rest - q.x);
  }
  return pf_copysign(pf_scale(f32(rest), i32(q.y) - 150), a);
}
// Of the bits of a positive number its mantissa, at least 2^23, and its exponent, which for
// numbers below 2^-126 wraps below 0.
fn pf_mantissa(x: u32) -> vec2<u32> {
  if (x >= 0x00800000u) { return vec2<u32>((x & 0x007fffffu) | 0x00800000u, x >> 23u); }
  let shift = countLeadingZeros(x) - 8u;
  return vec2<u32>(x << shift, 1u - shift);
}
fn pf_mod_f32(a: f32, b: f32) -> f32 {
  let r = pf_fmod_f32(a, b);
  return select(r, r + b, pf_bool(r) & (pf_signbit_f32(r) != pf_signbit_f32(b)));
}
// As PyTorch: the quotient without its rest is whole, but for an error of the division.
fn pf_floordiv_f32(a: f32, b: f32) -> f32 {
  if (!pf_bool(b)) { return a / b; }
  let r = pf_fmod_f32(a, b);
  var y = (a - r) / b;
  y -= select(0.0, 1.0, pf_bool(r) & (pf_signbit_f32(r) != pf_signbit_f32(b)));
  if (!pf_bool(y)) { return pf_copysign(0.0, a / b); }
  let below = floor(y);
  return below + select(0.0, 1.0, y - below > 0.5);
}

// WGSL's pow is undefined for a negative base, whose sign an integer exponent decides, and loses
// digits as the result gets larger.
fn pf_pow_f32(a: f32, b: f32) -> f32 {
  if (!pf_bool(b) | (a == 1.0)) { return 1.0; }
  if (!pf_ordered(a, b)) { return pf_nan_f32(); }
  if (b == 1.0) { return a; }
  if (b == 2.0) { return a * a; }
  if (b == 3.0) { return a * a * a; }
  let whole = b == trunc(b);
  let odd = whole & (abs(b) < 16777216.0) & ((i32(b) & 1) == 1);
  let size = abs(a);
  var y = 1.0;
  if ((size == 0.0) | pf_isinf_f32(a)) {
    y = select(0.0, pf_inf_f32(), (size == 0.0) == (b < 0.0));
  } else if (pf_isinf_f32(b)) {
    if (size != 1.0) { y = select(0.0, pf_inf_f32(), (size < 1.0) == (b < 0.0)); }
  } else if ((a < 0.0) & !whole) {
    return pf_nan_f32();
  } else {
    y = pf_power(size, b);
  }
  return select(y, pf_neg(y), pf_signbit_f32(a) & odd);
}
// x^y of finite x > 0, as fdlibm's e_powf.c: log2(x) in two numbers, the first of 12 bits, so that
// its product with the first 12 bits of y has no error.
fn pf_power(x: f32, y: f32) -> f32 {
  let parts = pf_split(x);
  let m = parts.x;
  let n = parts.y;
  let far = (m > 1.2247449) | (m < 0.81649658); // there log2(m / c) for c = 1.5 or 0.75
  let c = select(1.0, select(1.5, 0.75, m < 1.0), far);
  let u = m - c;
  let v = 1.0 / (m + c);
  let s = u * v;
  let s_high = pf_high(s);
  let sum = pf_high(m + c);
  let s_low = v * ((u - s_high * sum) - s_high * (m - (sum - c)));
  let z = s * s;
  let tail = s_low * (s_high + s) + z * z * (0.6 + z * (0.42857143 + z * (0.33333334
    + z * (0.27272812 + z * (0.23066075 + z * 0.20697501)))));
  let square = s_high * s_high;
  let t_high = pf_high(3.0 + square + tail);
  let t_low = tail - ((t_high - 3.0) - square);
  let first = s_high * t_high;
  let second = s_low * t_high + t_low * s;
  let p_high = pf_high(first + second);
  let p_low = second - (p_high - first);
  let z_high = 0.9619140625 * p_high; // 2 / (3 log(2)) in two numbers
  let z_low = -1.1736857e-4 * p_high + p_low * 0.96179670 + select(0.0, 1.5632208e-6, far);
  // log2(c), but its whole part
  let whole = n + select(0.0, select(0.0, -1.0, m < 1.0), far);
  let offset = select(0.0, 0.5849609375, far);
  let high = pf_high(((z_high + z_low) + offset) + whole);
  let low = z_low - (((high - whole) - offset) - z_high);
  let y_high = pf_high(y);
  let q_high = y_high * high;
  let q_low = (y - y_high) * high + y * low;
  let q = q_high + q_low;
  if (q > 130.0) { return pf_inf_f32(); }
  if (q < -160.0) { return 0.0; }
  let e = round(q);
  return pf_scale(exp2((q_high - e) + q_low), i32(e));
}
fn pf_high(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }
fn pf_int_pow_i32(a: i32, b: i32) -> i32 {
  if (b < 0) {
    if (a == 1) { return 1; }
    if (a == -1) { return select(1, -1, (b & 1) != 0); }
    return 0;
  }
  return bitcast<i32>(pf_int_pow_u32(bitcast<u32>(a), u32(b)));
}
fn pf_int_pow_u32(a: u32, b: u32) -> u32 {
  var out = 1u;
  var base = a;
  for (var e = b; e > 0u; e >>= 1u) {
    if ((e & 1u) == 1u) { out *= base; }
    base *= base;
  }
  return out;
}

// WGSL's exp loses digits as |x| grows. As Cephes' expf: the series of what a power of 2 leaves.
fn pf_exp(x: f32) -> f32 {
  let k = round(clamp(x, -104.0, 89.0) * 1.44269504);
  let r = (x - k * 0.693359375) + k * 2.12194440e-4;
  let tail = 0.5 + r * (0.16666667 + r * (4.1665796e-2 + r * (8.3334520e-3 + r * (1.3981999e-3
    + r * 1.9875691e-4))));
  let y = pf_scale(1.0 + (r + r * r * tail), i32(k));
  return select(select(y, pf_inf_f32(), x > 89.0), 0.0, x < -104.0);
}
fn pf_exp2(x: f32) -> f32 { // without an error for whole numbers
  let n = clamp(i32(round(x)), -150, 129);
  return pf_scale(exp2(x - f32(n)), n);
}
// m and e of x = m * 2^e, sqrt(1/2) <= m < sqrt(2), of finite x > 0.
fn pf_split(x: f32) -> vec2<f32> {
  var bits = bitcast<u32>(x);
  var e = 0;
  if (bits < 0x00800000u) { // a multiple of 2^-149
    bits = bitcast<u32>(f32(bits));
    e = -149;
  }
  let above = bits - 0x3f3504f3u;
  let m = bitcast<f32>((above & 0x007fffffu) + 0x3f3504f3u);
  return vec2<f32>(m, f32(e + (bitcast<i32>(above) >> 23u)));
}
// log(m), sqrt(1/2) <= m < sqrt(2), as fdlibm's e_logf.c. WGSL's own is wrong by half near 1.
fn pf_log_part(m: f32) -> f32 {
  let f = m - 1.0;
  let s = f / (2.0 + f);
  let z = s * s;
  let w = z * z;
  let r = z * (0.66666663 + w * 0.28498787) + w * (0.40000972 + w * 0.24279079);
  let half = 0.5 * f * f;
  return f - (half - s * (half + r));
}
// Whether x is 0, infinite, NaN or negative, and what its logarithm is then.
fn pf_no_log(x: f32) -> bool { return bitcast<u32>(x) - 1u >= 0x7f7fffffu; }
fn pf_log_edge(x: f32) -> f32 {
  if (!pf_bool(x)) { return pf_ninf_f32(); }
  return select(x, pf_nan_f32(), pf_signbit_f32(x));
}
fn pf_log(x: f32) -> f32 {
  if (pf_no_log(x)) { return pf_log_edge(x); }
  let p = pf_split(x);
  return p.y * 0.69313812 + (pf_log_part(p.x) + p.y * 9.0580006e-6);
}
fn pf_log2(x: f32) -> f32 {
  if (pf_no_log(x)) { return pf_log_edge(x); }
  let p = pf_split(x);
  return p.y + pf_log_part(p.x) * 1.44269504;
}
fn pf_log10(x: f32) -> f32 {
  if (pf_no_log(x)) { return pf_log_edge(x); }
  let p = pf_split(x);
  return p.y * 0.30102921 + (pf_log_part(p.x) * 0.43429448 + p.y * 7.9034152e-7);
}
// (k, x - k pi/2), k to the nearest and modulo 4. Up to 12800 pi/2 in four parts (Cody & Waite
// 1980), the first of so few bits that their products with k have no error.
fn pf_quarter(x: f32) -> vec2<f32> {
  if ((bitcast<u32>(x) & 0x7fffffffu) > 0x46480000u) { return pf_quarter_far(x); }
  let k = round(x * 0.63661977);
  let r = ((x - k * 1.5703125) - k * 4.837512969970703125e-4) - k * 7.5495336e-8;
  return vec2<f32>(f32(i32(k) & 3), r - k * 2.5633441e-12);
}
// The same of any x (Payne & Hanek 1983): x is 32 bits times a power of 2, of whose product with
// 1 / (2 pi) those bits count that stand for less than 1.
fn pf_quarter_far(x: f32) -> vec2<f32> {
  let size = bitcast<u32>(x) & 0x7fffffffu;
  if (size >= 0x7f800000u) { return vec2<f32>(0.0, pf_nan_f32()); }
  let m = (size << 8u) | 0x80000000u;
  let e = (size >> 23u) - 126u;
  // of 1 / (2 pi) the four words from number e / 32 on, where the first is number 1
  let i = e >> 5u;
  var w = select(vec4<u32>(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u),
    vec4<u32>(0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u), i >= 2u);
  w = select(w, vec4<u32>(w.yzw, select(0x7d4d3770u, 0x4f10e410u, i >= 2u)), (i & 1u) == 1u);
  w = select(w, vec4<u32>(0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau), i == 4u);
  let s = e & 31u; // a shift by 32 - s would be one by 32 where s is 0
  let a = (w.x << s) | ((w.y >> 1u) >> (31u - s));
  let b = (w.y << s) | ((w.z >> 1u) >> (31u - s));
  let c = (w.z << s) | ((w.w >> 1u) >> (31u - s));
  // the upper 64 of the lower 96 bits of m * (a, b, c)
  var low = m * b;
  let carried = pf_mulhi(m, c);
  low += carried;
  var high = m * a + pf_mulhi(m, b) + select(0u, 1u, low < carried);
  let quarters = (high + 0x20000000u) >> 30u;
  high -= quarters << 30u; // what is left is signed, in units of 2^-62 quarters
  let negative = high >= 0x80000000u;
  if (negative) {
    low = ~low + 1u;
    high = ~high + select(0u, 1u, low == 0u);
  }
  // its first 32 bits
  let zeros = select(countLeadingZeros(high), 32u + countLeadingZeros(low), high == 0u);
  if (zeros < 32u) { high = (high << zeros) | ((low >> 1u) >> (31u - zeros)); }
  else { high = low << (zeros & 31u); }
  let r = pf_scale(f32(high) * 1.57079633, -30 - i32(zeros));
  let k = select(quarters, 0u - quarters, pf_signbit_f32(x)) & 3u;
  return vec2<f32>(f32(k), select(r, pf_neg(r), negative != pf_signbit_f32(x)));
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
  let k = i32(q.x);
  let v = select(pf_sin_part(q.y), pf_cos_part(q.y), (k & 1) == 1);
  return select(v, -v, k >= 2);
}
fn pf_cos(x: f32) -> f32 {
  let q = pf_quarter(x);
  let k = i32(q.x);
  let v = select(pf_cos_part(q.y), pf_sin_part(q.y), (k & 1) == 1);
  return select(v, -v, (k == 1) | (k == 2));
}
fn pf_tan(x: f32) -> f32 {
  let q = pf_quarter(x);
  let s = pf_sin_part(q.y);
  let c = pf_cos_part(q.y);
  return select(s / c, -c / s, (i32(q.x) & 1) == 1);
}

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
  if (pf_isnan_f32(x) | pf_isnan_f32(y)) { return x + y; }
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
  if (pf_isnan_f32(x) | (abs(x) > 1.0)) { return pf_nan_f32(); }
  return pf_atan2(x, sqrt((1.0 - x) * (1.0 + x)));
}
fn pf_acos(x: f32) -> f32 {
  if (pf_isnan_f32(x) | (abs(x) > 1.0)) { return pf_nan_f32(); }
  return pf_atan2(sqrt((1.0 - x) * (1.0 + x)), x);
}
fn pf_hypot(a: f32, b: f32) -> f32 {
  if (pf_isinf_f32(a) | pf_isinf_f32(b)) { return pf_inf_f32(); }
  if (pf_isnan_f32(a) | pf_isnan_f32(b)) { return a + b; }
  let most = max(abs(a), abs(b));
  let r = min(abs(a), abs(b)) / select(most, 1.0, most == 0.0);
  return most * sqrt(1.0 + r * r);
}
fn pf_sinh(x: f32) -> f32 {
  let size = abs(x);
  if (size > 10.0) {
    let half = pf_exp(0.5 * size); // pf_exp(size) overflows before its half does
    return pf_copysign(0.5 * half * half, x);
  }
  let e = pf_expm1(size);
  return pf_copysign(0.5 * (e + e / (e + 1.0)), x);
}
fn pf_cosh(x: f32) -> f32 {
  let half = pf_exp(0.5 * abs(x));
  return 0.5 * half * half + 0.5 / half / half;
}
fn pf_asinh(x: f32) -> f32 {
  let size = abs(x);
  if (size > 1e9) { return pf_copysign(pf_log(size) + 0.69314718, x); }
  return pf_copysign(pf_log1p(size + size * size / (1.0 + sqrt(size * size + 1.0))), x);
}
fn pf_acosh(x: f32) -> f32 {
  if (pf_isnan_f32(x) | (x < 1.0)) { return pf_nan_f32(); }
  if (x > 1e9) { return pf_log(x) + 0.69314718; }
  let t = x - 1.0;
  return pf_log1p(t + sqrt(2.0 * t + t * t));
}
fn pf_atanh(x: f32) -> f32 {
  let size = abs(x);
  if (size == 1.0) { return pf_copysign(pf_inf_f32(), x); }
  return pf_copysign(0.5 * pf_log1p(2.0 * size / (1.0 - size)), x);
}

fn pf_signbit_f32(x: f32) -> bool { return (bitcast<u32>(x) >> 31u) == 1u; }
fn pf_nextafter(a: f32, b: f32) -> f32 {
  if (pf_isnan_f32(a) | pf_isnan_f32(b)) { return a + b; }
  if (a == b) { return b; }
  if (a == 0.0) { return pf_copysign(bitcast<f32>(1u), b); }
  let bits = bitcast<u32>(a);
  return bitcast<f32>(select(bits - 1u, bits + 1u, (a < b) == (a > 0.0)));
}
// e of x = m * 2^e, 0.5 <= |m| < 1; numbers below 2^-126 count as 0.
fn pf_exponent(x: f32) -> i32 {
  let e = i32((bitcast<u32>(x) >> 23u) & 255u);
  return select(e - 126, 0, (e == 0) | (e == 255));
}
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

// Near 0 the series of Cephes' tanhf: 1 - 2 / (exp(2 x) + 1) would lose its digits.
fn pf_tanh(x: f32) -> f32 {
  let z = x * x;
  let near = x + x * z * (-0.33333282 + z * (0.13331442 + z * (-5.3739716e-2 + z * (2.0639089e-2
    + z * -5.7049887e-3))));
  let far = pf_copysign(1.0 - 2.0 / (pf_exp(2.0 * abs(x)) + 1.0), x);
  return select(near, far, abs(x) > 0.625);
}
// Near 0, exp(x) - 1 and log(1 + x) lose the digits that matter, so series take their place.
fn pf_expm1(x: f32) -> f32 {
  let near = x + x * x * (0.5 + x * (0.16666667 + x * (4.1666667e-2 + x * (8.3333333e-3
    + x * (1.3888889e-3 + x * (1.9841270e-4 + x * 2.4801587e-5))))));
  return select(near, pf_exp(x) - 1.0, abs(x) > 0.5);
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
  return select(x * (p / q), v, pf_isnan_f32(v));
}

// Rounded to 8 bits of mantissa, ties to even.
fn pf_bfloat16(x: f32) -> f32 {
  if (pf_isnan_f32(x)) { return x; }
  let bits = bitcast<u32>(x);
  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}
