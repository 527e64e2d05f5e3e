// Element-wise arithmetic one number at a time: the dtypes and cases that no vector kernel covers.
#pragma once
#include <cmath>
#include <type_traits>

#include "libtrain/cpu/activation.h"
#include "libtrain/ops/broadcast.h"

namespace train::scalar {

/// A 16-bit float that computes in f32.
template <float (*Load)(uint16_t), uint16_t (*Store)(float)>
struct Half {
  uint16_t bits = 0;
  Half() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  explicit Half(T v) : bits(Store(static_cast<float>(v))) {}
  operator float() const { return Load(bits); }  // NOLINT(google-explicit-constructor)
};
using F16 = Half<f16_to_f32, f32_to_f16>;
using BF16 = Half<bf16_to_f32, f32_to_bf16>;

/// Calls f(T{}) with the C++ type of `t`.
template <class F>
auto dispatch(DType t, F&& f) {
  switch (t) {
    case DType::kF64:
      return f(double{});
    case DType::kF16:
      return f(F16{});
    case DType::kBF16:
      return f(BF16{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kBool:
      return f(bool{});
    default:
      return f(float{});
  }
}

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return T(a + b);
}
template <class T>
T sub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else
    return T(a - b);
}
template <class T>
T mul(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return T(a * b);
}
/// Integers: truncates; division by zero gives 0 (ONNX leaves it undefined).
template <class T>
T div(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return sub<T>(0, a);
    return static_cast<T>(a / b);
  } else {
    return T(a / b);
  }
}
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T pow(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < 0) return a == 1 ? 1 : 0;
    uint64_t result = 1, base = static_cast<uint64_t>(a);
    for (auto e = static_cast<uint64_t>(b); e; e >>= 1, base *= base)
      if (e & 1) result *= base;
    return static_cast<T>(result);
  } else {
    return T(std::pow(a, b));
  }
}
/// C's remainder, with the sign of the dividend (Mod with fmod = 1).
template <class T>
T fmod(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return b == 0 ? T(0) : sub<T>(a, mul<T>(div<T>(a, b), b));
  else
    return T(std::fmod(a, b));
}
/// Python's remainder, with the sign of the divisor.
template <class T>
T mod(T a, T b) {
  const T r = fmod(a, b);
  return r != T(0) && ((r < T(0)) != (b < T(0))) ? add(r, b) : r;
}

/// f(x) in f64: the definition that the kernels are tested against.
double evaluate(const cpu::Activation& act, double x);
/// Whether ONNX defines the function for integers.
bool works_on_integers(cpu::Act kind);
/// y[i] = act(x[i]) for n elements of any dtype.
void unary(const cpu::Activation& act, DType dtype, const void* x, void* y, int64_t n);
/// Pow with an exponent of another dtype than the base, whose dtype the result has.
void pow_mixed(const BroadcastNest& nest, DType base_type, const void* base, DType exponent_type,
               const void* exponent, void* y);

}  // namespace train::scalar
