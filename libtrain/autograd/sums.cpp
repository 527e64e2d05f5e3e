#include "libtrain/autograd/sums.h"

#include <algorithm>

namespace train {
namespace {

constexpr int64_t kBlock = 256;  // rows summed in f32 before the block's sum is handed on

int64_t blocks_of(int64_t rows) { return (rows + kBlock - 1) / kBlock; }

// y[c] = sum of x[r, c] over r < rows, in order.
void sum_rows(const float* x, int64_t rows, int64_t cols, float* y) {
  std::fill_n(y, cols, 0.f);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) y[c] += x[r * cols + c];
}

// Strides of `small` (dense) seen from `full`'s axes, 0 where it was repeated.
std::array<int64_t, Shape::kMaxRank> broadcast_strides(const Shape& small, const Shape& full) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t step = 1;
  for (int i = small.rank() - 1; i >= 0; --i) {
    strides[full.rank() - small.rank() + i] = small[i] == 1 ? 0 : step;
    step *= small[i];
  }
  return strides;
}

// y += x summed, where x is a dense block of the axes from `axis` on.
void sum_axes(const Shape& full, const int64_t* strides, int axis, const float*& x, double* y) {
  if (axis == full.rank()) {
    *y += *x++;
    return;
  }
  for (int64_t i = 0; i < full[axis]; ++i)
    sum_axes(full, strides, axis + 1, x, y + i * strides[axis]);
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
        auto* partial = static_cast<float*>(workspace);
        parallel_for(blocks_of(rows), 4, [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b)
            sum_rows(in[0].as<float>() + b * kBlock * cols, std::min(kBlock, rows - b * kBlock),
                     cols, partial + b * cols);
        });
        sum_rows(partial, blocks_of(rows), cols, out[0].as<float>());
      },
      static_cast<size_t>(blocks_of(rows) * cols) * sizeof(float));
}

void SumToOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(broadcast(inputs[0].shape, inputs[1].shape) == inputs[0].shape,
          "the sum's shape does not broadcast to the operand's");
  outputs[0] = ValueInfo(inputs[1].shape, DType::kF32);
}

std::unique_ptr<Plan> SumToOp::plan(Infos, Infos outputs, PackCache&) const {
  return make_plan(
      [](Views in, Views out, void* workspace) {
        const Shape &full = in[0].shape(), &small = out[0].shape();
        const auto strides = broadcast_strides(small, full);
        auto* sums = static_cast<double*>(workspace);
        const float* x = in[0].as<float>();
        std::fill_n(sums, small.numel(), 0.);
        sum_axes(full, strides.data(), 0, x, sums);
        std::copy_n(sums, small.numel(), out[0].as<float>());
      },
      static_cast<size_t>(outputs[0].shape.numel()) * sizeof(double));
}

}  // namespace train
