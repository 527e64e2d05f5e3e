// MobileNetV1Enhance, the backbone of PP-OCRv3's recognisers: MobileNet (Howard et al. 2017) with
// hard swish, 5 x 5 kernels and gates at its end.
#include "libocr/models/backbones.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

class DepthwiseSeparable final : public Layer {
 public:
  DepthwiseSeparable(int64_t in, int64_t mid, int64_t out, int kernel, Size stride, bool gate)
      : depthwise_(add<ConvBn>("_depthwise_conv", in, mid, window(kernel, stride), mid,
                               Act::kHardSwish, kUnderscored)),
        gate_(gate ? &add<SqueezeExcite>("_se", mid, kPaddleSlope) : nullptr),
        pointwise_(
            add<ConvBn>("_pointwise_conv", mid, out, window(1), 1, Act::kHardSwish, kUnderscored)) {
    depthwise_.spare_norm();
    pointwise_.spare_norm();
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    Variable y = depthwise_(tape, x);
    if (gate_) y = (*gate_)(tape, y);
    return pointwise_(tape, y);
  }

 private:
  ConvBn& depthwise_;
  SqueezeExcite* gate_;
  ConvBn& pointwise_;
};

class MobileNetV1Enhance final : public Backbone {
 public:
  explicit MobileNetV1Enhance(const MobileNetV1EnhanceOptions& o)
      : average_(o.last_pool_type == "avg"),
        stem_(
            add<ConvBn>("conv1", 3, scaled(32, o), window(3, 2), 1, Act::kHardSwish, kUnderscored)),
        blocks_(add<Sequential>("block_list")) {
    if (!average_ && o.last_pool_type != "max")
      throw train::Error("last_pool_type '" + o.last_pool_type + "': it is 'avg' or 'max'");
    if (o.last_conv_stride.empty() || o.last_conv_stride.size() > 2)
      throw train::Error("last_conv_stride must be one number or two");
    const Size last_stride(o.last_conv_stride.front(), o.last_conv_stride.back());
    const auto block = [&](int in, int out, int kernel, Size stride, bool gate) {
      blocks_.append<DepthwiseSeparable>(scaled(in, o), scaled(in, o), scaled(out, o), kernel,
                                         stride, gate);
    };
    block(32, 64, 3, 1, false);
    block(64, 128, 3, 1, false);
    block(128, 128, 3, 1, false);
    block(128, 256, 3, {2, 1}, false);
    block(256, 256, 3, 1, false);
    block(256, 512, 3, {2, 1}, false);
    for (int i = 0; i < 5; ++i) block(512, 512, 5, 1, false);
    block(512, 1024, 5, {2, 1}, true);
    block(1024, 1024, 5, last_stride, true);
    stem_.spare_norm();
    channels_ = {scaled(1024, o)};
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    const Variable x = blocks_(tape, stem_(tape, images));
    const train::Window half = padded_window(2, 2, 0);
    return {average_ ? train::average_pool(tape, x, half) : train::max_pool(tape, x, half)};
  }

 private:
  static int64_t scaled(int channels, const MobileNetV1EnhanceOptions& o) {
    return static_cast<int64_t>(channels * o.scale);
  }
  bool average_;
  ConvBn& stem_;
  Sequential& blocks_;
};

}  // namespace

std::unique_ptr<Backbone> make_mobilenet_v1_enhance(const MobileNetV1EnhanceOptions& options) {
  return std::make_unique<MobileNetV1Enhance>(options);
}

}  // namespace ocr::models
