#include "libtrain/ops/move.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "libtrain/ops/strided.h"

namespace train {
namespace {

std::unique_ptr<Plan> copy_plan(StridedCopy copy, int64_t src_offset, size_t element) {
  return make_plan([copy = std::move(copy), src_offset, element](Views in, Views out, void*) {
    copy.run(static_cast<const char*>(in[0].data) + src_offset * static_cast<int64_t>(element),
             out[0].data);
  });
}

std::vector<int64_t> split_sizes(Infos inputs, size_t outputs, int64_t axis) {
  const int64_t n = inputs[0].shape.dim(axis);
  if (has_input(inputs, 1)) {
    auto sizes = constant_ints(inputs, 1, "Split's sizes");
    require(sizes.size() == outputs, "Split: as many sizes as outputs are needed");
    int64_t left = n;
    for (int64_t s : sizes) {
      require(s >= 0 && s <= left, "Split: the sizes do not add up to the axis");
      left -= s;
    }
    require(left == 0, "Split: the sizes do not add up to the axis");
    return sizes;
  }
  const auto parts = static_cast<int64_t>(outputs);
  const int64_t each = (n + parts - 1) / parts;
  std::vector<int64_t> sizes(outputs, each);
  for (size_t i = 0; i < outputs; ++i)
    sizes[i] = std::clamp<int64_t>(n - static_cast<int64_t>(i) * each, 0, each);
  return sizes;
}

}  // namespace

std::vector<SliceRange> slice_ranges(Infos inputs) {
  const Shape& x = inputs[0].shape;
  const auto starts = constant_ints(inputs, 1, "Slice's starts");
  const auto ends = constant_ints(inputs, 2, "Slice's ends");
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (has_input(inputs, 3)) axes = constant_ints(inputs, 3, "Slice's axes");
  if (has_input(inputs, 4)) steps = constant_ints(inputs, 4, "Slice's steps");
  require(
      ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "Slice: starts, ends, axes and steps differ in length");
  std::vector<SliceRange> ranges(x.rank());
  for (int i = 0; i < x.rank(); ++i) ranges[i] = {0, 1, x[i]};
  for (size_t k = 0; k < starts.size(); ++k) {
    const int a = x.axis(axes[k]);
    const int64_t n = x[a], step = steps[k];
    require(step != 0, "Slice: a step is 0");
    require(step != std::numeric_limits<int64_t>::min(), "Slice: a step is out of range");
    const auto wrap = [n](int64_t v) { return v < 0 ? v + n : v; };  // v >= INT64_MIN, n >= 0
    SliceRange& r = ranges[a];
    r.step = step;
    if (n == 0) {
      r.size = 0;
    } else if (step > 0) {
      r.begin = std::clamp<int64_t>(wrap(starts[k]), 0, n);
      const int64_t end = std::clamp<int64_t>(wrap(ends[k]), 0, n);
      r.size = end > r.begin ? (end - r.begin - 1) / step + 1 : 0;
    } else {
      r.begin = std::clamp<int64_t>(wrap(starts[k]), 0, n - 1);
      const int64_t end = std::clamp<int64_t>(wrap(ends[k]), -1, n - 1);
      r.size = r.begin > end ? (r.begin - end - 1) / -step + 1 : 0;
    }
    if (r.size <= 1) r.step = 1;  // a huge step must not overflow the strides
  }
  return ranges;
}

// ---- Transpose

std::vector<int64_t> TransposeOp::resolved(int rank) const {
  std::vector<int64_t> p = perm;
  if (p.empty())
    for (int i = rank; i-- > 0;) p.push_back(i);
  std::vector<char> seen(rank, 0);
  require(static_cast<int>(p.size()) == rank, "Transpose: perm does not fit the input's rank");
  for (int64_t& a : p) {
    if (a < 0) a += rank;
    require(a >= 0 && a < rank && !seen[a], "Transpose: perm is not a permutation");
    seen[a] = 1;
  }
  return p;
}

std::string TransposeOp::describe() const {
  std::string s = "Transpose perm=";
  for (int64_t a : perm) s += cat(a, " ");
  return s;
}

void TransposeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape& x = inputs[0].shape;
  Shape y;
  for (int64_t a : resolved(x.rank())) y.push_back(x[static_cast<int>(a)]);
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

// Reads either layout. [N, H, W, C] -> [N, C, H, W] gives channels-last: a plain copy.
LayoutChoice TransposeOp::layouts(Infos inputs, Infos) const {
  LayoutChoice choice{{inputs[0].layout}, {Layout::kLinear}};
  if (inputs[0].shape.rank() == 4 && inputs[0].dtype == DType::kF32 && !inputs[0].channels_last() &&
      resolved(4) == std::vector<int64_t>{0, 3, 1, 2})
    choice.outputs[0] = Layout::kChannelsLast;
  return choice;
}

std::unique_ptr<Plan> TransposeOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const auto src = strides_of(inputs[0]), dst = strides_of(outputs[0]);
  const auto p = resolved(inputs[0].shape.rank());
  std::vector<CopyAxis> axes;
  for (size_t i = 0; i < p.size(); ++i)
    axes.push_back({outputs[0].shape[static_cast<int>(i)], src[p[i]], dst[i]});
  const size_t element = size_of(inputs[0].dtype);
  return copy_plan(StridedCopy(std::move(axes), element), 0, element);
}

// ---- Concat

std::string ConcatOp::describe() const { return cat("Concat axis=", axis); }

void ConcatOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(!inputs.empty(), "Concat needs an input");
  Shape y = inputs[0].shape;
  const int a = y.axis(axis);
  for (size_t k = 1; k < inputs.size(); ++k) {
    const Shape& x = inputs[k].shape;
    bool fits = x.rank() == y.rank() && inputs[k].dtype == inputs[0].dtype;
    for (int i = 0; fits && i < x.rank(); ++i) fits = i == a || x[i] == y[i];
    if (!fits)
      throw ShapeError(cat("Concat: ", x.str(), " ", name_of(inputs[k].dtype), " does not fit ",
                           inputs[0].shape.str(), " ", name_of(inputs[0].dtype), " along axis ",
                           axis));
    y[a] += x[a];
    require(y[a] >= 0, "Concat: the axis is too long");
  }
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

// One channels-last input is enough: reordering the others costs less than leaving the layout.
LayoutChoice ConcatOp::layouts(Infos inputs, Infos outputs) const {
  Layout layout = Layout::kLinear;
  if (outputs[0].shape.rank() == 4 && outputs[0].dtype == DType::kF32)
    for (const ValueInfo& v : inputs)
      if (v.channels_last()) layout = Layout::kChannelsLast;
  return {std::vector<Layout>(inputs.size(), layout), {layout}};
}

std::unique_ptr<Plan> ConcatOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const ValueInfo& y = outputs[0];
  const auto dst = strides_of(y);
  const int a = y.shape.axis(axis);
  struct Part {
    StridedCopy copy;
    int64_t offset;  // bytes into y
  };
  std::vector<Part> parts;
  int64_t at = 0;
  for (const ValueInfo& v : inputs) {
    const auto src = strides_of(v);
    std::vector<CopyAxis> axes;
    for (int i = 0; i < v.shape.rank(); ++i) axes.push_back({v.shape[i], src[i], dst[i]});
    parts.push_back({StridedCopy(std::move(axes), size_of(y.dtype)),
                     at * dst[a] * static_cast<int64_t>(size_of(y.dtype))});
    at += v.shape[a];
  }
  return make_plan([parts = std::move(parts)](Views in, Views out, void*) {
    for (size_t i = 0; i < parts.size(); ++i) {
      char* to = out[0].as<char>() + parts[i].offset;
      // The planner may have let the input be made in its place.
      if (in[i].data != to) parts[i].copy.run(in[i].data, to);
    }
  });
}

// ---- Split

std::string SplitOp::describe() const { return cat("Split axis=", axis); }

void SplitOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const int a = inputs[0].shape.axis(axis);
  const auto sizes = split_sizes(inputs, outputs.size(), axis);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Shape y = inputs[0].shape;
    y[a] = sizes[i];
    outputs[i] = ValueInfo(y, inputs[0].dtype);
  }
}

LayoutChoice SplitOp::layouts(Infos inputs, Infos outputs) const {
  return follow_input(inputs, outputs);
}

std::unique_ptr<Plan> SplitOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const auto src = strides_of(inputs[0]);
  const int a = inputs[0].shape.axis(axis);
  const auto sizes = split_sizes(inputs, outputs.size(), axis);
  const auto element = static_cast<int64_t>(size_of(inputs[0].dtype));
  struct Part {
    StridedCopy copy;
    int64_t offset;  // bytes into x
  };
  std::vector<Part> parts;
  int64_t at = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto dst = strides_of(outputs[k]);
    std::vector<CopyAxis> axes;
    for (int i = 0; i < inputs[0].shape.rank(); ++i)
      axes.push_back({outputs[k].shape[i], src[i], dst[i]});
    parts.push_back(
        {StridedCopy(std::move(axes), size_of(inputs[0].dtype)), at * src[a] * element});
    at += sizes[k];
  }
  return make_plan([parts = std::move(parts)](Views in, Views out, void*) {
    for (size_t k = 0; k < parts.size(); ++k)
      if (out[k].data) parts[k].copy.run(in[0].as<char>() + parts[k].offset, out[k].data);
  });
}

// ---- Slice

void SliceOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  Shape y;
  for (const SliceRange& r : slice_ranges(inputs)) y.push_back(r.size);
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

LayoutChoice SliceOp::layouts(Infos inputs, Infos outputs) const {
  return follow_input(inputs, outputs);
}

std::unique_ptr<Plan> SliceOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const auto src = strides_of(inputs[0]), dst = strides_of(outputs[0]);
  const auto ranges = slice_ranges(inputs);
  std::vector<CopyAxis> axes;
  int64_t offset = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].size > 0) offset += ranges[i].begin * src[i];
    axes.push_back({ranges[i].size, src[i] * ranges[i].step, dst[i]});
  }
  const size_t element = size_of(inputs[0].dtype);
  return copy_plan(StridedCopy(std::move(axes), element), offset, element);
}

// ---- Expand, Tile

void ExpandOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape wanted(constant_ints(inputs, 1, "Expand's shape"));
  const Shape y = broadcast(inputs[0].shape, wanted);
  y.numel();  // throws when impossible
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

std::unique_ptr<Plan> ExpandOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Shape &x = inputs[0].shape, &y = outputs[0].shape;
  const auto src = strides_of(inputs[0]), dst = strides_of(outputs[0]);
  std::vector<CopyAxis> axes;
  for (int i = 0; i < y.rank(); ++i) {
    const int k = i - (y.rank() - x.rank());
    axes.push_back({y[i], k < 0 || x[k] == 1 ? 0 : src[k], dst[i]});
  }
  const size_t element = size_of(inputs[0].dtype);
  return copy_plan(StridedCopy(std::move(axes), element), 0, element);
}

void TileOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const auto repeats = constant_ints(inputs, 1, "Tile's repeats");
  Shape y = inputs[0].shape;
  require(static_cast<int>(repeats.size()) == y.rank(), "Tile needs one repeat per axis");
  for (int i = 0; i < y.rank(); ++i)
    require(repeats[i] >= 0 && !__builtin_mul_overflow(y[i], repeats[i], &y[i]),
            "Tile: a repeat is out of range");
  y.numel();
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

std::unique_ptr<Plan> TileOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Shape& x = inputs[0].shape;
  const auto repeats = constant_ints(inputs, 1, "Tile's repeats");
  const auto src = strides_of(inputs[0]), dst = strides_of(outputs[0]);
  std::vector<CopyAxis> axes;
  for (int i = 0; i < x.rank(); ++i) {
    axes.push_back({repeats[i], 0, dst[i] * x[i]});
    axes.push_back({x[i], src[i], dst[i]});
  }
  const size_t element = size_of(inputs[0].dtype);
  return copy_plan(StridedCopy(std::move(axes), element), 0, element);
}

// ---- DepthToSpace, SpaceToDepth

std::string DepthSpaceOp::describe() const {
  return cat(type(), " blocksize=", block, column_row_depth ? " mode=CRD" : "");
}

LayoutChoice DepthSpaceOp::follow_image(Infos inputs, Infos outputs) {
  return follow_input(inputs, outputs);
}

void DepthSpaceOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape& x = inputs[0].shape;
  require(x.rank() == 4 && block > 0 && block < (int64_t{1} << 20),
          "DepthToSpace and SpaceToDepth need an image batch and a block size");
  if (to_space) {
    require(x[1] % (block * block) == 0, "DepthToSpace: the block does not divide the channels");
    outputs[0] =
        ValueInfo(Shape{x[0], x[1] / (block * block), x[2] * block, x[3] * block}, inputs[0].dtype);
  } else {
    require(x[2] % block == 0 && x[3] % block == 0,
            "SpaceToDepth: the block does not divide the image");
    outputs[0] =
        ValueInfo(Shape{x[0], x[1] * block * block, x[2] / block, x[3] / block}, inputs[0].dtype);
  }
}

// Axes of both: n, c, h, w, and the place by, bx inside a block. "deep" is the side with many
// channels.
std::unique_ptr<Plan> DepthSpaceOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const ValueInfo &deep = to_space ? inputs[0] : outputs[0],
                  &wide = to_space ? outputs[0] : inputs[0];
  const auto d = strides_of(deep), s = strides_of(wide);
  const int64_t c = wide.shape[1], b = block;
  const int64_t channel = column_row_depth ? d[1] * b * b : d[1];
  const int64_t by = column_row_depth ? d[1] * b : d[1] * b * c;
  const int64_t bx = column_row_depth ? d[1] : d[1] * c;
  std::vector<CopyAxis> axes = {{deep.shape[0], d[0], s[0]},     {c, channel, s[1]},
                                {deep.shape[2], d[2], b * s[2]}, {b, by, s[2]},
                                {deep.shape[3], d[3], b * s[3]}, {b, bx, s[3]}};
  if (!to_space)
    for (CopyAxis& a : axes) std::swap(a.src, a.dst);
  const size_t element = size_of(inputs[0].dtype);
  return copy_plan(StridedCopy(std::move(axes), element), 0, element);
}

}  // namespace train
