// Gradient of 2-D convolution: the input's through cpu::Conv or cpu::ConvTranspose, the weights' in
// conv_weight_grad.cpp.
#include <algorithm>
#include <vector>

#include "libtrain/autograd/conv_weight_grad.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/sums.h"
#include "libtrain/cpu/conv.h"
#include "libtrain/cpu/conv_transpose.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

// The geometry of the forward convolution, one entry per axis.
struct Geometry {
  int64_t cin, cout, groups;
  std::array<int, 2> kernel, stride, dilation, before, after;
  std::array<int, 2> rest;  // input pixels at the far end that no window starts on

  Geometry(const Window& window, int64_t groups, const Shape& x, const Shape& w)
      : cin(x[1]), cout(w[0]), groups(groups), stride(window.strides), dilation(window.dilations) {
    const auto pads = window.resolved_pads(x[2], x[3]);
    for (int a = 0; a < 2; ++a) {
      kernel[a] = static_cast<int>(w[2 + a]);
      before[a] = pads[a];
      after[a] = pads[a + 2];
      const int64_t room = x[2 + a] + before[a] + after[a] - reach(a) - 1;
      rest[a] = static_cast<int>(room % stride[a]);
    }
  }
  int reach(int a) const { return dilation[a] * (kernel[a] - 1); }
  // A stride of 1 makes the gradient a convolution with flipped weights, as long as its padding
  // does not come out negative.
  bool is_conv() const {
    return stride == std::array{1, 1} && std::max(before[0], after[0]) <= reach(0) &&
           std::max(before[1], after[1]) <= reach(1);
  }
  bool is_depthwise() const { return cin == groups && cout == groups; }
  int slot() const {
    int s = 0;
    for (const int v : {before[0], before[1], after[0], after[1], rest[0], rest[1]}) s = s * 37 + v;
    return s;
  }
};

// [cout, cin / groups, kh, kw] -> [cin, cout / groups, kh, kw], taps in reverse order.
std::vector<float> flipped(const Geometry& g, const float* w) {
  const int64_t ci = g.cin / g.groups, co = g.cout / g.groups;
  const int64_t taps = int64_t{g.kernel[0]} * g.kernel[1];
  std::vector<float> f(static_cast<size_t>(g.cin * co * taps));
  for (int64_t o = 0; o < g.cout; ++o)
    for (int64_t i = 0; i < ci; ++i)
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t group = o / co;
        f[((group * ci + i) * co + o % co) * taps + taps - 1 - t] = w[(o * ci + i) * taps + t];
      }
  return f;
}

std::shared_ptr<const cpu::Conv> make_conv(const Geometry& g, const float* w,
                                           cpu::Precision precision) {
  cpu::ConvDesc d;
  d.cin = g.cout, d.cout = g.cin, d.groups = g.groups;
  d.kh = g.kernel[0], d.kw = g.kernel[1];
  d.dh = g.dilation[0], d.dw = g.dilation[1];
  d.pt = g.reach(0) - g.before[0], d.pl = g.reach(1) - g.before[1];
  d.pb = g.reach(0) - g.after[0], d.pr = g.reach(1) - g.after[1];
  d.precision = precision;
  return cpu::Conv::create(d, flipped(g, w).data(), nullptr);
}

std::shared_ptr<const cpu::ConvTranspose> make_transposed(const Geometry& g, const float* w,
                                                          cpu::Precision precision) {
  cpu::ConvTransposeDesc d;
  d.cin = g.cout, d.cout = g.cin, d.groups = g.groups;
  d.kh = g.kernel[0], d.kw = g.kernel[1];
  d.sh = g.stride[0], d.sw = g.stride[1];
  d.dh = g.dilation[0], d.dw = g.dilation[1];
  d.pt = g.before[0], d.pl = g.before[1];
  d.pb = g.after[0], d.pr = g.after[1];
  d.oph = g.rest[0], d.opw = g.rest[1];
  d.precision = precision;
  return cpu::ConvTranspose::create(d, w, nullptr);
}

constexpr int64_t kLanes = 16;  // channels per task: one cache line of f32

// dx of channels [c0, c0 + lanes) of one image; the pointers stand at c0, pixel stride g.cin.
// x, y: sizes of the input and output images; w: [taps][cin].
void depthwise_input_grad(const Geometry& g, const std::array<int64_t, 2>& x,
                          const std::array<int64_t, 2>& y, const float* w, const float* dy,
                          float* dx, int64_t lanes) {
  const cpu::GradTable& t = grad_kernels();
  const cpu::DepthwiseRowArgs row{g.cin,       x[1],          y[1],        g.kernel[1],
                                  g.stride[1], g.dilation[1], g.before[1], lanes};
  for (int64_t p = 0; p < x[0] * x[1]; ++p) std::fill_n(dx + p * g.cin, lanes, 0.f);
  for (int64_t oy = 0; oy < y[0]; ++oy)
    for (int ky = 0; ky < g.kernel[0]; ++ky) {
      const int64_t iy = oy * g.stride[0] - g.before[0] + ky * int64_t{g.dilation[0]};
      if (iy < 0 || iy >= x[0]) continue;
      t.depthwise_input_row(row, w + ky * g.kernel[1] * g.cin, dy + oy * y[1] * g.cin,
                            dx + iy * x[1] * g.cin);
    }
}

// With a stride, one channel per group: a transposed convolution would run group by group.
std::unique_ptr<Plan> depthwise_plan(const Geometry& g, const Shape& x, const Shape& dy,
                                     std::shared_ptr<const std::vector<float>> taps) {
  return make_plan([g, taps, n = x[0], size = std::array{x[2], x[3]},
                    out_size = std::array{dy[2], dy[3]}](Views in, Views out, void*) {
    const int64_t blocks = (g.cin + kLanes - 1) / kLanes;
    parallel_for(n * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / blocks, c0 = i % blocks * kLanes;
        depthwise_input_grad(g, size, out_size, taps->data() + c0,
                             in[0].as<float>() + image * out_size[0] * out_size[1] * g.cin + c0,
                             out[0].as<float>() + image * size[0] * size[1] * g.cin + c0,
                             std::min(kLanes, g.cin - c0));
      }
    });
  });
}

// [channels, 1, kh, kw] -> [kh kw, channels].
std::shared_ptr<const std::vector<float>> taps_first(const Geometry& g, const float* w) {
  const int64_t taps = int64_t{g.kernel[0]} * g.kernel[1];
  auto t = std::make_shared<std::vector<float>>(static_cast<size_t>(g.cin * taps));
  for (int64_t c = 0; c < g.cin; ++c)
    for (int64_t k = 0; k < taps; ++k) (*t)[k * g.cin + c] = w[c * taps + k];
  return t;
}

template <class Kernel>
std::unique_ptr<Plan> run_kernel(std::shared_ptr<const Kernel> kernel, const Shape& dy) {
  const size_t bytes = kernel->workspace_bytes(dy[0], dy[2], dy[3], current_threads());
  return make_plan(
      [kernel](Views in, Views out, void* workspace) {
        const Shape& s = in[0].shape();
        kernel->run(in[0].as<float>(), s[1], s[0], s[2], s[3], out[0].as<float>(),
                    out[0].shape()[1], nullptr, 0, workspace);
      },
      bytes);
}

// Inputs: dy [N, cout, OH, OW], w (constant), x (shape alone) -> dx.
class ConvInputGradOp final : public Op {
 public:
  ConvInputGradOp(const Window& window, int64_t groups, cpu::Precision precision)
      : window_(window), groups_(groups), precision_(precision) {}
  std::string_view type() const override { return "ConvInputGrad"; }
  std::string describe() const override {
    return cat("ConvInputGrad ", window_.str(), precision_ == cpu::Precision::kBf16 ? " bf16" : "");
  }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    outputs[0] = ValueInfo(inputs[2].shape, DType::kF32);
  }
  LayoutChoice layouts(Infos inputs, Infos outputs) const override {
    return image_layouts(inputs, outputs, 2);
  }
  double flops(Infos inputs, Infos) const override {  // the convolution's
    return 2.0 * static_cast<double>(inputs[0].shape.numel()) *
           static_cast<double>(inputs[1].shape.count(1, 4));
  }
  std::unique_ptr<Plan> plan(Infos inputs, Infos, PackCache& packs) const override {
    const Geometry g(window_, groups_, inputs[2].shape, inputs[1].shape);
    const float* w = constant_f32(inputs, 1, "the weights of a convolution's input gradient");
    if (g.is_conv())
      return run_kernel(
          packs.get<cpu::Conv>(2 * g.slot(), [&] { return make_conv(g, w, precision_); }),
          inputs[0].shape);
    if (g.is_depthwise())
      return depthwise_plan(g, inputs[2].shape, inputs[0].shape,
                            packs.get<std::vector<float>>(-1, [&] { return taps_first(g, w); }));
    return run_kernel(packs.get<cpu::ConvTranspose>(
                          2 * g.slot() + 1, [&] { return make_transposed(g, w, precision_); }),
                      inputs[0].shape);
  }

 private:
  Window window_;
  int64_t groups_;
  cpu::Precision precision_;
};

class ConvGradient final : public Gradient {
 public:
  explicit ConvGradient(const ConvOp& op)
      : Gradient({.inputs = 0b11}),
        input_grad_(std::make_shared<ConvInputGradOp>(op.window, op.groups, op.precision)),
        weight_grad_(std::make_shared<ConvWeightGradOp>(op.window, op.groups, op.precision)),
        bias_grad_(std::make_shared<ChannelSumOp>()) {}

  void run(GradContext& c) const override {
    const Array& dy = c.grad();
    if (c.needs(0))
      c.set(0, c.eager().run(input_grad_, {dy, c.input(1), c.input(0).without_data()}));
    if (c.needs(1))
      c.set(1, c.eager().run(weight_grad_, {c.input(0), dy, c.input(1).without_data()}));
    if (c.needs(2)) c.set(2, c.eager().run(bias_grad_, {dy}));
  }

 private:
  std::shared_ptr<const Op> input_grad_, weight_grad_, bias_grad_;
};

}  // namespace

std::shared_ptr<const Gradient> conv_gradient(const Op& op) {
  const auto& conv = dynamic_cast<const ConvOp&>(op);
  const cpu::Epilogue& e = conv.epilogue;
  if (e.act.kind != cpu::Act::kNone || e.residual != cpu::Residual::kNone || e.post_scale != 1 ||
      e.post_bias != 0)
    throw Error("a fused Conv has no gradient; train on the graph before fusion");
  return std::make_shared<ConvGradient>(conv);
}

}  // namespace train
