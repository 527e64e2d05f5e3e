// The ops of neural networks: convolutions, pooling, products, normalisations, activations,
// resizing. Attributes carry ONNX's names and meaning; the newest opset's form where opsets differ
// (the importer translates). Images are channels-last inside, so conv-like ops take and give that
// layout.
#pragma once
#include <array>
#include <optional>

#include "libtrain/cpu/activation.h"
#include "libtrain/cpu/resize.h"
#include "libtrain/ops/op.h"

namespace train {

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };

/// Window attributes of 2-D convolutions and pools. pads: top, left, bottom, right.
struct Window {
  std::array<int, 2> kernel{1, 1}, strides{1, 1}, dilations{1, 1};
  std::array<int, 4> pads{0, 0, 0, 0};
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;  // pools only

  /// The pads with auto_pad resolved for an input of h x w.
  std::array<int, 4> resolved_pads(int64_t h, int64_t w) const;
  /// Output height and width; throws ShapeError when the window does not fit.
  std::array<int64_t, 2> output_size(int64_t h, int64_t w) const;
  std::string str() const;
};

/// Conv, 2-D. Inputs: x [N, C, H, W], w [M, C/groups, kh, kw] (constant), bias [M] (optional,
/// constant), residual of the output's shape when epilogue.residual asks for one. `window.kernel`
/// is set from w.
class ConvOp final : public Op {
 public:
  explicit ConvOp(Window window, int64_t groups = 1, cpu::Epilogue epilogue = {})
      : window(window), groups(groups), epilogue(epilogue) {}
  std::string_view type() const override { return "Conv"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return true; }
  double flops(Infos inputs, Infos outputs) const override;
  bool by_image(Infos inputs) const override { return shares_constants(inputs, 3); }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
  std::shared_ptr<const Op> in_bf16() const override;

  Window window;
  int64_t groups;
  cpu::Epilogue epilogue;
  cpu::Precision precision = cpu::Precision::kF32;
};

/// ConvTranspose, 2-D. Inputs: x [N, C, H, W], w [C, M/groups, kh, kw] (constant), bias [M]
/// (optional).
class ConvTransposeOp final : public Op {
 public:
  ConvTransposeOp(Window window, int64_t groups, std::array<int, 2> output_padding,
                  std::optional<std::array<int64_t, 2>> output_shape = std::nullopt,
                  cpu::Epilogue epilogue = {})
      : window(window),
        groups(groups),
        output_padding(output_padding),
        output_shape(output_shape),
        epilogue(epilogue) {}
  std::string_view type() const override { return "ConvTranspose"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
  std::shared_ptr<const Op> in_bf16() const override;

  Window window;
  int64_t groups;
  std::array<int, 2> output_padding;
  std::optional<std::array<int64_t, 2>> output_shape;
  cpu::Epilogue epilogue;
  cpu::Precision precision = cpu::Precision::kF32;

 private:
  std::array<int, 4> pads_for(const Shape& x, const Shape& w) const;
};

enum class PoolKind : uint8_t { kMax, kAverage };

/// MaxPool and AveragePool, 2-D, one output (MaxPool's Indices are not supported).
class PoolOp final : public Op {
 public:
  PoolOp(PoolKind kind, Window window, bool count_include_pad = false)
      : kind(kind), window(window), count_include_pad(count_include_pad) {}
  std::string_view type() const override {
    return kind == PoolKind::kMax ? "MaxPool" : "AveragePool";
  }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return true; }
  bool by_image(Infos) const override { return true; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  PoolKind kind;
  Window window;
  bool count_include_pad;
};

/// GlobalAveragePool / GlobalMaxPool: [N, C, H, W] -> [N, C, 1, 1].
class GlobalPoolOp final : public Op {
 public:
  explicit GlobalPoolOp(PoolKind kind) : kind(kind) {}
  std::string_view type() const override {
    return kind == PoolKind::kMax ? "GlobalMaxPool" : "GlobalAveragePool";
  }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool by_image(Infos) const override { return true; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  PoolKind kind;
};

/// y = alpha * op(A) op(B), numpy's matmul rules (broadcast batches, rank-1 operands), with an
/// optional bias [N] (input 2, constant) and epilogue. A constant rank-2 B is packed once.
class MatMulOp final : public Op {
 public:
  explicit MatMulOp(bool trans_b = false, float alpha = 1, cpu::Epilogue epilogue = {})
      : trans_b(trans_b), alpha(alpha), epilogue(epilogue) {}
  std::string_view type() const override { return "MatMul"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
  std::shared_ptr<const Op> in_bf16() const override;

  bool trans_b;
  float alpha;
  cpu::Epilogue epilogue;
  cpu::Precision precision = cpu::Precision::kF32;  // where B is packed
};

/// Gemm: Y = alpha op(A) op(B) + beta C, rank 2, C unidirectionally broadcast.
class GemmOp final : public Op {
 public:
  GemmOp(float alpha, float beta, bool trans_a, bool trans_b)
      : alpha(alpha), beta(beta), trans_a(trans_a), trans_b(trans_b) {}
  std::string_view type() const override { return "Gemm"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  float alpha, beta;
  bool trans_a, trans_b;
};

/// Softmax or LogSoftmax over one axis (opset 13's meaning).
class SoftmaxOp final : public Op {
 public:
  explicit SoftmaxOp(int64_t axis = -1, bool log = false) : axis(axis), log(log) {}
  std::string_view type() const override { return log ? "LogSoftmax" : "Softmax"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  bool may_overwrite(int i) const override { return i == 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
  bool log;
};

/// BatchNormalization in inference form. Inputs: x [N, C, ...], scale, bias, mean, var [C].
class BatchNormOp final : public Op {
 public:
  explicit BatchNormOp(float epsilon = 1e-5f) : epsilon(epsilon) {}
  std::string_view type() const override { return "BatchNormalization"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool may_overwrite(int i) const override { return i == 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  float epsilon;
};

/// LayerNormalization over the axes from `axis` on, one output. Inputs: x, scale, bias (optional).
class LayerNormOp final : public Op {
 public:
  explicit LayerNormOp(int64_t axis = -1, float epsilon = 1e-5f) : axis(axis), epsilon(epsilon) {}
  std::string_view type() const override { return "LayerNormalization"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  bool may_overwrite(int i) const override { return i == 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
  float epsilon;
};

/// InstanceNormalization (groups == C) and GroupNormalization. Inputs: x [N, C, ...], scale [C],
/// bias [C].
class GroupNormOp final : public Op {
 public:
  /// num_groups 0 = one group per channel.
  explicit GroupNormOp(int64_t num_groups = 0, float epsilon = 1e-5f)
      : num_groups(num_groups), epsilon(epsilon) {}
  std::string_view type() const override {
    return num_groups ? "GroupNormalization" : "InstanceNormalization";
  }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t num_groups;
  float epsilon;
};

/// An element-wise function of one f32 tensor; other float types compute in f32, integers where
/// ONNX allows (Abs, Neg).
class UnaryOp final : public Op {
 public:
  UnaryOp(std::string onnx_type, cpu::Activation activation)
      : onnx_type(std::move(onnx_type)), activation(activation) {}
  std::string_view type() const override { return onnx_type; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool may_overwrite(int i) const override { return i == 0; }
  bool by_image(Infos) const override { return true; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  std::string onnx_type;
  cpu::Activation activation;
};

enum class BinaryKind : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMin,
  kMax,
  kMod,
  kFmod,
  kPRelu,
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAnd,
  kOr,
  kXor
};

/// An element-wise function of two tensors with numpy broadcasting; comparisons give bool.
class BinaryOp final : public Op {
 public:
  explicit BinaryOp(BinaryKind kind) : kind(kind) {}
  std::string_view type() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool by_image(Infos inputs) const override { return shares_constants(inputs); }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  BinaryKind kind;
};

constexpr int kResizeResidual = 3;  // input index

/// Resize of the last two axes of a rank-4 tensor. Inputs: x, scales (f32 [4] or absent), sizes
/// (i64 [4] or absent): exactly one of them, known from shapes; after fusion a tensor of the
/// output's shape that is added (kResizeResidual).
class ResizeOp final : public Op {
 public:
  /// `desc` without scales: plan() fills them in from the inputs.
  explicit ResizeOp(cpu::ResizeDesc desc) : desc(desc) {}
  std::string_view type() const override { return "Resize"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return true; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  cpu::ResizeDesc desc;
};

}  // namespace train
