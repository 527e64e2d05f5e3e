// PP-LCNet (Cui et al. 2021), the classifier of text line and document orientation.
#include "libocr/models/backbones.h"

namespace ocr::models {
namespace {

struct Row {
  int kernel, in, out, stride;
  bool gate;
};
const std::vector<std::vector<Row>>& stages() {
  static const std::vector<std::vector<Row>> all{
      {{3, 16, 32, 1, false}},
      {{3, 32, 64, 2, false}, {3, 64, 64, 1, false}},
      {{3, 64, 128, 2, false}, {3, 128, 128, 1, false}},
      {{3, 128, 256, 2, false},
       {5, 256, 256, 1, false},
       {5, 256, 256, 1, false},
       {5, 256, 256, 1, false},
       {5, 256, 256, 1, false},
       {5, 256, 256, 1, false}},
      {{5, 256, 512, 2, true}, {5, 512, 512, 1, true}},
  };
  return all;
}

class DepthwiseSeparable final : public Layer {
 public:
  DepthwiseSeparable(int64_t in, int64_t out, const Row& r)
      : depthwise_(add<ConvBn>("dw_conv", in, in, window(r.kernel, r.stride), in, Act::kHardSwish)),
        gate_(r.gate ? &add<SqueezeExcite>("se", in, kPaddleSlope) : nullptr),
        pointwise_(add<ConvBn>("pw_conv", in, out, window(1), 1, Act::kHardSwish)) {
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

class PPLCNet final : public Backbone {
 public:
  explicit PPLCNet(const PPLCNetOptions& o)
      : stem_(add<ConvBn>("conv1", 3, scaled(16, o), window(3, 2), 1, Act::kHardSwish)) {
    for (const auto& rows : stages()) {
      stages_.push_back(&add<Sequential>("blocks" + std::to_string(stages_.size() + 2)));
      for (const Row& r : rows)
        stages_.back()->append<DepthwiseSeparable>(scaled(r.in, o), scaled(r.out, o), r);
    }
    stem_.spare_norm();
    last_ = &add<Conv>("last_conv", scaled(512, o), o.class_expand, window(1), 1, false);
    channels_ = {o.class_expand};
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    Variable x = stem_(tape, images);
    for (const Sequential* stage : stages_) x = (*stage)(tape, x);
    x = (*last_)(tape, train::global_average_pool(tape, x));
    return {activate(tape, x, Act::kHardSwish)};
  }

 private:
  static int64_t scaled(int channels, const PPLCNetOptions& o) {
    return make_divisible(channels * o.scale, 8);
  }
  ConvBn& stem_;
  std::vector<Sequential*> stages_;
  Conv* last_;
};

}  // namespace

std::unique_ptr<Backbone> make_pplcnet(const PPLCNetOptions& options) {
  return std::make_unique<PPLCNet>(options);
}

}  // namespace ocr::models
