#include "libtrain/autograd/conv_weight_grad.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/row_product.h"
#include "libtrain/autograd/weight_gemm.h"
#include "libtrain/cpu/packed.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

// Planes and padded dy of one batch slice stay below this, unless one image alone needs more.
constexpr int64_t kSliceFloats = int64_t{2} << 20;
constexpr int64_t kSlack = 4;  // bytes

// A tap's plane (stride phase) and its shift in the plane, along one axis.
struct TapAxis {
  int phase, shift;
};

struct Problem {
  int64_t n, h, w, cin, cout, groups, oh, ow;
  std::array<int, 2> kernel, stride, dilation, before;
  cpu::Precision precision;

  bool bf16() const { return precision == cpu::Precision::kBf16; }
  int64_t element() const { return bf16() ? 2 : 4; }  // bytes of one in a plane
  int64_t ci() const { return cin / groups; }
  int64_t co() const { return cout / groups; }
  TapAxis tap(int axis, int k) const {
    return {k * dilation[axis] % stride[axis], k * dilation[axis] / stride[axis]};
  }
  int max_shift(int axis) const { return (kernel[axis] - 1) * dilation[axis] / stride[axis]; }
  // A plane covers what the windows reach at one phase: [plane_h, plane_w].
  int64_t plane_h() const { return oh + max_shift(0); }
  int64_t plane_w() const { return ow + max_shift(1); }
  int64_t plane() const { return plane_h() * plane_w(); }
  // Elements between the planes of two channels of `images` images.
  int64_t plane_stride(int64_t images) const { return (images * plane() + 1) / 2 * 2; }
  // No tap reaches beyond its own output pixel (1x1): dy serves as it is.
  bool unpadded() const { return plane_h() == oh && plane_w() == ow; }
  // x and dy have the same pixels: a product over them, with nothing to shift or pad.
  bool is_pointwise() const {
    return groups == 1 && kernel == std::array{1, 1} && stride == std::array{1, 1} && h == oh &&
           w == ow;
  }
  // Phases of both axes that some tap uses, as (row phase, column phase).
  std::vector<std::array<int, 2>> phases() const {
    std::vector<std::array<int, 2>> used;
    for (int ky = 0; ky < kernel[0]; ++ky)
      for (int kx = 0; kx < kernel[1]; ++kx) {
        const std::array<int, 2> p{tap(0, ky).phase, tap(1, kx).phase};
        if (std::ranges::find(used, p) == used.end()) used.push_back(p);
      }
    return used;
  }
};

// One row of one phase's planes, all channels: plane[c * ld + q] = x at column q * stride + phase -
// pad, zero outside the image. x: row of the image, [w, cin], or null for a row outside.
void fill_plane_row(const Problem& p, const float* x, int phase, char* plane, int64_t ld) {
  const int64_t width = p.plane_w(), size = p.element();
  const int64_t offset = phase - p.before[1], stride = p.stride[1];
  // Columns [q0, q1) lie inside the image.
  int64_t q0 = 0, q1 = 0;
  if (x) {
    q0 = std::clamp<int64_t>(offset >= 0 ? 0 : (-offset + stride - 1) / stride, 0, width);
    q1 = std::clamp<int64_t>(p.w > offset ? (p.w - offset + stride - 1) / stride : 0, q0, width);
  }
  for (int64_t c = 0; c < p.cin; ++c) {
    char* row = plane + c * ld * size;
    std::memset(row, 0, static_cast<size_t>(q0 * size));
    std::memset(row + q1 * size, 0, static_cast<size_t>((width - q1) * size));
  }
  const cpu::KernelTable& t = cpu::kernels(p.precision);
  constexpr int64_t kTile = 32;
  float tile[kTile * kTile];
  for (int64_t q = q0; q < q1; q += kTile)
    for (int64_t c = 0; c < p.cin; c += kTile) {
      const int64_t pixels = std::min(kTile, q1 - q), channels = std::min(kTile, p.cin - c);
      const float* from = x + (q * stride + offset) * p.cin + c;
      char* to = plane + (c * ld + q) * size;
      if (!p.bf16()) {
        t.transpose2d(from, stride * p.cin, reinterpret_cast<float*>(to), ld, pixels, channels);
        continue;
      }
      t.transpose2d(from, stride * p.cin, tile, kTile, pixels, channels);
      for (int64_t i = 0; i < channels; ++i)
        t.round_words(tile + i * kTile, pixels, to + i * ld * size);
    }
}

// Planes of `images` images: [phase][cin][images][plane_h][plane_w].
void fill_planes(const Problem& p, const float* x, int64_t images, char* planes) {
  const auto phases = p.phases();
  const int64_t rows = p.plane_h(), ld = p.plane_stride(images), size = p.element();
  // What an odd sum's last pair reads beyond the planes.
  std::memset(planes + static_cast<int64_t>(phases.size()) * p.cin * ld * size, 0, kSlack);
  parallel_for(images * rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / rows, r = i % rows;
      for (size_t f = 0; f < phases.size(); ++f) {
        const int64_t y = r * p.stride[0] + phases[f][0] - p.before[0];
        const float* row = y < 0 || y >= p.h ? nullptr : x + (image * p.h + y) * p.w * p.cin;
        char* plane = planes + (static_cast<int64_t>(f) * p.cin * ld + i * p.plane_w()) * size;
        fill_plane_row(p, row, phases[f][1], plane, ld);
      }
    }
  });
}

// dy with its rows and columns padded by zeros to the planes' size: [images, plane_h, plane_w,
// cout].
void pad_output_grad(const Problem& p, const float* dy, int64_t images, float* padded) {
  const int64_t rows = p.plane_h(), width = p.plane_w() * p.cout, used = p.ow * p.cout;
  parallel_for(images * rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / rows, r = i % rows;
      const int64_t copied = r < p.oh ? used : 0;
      std::copy_n(dy + (image * p.oh + r) * used, copied, padded + i * width);
      std::fill(padded + i * width + copied, padded + (i + 1) * width, 0.f);
    }
  });
}

int64_t images_per_slice(const Problem& p, size_t phases) {
  const int64_t per_image = p.plane() * (p.cin * static_cast<int64_t>(phases) + p.cout);
  return std::clamp<int64_t>(kSliceFloats / std::max<int64_t>(per_image, 1), 1, p.n);
}

// sums: [taps, ci, co] of one group -> dw [M, ci, taps] at that group.
void scatter_group(const Problem& p, int64_t group, const float* sums, float* dw) {
  const int64_t taps = int64_t{p.kernel[0]} * p.kernel[1], ci = p.ci(), co = p.co();
  for (int64_t o = 0; o < co; ++o)
    for (int64_t i = 0; i < ci; ++i)
      for (int64_t t = 0; t < taps; ++t)
        dw[((group * co + o) * ci + i) * taps + t] = sums[(t * ci + i) * co + o];
}

// The rows of A for one group: every tap's shifted planes.
std::vector<RowGroup> tap_rows(const Problem& p, int64_t group, const char* planes, int64_t ld) {
  const auto phases = p.phases();
  std::vector<RowGroup> rows;
  for (int ky = 0; ky < p.kernel[0]; ++ky)
    for (int kx = 0; kx < p.kernel[1]; ++kx) {
      const TapAxis ty = p.tap(0, ky), tx = p.tap(1, kx);
      const auto phase = std::ranges::find(phases, std::array{ty.phase, tx.phase}) - phases.begin();
      rows.push_back(
          {planes + ((phase * p.cin + group * p.ci()) * ld + ty.shift * p.plane_w() + tx.shift) *
                        p.element(),
           ld, p.ci()});
    }
  return rows;
}

// Layout of the workspace, in floats: planes, padded dy, sums of all groups.
struct DenseBuffers {
  int64_t slice, planes, padded, sums;

  explicit DenseBuffers(const Problem& p) {
    const size_t phases = p.phases().size();
    slice = images_per_slice(p, phases);
    const int64_t bytes =
        static_cast<int64_t>(phases) * p.cin * p.plane_stride(slice) * p.element() + kSlack;
    planes = (bytes + 63) / 64 * 16;
    padded = p.unpadded() ? 0 : slice * p.plane() * p.cout;
    sums = int64_t{p.kernel[0]} * p.kernel[1] * p.ci() * p.cout;
  }
  size_t bytes() const { return static_cast<size_t>(planes + padded + sums) * sizeof(float); }
};

void dense_weight_grad(const Problem& p, const float* x, const float* dy, float* dw,
                       float* workspace) {
  const DenseBuffers sizes(p);
  auto* planes = reinterpret_cast<char*>(workspace);
  float *padded = workspace + sizes.planes, *sums = padded + sizes.padded;
  const int64_t group_sums = sizes.sums / p.groups;
  for (int64_t i = 0; i < p.n; i += sizes.slice) {
    const int64_t images = std::min(sizes.slice, p.n - i);
    fill_planes(p, x + i * p.h * p.w * p.cin, images, planes);
    const float* out_grad = dy + i * p.oh * p.ow * p.cout;
    if (!p.unpadded()) pad_output_grad(p, std::exchange(out_grad, padded), images, padded);
    const int64_t ld = p.plane_stride(images);
    // The last output pixel ends the sum: beyond it a shifted plane would run out.
    const int64_t length = (images - 1) * p.plane() + (p.oh - 1) * p.plane_w() + p.ow;
    for (int64_t g = 0; g < p.groups; ++g)
      weight_gemm(tap_rows(p, g, planes, ld), out_grad + g * p.co(), p.cout, length, p.co(),
                  sums + g * group_sums, i > 0, p.precision);
  }
  for (int64_t g = 0; g < p.groups; ++g) scatter_group(p, g, sums + g * group_sums, dw);
}

constexpr int64_t kLanes = 16;  // channels per task: one cache line of f32

// acc[tap][lane] = the products of one output row of one image; x and dy stand at the first lane.
void depthwise_row(const Problem& p, const float* x, const float* dy, int64_t oy, int64_t lanes,
                   float* acc) {
  const cpu::GradTable& t = grad_kernels();
  const cpu::DepthwiseRowArgs g{p.cin,       p.w,           p.ow,        p.kernel[1],
                                p.stride[1], p.dilation[1], p.before[1], lanes};
  for (int ky = 0; ky < p.kernel[0]; ++ky) {
    const int64_t y = oy * p.stride[0] - p.before[0] + ky * p.dilation[0];
    if (y < 0 || y >= p.h) continue;
    t.depthwise_weight_row(g, x + y * p.w * p.cin, dy + oy * p.ow * p.cin,
                           acc + ky * p.kernel[1] * kLanes);
  }
}

// One channel per group. Each output row is summed on its own, then added in double.
void depthwise_weight_grad(const Problem& p, const float* x, const float* dy, float* dw) {
  const int64_t taps = int64_t{p.kernel[0]} * p.kernel[1];
  parallel_for((p.cin + kLanes - 1) / kLanes, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(taps * kLanes));
    std::vector<double> total(row.size());
    for (int64_t block = begin; block < end; ++block) {
      const int64_t c0 = block * kLanes, lanes = std::min(kLanes, p.cin - c0);
      std::ranges::fill(total, 0.);
      for (int64_t i = 0; i < p.n; ++i)
        for (int64_t oy = 0; oy < p.oh; ++oy) {
          std::ranges::fill(row, 0.f);
          depthwise_row(p, x + i * p.h * p.w * p.cin + c0, dy + i * p.oh * p.ow * p.cin + c0, oy,
                        lanes, row.data());
          for (size_t k = 0; k < row.size(); ++k) total[k] += row[k];
        }
      for (int64_t c = 0; c < lanes; ++c)
        for (int64_t t = 0; t < taps; ++t)
          dw[(c0 + c) * taps + t] = static_cast<float>(total[t * kLanes + c]);
    }
  });
}

}  // namespace

void ConvWeightGradOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  outputs[0] = ValueInfo(inputs[2].shape, DType::kF32);
}

LayoutChoice ConvWeightGradOp::layouts(Infos, Infos) const {
  return {{Layout::kChannelsLast, Layout::kChannelsLast, Layout::kLinear}, {Layout::kLinear}};
}

double ConvWeightGradOp::flops(Infos inputs, Infos) const {  // the convolution's
  return 2.0 * static_cast<double>(inputs[1].shape.numel()) *
         static_cast<double>(inputs[2].shape.count(1, 4));
}

std::unique_ptr<Plan> ConvWeightGradOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape &x = inputs[0].shape, &dy = inputs[1].shape, &w = inputs[2].shape;
  const auto pads = window.resolved_pads(x[2], x[3]);
  const Problem p{.n = x[0],
                  .h = x[2],
                  .w = x[3],
                  .cin = x[1],
                  .cout = w[0],
                  .groups = groups,
                  .oh = dy[2],
                  .ow = dy[3],
                  .kernel = {static_cast<int>(w[2]), static_cast<int>(w[3])},
                  .stride = window.strides,
                  .dilation = window.dilations,
                  .before = {pads[0], pads[1]},
                  .precision = precision};
  if (p.ci() == 1 && p.co() == 1)
    return make_plan([p](Views in, Views out, void*) {
      depthwise_weight_grad(p, in[0].as<float>(), in[1].as<float>(), out[0].as<float>());
    });
  if (p.is_pointwise()) {
    const RowProduct product{p.n * p.h * p.w, p.cout, p.cin, precision};
    return make_plan(
        [product](Views in, Views out, void* workspace) {
          product.run(in[1].as<float>(), in[0].as<float>(), out[0].as<float>(), false, workspace);
        },
        product.workspace_bytes());
  }
  return make_plan(
      [p](Views in, Views out, void* workspace) {
        dense_weight_grad(p, in[0].as<float>(), in[1].as<float>(), out[0].as<float>(),
                          static_cast<float*>(workspace));
      },
      DenseBuffers(p).bytes());
}

}  // namespace train
