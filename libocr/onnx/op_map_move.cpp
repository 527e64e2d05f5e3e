// Rows of the operator table: data movement, shape arithmetic, constants, casts.
#include <algorithm>

#include "libocr/onnx/op_map.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"
#include "libtrain/ops/shape_ops.h"

namespace ocr {
namespace {

using namespace train;  // NOLINT: the table speaks of little else

// An input that older opsets have as an attribute.
ValueId ints_attr(NodeBuilder& b, const char* key) {
  return b.has_attr(key) ? b.ints(b.attr_ints(key)) : kNoValue;
}

// ---- Views

void identity(NodeBuilder& b) { b.finish(std::make_shared<IdentityOp>(), {b.in(0)}); }

void reshape(NodeBuilder& b) {
  b.finish(std::make_shared<ReshapeOp>(b.attr_int("allowzero", 0) != 0), {b.in(0), b.in(1)});
}

void flatten(NodeBuilder& b) {
  b.finish(std::make_shared<FlattenOp>(b.attr_int("axis", 1)), {b.in(0)});
}

void squeeze_1(NodeBuilder& b) {
  b.finish(std::make_shared<SqueezeOp>(), {b.in(0), ints_attr(b, "axes")});
}

void squeeze_13(NodeBuilder& b) { b.finish(std::make_shared<SqueezeOp>(), {b.in(0), b.opt(1)}); }

void unsqueeze_1(NodeBuilder& b) {
  if (!b.has_attr("axes")) b.fail("attribute 'axes' is missing");
  b.finish(std::make_shared<UnsqueezeOp>(), {b.in(0), ints_attr(b, "axes")});
}

void unsqueeze_13(NodeBuilder& b) { b.finish(std::make_shared<UnsqueezeOp>(), {b.in(0), b.in(1)}); }

// Inference: the input; the mask, where asked for, is all ones.
void dropout(NodeBuilder& b) {
  if (b.has(2)) {
    const Tensor* training = b.constant(b.in(2));
    if (!training || training->to_doubles() != std::vector<double>{0})
      b.fail("training mode is not supported");
  }
  b.finish(std::make_shared<IdentityOp>(), {b.in(0)});
  if (b.out(1) == kNoValue) return;
  Tensor one = Tensor::scalar(true).reshaped({1});
  if (b.opset < 10) one = Tensor::scalar(1.f).reshaped({1});
  const ValueId shape = b.make<ShapeOp>({b.in(0)});
  b.add(std::make_shared<ConstantOfShapeOp>(one), {shape}, {b.out(1)});
}

// ---- Rearrangements

void transpose(NodeBuilder& b) {
  b.finish(std::make_shared<TransposeOp>(b.attr_ints("perm")), {b.in(0)});
}

void concat(NodeBuilder& b) {
  if (!b.has_attr("axis")) b.fail("attribute 'axis' is missing");
  std::vector<ValueId> inputs;
  for (int i = 0; i < b.inputs(); ++i) inputs.push_back(b.in(i));
  b.finish(std::make_shared<ConcatOp>(b.attr_int("axis", 0)), inputs);
}

void add_split(NodeBuilder& b, ValueId sizes) {
  if (b.has_attr("num_outputs") && b.attr_int("num_outputs", 0) != b.outputs())
    b.fail("num_outputs does not fit the node's outputs");
  if (b.outputs() < 1) b.fail("has no outputs");
  b.add(std::make_shared<SplitOp>(b.attr_int("axis", 0)), {b.in(0), sizes}, b.all_outputs());
}

void split_2(NodeBuilder& b) { add_split(b, ints_attr(b, "split")); }
void split_13(NodeBuilder& b) { add_split(b, b.opt(1)); }

void slice_1(NodeBuilder& b) {
  if (!b.has_attr("starts") || !b.has_attr("ends")) b.fail("starts and ends are missing");
  const ValueId starts = ints_attr(b, "starts"), ends = ints_attr(b, "ends");
  b.finish(std::make_shared<SliceOp>(), {b.in(0), starts, ends, ints_attr(b, "axes")});
}

void slice_10(NodeBuilder& b) {
  b.finish(std::make_shared<SliceOp>(), {b.in(0), b.in(1), b.in(2), b.opt(3), b.opt(4)});
}

PadMode pad_mode(const NodeBuilder& b) {
  const std::string mode = b.attr_string("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "wrap") return PadMode::kWrap;
  b.fail("mode '" + mode.substr(0, 40) + "' is unknown");
}

void pad_2(NodeBuilder& b) {
  if (!b.has_attr("pads")) b.fail("attribute 'pads' is missing");
  const ValueId pads = ints_attr(b, "pads");
  b.finish(std::make_shared<PadOp>(pad_mode(b)),
           {b.in(0), pads, b.scalar(b.attr_float("value", 0))});
}

void pad_11(NodeBuilder& b) {
  b.finish(std::make_shared<PadOp>(pad_mode(b)), {b.in(0), b.in(1), b.opt(2), b.opt(3)});
}

void expand(NodeBuilder& b) { b.finish(std::make_shared<ExpandOp>(), {b.in(0), b.in(1)}); }
void tile(NodeBuilder& b) { b.finish(std::make_shared<TileOp>(), {b.in(0), b.in(1)}); }

void depth_to_space(NodeBuilder& b) {
  const std::string mode = b.attr_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") b.fail("mode '" + mode.substr(0, 40) + "' is unknown");
  b.finish(std::make_shared<DepthSpaceOp>(true, b.attr_int("blocksize", 0), mode == "CRD"),
           {b.in(0)});
}

void space_to_depth(NodeBuilder& b) {
  b.finish(std::make_shared<DepthSpaceOp>(false, b.attr_int("blocksize", 0)), {b.in(0)});
}

void trilu(NodeBuilder& b) {
  b.finish(std::make_shared<TriluOp>(b.attr_int("upper", 1) != 0), {b.in(0), b.opt(1)});
}

void reverse_sequence(NodeBuilder& b) {
  b.finish(
      std::make_shared<ReverseSequenceOp>(b.attr_int("batch_axis", 1), b.attr_int("time_axis", 0)),
      {b.in(0), b.in(1)});
}

// ---- Gathers and scatters

void gather(NodeBuilder& b) {
  b.finish(std::make_shared<GatherOp>(b.attr_int("axis", 0)), {b.in(0), b.in(1)});
}

void gather_elements(NodeBuilder& b) {
  b.finish(std::make_shared<GatherElementsOp>(b.attr_int("axis", 0)), {b.in(0), b.in(1)});
}

void gather_nd(NodeBuilder& b) {
  b.finish(std::make_shared<GatherNDOp>(b.attr_int("batch_dims", 0)), {b.in(0), b.in(1)});
}

ScatterReduce scatter_reduce(const NodeBuilder& b) {
  const std::string how = b.attr_string("reduction", "none");
  if (how == "none") return ScatterReduce::kNone;
  if (how == "add") return ScatterReduce::kAdd;
  if (how == "mul") return ScatterReduce::kMul;
  if (how == "min") return ScatterReduce::kMin;
  if (how == "max") return ScatterReduce::kMax;
  b.fail("reduction '" + how.substr(0, 40) + "' is unknown");
}

void scatter_elements(NodeBuilder& b) {
  b.finish(std::make_shared<ScatterElementsOp>(b.attr_int("axis", 0), scatter_reduce(b)),
           {b.in(0), b.in(1), b.in(2)});
}

void scatter_nd(NodeBuilder& b) {
  b.finish(std::make_shared<ScatterNDOp>(scatter_reduce(b)), {b.in(0), b.in(1), b.in(2)});
}

// ---- Shapes and constants

void shape(NodeBuilder& b) {
  b.finish(std::make_shared<ShapeOp>(b.attr_int("start", 0), b.attr_int("end", INT64_MAX)),
           {b.in(0)});
}

void size(NodeBuilder& b) { b.finish(std::make_shared<SizeOp>(), {b.in(0)}); }

void constant(NodeBuilder& b) {
  if (const auto t = b.attr_tensor("value")) return b.finish_constant(*t);
  if (b.has_attr("value_float"))
    return b.finish_constant(Tensor::scalar(b.attr_float("value_float", 0)));
  if (b.has_attr("value_int")) return b.finish_constant(Tensor::scalar(b.attr_int("value_int", 0)));
  if (b.has_attr("value_floats")) {
    const auto v = b.attr_floats("value_floats");
    return b.finish_constant(Tensor::from<float>({static_cast<int64_t>(v.size())}, v));
  }
  if (b.has_attr("value_ints")) {
    const auto v = b.attr_ints("value_ints");
    return b.finish_constant(Tensor::from<int64_t>({static_cast<int64_t>(v.size())}, v));
  }
  b.fail("only tensors, floats and integers are supported");
}

void constant_of_shape(NodeBuilder& b) {
  Tensor value = b.attr_tensor("value").value_or(Tensor::scalar(0.f));
  if (value.numel() != 1) b.fail("the value must be one element");
  b.finish(std::make_shared<ConstantOfShapeOp>(std::move(value)), {b.in(0)});
}

void eye_like(NodeBuilder& b) {
  std::optional<DType> type;
  if (b.has_attr("dtype")) {
    const int64_t t = b.attr_int("dtype", 0);
    type = dtype_of(static_cast<int>(std::clamp<int64_t>(t, -1, 1000)));
    if (!type) b.fail("its element type is not supported");
  }
  b.finish(std::make_shared<EyeLikeOp>(b.attr_int("k", 0), type), {b.in(0)});
}

void range(NodeBuilder& b) { b.finish(std::make_shared<RangeOp>(), {b.in(0), b.in(1), b.in(2)}); }

void cast(NodeBuilder& b) {
  const int64_t to = b.attr_int("to", -1);
  const auto type = dtype_of(static_cast<int>(std::clamp<int64_t>(to, -1, 1000)));
  if (!type)
    b.fail("a cast to " + onnx_type_name(static_cast<int>(std::clamp<int64_t>(to, -1, 1000))) +
           " is not supported");
  if (b.dtype(b.in(0)) == type)
    b.finish(std::make_shared<IdentityOp>(), {b.in(0)});
  else
    b.finish(std::make_shared<CastOp>(*type), {b.in(0)});
}

void cast_like(NodeBuilder& b) {
  const auto type = b.dtype(b.in(1));
  if (type && b.dtype(b.in(0)) == type)
    b.finish(std::make_shared<IdentityOp>(), {b.in(0)});
  else if (type)
    b.finish(std::make_shared<CastOp>(*type), {b.in(0)});
  else
    b.finish(std::make_shared<CastLikeOp>(), {b.in(0), b.in(1)});
}

void where(NodeBuilder& b) { b.finish(std::make_shared<WhereOp>(), {b.in(0), b.in(1), b.in(2)}); }

void non_zero(NodeBuilder& b) { b.finish(std::make_shared<NonZeroOp>(), {b.in(0)}); }

void one_hot(NodeBuilder& b) {
  b.finish(std::make_shared<OneHotOp>(b.attr_int("axis", -1)), {b.in(0), b.in(1), b.in(2)});
}

}  // namespace

std::vector<OpRow> move_rows() {
  return {
      {"Identity", 1, identity},
      {"Dropout", 7, dropout},
      {"Reshape", 5, reshape},
      {"Flatten", 1, flatten},
      {"Squeeze", 1, squeeze_1},
      {"Squeeze", 13, squeeze_13},
      {"Unsqueeze", 1, unsqueeze_1},
      {"Unsqueeze", 13, unsqueeze_13},
      {"Transpose", 1, transpose},
      {"Concat", 4, concat},
      {"Split", 2, split_2},
      {"Split", 13, split_13},
      {"Slice", 1, slice_1},
      {"Slice", 10, slice_10},
      {"Pad", 2, pad_2},
      {"Pad", 11, pad_11},
      {"Expand", 8, expand},
      {"Tile", 6, tile},
      {"DepthToSpace", 1, depth_to_space},
      {"SpaceToDepth", 1, space_to_depth},
      {"Trilu", 14, trilu},
      {"ReverseSequence", 10, reverse_sequence},
      {"Gather", 1, gather},
      {"GatherElements", 11, gather_elements},
      {"GatherND", 11, gather_nd},
      {"Scatter", 9, scatter_elements},
      {"ScatterElements", 11, scatter_elements},
      {"ScatterND", 11, scatter_nd},
      {"Shape", 1, shape},
      {"Size", 1, size},
      {"Constant", 1, constant},
      {"ConstantOfShape", 9, constant_of_shape},
      {"EyeLike", 9, eye_like},
      {"Range", 11, range},
      {"Cast", 6, cast},
      {"CastLike", 15, cast_like},
      {"Where", 9, where},
      {"NonZero", 9, non_zero},
      {"OneHot", 9, one_hot},
  };
}

}  // namespace ocr
