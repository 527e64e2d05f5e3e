#include "libtrain/ops/scalar.h"

#include <algorithm>
#include <limits>

#include "libtrain/core/error.h"

namespace train::scalar {

double evaluate(const cpu::Activation& act, double x) {
  using cpu::Act;
  const double a = act.alpha, b = act.beta;
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto softplus = [](double v) { return v > 40 ? v : std::log1p(std::exp(v)); };
  switch (act.kind) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return x < 0 ? 0 : x;
    case Act::kClip:
      return x < a ? std::min(a, b) : x > b ? b : x;
    case Act::kLeakyRelu:
      return x < 0 ? a * x : x;
    case Act::kSigmoid:
      return sigmoid(x);
    case Act::kHardSigmoid:
      return std::clamp(a * x + b, 0.0, 1.0);
    case Act::kHardSwish:
      return x * std::clamp(a * x + b, 0.0, 1.0);
    case Act::kSwish:
      return x * sigmoid(a * x);
    case Act::kTanh:
      return std::tanh(x);
    case Act::kGelu:
      return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Act::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
    case Act::kElu:
      return x < 0 ? a * std::expm1(x) : x;
    case Act::kSelu:
      return b * (x < 0 ? a * std::expm1(x) : x);
    case Act::kCelu:
      return x < 0 ? a * std::expm1(x / a) : x;
    case Act::kSoftplus:
      return softplus(x);
    case Act::kSoftsign:
      return x / (1 + std::abs(x));
    case Act::kThresholdedRelu:
      return x > a ? x : 0;
    case Act::kErf:
      return std::erf(x);
    case Act::kMish:
      return x * std::tanh(softplus(x));
    case Act::kExp:
      return std::exp(x);
    case Act::kLog:
      return std::log(x);
    case Act::kSqrt:
      return std::sqrt(x);
    case Act::kAbs:
      return std::abs(x);
    case Act::kNeg:
      return -x;
    case Act::kReciprocal:
      return 1 / x;
    case Act::kFloor:
      return std::floor(x);
    case Act::kCeil:
      return std::ceil(x);
    case Act::kRound:
      return std::nearbyint(x);
    case Act::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case Act::kSquare:
      return x * x;
    case Act::kCount:
      break;
  }
  throw ShapeError("unknown activation");
}

bool works_on_integers(cpu::Act kind) {
  using cpu::Act;
  return kind == Act::kNone || kind == Act::kRelu || kind == Act::kClip || kind == Act::kAbs ||
         kind == Act::kNeg || kind == Act::kSign || kind == Act::kSquare;
}

namespace {

template <class T>
T integer_unary(const cpu::Activation& act, T x) {
  using cpu::Act;
  switch (act.kind) {
    case Act::kAbs:
      return x < 0 ? sub<T>(0, x) : x;
    case Act::kNeg:
      return sub<T>(0, x);
    case Act::kSquare:
      return mul<T>(x, x);
    case Act::kClip: {
      constexpr auto lo = std::numeric_limits<T>::min(), hi = std::numeric_limits<T>::max();
      const auto bound = [](float v) {
        return v <= static_cast<float>(lo)   ? lo
               : v >= static_cast<float>(hi) ? hi
                                             : static_cast<T>(v);
      };
      return min<T>(max<T>(x, bound(act.alpha)), bound(act.beta));
    }
    default:
      return static_cast<T>(evaluate(act, static_cast<double>(x)));
  }
}

}  // namespace

void unary(const cpu::Activation& act, DType dtype, const void* x, void* y, int64_t n) {
  dispatch(dtype, [&]<class T>(T) {
    const auto* in = static_cast<const T*>(x);
    auto* out = static_cast<T*>(y);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, bool>)
        out[i] = in[i];
      else if constexpr (std::is_integral_v<T>)
        out[i] = integer_unary(act, in[i]);
      else if constexpr (std::is_same_v<T, double>)
        out[i] = evaluate(act, in[i]);
      else
        out[i] = T(static_cast<float>(evaluate(act, static_cast<float>(in[i]))));
    }
  });
}

void pow_mixed(const BroadcastNest& nest, DType base_type, const void* base, DType exponent_type,
               const void* exponent, void* y) {
  dispatch(base_type, [&]<class T>(T) {
    dispatch(exponent_type, [&]<class E>(E) {
      const auto* a = static_cast<const T*>(base);
      const auto* b = static_cast<const E*>(exponent);
      auto* out = static_cast<T*>(y);
      for_each_run(nest,
                   [&](int64_t ia, int64_t ib, int64_t io, int64_t n, int64_t sa, int64_t sb) {
                     for (int64_t i = 0; i < n; ++i) {
                       const double v = std::pow(static_cast<double>(a[ia + i * sa]),
                                                 static_cast<double>(b[ib + i * sb]));
                       if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
                         const double lo = static_cast<double>(std::numeric_limits<T>::min());
                         const double hi = static_cast<double>(std::numeric_limits<T>::max());
                         out[io + i] = !(v > lo) ? std::numeric_limits<T>::min()
                                       : v >= hi ? std::numeric_limits<T>::max()
                                                 : static_cast<T>(v);
                       } else {
                         out[io + i] = T(v);
                       }
                     }
                   });
    });
  });
}

}  // namespace train::scalar
