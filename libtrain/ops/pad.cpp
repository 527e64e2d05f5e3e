// Pad and Trilu.
#include <algorithm>
#include <cstring>

#include "libtrain/ops/move.h"
#include "libtrain/ops/strided.h"

namespace train {
namespace {

struct Pads {
  std::vector<int64_t> begin, end;
};

constexpr int64_t kMaxPad = int64_t{1} << 40;

Pads resolve_pads(Infos inputs) {
  const Shape& x = inputs[0].shape;
  const auto given = constant_ints(inputs, 1, "Pad's pads");
  std::vector<int64_t> axes;
  if (has_input(inputs, 3)) {
    axes = constant_ints(inputs, 3, "Pad's axes");
  } else {
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  require(given.size() == 2 * axes.size(), "Pad needs two pads per axis");
  Pads p{std::vector<int64_t>(x.rank(), 0), std::vector<int64_t>(x.rank(), 0)};
  for (size_t k = 0; k < axes.size(); ++k) {
    const int a = x.axis(axes[k]);
    p.begin[a] = given[k];
    p.end[a] = given[k + axes.size()];
    for (const int64_t pad : {p.begin[a], p.end[a]})
      require(-kMaxPad < pad && pad < kMaxPad, "Pad: a pad is out of range");
  }
  return p;
}

// Where place i of a padded axis comes from, for an axis of n elements.
int64_t source_index(PadMode mode, int64_t i, int64_t n) {
  if (mode == PadMode::kEdge) return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == PadMode::kWrap) return (i % n + n) % n;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1);
  const int64_t r = (i % period + period) % period;
  return r < n ? r : period - r;
}

// Copies by a source offset per index of each axis: what reflections need.
template <class T>
void gather_axes(const T* src, T* dst, const Shape& y,
                 const std::vector<std::vector<int64_t>>& from,
                 const std::array<int64_t, Shape::kMaxRank>& dst_strides) {
  const int rank = y.rank();
  if (rank == 0) {
    *dst = *src;
    return;
  }
  const int64_t cols = y[rank - 1], rows = y.count(0, rank - 1);
  parallel_for(rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(cols, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   int64_t s = 0, d = 0, rest = r;
                   for (int k = rank - 2; k >= 0; --k) {
                     s += from[k][rest % y[k]];
                     d += rest % y[k] * dst_strides[k];
                     rest /= y[k];
                   }
                   const int64_t* columns = from[rank - 1].data();
                   const int64_t step = dst_strides[rank - 1];
                   for (int64_t c = 0; c < cols; ++c) dst[d + c * step] = src[s + columns[c]];
                 }
               });
}

std::unique_ptr<Plan> mirrored_plan(PadMode mode, const Pads& p, const ValueInfo& x,
                                    const ValueInfo& y) {
  if (y.shape.numel() == 0) return make_plan([](Views, Views, void*) {});  // an axis may be huge
  const auto src = strides_of(x), dst = strides_of(y);
  std::vector<std::vector<int64_t>> from(y.shape.rank());
  for (int a = 0; a < y.shape.rank(); ++a)
    for (int64_t i = 0; i < y.shape[a]; ++i)
      from[a].push_back(source_index(mode, i - p.begin[a], x.shape[a]) * src[a]);
  return make_plan([=, shape = y.shape, element = size_of(x.dtype)](Views in, Views out, void*) {
    const auto go = [&](auto type) {
      using T = decltype(type);
      gather_axes(in[0].as<const T>(), out[0].as<T>(), shape, from, dst);
    };
    switch (element) {
      case 1:
        return go(uint8_t{});
      case 2:
        return go(uint16_t{});
      case 4:
        return go(uint32_t{});
      default:
        return go(uint64_t{});
    }
  });
}

}  // namespace

std::string PadOp::describe() const {
  constexpr const char* names[] = {"constant", "reflect", "edge", "wrap"};
  return cat("Pad mode=", names[static_cast<int>(mode)]);
}

void PadOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Pads p = resolve_pads(inputs);
  Shape y = inputs[0].shape;
  for (int i = 0; i < y.rank(); ++i) {
    require(mode == PadMode::kConstant || y[i] > 0 || (p.begin[i] <= 0 && p.end[i] <= 0),
            "Pad: an empty axis has nothing to repeat");
    y[i] += p.begin[i] + p.end[i];
    require(y[i] >= 0, "Pad: negative pads crop more than the axis has");
  }
  y.numel();
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

LayoutChoice PadOp::layouts(Infos inputs, Infos outputs) const {
  return follow_input(inputs, outputs);
}

std::unique_ptr<Plan> PadOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const ValueInfo &x = inputs[0], &y = outputs[0];
  const Pads p = resolve_pads(inputs);
  if (mode != PadMode::kConstant) return mirrored_plan(mode, p, x, y);
  const auto src = strides_of(x), dst = strides_of(y);
  std::vector<CopyAxis> fill, copy;
  int64_t src_offset = 0, dst_offset = 0;
  for (int i = 0; i < y.shape.rank(); ++i) {
    fill.push_back({y.shape[i], 0, dst[i]});
    const int64_t from = std::max<int64_t>(0, -p.begin[i]);
    const int64_t to = std::max<int64_t>(0, p.begin[i]);
    const int64_t kept = x.shape[i] - from - std::max<int64_t>(0, -p.end[i]);
    copy.push_back({std::max<int64_t>(0, kept), src[i], dst[i]});
    src_offset += from * src[i];
    dst_offset += to * dst[i];
  }
  const auto element = static_cast<int64_t>(size_of(x.dtype));
  const size_t value = has_input(inputs, 2) ? 2 : 0;
  return make_plan([f = StridedCopy(std::move(fill), size_of(x.dtype)),
                    c = StridedCopy(std::move(copy), size_of(x.dtype)), so = src_offset * element,
                    to = dst_offset * element, value](Views in, Views out, void*) {
    const uint64_t zero = 0;
    f.run(value ? in[value].data : &zero, out[0].data);
    c.run(in[0].as<char>() + so, out[0].as<char>() + to);
  });
}

// ---- Trilu

std::string TriluOp::describe() const { return cat("Trilu upper=", upper); }

void TriluOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs[0].shape.rank() >= 2, "Trilu needs at least two axes");
  if (has_input(inputs, 1)) constant_ints(inputs, 1, "Trilu's k");
  outputs[0] = ValueInfo(inputs[0].shape, inputs[0].dtype);
}

std::unique_ptr<Plan> TriluOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Shape& x = outputs[0].shape;
  const int64_t cols = x.dim(-1), rows = x.dim(-2), all = x.count(0, x.rank() - 1);
  int64_t k = 0;
  if (has_input(inputs, 1)) {
    const auto given = constant_ints(inputs, 1, "Trilu's k");
    require(given.size() == 1, "Trilu: k is one number");
    k = std::clamp<int64_t>(given[0], -rows - 1, cols + 1);
  }
  const size_t e = size_of(inputs[0].dtype);
  return make_plan([=, up = upper](Views in, Views out, void*) {
    for (int64_t r = 0; r < all; ++r) {
      // Columns [from, to) of the row are kept.
      const int64_t edge = std::clamp<int64_t>(r % rows + k + (up ? 0 : 1), 0, cols);
      const int64_t from = up ? edge : 0, to = up ? cols : edge;
      char* y = out[0].as<char>() + r * cols * static_cast<int64_t>(e);
      std::memset(y, 0, static_cast<size_t>(cols) * e);
      const int64_t at = from * static_cast<int64_t>(e);
      std::memcpy(y + at, in[0].as<char>() + r * cols * static_cast<int64_t>(e) + at,
                  static_cast<size_t>(to - from) * e);
    }
  });
}

}  // namespace train
