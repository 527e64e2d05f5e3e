// Gradients of pooling, channels-last.
#include <algorithm>
#include <array>
#include <limits>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

constexpr int64_t kChannels = 16;  // one cache line of f32

struct PoolGeometry {
  Window window;
  std::array<int, 4> pads;
  int64_t h, w, oh, ow, c;
};

// dx of channels [c0, c0 + n) of one image; all pointers stand at channel c0, pixel stride g.c.
// The gradient goes to the first largest element of a window in row order; NaN counts as largest.
void max_pool_grad(const PoolGeometry& g, const float* x, const float* dy, float* dx, int64_t n) {
  for (int64_t p = 0; p < g.h * g.w; ++p) std::fill_n(dx + p * g.c, n, 0.f);
  std::array<float, kChannels> best;
  std::array<int64_t, kChannels> at;
  for (int64_t oy = 0; oy < g.oh; ++oy)
    for (int64_t ox = 0; ox < g.ow; ++ox) {
      best.fill(-std::numeric_limits<float>::infinity());
      at.fill(-1);
      for (int ky = 0; ky < g.window.kernel[0]; ++ky)
        for (int kx = 0; kx < g.window.kernel[1]; ++kx) {
          const int64_t y = oy * g.window.strides[0] - g.pads[0] + ky * g.window.dilations[0];
          const int64_t xx = ox * g.window.strides[1] - g.pads[1] + kx * g.window.dilations[1];
          if (y < 0 || y >= g.h || xx < 0 || xx >= g.w) continue;
          const int64_t pixel = (y * g.w + xx) * g.c;
          for (int64_t c = 0; c < n; ++c) {
            const float v = x[pixel + c];
            if (at[c] < 0 || v > best[c] || (v != v && best[c] == best[c])) {
              best[c] = v;
              at[c] = pixel + c;
            }
          }
        }
      for (int64_t c = 0; c < n; ++c)
        if (at[c] >= 0) dx[at[c]] += dy[(oy * g.ow + ox) * g.c + c];
    }
}

// Inputs: x [N, C, H, W], dy [N, C, OH, OW].
class MaxPoolGradOp final : public Op {
 public:
  explicit MaxPoolGradOp(const Window& window) : window_(window) {}
  std::string_view type() const override { return "MaxPoolGrad"; }
  std::string describe() const override { return "MaxPoolGrad " + window_.str(); }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    outputs[0] = ValueInfo(inputs[0].shape, DType::kF32);
  }
  LayoutChoice layouts(Infos inputs, Infos outputs) const override {
    return image_layouts(inputs, outputs, 1);
  }
  std::unique_ptr<Plan> plan(Infos inputs, Infos, PackCache&) const override {
    const Shape &x = inputs[0].shape, &dy = inputs[1].shape;
    const PoolGeometry g{window_, window_.resolved_pads(x[2], x[3]), x[2], x[3], dy[2], dy[3],
                         x[1]};
    return make_plan([g, n = x[0]](Views in, Views out, void*) {
      const int64_t blocks = (g.c + kChannels - 1) / kChannels;
      parallel_for(n * blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / blocks, c0 = i % blocks * kChannels;
          const int64_t in_at = image * g.h * g.w * g.c + c0;
          max_pool_grad(g, in[0].as<float>() + in_at,
                        in[1].as<float>() + image * g.oh * g.ow * g.c + c0,
                        out[0].as<float>() + in_at, std::min(kChannels, g.c - c0));
        }
      });
    });
  }

 private:
  Window window_;
};

class MaxPoolGradient final : public Gradient {
 public:
  explicit MaxPoolGradient(const PoolOp& op)
      : Gradient({.inputs = 1}), grad_(std::make_shared<MaxPoolGradOp>(op.window)) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.input(0), c.grad()}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

// dx of channels [c0, c0 + n) of one image, as max_pool_grad: every pixel of a window takes an
// equal share of dy.
void average_pool_grad(const PoolGeometry& g, bool count_pad, const float* dy, float* dx,
                       int64_t n) {
  for (int64_t p = 0; p < g.h * g.w; ++p) std::fill_n(dx + p * g.c, n, 0.f);
  // Taps of an axis that are counted: with count_pad those in the padding too, but none beyond it
  // (ceil_mode).
  const auto counted = [&](int axis, int64_t first, int64_t size) {
    const int64_t lo = count_pad ? -g.pads[axis] : 0,
                  hi = size + (count_pad ? g.pads[axis + 2] : 0);
    int64_t count = 0;
    for (int k = 0; k < g.window.kernel[axis]; ++k) {
      const int64_t at = first + int64_t{k} * g.window.dilations[axis];
      count += at >= lo && at < hi;
    }
    return count;
  };
  for (int64_t oy = 0; oy < g.oh; ++oy)
    for (int64_t ox = 0; ox < g.ow; ++ox) {
      const int64_t y0 = oy * g.window.strides[0] - g.pads[0];
      const int64_t x0 = ox * g.window.strides[1] - g.pads[1];
      const int64_t count = counted(0, y0, g.h) * counted(1, x0, g.w);
      if (count == 0) continue;
      const float share = 1.f / static_cast<float>(count);
      const float* from = dy + (oy * g.ow + ox) * g.c;
      for (int ky = 0; ky < g.window.kernel[0]; ++ky)
        for (int kx = 0; kx < g.window.kernel[1]; ++kx) {
          const int64_t y = y0 + ky * g.window.dilations[0], x = x0 + kx * g.window.dilations[1];
          if (y < 0 || y >= g.h || x < 0 || x >= g.w) continue;
          float* to = dx + (y * g.w + x) * g.c;
          for (int64_t c = 0; c < n; ++c) to[c] += from[c] * share;
        }
    }
}

// Inputs: dy [N, C, OH, OW], x (shape alone).
std::shared_ptr<const Op> average_pool_grad_op(const Window& window, bool count_pad) {
  return make_op("AveragePoolGrad", OpLayout::kImages, shape_of_input(1), [=](Infos in, Infos) {
    const Shape &dy = in[0].shape, &x = in[1].shape;
    const PoolGeometry g{window, window.resolved_pads(x[2], x[3]), x[2], x[3], dy[2], dy[3], x[1]};
    return make_plan([g, count_pad, n = x[0]](Views in, Views out, void*) {
      const int64_t blocks = (g.c + kChannels - 1) / kChannels;
      parallel_for(n * blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / blocks, c0 = i % blocks * kChannels;
          average_pool_grad(g, count_pad, in[0].as<float>() + image * g.oh * g.ow * g.c + c0,
                            out[0].as<float>() + image * g.h * g.w * g.c + c0,
                            std::min(kChannels, g.c - c0));
        }
      });
    });
  });
}

// Inputs: dy [N, C, 1, 1], x (shape alone).
std::shared_ptr<const Op> global_average_pool_grad_op() {
  return make_op(
      "GlobalAveragePoolGrad", OpLayout::kImages, shape_of_input(1), [](Infos in, Infos) {
        const Shape& x = in[1].shape;
        return make_plan([n = x[0], c = x[1], hw = x[2] * x[3]](Views in, Views out, void*) {
          const float scale = 1.f / static_cast<float>(hw);
          parallel_for(n * hw, row_grain(c), [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p) {
              const float* dy = in[0].as<float>() + p / hw * c;
              float* dx = out[0].as<float>() + p * c;
              for (int64_t i = 0; i < c; ++i) dx[i] = dy[i] * scale;
            }
          });
        });
      });
}

// The gradient goes to the first largest pixel. Inputs: x, dy [N, C, 1, 1].
std::shared_ptr<const Op> global_max_pool_grad_op() {
  return make_op("GlobalMaxPoolGrad", OpLayout::kImages, shape_of_input(0), [](Infos in, Infos) {
    const Shape& s = in[0].shape;
    return make_plan([c = s[1], n = s[0], hw = s[2] * s[3]](Views in, Views out, void*) {
      parallel_for(n, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const float* x = in[0].as<float>() + i * hw * c;
          float* dx = out[0].as<float>() + i * hw * c;
          std::fill_n(dx, hw * c, 0.f);
          for (int64_t k = 0; k < c; ++k) {
            int64_t best = 0;
            for (int64_t p = 1; p < hw; ++p)
              if (x[p * c + k] > x[best * c + k]) best = p;
            dx[best * c + k] = in[1].as<float>()[i * c + k];
          }
        }
      });
    });
  });
}

// A gradient of dy and the input's shape.
class ShapeGradient final : public Gradient {
 public:
  explicit ShapeGradient(std::shared_ptr<const Op> grad) : Gradient({}), grad_(std::move(grad)) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.grad(), c.input(0)}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

class GlobalMaxPoolGradient final : public Gradient {
 public:
  GlobalMaxPoolGradient() : Gradient({.inputs = 1}), grad_(global_max_pool_grad_op()) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.input(0), c.grad()}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

std::shared_ptr<const Gradient> max_pool_gradient(const Op& op) {
  return std::make_shared<MaxPoolGradient>(dynamic_cast<const PoolOp&>(op));
}
std::shared_ptr<const Gradient> average_pool_gradient(const Op& op) {
  const auto& pool = dynamic_cast<const PoolOp&>(op);
  return std::make_shared<ShapeGradient>(average_pool_grad_op(pool.window, pool.count_include_pad));
}
std::shared_ptr<const Gradient> global_average_pool_gradient(const Op&) {
  return std::make_shared<ShapeGradient>(global_average_pool_grad_op());
}
std::shared_ptr<const Gradient> global_max_pool_gradient(const Op&) {
  return std::make_shared<GlobalMaxPoolGradient>();
}

}  // namespace train
