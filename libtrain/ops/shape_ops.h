// The ops of shape arithmetic and of selection: shapes as data, constants, ranges, casts, masks.
#pragma once
#include <optional>

#include "libtrain/ops/op.h"

namespace train {

/// Shape: the dimensions [start, end) of x as i64.
class ShapeOp final : public Op {
 public:
  explicit ShapeOp(int64_t start = 0, int64_t end = INT64_MAX) : start(start), end(end) {}
  std::string_view type() const override { return "Shape"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  bool reads_data() const override { return false; }
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t start, end;
};

/// Size: the number of elements as an i64 scalar.
class SizeOp final : public Op {
 public:
  std::string_view type() const override { return "Size"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  bool reads_data() const override { return false; }
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// ConstantOfShape: a tensor of the shape in input 0 filled with `value` (one element).
class ConstantOfShapeOp final : public Op {
 public:
  explicit ConstantOfShapeOp(Tensor value);
  std::string_view type() const override { return "ConstantOfShape"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  Tensor value;
};

/// EyeLike: ones on diagonal k of a matrix of input 0's shape.
class EyeLikeOp final : public Op {
 public:
  EyeLikeOp(int64_t k, std::optional<DType> dtype) : k(k), dtype(dtype) {}
  std::string_view type() const override { return "EyeLike"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  bool reads_data() const override { return false; }
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t k;
  std::optional<DType> dtype;
};

/// Range: start, start + delta, ... below limit. Inputs: start, limit, delta, scalars known from
/// shapes.
class RangeOp final : public Op {
 public:
  std::string_view type() const override { return "Range"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos, Infos) const override { return 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// Cast to a dtype, as Tensor::to does.
class CastOp final : public Op {
 public:
  explicit CastOp(DType to) : to(to) {}
  std::string_view type() const override { return "Cast"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  DType to;
};

/// CastLike: Cast to the dtype of input 1.
class CastLikeOp final : public Op {
 public:
  std::string_view type() const override { return "CastLike"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// Where: condition (bool) ? x : y, broadcast.
class WhereOp final : public Op {
 public:
  std::string_view type() const override { return "Where"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// NonZero: the indices of elements that are not 0, [rank, count], of a constant input.
class NonZeroOp final : public Op {
 public:
  std::string_view type() const override { return "NonZero"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// OneHot. Inputs: indices (any number type), depth (scalar, known from shapes), values [off, on].
class OneHotOp final : public Op {
 public:
  explicit OneHotOp(int64_t axis = -1) : axis(axis) {}
  std::string_view type() const override { return "OneHot"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
};

}  // namespace train
