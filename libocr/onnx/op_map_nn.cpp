// Rows of the operator table: convolutions, pools, products, norms, softmax, resizing.
#include <algorithm>
#include <cmath>

#include "libocr/onnx/op_map.h"
#include "libtrain/ops/grid_sample.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"
#include "libtrain/ops/reduce.h"
#include "libtrain/ops/shape_ops.h"

namespace ocr {
namespace {

using namespace train;  // NOLINT: the table speaks of little else
using cpu::ResizeCoord;
using cpu::ResizeMode;

constexpr int64_t kMaxWindow = 1 << 20;

// ---- Windows

std::vector<int> small_ints(const NodeBuilder& b, const char* key, size_t size, int otherwise,
                            int least) {
  const auto given = b.attr_ints(key);
  std::vector<int> out(size, otherwise);
  if (given.empty() && !b.has_attr(key)) return out;
  if (given.size() != size) b.fail(cat("attribute '", key, "' needs ", size, " values"));
  for (size_t i = 0; i < size; ++i) {
    if (given[i] < least || given[i] > kMaxWindow)
      b.fail(cat("attribute '", key, "' is out of range"));
    out[i] = static_cast<int>(given[i]);
  }
  return out;
}

// The window of a conv or pool over `spatial` (1 or 2) axes; a 1-D one gets a leading axis of 1.
Window window_of(const NodeBuilder& b, size_t spatial, bool needs_kernel) {
  Window w;
  if (needs_kernel && !b.has_attr("kernel_shape")) b.fail("attribute 'kernel_shape' is missing");
  const auto kernel = small_ints(b, "kernel_shape", spatial, 1, 1);
  const auto strides = small_ints(b, "strides", spatial, 1, 1);
  const auto dilations = small_ints(b, "dilations", spatial, 1, 1);
  const auto pads = small_ints(b, "pads", 2 * spatial, 0, 0);
  const size_t shift = 2 - spatial;
  for (size_t i = 0; i < spatial; ++i) {
    w.kernel[i + shift] = kernel[i];
    w.strides[i + shift] = strides[i];
    w.dilations[i + shift] = dilations[i];
    w.pads[i + shift] = pads[i];
    w.pads[i + shift + 2] = pads[i + spatial];
  }
  const std::string mode = b.attr_string("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER")
    w.auto_pad = AutoPad::kSameUpper;
  else if (mode == "SAME_LOWER")
    w.auto_pad = AutoPad::kSameLower;
  else if (mode == "VALID")
    w.auto_pad = AutoPad::kValid;
  else if (mode != "NOTSET" && !mode.empty())
    b.fail("auto_pad '" + mode.substr(0, 40) + "' is unknown");
  w.ceil_mode = b.attr_int("ceil_mode", 0) != 0;
  return w;
}

// Runs a 2-D op on data of one spatial axis: [N, C, L] as [N, C, 1, L].
void finish_as_2d(NodeBuilder& b, size_t spatial, std::shared_ptr<const Op> op,
                  std::vector<ValueId> inputs) {
  if (spatial == 2) return b.finish(std::move(op), std::move(inputs));
  const ValueId axis = b.ints({2});
  inputs[0] = b.make<UnsqueezeOp>({inputs[0], axis});
  const ValueId y = b.add(std::move(op), std::move(inputs));
  b.finish(std::make_shared<SqueezeOp>(), {y, axis});
}

size_t conv_spatial(const NodeBuilder& b) {
  const auto rank = b.rank(b.in(1));
  size_t spatial = 2;
  if (rank)
    spatial = static_cast<size_t>(std::max(0, *rank - 2));
  else if (b.has_attr("kernel_shape"))
    spatial = b.attr_ints("kernel_shape").size();
  if (spatial != 1 && spatial != 2) b.fail("only 1-D and 2-D data are supported");
  return spatial;
}

// Weights [M, C, k] as [M, C, 1, k].
ValueId weights_2d(NodeBuilder& b, size_t spatial) {
  return spatial == 2 ? b.in(1) : b.make<UnsqueezeOp>({b.in(1), b.ints({2})});
}

void set_kernel(const NodeBuilder& b, size_t spatial, Window& w) {
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t k = b.fixed_dim(b.in(1), static_cast<int>(2 + i));
    if (k < 1 || k > kMaxWindow) continue;
    if (b.has_attr("kernel_shape") && w.kernel[2 - spatial + i] != k)
      b.fail("kernel_shape does not fit the weights");
    w.kernel[2 - spatial + i] = static_cast<int>(k);
  }
}

bool rank_known(const NodeBuilder& b) { return b.rank(b.in(1)).has_value(); }

int64_t group_of(const NodeBuilder& b) {
  const int64_t g = b.attr_int("group", 1);
  if (g < 1 || g > (1 << 24)) b.fail("attribute 'group' is out of range");
  return g;
}

void conv(NodeBuilder& b) {
  const size_t spatial = conv_spatial(b);
  Window w = window_of(b, spatial, false);
  if (rank_known(b)) set_kernel(b, spatial, w);
  finish_as_2d(b, spatial, std::make_shared<ConvOp>(w, group_of(b)),
               {b.in(0), weights_2d(b, spatial), b.opt(2)});
}

void conv_transpose(NodeBuilder& b) {
  const size_t spatial = conv_spatial(b);
  Window w = window_of(b, spatial, false);
  if (rank_known(b)) set_kernel(b, spatial, w);
  const auto extra = small_ints(b, "output_padding", spatial, 0, 0);
  std::array<int, 2> padding{0, 0};
  for (size_t i = 0; i < spatial; ++i) padding[2 - spatial + i] = extra[i];
  std::optional<std::array<int64_t, 2>> shape;
  if (b.has_attr("output_shape")) {
    const auto given = small_ints(b, "output_shape", spatial, 1, 1);
    shape = {1, 1};
    for (size_t i = 0; i < spatial; ++i) (*shape)[2 - spatial + i] = given[i];
  }
  finish_as_2d(b, spatial, std::make_shared<ConvTransposeOp>(w, group_of(b), padding, shape),
               {b.in(0), weights_2d(b, spatial), b.opt(2)});
}

template <PoolKind kKind>
void pool(NodeBuilder& b) {
  const size_t spatial = b.attr_ints("kernel_shape").size();
  if (spatial != 1 && spatial != 2) b.fail("only 1-D and 2-D data are supported");
  b.only_output();
  finish_as_2d(b, spatial,
               std::make_shared<PoolOp>(kKind, window_of(b, spatial, true),
                                        b.attr_int("count_include_pad", 0) != 0),
               {b.in(0)});
}

template <PoolKind kKind>
void global_pool(NodeBuilder& b) {
  const auto rank = b.rank(b.in(0));
  if (rank.value_or(4) == 4) return b.finish(std::make_shared<GlobalPoolOp>(kKind), {b.in(0)});
  std::vector<int64_t> axes;
  for (int i = 2; i < *rank; ++i) axes.push_back(i);
  if (axes.empty()) b.fail("the input needs at least three axes");
  b.finish(
      std::make_shared<ReduceOp>(kKind == PoolKind::kMax ? ReduceKind::kMax : ReduceKind::kMean),
      {b.in(0), b.ints(axes)});
}

// ---- Products

void matmul(NodeBuilder& b) { b.finish(std::make_shared<MatMulOp>(), {b.in(0), b.in(1)}); }

void gemm(NodeBuilder& b) {
  b.finish(std::make_shared<GemmOp>(b.attr_float("alpha", 1), b.attr_float("beta", 1),
                                    b.attr_int("transA", 0) != 0, b.attr_int("transB", 0) != 0),
           {b.in(0), b.in(1), b.opt(2)});
}

// ---- Softmax

// Axis `axis` alone (opset 13).
template <bool kLog>
void softmax(NodeBuilder& b) {
  b.finish(std::make_shared<SoftmaxOp>(b.attr_int("axis", -1), kLog), {b.in(0)});
}

// Below opset 13: over all axes from `axis` on, as one.
template <bool kLog>
void softmax_flat(NodeBuilder& b) {
  const int64_t axis = b.attr_int("axis", 1);
  const auto rank = b.rank(b.in(0));
  if (axis == -1 || (rank && axis == *rank - 1))
    return b.finish(std::make_shared<SoftmaxOp>(-1, kLog), {b.in(0)});
  const ValueId shape = b.make<ShapeOp>({b.in(0)});
  const ValueId flat = b.make<FlattenOp>({b.in(0)}, axis);
  const ValueId y = b.make<SoftmaxOp>({flat}, -1, kLog);
  b.finish(std::make_shared<ReshapeOp>(true), {y, shape});
}

// Hardmax: 1 at the first maximum, 0 elsewhere.
void add_hardmax(NodeBuilder& b, ValueId x, int64_t axis, ValueId shape) {
  const ValueId place = b.make<ArgExtremeOp>({x}, true, axis, false, false);
  const ValueId depth = b.make<GatherOp>({b.make<ShapeOp>({x}), b.ints({axis})});
  const ValueId y =
      shape == kNoValue ? kNoValue : b.make<OneHotOp>({place, depth, b.floats({0, 1})}, axis);
  if (shape == kNoValue)
    b.finish(std::make_shared<OneHotOp>(axis), {place, depth, b.floats({0, 1})});
  else
    b.finish(std::make_shared<ReshapeOp>(true), {y, shape});
}

void hardmax(NodeBuilder& b) { add_hardmax(b, b.in(0), b.attr_int("axis", -1), kNoValue); }

void hardmax_flat(NodeBuilder& b) {
  const ValueId shape = b.make<ShapeOp>({b.in(0)});
  add_hardmax(b, b.make<FlattenOp>({b.in(0)}, b.attr_int("axis", 1)), -1, shape);
}

// ---- Norms

void batch_norm(NodeBuilder& b) {
  if (b.attr_int("training_mode", 0) != 0) b.fail("training mode is not supported");
  if (b.opset < 9 && b.attr_int("spatial", 1) != 1) b.fail("spatial = 0 is not supported");
  b.only_output();
  b.finish(std::make_shared<BatchNormOp>(b.attr_float("epsilon", 1e-5f)),
           {b.in(0), b.in(1), b.in(2), b.in(3), b.in(4)});
}

// The axes from attribute `axis` on.
std::vector<int64_t> trailing_axes(const NodeBuilder& b) {
  const auto rank = b.rank(b.in(0));
  if (!rank) b.fail("the rank of the input must be known");
  const int64_t axis = b.attr_int("axis", -1);
  std::vector<int64_t> axes;
  for (int64_t i = axis < 0 ? axis + *rank : axis; i >= 0 && i < *rank; ++i) axes.push_back(i);
  if (axes.empty()) b.fail("attribute 'axis' is out of range");
  return axes;
}

cpu::Activation square_root() { return {cpu::Act::kSqrt, 0, 0}; }

void layer_norm(NodeBuilder& b) {
  const float epsilon = b.attr_float("epsilon", 1e-5f);
  b.finish(std::make_shared<LayerNormOp>(b.attr_int("axis", -1), epsilon),
           {b.in(0), b.in(1), b.opt(2)});
  if (b.out(1) == kNoValue && b.out(2) == kNoValue) return;
  // Training exports ask for the mean and the inverse deviation too.
  const ValueId axes = b.ints(trailing_axes(b));
  const ValueId mean =
      b.out(1) == kNoValue ? b.make<ReduceOp>({b.in(0), axes}, ReduceKind::kMean) : b.out(1);
  if (b.out(1) != kNoValue)
    b.add(std::make_shared<ReduceOp>(ReduceKind::kMean), {b.in(0), axes}, {mean});
  if (b.out(2) == kNoValue) return;
  const ValueId centred = b.make<BinaryOp>({b.in(0), mean}, BinaryKind::kSub);
  const ValueId square = b.make<BinaryOp>({centred, centred}, BinaryKind::kMul);
  const ValueId variance = b.make<ReduceOp>({square, axes}, ReduceKind::kMean);
  const ValueId safe = b.make<BinaryOp>({variance, b.scalar(epsilon)}, BinaryKind::kAdd);
  const ValueId deviation = b.make<UnaryOp>({safe}, "Sqrt", square_root());
  b.add(std::make_shared<UnaryOp>("Reciprocal", cpu::Activation{cpu::Act::kReciprocal, 0, 0}),
        {deviation}, {b.out(2)});
}

void instance_norm(NodeBuilder& b) {
  b.finish(std::make_shared<GroupNormOp>(0, b.attr_float("epsilon", 1e-5f)),
           {b.in(0), b.in(1), b.in(2)});
}

int64_t groups_of(const NodeBuilder& b) {
  const int64_t g = b.attr_int("num_groups", 0);
  if (g < 1 || g > (1 << 24)) b.fail("attribute 'num_groups' is out of range");
  return g;
}

// Opset 18: scale and bias per group, so groups act as channels.
void group_norm_18(NodeBuilder& b) {
  const ValueId shape = b.make<ShapeOp>({b.in(0)});
  const ValueId groups = b.make<ReshapeOp>({b.in(0), b.ints({0, groups_of(b), -1})});
  const ValueId y =
      b.make<GroupNormOp>({groups, b.in(1), b.in(2)}, 0, b.attr_float("epsilon", 1e-5f));
  b.finish(std::make_shared<ReshapeOp>(true), {y, shape});
}

void group_norm(NodeBuilder& b) {
  b.finish(std::make_shared<GroupNormOp>(groups_of(b), b.attr_float("epsilon", 1e-5f)),
           {b.in(0), b.in(1), b.in(2)});
}

void rms_norm(NodeBuilder& b) {
  const ValueId square = b.make<BinaryOp>({b.in(0), b.in(0)}, BinaryKind::kMul);
  const ValueId mean = b.make<ReduceOp>({square, b.ints(trailing_axes(b))}, ReduceKind::kMean);
  const ValueId with_epsilon =
      b.make<BinaryOp>({mean, b.scalar(b.attr_float("epsilon", 1e-5f))}, BinaryKind::kAdd);
  const ValueId rms = b.make<UnaryOp>({with_epsilon}, "Sqrt", square_root());
  const ValueId y = b.make<BinaryOp>({b.in(0), rms}, BinaryKind::kDiv);
  b.finish(std::make_shared<BinaryOp>(BinaryKind::kMul), {y, b.in(1)});
}

void lp_norm(NodeBuilder& b) {
  const int64_t p = b.attr_int("p", 2);
  if (p != 1 && p != 2) b.fail("only p = 1 and p = 2 exist");
  const ValueId norm = b.make<ReduceOp>({b.in(0), b.ints({b.attr_int("axis", -1)})},
                                        p == 1 ? ReduceKind::kL1 : ReduceKind::kL2);
  b.finish(std::make_shared<BinaryOp>(BinaryKind::kDiv), {b.in(0), norm});
}

void mean_variance_norm(NodeBuilder& b) {
  const ValueId axes = b.ints(b.attr_ints("axes", {0, 2, 3}));
  const ValueId mean = b.make<ReduceOp>({b.in(0), axes}, ReduceKind::kMean);
  const ValueId centred = b.make<BinaryOp>({b.in(0), mean}, BinaryKind::kSub);
  const ValueId square = b.make<BinaryOp>({centred, centred}, BinaryKind::kMul);
  const ValueId variance = b.make<ReduceOp>({square, axes}, ReduceKind::kMean);
  const ValueId deviation = b.make<UnaryOp>({variance}, "Sqrt", square_root());
  const ValueId safe = b.make<BinaryOp>({deviation, b.scalar(1e-9f)}, BinaryKind::kAdd);
  b.finish(std::make_shared<BinaryOp>(BinaryKind::kDiv), {centred, safe});
}

// ---- Resize

cpu::ResizeDesc resize_desc(const NodeBuilder& b) {
  cpu::ResizeDesc d;
  const std::string mode = b.attr_string("mode", "nearest");
  if (mode == "nearest")
    d.mode = ResizeMode::kNearest;
  else if (mode == "linear" || mode == "bilinear")
    d.mode = ResizeMode::kLinear;
  else if (mode == "cubic")
    d.mode = ResizeMode::kCubic;
  else
    b.fail("mode '" + mode.substr(0, 40) + "' is unknown");
  if (b.opset < 11) {
    d.coord = ResizeCoord::kAsymmetric;
    d.nearest = cpu::NearestMode::kFloor;
    return d;
  }
  const std::string coord = b.attr_string("coordinate_transformation_mode", "half_pixel");
  if (coord == "half_pixel")
    d.coord = ResizeCoord::kHalfPixel;
  else if (coord == "asymmetric")
    d.coord = ResizeCoord::kAsymmetric;
  else if (coord == "align_corners")
    d.coord = ResizeCoord::kAlignCorners;
  else if (coord == "pytorch_half_pixel")
    d.coord = ResizeCoord::kPytorchHalfPixel;
  else if (coord == "half_pixel_symmetric")
    d.coord = ResizeCoord::kHalfPixelSymmetric;
  else
    b.fail("coordinate_transformation_mode '" + coord.substr(0, 40) + "' is not supported");
  const std::string nearest = b.attr_string("nearest_mode", "round_prefer_floor");
  if (nearest == "round_prefer_floor")
    d.nearest = cpu::NearestMode::kRoundPreferFloor;
  else if (nearest == "round_prefer_ceil")
    d.nearest = cpu::NearestMode::kRoundPreferCeil;
  else if (nearest == "floor")
    d.nearest = cpu::NearestMode::kFloor;
  else if (nearest == "ceil")
    d.nearest = cpu::NearestMode::kCeil;
  else
    b.fail("nearest_mode '" + nearest.substr(0, 40) + "' is unknown");
  d.cubic_a = b.attr_float("cubic_coeff_a", -.75f);
  d.exclude_outside = b.attr_int("exclude_outside", 0) != 0;
  if (b.attr_int("antialias", 0) != 0) b.fail("antialias is not supported");
  return d;
}

bool is_empty(const NodeBuilder& b, ValueId v) {
  const Tensor* t = b.constant(v);
  return v == kNoValue || (t && t->numel() == 0);
}

// Scales or sizes of `axes` alone, completed to all four axes.
ValueId complete(NodeBuilder& b, ValueId given, const std::vector<int64_t>& axes, bool sizes) {
  if (axes == std::vector<int64_t>{0, 1, 2, 3}) return given;
  ValueId all = sizes ? b.make<ShapeOp>({b.in(0)}) : b.floats({1, 1, 1, 1});
  return b.make<ScatterElementsOp>({all, b.ints(axes), given});
}

// The sizes of `axes` that keep the aspect ratio: one scale for all, rounded half up.
ValueId keep_aspect(NodeBuilder& b, ValueId sizes, const std::vector<int64_t>& axes) {
  const std::string policy = b.attr_string("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return sizes;
  if (policy != "not_larger" && policy != "not_smaller")
    b.fail("keep_aspect_ratio_policy '" + policy.substr(0, 40) + "' is unknown");
  const ValueId all = b.make<ShapeOp>({b.in(0)});
  const ValueId old = b.make<CastOp>({b.make<GatherOp>({all, b.ints(axes)})}, DType::kF32);
  const ValueId wanted = b.make<CastOp>({sizes}, DType::kF32);
  const ValueId scales = b.make<BinaryOp>({wanted, old}, BinaryKind::kDiv);
  const ValueId scale =
      b.make<ReduceOp>({scales}, policy == "not_larger" ? ReduceKind::kMin : ReduceKind::kMax);
  const ValueId kept = b.make<BinaryOp>({old, scale}, BinaryKind::kMul);
  const ValueId half = b.make<BinaryOp>({kept, b.scalar(.5f)}, BinaryKind::kAdd);
  const ValueId down = b.make<UnaryOp>({half}, "Floor", cpu::Activation{cpu::Act::kFloor, 0, 0});
  return b.make<CastOp>({down}, DType::kI64);
}

void add_resize(NodeBuilder& b, cpu::ResizeDesc desc, ValueId scales, ValueId sizes) {
  const auto rank = b.rank(b.in(0));
  std::vector<int64_t> axes = b.attr_ints("axes");
  const int all = rank.value_or(4);
  if (all != 4) b.fail("only data of rank 4 is supported");
  if (axes.empty())
    for (int i = 0; i < all; ++i) axes.push_back(i);
  for (int64_t& a : axes) {
    if (a < 0) a += all;
    if (a < 0 || a >= all) b.fail("attribute 'axes' is out of range");
  }
  if (is_empty(b, sizes)) {
    if (is_empty(b, scales)) b.fail("needs scales or sizes");
    b.finish(std::make_shared<ResizeOp>(desc),
             {b.in(0), complete(b, scales, axes, false), kNoValue});
  } else {
    b.finish(std::make_shared<ResizeOp>(desc),
             {b.in(0), kNoValue, complete(b, keep_aspect(b, sizes, axes), axes, true)});
  }
}

void resize_10(NodeBuilder& b) { add_resize(b, resize_desc(b), b.in(1), kNoValue); }
void resize_11(NodeBuilder& b) { add_resize(b, resize_desc(b), b.opt(2), b.opt(3)); }

void upsample(NodeBuilder& b) {
  cpu::ResizeDesc d = resize_desc(b);
  d.coord = ResizeCoord::kAsymmetric;
  d.nearest = cpu::NearestMode::kFloor;
  const ValueId scales = b.opset < 9 ? b.floats(b.attr_floats("scales")) : b.in(1);
  add_resize(b, d, scales, kNoValue);
}

// ---- GridSample: images, bilinearly.

void grid_sample(NodeBuilder& b) {
  GridSampleOptions o;
  const std::string mode = b.attr_string("mode", b.opset < 20 ? "bilinear" : "linear");
  if (mode != "bilinear" && mode != "linear")
    b.fail("mode '" + mode.substr(0, 40) + "' is not supported, only bilinear");
  const std::string padding = b.attr_string("padding_mode", "zeros");
  if (padding == "zeros")
    o.padding = SamplePadding::kZeros;
  else if (padding == "border")
    o.padding = SamplePadding::kBorder;
  else
    b.fail("padding_mode '" + padding.substr(0, 40) + "' is not supported, only zeros and border");
  o.align_corners = b.attr_int("align_corners", 0) != 0;
  b.finish(std::make_shared<GridSampleOp>(o), {b.in(0), b.in(1)});
}

}  // namespace

std::vector<OpRow> nn_rows() {
  return {
      {"Conv", 1, conv},
      {"ConvTranspose", 1, conv_transpose},
      {"MaxPool", 1, pool<PoolKind::kMax>},
      {"AveragePool", 7, pool<PoolKind::kAverage>},
      {"GlobalAveragePool", 1, global_pool<PoolKind::kAverage>},
      {"GlobalMaxPool", 1, global_pool<PoolKind::kMax>},
      {"MatMul", 1, matmul},
      {"Gemm", 7, gemm},
      {"Softmax", 1, softmax_flat<false>},
      {"Softmax", 13, softmax<false>},
      {"LogSoftmax", 1, softmax_flat<true>},
      {"LogSoftmax", 13, softmax<true>},
      {"Hardmax", 1, hardmax_flat},
      {"Hardmax", 13, hardmax},
      {"BatchNormalization", 7, batch_norm},
      {"LayerNormalization", 17, layer_norm},
      {"InstanceNormalization", 6, instance_norm},
      {"GroupNormalization", 18, group_norm_18},
      {"GroupNormalization", 21, group_norm},
      {"RMSNormalization", 23, rms_norm},
      {"LpNormalization", 1, lp_norm},
      {"MeanVarianceNormalization", 9, mean_variance_norm},
      {"Resize", 10, resize_10},
      {"Resize", 11, resize_11},
      {"Upsample", 7, upsample},
      {"GridSample", 16, grid_sample},
  };
}

}  // namespace ocr
