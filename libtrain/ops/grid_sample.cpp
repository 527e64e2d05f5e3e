#include "libtrain/ops/grid_sample.h"

#include <algorithm>

#include "libtrain/ops/common.h"

namespace train {
namespace {

// One output pixel: `x` is the image's first pixel, of `ld` elements each.
void sample(const SampleAxis& h, const SampleAxis& w, const float* x, int64_t width, int64_t ld,
            int64_t channels, float* y) {
  std::fill_n(y, channels, 0.f);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      if (!h.inside[i] || !w.inside[j]) continue;
      const float* from = x + ((h.low + i) * width + w.low + j) * ld;
      const float weight = h.weight[i] * w.weight[j];
      for (int64_t c = 0; c < channels; ++c) y[c] += weight * from[c];
    }
}

}  // namespace

std::string GridSampleOp::describe() const {
  return cat("GridSample bilinear, padding ",
             options.padding == SamplePadding::kZeros ? "zeros" : "border",
             options.align_corners ? ", align_corners" : "");
}

void GridSampleOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  for (int i = 0; i < 2; ++i) {
    require_rank(inputs[i], 4);
    require_f32(inputs[i]);
  }
  const Shape &x = inputs[0].shape, &grid = inputs[1].shape;
  if (grid[0] != x[0] || grid[3] != 2)
    throw ShapeError(cat("GridSample of images ", x.str(), " needs a grid [", x[0],
                         ", height, width, 2], not ", grid.str()));
  require(x[2] > 0 && x[3] > 0, "GridSample of an empty image");
  outputs[0] = ValueInfo(Shape{x[0], x[1], grid[1], grid[2]}, DType::kF32);
}

LayoutChoice GridSampleOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs);
}

std::unique_ptr<Plan> GridSampleOp::plan(Infos, Infos, PackCache&) const {
  return make_plan([o = options](Views in, Views out, void*) {
    const Shape &s = in[0].shape(), &to = out[0].shape();
    const int64_t ld = pixel_stride(*in[0].info), out_ld = pixel_stride(*out[0].info);
    const float *x = in[0].as<float>(), *grid = in[1].as<float>();
    float* y = out[0].as<float>();
    parallel_for(to[0] * to[2], 4, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t p = r * to[3]; p < (r + 1) * to[3]; ++p)
          sample({grid[2 * p + 1], s[2], o}, {grid[2 * p], s[3], o},
                 x + r / to[2] * s[2] * s[3] * ld, s[3], ld, s[1], y + p * out_ld);
    });
  });
}

}  // namespace train
