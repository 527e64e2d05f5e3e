#include "libtrain/autograd/sums.h"

#include <algorithm>
#include <vector>

#include "libtrain/autograd/kernels.h"
#include "libtrain/cpu/reduce.h"
#include "libtrain/ops/strided.h"

namespace train {
namespace {

// A sum over some axes of a dense array in memory order, neighbouring axes of a kind merged:
// out[k0, k1] = sum of x[r0, k0, r1, k1, r2]. What does not fit (five runs or more) has `fits`
// false.
struct Nest {
  int64_t r0 = 1, k0 = 1, r1 = 1, k1 = 1, r2 = 1;
  bool fits = true;
};

// Axes of `full` in memory order and whether each is kept.
Nest nest_of(const ValueInfo& full, const Shape& small) {
  const int rank = full.shape.rank(), shift = rank - small.rank();
  constexpr int image_order[] = {0, 2, 3, 1};
  Nest n;
  int stage = 0;  // r0, k0, r1, k1, r2
  int64_t* runs[] = {&n.r0, &n.k0, &n.r1, &n.k1, &n.r2};
  for (int i = 0; i < rank; ++i) {
    const int d = full.channels_last() ? image_order[i] : i;
    if (full.shape[d] == 1) continue;
    const bool kept = d >= shift && small[d - shift] != 1;
    if ((stage % 2 == 1) != kept) ++stage;
    if (stage > 4) {
      n.fits = false;
      return n;
    }
    *runs[stage] *= full.shape[d];
  }
  return n;
}

// Sums `rows` rows of `cols` in blocks; partial holds row_blocks(rows) * cols floats.
template <class BlockSum>
void blocked_rows(int64_t rows, int64_t cols, float* partial, float* y, BlockSum&& block_sum) {
  for_row_blocks(rows, cols,
                 [&](int64_t b, int64_t r0, int64_t r1) { block_sum(r0, r1, partial + b * cols); });
  add_blocks(partial, row_blocks(rows), cols, y);
}

// y[i] = sum over j < n of x[i, j] (b null) or of x[i, j] b[i, j], rows of any length.
void sum_cols(const float* x, const float* b, int64_t rows, int64_t n, float* y) {
  const cpu::GradTable& t = grad_kernels();
  constexpr int64_t kChunk = 1024;
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < n; j += kChunk) {
        const int64_t len = std::min(kChunk, n - j);
        float part = 0;
        if (b)
          t.dot_cols(x + r * n + j, b + r * n + j, 1, len, &part);
        else
          for (int64_t i = 0; i < len; ++i) part += x[r * n + j + i];
        sum += part;
      }
      y[r] = static_cast<float>(sum);
    }
  });
}

// out[k0, k1] = sum of x (times b unless null) over the nest's r axes; the workspace holds what
// workspace_floats() says.
void sum_nest(const Nest& n, const float* x, const float* b, float* out, float* workspace) {
  const cpu::GradTable& t = grad_kernels();
  if (n.k1 == 1) {  // [r0, k0, r1]
    if (n.k0 == 1) return sum_cols(x, b, 1, n.r0 * n.r1, out);
    float* inner = workspace;  // [r0, k0]
    float* partial = workspace + n.r0 * n.k0;
    if (n.r1 > 1) {
      float* to = n.r0 > 1 ? inner : out;
      sum_cols(x, b, n.r0 * n.k0, n.r1, to);
      if (n.r0 == 1) return;
      x = inner;
      b = nullptr;
    }
    return blocked_rows(n.r0, n.k0, partial, out, [&](int64_t r0, int64_t r1, float* y) {
      if (!b)
        return cpu::reduce_rows(cpu::ReduceOp::kSum, x + r0 * n.k0, n.k0, 1, r1 - r0, n.k0, y,
                                n.k0);
      std::fill_n(y, n.k0, 0.f);
      t.dot_rows(x + r0 * n.k0, b + r0 * n.k0, r1 - r0, n.k0, y);
    });
  }
  // [k0, r1, k1]: the blocks of all images are dealt out together.
  const int64_t image = n.r1 * n.k1, blocks = row_blocks(n.r1);
  parallel_for(
      n.k0 * blocks, row_grain(std::min(kBlockRows, n.r1) * n.k1), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t r0 = i % blocks * kBlockRows, rows = std::min(kBlockRows, n.r1 - r0);
          const int64_t at = i / blocks * image + r0 * n.k1;
          float* y = workspace + i * n.k1;
          if (!b) {
            cpu::reduce_rows(cpu::ReduceOp::kSum, x + at, n.k1, 1, rows, n.k1, y, n.k1);
            continue;
          }
          std::fill_n(y, n.k1, 0.f);
          t.dot_rows(x + at, b + at, rows, n.k1, y);
        }
      });
  for (int64_t k = 0; k < n.k0; ++k)
    add_blocks(workspace + k * blocks * n.k1, blocks, n.k1, out + k * n.k1);
}

bool is_fast(const Nest& n) { return n.fits && n.r2 == 1 && (n.k1 == 1 || n.r0 == 1); }

int64_t workspace_floats(const Nest& n) {
  if (n.k1 == 1) return n.r0 * n.k0 + row_blocks(n.r0) * n.k0;
  return n.k0 * row_blocks(n.r1) * n.k1;
}

// Any nest, one element at a time in memory order, in double.
void sum_any(const ValueInfo& full, const Shape& small, const float* x, const float* b,
             double* sums) {
  const auto strides = strides_of(full);
  std::array<int64_t, Shape::kMaxRank> small_strides{};
  int64_t step = 1;
  for (int i = small.rank() - 1; i >= 0; --i) {
    small_strides[full.shape.rank() - small.rank() + i] = small[i] == 1 ? 0 : step;
    step *= small[i];
  }
  std::array<int64_t, Shape::kMaxRank> at{};
  int64_t from = 0, to = 0;
  for (int64_t left = full.shape.numel(); left > 0; --left) {
    sums[to] += b ? double{x[from]} * b[from] : double{x[from]};
    for (int d = full.shape.rank() - 1; d >= 0; --d) {
      from += strides[d];
      to += small_strides[d];
      if (++at[d] < full.shape[d]) break;
      from -= strides[d] * full.shape[d];
      to -= small_strides[d] * full.shape[d];
      at[d] = 0;
    }
  }
}

std::unique_ptr<Plan> sum_plan(const ValueInfo& full, const Shape& small, bool product) {
  const Nest n = nest_of(full, small);
  const size_t doubles = static_cast<size_t>(small.numel()) * sizeof(double);
  if (!is_fast(n))
    return make_plan(
        [product, small](Views in, Views out, void* workspace) {
          auto* sums = static_cast<double*>(workspace);
          std::fill_n(sums, small.numel(), 0.);
          sum_any(*in[0].info, small, in[0].as<float>(), product ? in[1].as<float>() : nullptr,
                  sums);
          std::copy_n(sums, small.numel(), out[0].as<float>());
        },
        doubles);
  return make_plan(
      [n, product](Views in, Views out, void* workspace) {
        sum_nest(n, in[0].as<float>(), product ? in[1].as<float>() : nullptr, out[0].as<float>(),
                 static_cast<float*>(workspace));
      },
      static_cast<size_t>(workspace_floats(n)) * sizeof(float));
}

// Images stay as they are; the sum itself is linear, which costs nothing where it has one pixel per
// image.
LayoutChoice sum_layouts(Infos inputs, const Shape& small) {
  LayoutChoice c{std::vector<Layout>(inputs.size(), Layout::kLinear), {Layout::kLinear}};
  if (!inputs[0].channels_last()) return c;
  // Channels beside pixels would come out in the image's order.
  const auto at = [&](int i) { return i < 0 ? 1 : small[i]; };
  const int r = small.rank();
  const bool kept_order = at(r - 3) == 1 || (at(r - 2) == 1 && at(r - 1) == 1);
  if (!kept_order) return c;
  for (size_t i = 0; i + 1 < inputs.size(); ++i) c.inputs[i] = Layout::kChannelsLast;
  return c;
}

}  // namespace

void ChannelSumOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape& x = inputs[0].shape;
  require(x.rank() >= 1, "a scalar has no channels");
  outputs[0] = ValueInfo(Shape{x.rank() == 4 ? x[1] : x.dim(-1)}, DType::kF32);
}

LayoutChoice ChannelSumOp::layouts(Infos inputs, Infos) const {
  return {{inputs[0].shape.rank() == 4 ? Layout::kChannelsLast : Layout::kLinear},
          {Layout::kLinear}};
}

std::unique_ptr<Plan> ChannelSumOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const int64_t cols = outputs[0].shape[0];
  const int64_t rows = cols ? inputs[0].shape.numel() / cols : 0;
  return make_plan(
      [rows, cols](Views in, Views out, void* workspace) {
        const auto* x = in[0].as<float>();
        blocked_rows(rows, cols, static_cast<float*>(workspace), out[0].as<float>(),
                     [&](int64_t r0, int64_t r1, float* y) {
                       cpu::reduce_rows(cpu::ReduceOp::kSum, x + r0 * cols, cols, 1, r1 - r0, cols,
                                        y, cols);
                     });
      },
      static_cast<size_t>(row_blocks(rows) * cols) * sizeof(float));
}

void SumToOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(broadcast(inputs[0].shape, inputs[1].shape) == inputs[0].shape,
          "the sum's shape does not broadcast to the operand's");
  outputs[0] = ValueInfo(inputs[1].shape, DType::kF32);
}

LayoutChoice SumToOp::layouts(Infos inputs, Infos) const {
  return sum_layouts(inputs, inputs[1].shape);
}

std::unique_ptr<Plan> SumToOp::plan(Infos inputs, Infos, PackCache&) const {
  return sum_plan(inputs[0], inputs[1].shape, false);
}

void DotToOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs[0].shape == inputs[1].shape &&
              broadcast(inputs[0].shape, inputs[2].shape) == inputs[0].shape,
          "the sum's shape does not broadcast to the operands'");
  outputs[0] = ValueInfo(inputs[2].shape, DType::kF32);
}

LayoutChoice DotToOp::layouts(Infos inputs, Infos) const {
  return sum_layouts(inputs, inputs[2].shape);
}

std::unique_ptr<Plan> DotToOp::plan(Infos inputs, Infos, PackCache&) const {
  return sum_plan(inputs[0], inputs[2].shape, true);
}

}  // namespace train
