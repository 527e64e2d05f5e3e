#include "libtrain/ops/unary_math.h"

#include <cmath>

#include "libtrain/ops/scalar.h"

namespace train {
namespace {

double evaluate(MathKind kind, double x) {
  switch (kind) {
    case MathKind::kSin:
      return std::sin(x);
    case MathKind::kCos:
      return std::cos(x);
    case MathKind::kTan:
      return std::tan(x);
    case MathKind::kAsin:
      return std::asin(x);
    case MathKind::kAcos:
      return std::acos(x);
    case MathKind::kAtan:
      return std::atan(x);
    case MathKind::kSinh:
      return std::sinh(x);
    case MathKind::kCosh:
      return std::cosh(x);
    case MathKind::kAsinh:
      return std::asinh(x);
    case MathKind::kAcosh:
      return std::acosh(x);
    default:
      return std::atanh(x);
  }
}

bool is_test(MathKind k) { return k >= MathKind::kIsNaN; }

}  // namespace

std::string_view MathOp::type() const {
  constexpr std::string_view names[] = {"Sin",   "Cos",  "Tan",   "Asin",  "Acos",
                                        "Atan",  "Sinh", "Cosh",  "Asinh", "Acosh",
                                        "Atanh", "Not",  "IsNaN", "IsInf"};
  return names[static_cast<int>(kind)];
}

void MathOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const DType t = inputs[0].dtype;
  require(kind == MathKind::kNot ? t == DType::kBool : is_float(t),
          kind == MathKind::kNot ? "Not needs bool" : "this function needs floats");
  outputs[0] = ValueInfo(inputs[0].shape, is_test(kind) ? DType::kBool : t);
}

std::unique_ptr<Plan> MathOp::plan(Infos inputs, Infos, PackCache&) const {
  return make_plan([kind = kind, negative = negative, positive = positive,
                    n = inputs[0].shape.numel(),
                    type = inputs[0].dtype](Views in, Views out, void*) {
    if (kind == MathKind::kNot) {
      for (int64_t i = 0; i < n; ++i) out[0].as<bool>()[i] = !in[0].as<const bool>()[i];
      return;
    }
    scalar::dispatch(type, [&](auto zero) {
      using T = decltype(zero);
      const auto* x = in[0].as<const T>();
      parallel_for(n, 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto v = static_cast<double>(x[i]);
          if (kind == MathKind::kIsNaN)
            out[0].as<bool>()[i] = std::isnan(v);
          else if (kind == MathKind::kIsInf)
            out[0].as<bool>()[i] = std::isinf(v) && (v < 0 ? negative : positive);
          else
            out[0].as<T>()[i] = T(evaluate(kind, v));
        }
      });
    });
  });
}

}  // namespace train
