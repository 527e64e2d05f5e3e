// Gradient of resizing: the transposed weights, one axis after the other.
#include <vector>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/cpu/resize.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// Which outputs of an axis an input takes part in, and how much: entries [start[i], start[i + 1]).
struct Transposed {
  std::vector<int64_t> start, output;
  std::vector<float> weight;
  int64_t in, out;

  Transposed(const cpu::ResizeDesc& d, int64_t in, int64_t out, double scale) : in(in), out(out) {
    const int taps = cpu::resize_taps(d.mode);
    const auto count = static_cast<size_t>(out * taps);
    std::vector<int32_t> index(count);
    std::vector<float> w(count, 1.f);
    cpu::resize_tables(d, in, out, scale, index.data(), w.data());
    start.assign(static_cast<size_t>(in + 1), 0);
    for (const int32_t i : index) ++start[i + 1];
    for (int64_t i = 0; i < in; ++i) start[i + 1] += start[i];
    output.resize(count);
    weight.resize(count);
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (size_t k = 0; k < count; ++k) {
      const int64_t at = next[index[k]]++;
      output[at] = static_cast<int64_t>(k) / taps;
      weight[at] = w[k];
    }
  }

  // x: [outer, out, inner] -> y: [outer, in, inner].
  void run(const float* x, int64_t outer, int64_t inner, float* y) const {
    parallel_for(outer * in, row_grain(inner), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* to = y + r * inner;
        const int64_t i = r % in;
        std::fill_n(to, inner, 0.f);
        for (int64_t k = start[i]; k < start[i + 1]; ++k) {
          const float* from = x + (r / in * out + output[k]) * inner;
          const float w = weight[k];
          for (int64_t c = 0; c < inner; ++c) to[c] += w * from[c];
        }
      }
    });
  }
};

// Inputs: dy, x (shape alone).
std::shared_ptr<const Op> resize_grad_op(const cpu::ResizeDesc& desc, double sh, double sw) {
  return make_op("ResizeGrad", OpLayout::kImages, shape_of_input(1), [=](Infos in, Infos) {
    const Shape &dy = in[0].shape, &x = in[1].shape;
    const auto rows = std::make_shared<const Transposed>(desc, x[2], dy[2], sh);
    const auto cols = std::make_shared<const Transposed>(desc, x[3], dy[3], sw);
    const int64_t n = x[0], c = x[1], h = x[2];
    return make_plan(
        [=](Views in, Views out, void* workspace) {
          auto* half = static_cast<float*>(workspace);  // [n, h, ow, c]
          rows->run(in[0].as<float>(), n, cols->out * c, half);
          cols->run(half, n * h, c, out[0].as<float>());
        },
        static_cast<size_t>(n * h * dy[3] * c) * sizeof(float));
  });
}

class ResizeGradient final : public Gradient {
 public:
  explicit ResizeGradient(const ResizeOp& op) : Gradient({.inputs = 0b110}), desc_(op.desc) {}
  void run(GradContext& c) const override {
    double sh = 0, sw = 0;
    if (c.input(1).present) {
      const auto scales = c.input(1).tensor.to_doubles();
      sh = scales[2];
      sw = scales[3];
    }
    const auto grad = c.eager().shared<Op>(
        cat("resize grad ", static_cast<int>(desc_.mode), ' ', static_cast<int>(desc_.coord), ' ',
            static_cast<int>(desc_.nearest), ' ', desc_.cubic_a, ' ', desc_.exclude_outside, ' ',
            sh, ' ', sw),
        [&] { return resize_grad_op(desc_, sh, sw); });
    c.set(0, c.eager().run(grad, {c.grad(), c.input(0).without_data()}));
  }

 private:
  cpu::ResizeDesc desc_;
};

}  // namespace

std::shared_ptr<const Gradient> resize_gradient(const Op& op) {
  return std::make_shared<ResizeGradient>(dynamic_cast<const ResizeOp&>(op));
}

}  // namespace train
