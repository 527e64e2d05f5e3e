// Gradients of GridSample: to the image, and to the places where it was read.
#include <algorithm>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/grid_sample.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

// Inputs: dy, grid, x (shape alone). The places decide where a pixel's gradient goes, so threads
// share the images and each adds up its own in order.
class ImageGradOp final : public Op {
 public:
  explicit ImageGradOp(const GridSampleOptions& options) : options_(options) {}
  std::string_view type() const override { return "GridSampleImageGrad"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    outputs[0] = ValueInfo(inputs[2].shape, DType::kF32);
  }
  LayoutChoice layouts(Infos inputs, Infos outputs) const override {
    return image_layouts(inputs, outputs, 2);
  }
  std::unique_ptr<Plan> plan(Infos, Infos, PackCache&) const override {
    return make_plan([o = options_](Views in, Views out, void*) {
      const int64_t image = out[0].shape().count(1, 4), pixels = in[1].shape().count(1, 3);
      parallel_for(out[0].shape()[0], 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          one(in[0].as<float>() + n * pixels * out[0].shape()[1],
              in[1].as<float>() + n * pixels * 2, pixels, out[0].shape(), o,
              out[0].as<float>() + n * image);
      });
    });
  }

 private:
  static void one(const float* dy, const float* grid, int64_t pixels, const Shape& s,
                  const GridSampleOptions& o, float* dx) {
    const int64_t channels = s[1];
    std::fill_n(dx, s.count(1, 4), 0.f);
    for (int64_t p = 0; p < pixels; ++p) {
      const SampleAxis h(grid[2 * p + 1], s[2], o), w(grid[2 * p], s[3], o);
      const float* from = dy + p * channels;
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
          if (!h.inside[i] || !w.inside[j]) continue;
          float* to = dx + ((h.low + i) * s[3] + w.low + j) * channels;
          const float weight = h.weight[i] * w.weight[j];
          for (int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
        }
    }
  }

  GridSampleOptions options_;
};

// Inputs: dy, x, grid.
class PlaceGradOp final : public Op {
 public:
  explicit PlaceGradOp(const GridSampleOptions& options) : options_(options) {}
  std::string_view type() const override { return "GridSamplePlaceGrad"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    outputs[0] = ValueInfo(inputs[2].shape, DType::kF32);
  }
  LayoutChoice layouts(Infos, Infos) const override {
    return {{Layout::kChannelsLast, Layout::kChannelsLast, Layout::kLinear}, {Layout::kLinear}};
  }
  std::unique_ptr<Plan> plan(Infos, Infos, PackCache&) const override {
    return make_plan([o = options_](Views in, Views out, void*) {
      const Shape &s = in[1].shape(), &g = out[0].shape();
      const float *dy = in[0].as<float>(), *x = in[1].as<float>(), *grid = in[2].as<float>();
      parallel_for(g[0] * g[1], 4, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin * g[2]; p < end * g[2]; ++p)
          one(dy + p * s[1], x + p / (g[1] * g[2]) * s.count(1, 4), s, grid + 2 * p, o,
              out[0].as<float>() + 2 * p);
      });
    });
  }

 private:
  static void one(const float* dy, const float* x, const Shape& s, const float* place,
                  const GridSampleOptions& o, float* gradient) {
    const SampleAxis h(place[1], s[2], o), w(place[0], s[3], o);
    float along_w = 0, along_h = 0;
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        if (!h.inside[i] || !w.inside[j]) continue;
        const float* pixel = x + ((h.low + i) * s[3] + w.low + j) * s[1];
        float product = 0;
        for (int64_t c = 0; c < s[1]; ++c) product += dy[c] * pixel[c];
        along_w += (j ? product : -product) * h.weight[i];
        along_h += (i ? product : -product) * w.weight[j];
      }
    gradient[0] = along_w * w.slope;
    gradient[1] = along_h * h.slope;
  }

  GridSampleOptions options_;
};

class GridSampleGradient final : public Gradient {
 public:
  explicit GridSampleGradient(const GridSampleOptions& options)
      : Gradient({.inputs = 0b11}),
        image_(std::make_shared<ImageGradOp>(options)),
        place_(std::make_shared<PlaceGradOp>(options)) {}

  void run(GradContext& c) const override {
    const Array &dy = c.grad(), &x = c.input(0), &grid = c.input(1);
    if (c.needs(0)) c.set(0, c.eager().run(image_, {dy, grid, x.without_data()}));
    if (c.needs(1)) c.set(1, c.eager().run(place_, {dy, x, grid}));
  }

 private:
  std::shared_ptr<const Op> image_, place_;
};

}  // namespace

std::shared_ptr<const Gradient> grid_sample_gradient(const Op& op) {
  return std::make_shared<GridSampleGradient>(dynamic_cast<const GridSampleOp&>(op).options);
}

Variable grid_sample(Tape& tape, const Variable& x, const Variable& grid,
                     const GridSampleOptions& options) {
  const auto op = tape.eager().shared<Op>(
      cat("grid sample ", static_cast<int>(options.padding), ' ', options.align_corners),
      [&] { return std::make_shared<GridSampleOp>(options); });
  return tape.apply(op, {x, grid});
}

}  // namespace train
