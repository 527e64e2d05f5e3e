// The ops that move data without computing: views, transposes, concatenations, slices, gathers,
// paddings. They take every dtype. Attributes carry ONNX's names; the newest opset's form where
// opsets differ.
#pragma once
#include <optional>

#include "libtrain/ops/op.h"

namespace train {

// ---- Views: output 0 is input 0's bytes under another shape.

/// What the views share: the plan copies only when it has to.
class ViewOp : public Op {
 public:
  bool is_view() const override { return true; }
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

class IdentityOp final : public ViewOp {
 public:
  std::string_view type() const override { return "Identity"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
};

/// Reshape. Inputs: x, shape (i64, known from shapes). 0 copies a dimension unless allow_zero; one
/// -1 takes what is left.
class ReshapeOp final : public ViewOp {
 public:
  explicit ReshapeOp(bool allow_zero = false) : allow_zero(allow_zero) {}
  std::string_view type() const override { return "Reshape"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;

  bool allow_zero;
};

/// Flatten: [d_0 ... d_(axis-1), the rest].
class FlattenOp final : public ViewOp {
 public:
  explicit FlattenOp(int64_t axis = 1) : axis(axis) {}
  std::string_view type() const override { return "Flatten"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;

  int64_t axis;
};

/// Squeeze. Inputs: x, axes (i64, optional: every axis of size 1).
class SqueezeOp final : public ViewOp {
 public:
  std::string_view type() const override { return "Squeeze"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
};

/// Unsqueeze. Inputs: x, axes (i64, places in the output).
class UnsqueezeOp final : public ViewOp {
 public:
  std::string_view type() const override { return "Unsqueeze"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
};

// ---- Rearrangements.

/// Transpose: axis i of the output is axis perm[i] of the input; an empty perm reverses the axes.
class TransposeOp final : public Op {
 public:
  explicit TransposeOp(std::vector<int64_t> perm = {}) : perm(std::move(perm)) {}
  std::string_view type() const override { return "Transpose"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return true; }
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  /// perm for a rank, checked.
  std::vector<int64_t> resolved(int rank) const;
  std::vector<int64_t> perm;
};

/// Concat along one axis.
class ConcatOp final : public Op {
 public:
  explicit ConcatOp(int64_t axis) : axis(axis) {}
  std::string_view type() const override { return "Concat"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return true; }
  bool by_image(Infos inputs) const override { return axis == 1 && shares_constants(inputs); }
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
};

/// Split along one axis. Inputs: x, split (i64 sizes, optional: equal parts, the last one smaller).
class SplitOp final : public Op {
 public:
  explicit SplitOp(int64_t axis = 0) : axis(axis) {}
  std::string_view type() const override { return "Split"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
};

/// [begin, begin + step, ...) of one axis, as Slice resolves it.
struct SliceRange {
  int64_t begin = 0, step = 1, size = 0;
};
/// The range of every axis from Slice's inputs (of x the shape alone is read).
std::vector<SliceRange> slice_ranges(Infos inputs);

/// Slice. Inputs: x, starts, ends, axes (optional), steps (optional), all i32 or i64.
class SliceOp final : public Op {
 public:
  std::string_view type() const override { return "Slice"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };

/// Pad. Inputs: x, pads (i64, begins then ends; negative ones crop), value (optional), axes
/// (optional).
class PadOp final : public Op {
 public:
  explicit PadOp(PadMode mode = PadMode::kConstant) : mode(mode) {}
  std::string_view type() const override { return "Pad"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  PadMode mode;
};

/// Expand: broadcasts x to a shape (input 1).
class ExpandOp final : public Op {
 public:
  std::string_view type() const override { return "Expand"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// Tile: repeats x along each axis (input 1).
class TileOp final : public Op {
 public:
  std::string_view type() const override { return "Tile"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// DepthToSpace (DCR or CRD order) and SpaceToDepth.
class DepthSpaceOp final : public Op {
 public:
  DepthSpaceOp(bool to_space, int64_t block, bool column_row_depth = false)
      : to_space(to_space), block(block), column_row_depth(column_row_depth) {}
  std::string_view type() const override { return to_space ? "DepthToSpace" : "SpaceToDepth"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override {
    return follow_image(inputs, outputs);
  }
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  bool to_space;
  int64_t block;
  bool column_row_depth;

 private:
  static LayoutChoice follow_image(Infos inputs, Infos outputs);
};

/// Trilu: keeps the upper or lower triangle of the last two axes. Inputs: x, k (i64, optional).
class TriluOp final : public Op {
 public:
  explicit TriluOp(bool upper = true) : upper(upper) {}
  std::string_view type() const override { return "Trilu"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  bool upper;
};

// ---- Gathers and scatters. Indices are i32 or i64, negative ones count from the end; one out of
// range throws ShapeError when the plan runs.

/// Gather along one axis. Inputs: x, indices.
class GatherOp final : public Op {
 public:
  explicit GatherOp(int64_t axis = 0) : axis(axis) {}
  std::string_view type() const override { return "Gather"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
};

/// GatherElements. Inputs: x, indices of x's rank.
class GatherElementsOp final : public Op {
 public:
  explicit GatherElementsOp(int64_t axis = 0) : axis(axis) {}
  std::string_view type() const override { return "GatherElements"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
};

/// GatherND. Inputs: x, indices [..., depth].
class GatherNDOp final : public Op {
 public:
  explicit GatherNDOp(int64_t batch_dims = 0) : batch_dims(batch_dims) {}
  std::string_view type() const override { return "GatherND"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t batch_dims;
};

enum class ScatterReduce : uint8_t { kNone, kAdd, kMul, kMin, kMax };

/// ScatterElements. Inputs: x, indices, updates. In index order, on one thread.
class ScatterElementsOp final : public Op {
 public:
  explicit ScatterElementsOp(int64_t axis = 0, ScatterReduce reduce = ScatterReduce::kNone)
      : axis(axis), reduce(reduce) {}
  std::string_view type() const override { return "ScatterElements"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
  ScatterReduce reduce;
};

/// ScatterND. Inputs: x, indices [..., depth], updates.
class ScatterNDOp final : public Op {
 public:
  explicit ScatterNDOp(ScatterReduce reduce = ScatterReduce::kNone) : reduce(reduce) {}
  std::string_view type() const override { return "ScatterND"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  ScatterReduce reduce;
};

/// ReverseSequence. Inputs: x, sequence_lens [batch] (i64).
class ReverseSequenceOp final : public Op {
 public:
  ReverseSequenceOp(int64_t batch_axis, int64_t time_axis)
      : batch_axis(batch_axis), time_axis(time_axis) {}
  std::string_view type() const override { return "ReverseSequence"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t batch_axis, time_axis;
};

}  // namespace train
