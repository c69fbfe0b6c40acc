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

// Conversions. Ints are taken modulo 2^32, as C does in PyTorch; what has no int becomes 0.
fn pf_bool(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) != 0u; }
fn pf_i32(x: f32) -> i32 {
  let size = bitcast<u32>(x) & 0x7fffffffu;
  if (size < 0x4f000000u) { return i32(x); } // below 2^31
  if (size >= 0x5f000000u) { return 0; } // from 2^63 on
  return bitcast<i32>(u32(x - floor(x * 2.3283064365386963e-10) * 4294967296.0));
}
fn pf_u32(x: f32) -> u32 { return bitcast<u32>(pf_i32(x)); }

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
  return pf_copysign_f32(pf_scale(f32(rest), i32(q.y) - 150), a);
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
  if (!pf_bool(y)) { return pf_copysign_f32(0.0, a / b); }
  let below = floor(y);
  return below + select(0.0, 1.0, y - below > 0.5);
}

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

// Sine, cosine and tangent stand here, as on GPUs a branch reduces far angles, without an error.

// (k, x - k pi/2), k to the nearest and modulo 4. Up to 12800 pi/2 in four parts (Cody & Waite
// 1980), the first of so few bits that their products with k have no error.
fn pf_quarter(x: f32) -> vec2<f32> {
  if ((bitcast<u32>(x) & 0x7fffffffu) > 0x46480000u) { return pf_quarter_far(x); }
  let k = round(x * 0.63661977);
  let r = ((x - k * 1.5703125) - k * 4.837512969970703125e-4) - k * 7.5495336e-8;
  return vec2<f32>(f32(i32(k) & 3), r - k * 2.5633441e-12);
}
// The upper 32 bits of a product.
fn pf_mulhi(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu; let a1 = a >> 16u;
  let b0 = b & 0xffffu; let b1 = b >> 16u;
  let mid = a1 * b0 + ((a0 * b0) >> 16u);
  let low = (mid & 0xffffu) + a0 * b1;
  return a1 * b1 + (mid >> 16u) + (low >> 16u);
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
fn pf_sin_f32(x: f32) -> f32 {
  let q = pf_quarter(x);
  let k = i32(q.x);
  let v = select(pf_sin_part(q.y), pf_cos_part(q.y), (k & 1) == 1);
  return select(v, -v, k >= 2);
}
fn pf_cos_f32(x: f32) -> f32 {
  let q = pf_quarter(x);
  let k = i32(q.x);
  let v = select(pf_cos_part(q.y), pf_sin_part(q.y), (k & 1) == 1);
  return select(v, -v, (k == 1) | (k == 2));
}
fn pf_tan_f32(x: f32) -> f32 {
  let q = pf_quarter(x);
  let s = pf_sin_part(q.y);
  let c = pf_cos_part(q.y);
  return select(s / c, -c / s, (i32(q.x) & 1) == 1);
}

fn pf_signbit_f32(x: f32) -> bool { return (bitcast<u32>(x) >> 31u) == 1u; }
fn pf_nextafter(a: f32, b: f32) -> f32 {
  if (pf_isnan_f32(a) | pf_isnan_f32(b)) { return a + b; }
  if (a == b) { return b; }
  if (a == 0.0) { return pf_copysign_f32(bitcast<f32>(1u), b); }
  let bits = bitcast<u32>(a);
  return bitcast<f32>(select(bits - 1u, bits + 1u, (a < b) == (a > 0.0)));
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

// Rounded to 8 bits of mantissa, ties to even.
fn pf_bfloat16(x: f32) -> f32 {
  if (pf_isnan_f32(x)) { return x; }
  let bits = bitcast<u32>(x);
  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}

// The upper half of a number that such a half holds; a NaN stays one.
fn pf_bits_of_bfloat16(x: f32) -> u32 {
  return (bitcast<u32>(x) >> 16u) | select(0u, 64u, pf_isnan_f32(x));
}
