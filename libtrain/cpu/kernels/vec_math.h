// exp, log, erf, tanh and the activations on vectors, within 2-4 units in the last place over the
// whole range of floats.
#pragma once
#include "libtrain/cpu/activation.h"
#include "libtrain/cpu/kernels/vec.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

// a[0] + a[1] x + ... + a[N-1] x^(N-1)
template <int N>
OCR_INLINE V poly(const float (&a)[N], V x) {
  V p = set1(a[N - 1]);
  OCR_UNROLL
  for (int i = N - 2; i >= 0; --i) p = fma(p, x, set1(a[i]));
  return p;
}

// exp(x) = 2^n (1 + q), |x - n ln 2| <= ln 2 / 2; q by a minimax polynomial (relative error 5e-11).
struct ExpParts {
  V n, q;
};
OCR_INLINE ExpParts exp_parts(V x) {
  constexpr float c[] = {.5f,          .1666666567f,  .0416662917f,
                         .0083334986f, .00139448687f, .000197901361f};
  const V n = round_even(mul(x, set1(1.44269504f)));
  V r = fnma(n, set1(.693359375f), x);
  r = fnma(n, set1(-2.12194440e-4f), r);
  return {n, fma(mul(r, r), poly(c, r), r)};
}
OCR_INLINE V pow2(VI n) { return float_bits(shift_left<23>(iadd(n, iset1(127)))); }

OCR_INLINE V exp(V x) {
  x = min(set1(89.f), max(set1(-104.f), x));  // NaN stays: it is the second operand
  const ExpParts e = exp_parts(x);
  const VI n = to_int(e.n), half = shift_right<1>(n);
  const V p = add(e.q, set1(1.f));
  return mul(mul(p, pow2(half)), pow2(isub(n, half)));  // two steps: 2^128 and denormals
}
// The same for x <= 0, where one step suffices; results below the smallest normal number are 0.
OCR_INLINE V exp_nonpositive(V x) {
  const V c = max(set1(-87.3f), x);
  const ExpParts e = exp_parts(c);
  const V y = mul(add(e.q, set1(1.f)), pow2(to_int(e.n)));
  return select(less(x, set1(-87.3f)), zero(), y);
}
// exp(x) - 1 for x <= 0 (any x below 88).
OCR_INLINE V expm1_nonpositive(V x) {
  const ExpParts e = exp_parts(max(set1(-80.f), x));
  const V s = pow2(to_int(e.n));
  return fma(s, e.q, sub(s, set1(1.f)));
}

OCR_INLINE V log(V x) {
  constexpr float c[] = {.3333333135f, -.2500081956f, .2000122666f, -.1662335643f,
                         .1420175880f, -.1316018254f, .1276157498f, -.0763449296f};
  const M tiny = less(x, set1(1.17549435e-38f));
  const V y = select(tiny, mul(x, set1(8388608.f)), x);
  // m in [sqrt(1/2), sqrt(2)): the exponent's carry is taken out of the bits above those of
  // sqrt(1/2).
  const VI t = isub(int_bits(y), iset1(0x3F3504F3));
  const VI k = shift_right<23>(t);
  const V m = float_bits(isub(int_bits(y), shift_left<23>(k)));
  const V e = sub(to_float(k), select(tiny, set1(23.f), zero()));
  const V f = sub(m, set1(1.f)), f2 = mul(f, f);
  V r = mul(mul(f2, f), poly(c, f));
  r = fma(e, set1(-2.12194440e-4f), r);
  r = fma(f2, set1(-.5f), r);
  r = fma(e, set1(.693359375f), add(r, f));
  const V inf = set1(__builtin_inff());
  r = select(less(x, inf), r, x);  // +inf and NaN
  r = select(less(x, zero()), set1(__builtin_nanf("")), r);
  return select(equal(x, zero()), neg(inf), r);
}
// log(1 + u) for u in [0, 1]: the rounding of 1 + u is taken back.
OCR_INLINE V log1p(V u) {
  const V w = add(u, set1(1.f)), d = sub(w, set1(1.f));
  const M exact = equal(d, zero());
  const V r = mul(log(w), div(u, select(exact, set1(1.f), d)));
  return select(exact, u, r);
}

// Rational minimax fit of erf on [0, 3.92] (relative error 1.9e-8); beyond, erf is 1 in floats.
OCR_INLINE V erf(V x) {
  constexpr float p[] = {1.1283791065f,  .1903771311f,    .0527455173f,
                         .003764535300f, 2.848897781e-4f, 2.050734338e-6f};
  constexpr float q[] = {1.f,           .5020501018f,   .1140975952f,
                         .01496703550f, .001162330853f, 3.809875852e-5f};
  constexpr float kEnd = 3.919f;
  const V a = min(set1(kEnd), abs(x)), t = mul(a, a);
  const V r = div(mul(a, poly(p, t)), poly(q, t));
  return or_bits(select(less(a, set1(kEnd)), r, select(equal(x, x), set1(1.f), x)), sign_of(x));
}
// x/2 + |x|/2 erf(|x| / sqrt 2), by the same fit in terms of x; at its end the quotient passes 1
// and is cut to 1, so that large negative x give exactly 0.
OCR_INLINE V gelu(V x) {
  constexpr float p[] = {.7978845239f,    .06730847806f,   .0093241781f,
                         .0003327410668f, 1.259046803e-5f, 4.531525377e-8f};
  constexpr float q[] = {
      1.f, .2510250509f, .0285243988f, .001870879438f, 7.26456783e-5f, 1.190586204e-6f};
  const V a = min(set1(5.72f), abs(x)), t = mul(a, a), h = mul(x, set1(.5f));
  const V r = min(set1(1.f), div(mul(a, poly(p, t)), poly(q, t)));
  return fma(abs(h), r, h);
}
OCR_INLINE V tanh(V x) {
  const V t = expm1_nonpositive(mul(abs(x), set1(-2.f)));
  return or_bits(div(neg(t), add(t, set1(2.f))), sign_of(x));
}
OCR_INLINE V sigmoid(V x) { return div(set1(1.f), add(set1(1.f), exp(neg(x)))); }

struct ActConstants {  // broadcast once per kernel call
  V a, b;
};

// act(x); `a`, `b` as in Activation. Relu, Clip and the like give NaN for NaN.
template <Act A>
OCR_INLINE V activate(V x, V a, V b) {
  const V one = set1(1.f);
  if constexpr (A == Act::kNone) return x;
  if constexpr (A == Act::kRelu) return max(zero(), x);
  if constexpr (A == Act::kClip) return min(b, max(a, x));
  if constexpr (A == Act::kLeakyRelu) return select(less(x, zero()), mul(a, x), x);
  if constexpr (A == Act::kSigmoid) return sigmoid(x);
  if constexpr (A == Act::kHardSigmoid) return min(one, max(zero(), fma(x, a, b)));
  if constexpr (A == Act::kHardSwish) return mul(x, min(one, max(zero(), fma(x, a, b))));
  if constexpr (A == Act::kSwish) return div(x, add(one, exp(neg(mul(a, x)))));
  if constexpr (A == Act::kTanh) return tanh(x);
  if constexpr (A == Act::kGelu) return gelu(x);
  if constexpr (A == Act::kGeluTanh) {
    const V u = mul(x, fma(mul(x, x), set1(.0356774081f), set1(.797884561f)));
    const V h = mul(x, set1(.5f));
    return fma(h, tanh(u), h);
  }
  if constexpr (A == Act::kElu)
    return select(less(x, zero()), mul(a, expm1_nonpositive(min(zero(), x))), x);
  if constexpr (A == Act::kSelu)
    return mul(b, select(less(x, zero()), mul(a, expm1_nonpositive(min(zero(), x))), x));
  if constexpr (A == Act::kCelu)
    return select(less(x, zero()), mul(a, expm1_nonpositive(min(zero(), div(x, a)))), x);
  if constexpr (A == Act::kSoftplus)
    return add(max(zero(), x), log1p(exp_nonpositive(neg(abs(x)))));
  if constexpr (A == Act::kSoftsign) return div(x, add(one, abs(x)));
  if constexpr (A == Act::kThresholdedRelu) return select(greater(x, a), x, zero());
  if constexpr (A == Act::kErf) return erf(x);
  if constexpr (A == Act::kMish) {  // x ((1+e)^2 - 1) / ((1+e)^2 + 1), e = exp(x)
    const V e = exp(min(set1(20.f), x)), u = mul(e, add(e, set1(2.f)));
    return select(greater(x, set1(20.f)), x, mul(x, div(u, add(u, set1(2.f)))));
  }
  if constexpr (A == Act::kExp) return exp(x);
  if constexpr (A == Act::kLog) return log(x);
  if constexpr (A == Act::kSqrt) return sqrt(x);
  if constexpr (A == Act::kAbs) return abs(x);
  if constexpr (A == Act::kNeg) return neg(x);
  if constexpr (A == Act::kReciprocal) return div(one, x);
  if constexpr (A == Act::kFloor) return floor(x);
  if constexpr (A == Act::kCeil) return ceil(x);
  if constexpr (A == Act::kRound) return round_even(x);
  if constexpr (A == Act::kSign)
    return select(less(x, zero()), set1(-1.f), select(greater(x, zero()), one, x));
  if constexpr (A == Act::kSquare) return mul(x, x);
}

// Calls f.template operator()<A>() for a run-time activation.
template <class F>
OCR_INLINE void dispatch_act(Act act, F&& f) {
  switch (act) {
#define OCR_CASE(A) \
  case Act::A:      \
    return f.template operator()<Act::A>();
    OCR_CASE(kNone)
    OCR_CASE(kRelu)
    OCR_CASE(kClip)
    OCR_CASE(kLeakyRelu)
    OCR_CASE(kSigmoid)
    OCR_CASE(kHardSigmoid)
    OCR_CASE(kHardSwish)
    OCR_CASE(kSwish)
    OCR_CASE(kTanh)
    OCR_CASE(kGelu)
    OCR_CASE(kGeluTanh)
    OCR_CASE(kElu)
    OCR_CASE(kSelu)
    OCR_CASE(kCelu)
    OCR_CASE(kSoftplus)
    OCR_CASE(kSoftsign)
    OCR_CASE(kThresholdedRelu)
    OCR_CASE(kErf)
    OCR_CASE(kMish)
    OCR_CASE(kExp)
    OCR_CASE(kLog)
    OCR_CASE(kSqrt)
    OCR_CASE(kAbs)
    OCR_CASE(kNeg)
    OCR_CASE(kReciprocal)
    OCR_CASE(kFloor)
    OCR_CASE(kCeil)
    OCR_CASE(kRound)
    OCR_CASE(kSign)
    OCR_CASE(kSquare)
#undef OCR_CASE
    case Act::kCount:
      break;
  }
}

}  // namespace
}  // namespace train::cpu::OCR_ISA_NS
