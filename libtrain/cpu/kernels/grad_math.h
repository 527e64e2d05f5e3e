// Derivatives of the activations on vectors.
#pragma once
#include "libtrain/cpu/kernels/vec_math.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

// As act_grad_reads_output() says.
constexpr bool reads_output(Act a) {
  return a == Act::kRelu || a == Act::kClip || a == Act::kSigmoid || a == Act::kHardSigmoid ||
         a == Act::kTanh || a == Act::kExp || a == Act::kSqrt;
}

// f'(x), from v = f(x) or v = x; at a kink the slope that PyTorch takes.
template <Act A>
OCR_INLINE V slope(V v, V a, V b) {
  const V one = set1(1.f);
  if constexpr (A == Act::kNone) return one;
  if constexpr (A == Act::kRelu) return select(greater(v, zero()), one, zero());
  if constexpr (A == Act::kClip)
    return select(greater(v, a), select(less(v, b), one, zero()), zero());
  if constexpr (A == Act::kLeakyRelu) return select(greater(v, zero()), one, a);
  if constexpr (A == Act::kSigmoid) return mul(v, sub(one, v));
  if constexpr (A == Act::kHardSigmoid)
    return select(greater(v, zero()), select(less(v, one), a, zero()), zero());
  if constexpr (A == Act::kHardSwish) {
    const V t = fma(v, a, b);
    return select(greater(t, zero()), select(less(t, one), fma(v, a, t), one), zero());
  }
  if constexpr (A == Act::kSwish) {  // s + a x s (1 - s)
    const V s = sigmoid(mul(a, v));
    return fma(mul(mul(a, v), s), sub(one, s), s);
  }
  if constexpr (A == Act::kTanh) return fnma(v, v, one);
  if constexpr (A == Act::kGelu) {  // Phi(x) + x phi(x)
    const V phi = mul(exp_nonpositive(mul(mul(v, v), set1(-.5f))), set1(.398942280f));
    const V big = fma(erf(mul(v, set1(.707106781f))), set1(.5f), set1(.5f));
    return fma(v, phi, big);
  }
  if constexpr (A == Act::kGeluTanh) {
    const V v2 = mul(v, v);
    const V t = tanh(mul(v, fma(v2, set1(.0356774081f), set1(.797884561f))));
    const V du = fma(v2, set1(.107032224f), set1(.797884561f));
    const V half = fma(t, set1(.5f), set1(.5f));
    return fma(mul(mul(v, set1(.5f)), fnma(t, t, one)), du, half);
  }
  if constexpr (A == Act::kExp) return v;
  if constexpr (A == Act::kLog) return div(one, v);
  if constexpr (A == Act::kSqrt) return div(set1(.5f), v);
  if constexpr (A == Act::kAbs)
    return select(less(v, zero()), set1(-1.f), select(greater(v, zero()), one, zero()));
  if constexpr (A == Act::kNeg) return set1(-1.f);
  if constexpr (A == Act::kSquare) return add(v, v);
}

// Calls f.template operator()<A>() for the activations that have a derivative here.
template <class F>
OCR_INLINE void dispatch_slope(Act act, F&& f) {
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
    OCR_CASE(kExp)
    OCR_CASE(kLog)
    OCR_CASE(kSqrt)
    OCR_CASE(kAbs)
    OCR_CASE(kNeg)
    OCR_CASE(kSquare)
#undef OCR_CASE
    default:
      break;
  }
}

}  // namespace
}  // namespace train::cpu::OCR_ISA_NS
