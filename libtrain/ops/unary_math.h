// Element-wise functions of one tensor that networks hardly use: trigonometry, tests, negation.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

enum class MathKind : uint8_t {
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kNot,
  kIsNaN,
  kIsInf
};

/// The trigonometric ones need floats; Not needs bool; IsNaN and IsInf take floats and give bool.
class MathOp final : public Op {
 public:
  explicit MathOp(MathKind kind, bool negative = true, bool positive = true)
      : kind(kind), negative(negative), positive(positive) {}
  std::string_view type() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  MathKind kind;
  bool negative, positive;  // IsInf: which infinities count
};

}  // namespace train
