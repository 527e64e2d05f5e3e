// Point-wise functions and the epilogue that convolutions and GEMMs apply to a tile before it
// leaves the registers.
#pragma once
#include <cstdint>

namespace train::cpu {

/// What a product multiplies: f32, or factors rounded to bf16 whose products are summed in f32.
enum class Precision : uint8_t { kF32, kBf16 };

/// y = f(x) in ONNX's definitions; `a`, `b` are Activation::alpha and ::beta.
enum class Act : uint8_t {
  kNone,
  kRelu,             // max(x, 0)
  kClip,             // min(max(x, a), b)
  kLeakyRelu,        // x < 0 ? a x : x
  kSigmoid,          // 1 / (1 + exp(-x))
  kHardSigmoid,      // clamp(a x + b, 0, 1)
  kHardSwish,        // x clamp(a x + b, 0, 1); ONNX: a = 1/6, b = 1/2
  kSwish,            // x sigmoid(a x)
  kTanh,             //
  kGelu,             // x/2 (1 + erf(x / sqrt 2))
  kGeluTanh,         // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kElu,              // x < 0 ? a (exp(x) - 1) : x
  kSelu,             // b (x < 0 ? a (exp(x) - 1) : x)
  kCelu,             // x < 0 ? a (exp(x / a) - 1) : x
  kSoftplus,         // log(1 + exp(x))
  kSoftsign,         // x / (1 + |x|)
  kThresholdedRelu,  // x > a ? x : 0
  kErf,
  kMish,  // x tanh(softplus(x))
  kExp,
  kLog,
  kSqrt,
  kAbs,
  kNeg,
  kReciprocal,
  kFloor,
  kCeil,
  kRound,  // half to even
  kSign,
  kSquare,
  kCount
};

struct Activation {
  Act kind = Act::kNone;
  float alpha = 0, beta = 0;
};

/// Activations with ONNX's default parameters.
inline Activation hard_swish() { return {Act::kHardSwish, 1.f / 6, .5f}; }
inline Activation hard_sigmoid(float alpha = .2f, float beta = .5f) {
  return {Act::kHardSigmoid, alpha, beta};
}
inline Activation swish() { return {Act::kSwish, 1, 0}; }
inline Activation clip(float lo, float hi) { return {Act::kClip, lo, hi}; }

enum class Residual : uint8_t { kNone, kBeforeAct, kAfterAct };

/// y = post_scale * act(acc + bias [+ res]) + post_bias [+ res]; where the residual goes is
/// `residual`.
struct Epilogue {
  Activation act;
  float post_scale = 1, post_bias = 0;
  Residual residual = Residual::kNone;
};

}  // namespace train::cpu
