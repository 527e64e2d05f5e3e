// MobileNetV3 (Howard et al. 2019), as PaddleOCR's detectors, recognisers and classifiers use it.
#include <array>
#include <cmath>
#include <span>

#include "libocr/models/backbones.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

struct Row {
  int kernel, expanded, out;
  bool gate;
  Act act;
  int stride;
};

constexpr Act kR = Act::kRelu, kH = Act::kHardSwish;
constexpr Row kLarge[] = {
    {3, 16, 16, false, kR, 1},  {3, 64, 24, false, kR, 2},  {3, 72, 24, false, kR, 1},
    {5, 72, 40, true, kR, 2},   {5, 120, 40, true, kR, 1},  {5, 120, 40, true, kR, 1},
    {3, 240, 80, false, kH, 2}, {3, 200, 80, false, kH, 1}, {3, 184, 80, false, kH, 1},
    {3, 184, 80, false, kH, 1}, {3, 480, 112, true, kH, 1}, {3, 672, 112, true, kH, 1},
    {5, 672, 160, true, kH, 2}, {5, 960, 160, true, kH, 1}, {5, 960, 160, true, kH, 1},
};
constexpr Row kSmall[] = {
    {3, 16, 16, true, kR, 2},  {3, 72, 24, false, kR, 2}, {3, 88, 24, false, kR, 1},
    {5, 96, 40, true, kH, 2},  {5, 240, 40, true, kH, 1}, {5, 240, 40, true, kH, 1},
    {5, 120, 48, true, kH, 1}, {5, 144, 48, true, kH, 1}, {5, 288, 96, true, kH, 2},
    {5, 576, 96, true, kH, 1}, {5, 576, 96, true, kH, 1},
};

struct Size3 {
  std::span<const Row> rows;
  int last;  // channels of the last convolution
};

Size3 size_of(const MobileNetV3Options& o) {
  bool known = false;
  for (const double s : {.35, .5, .75, 1., 1.25}) known |= o.scale == s;
  if (!known)
    throw train::Error(train::cat("scale ", o.scale,
                                  ": MobileNetV3 has the scales 0.35, 0.5, 0.75, 1.0 and 1.25"));
  if (o.model_name == "large") return {kLarge, 960};
  if (o.model_name == "small") return {kSmall, 576};
  throw train::Error("model_name '" + o.model_name + "': MobileNetV3 is 'large' or 'small'");
}

int64_t scaled(double channels, double scale) { return make_divisible(channels * scale, 8); }

class ResidualUnit final : public Layer {
 public:
  ResidualUnit(int64_t in, int64_t mid, int64_t out, int kernel, Size stride, bool gate, Act act,
               bool shortcut)
      : expand_(add<ConvBn>("expand_conv", in, mid, window(1), 1, act)),
        depthwise_(add<ConvBn>("bottleneck_conv", mid, mid, window(kernel, stride), mid, act)),
        gate_(gate ? &add<SqueezeExcite>("mid_se", mid, kMobileNetSlope) : nullptr),
        project_(add<ConvBn>("linear_conv", mid, out, window(1))),
        shortcut_(shortcut && in == out && stride == Size(1)) {}

  Variable operator()(Tape& tape, const Variable& x) const override {
    Variable y = depthwise_(tape, expand_(tape, x));
    if (gate_) y = (*gate_)(tape, y);
    y = project_(tape, y);
    return shortcut_ ? train::add(tape, x, y) : y;
  }

 private:
  ConvBn &expand_, &depthwise_;
  SqueezeExcite* gate_;
  ConvBn& project_;
  bool shortcut_;
};

// A stage ends before each later row of stride 2; the scales are 1/4, 1/8, 1/16 and 1/32.
class MobileNetV3Det final : public Backbone {
 public:
  explicit MobileNetV3Det(const MobileNetV3Options& o) {
    const auto [rows, last] = size_of(o);
    const size_t first = o.model_name == "large" ? 2 : 0;  // a row up to it ends no stage
    int64_t in = scaled(16, o.scale);
    stem_ = &add<ConvBn>("conv", 3, in, window(3, 2), 1, Act::kHardSwish);
    next_stage();
    for (size_t i = 0; i < rows.size(); ++i) {
      const Row& r = rows[i];
      if (r.stride == 2 && i > first) {
        channels_.push_back(in);
        next_stage();
      }
      const int64_t out = scaled(r.out, o.scale);
      stages_.back()->append<ResidualUnit>(in, scaled(r.expanded, o.scale), out, r.kernel, r.stride,
                                           r.gate && !o.disable_se, r.act, true);
      in = out;
    }
    channels_.push_back(scaled(last, o.scale));
    stages_.back()->append<ConvBn>(in, channels_.back(), window(1), 1, Act::kHardSwish);
    start_over_all_channels(*this);
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    std::vector<Variable> scales{(*stem_)(tape, images)};
    for (const Sequential* stage : stages_) scales.push_back((*stage)(tape, scales.back()));
    scales.erase(scales.begin());
    return scales;
  }

 private:
  void next_stage() {
    stages_.push_back(&add<Sequential>("stage" + std::to_string(stages_.size())));
  }
  ConvBn* stem_;
  std::vector<Sequential*> stages_;
};

// Strides after the stem are along the height; a final pool makes the row one pixel high.
class MobileNetV3Rec final : public Backbone {
 public:
  explicit MobileNetV3Rec(const MobileNetV3Options& o) {
    const auto [rows, last] = size_of(o);
    const bool large = o.model_name == "large";
    std::vector<int> strides = large ? o.large_stride : o.small_stride;
    if (strides.empty()) strides = large ? std::vector{1, 2, 2, 2} : std::vector{2, 2, 2, 2};
    if (strides.size() != 4)
      throw train::Error(train::cat(large ? "large" : "small", "_stride must have 4 numbers, not ",
                                    strides.size()));
    // The rows whose stride the four numbers replace.
    const std::array<size_t, 4> places =
        large ? std::array<size_t, 4>{0, 1, 3, 12} : std::array<size_t, 4>{0, 1, 3, 8};
    int64_t in = scaled(16, o.scale);
    stem_ = &add<ConvBn>("conv1", 3, in, window(3, 2), 1, Act::kHardSwish);
    blocks_ = &add<Sequential>("blocks");
    for (size_t i = 0; i < rows.size(); ++i) {
      const Row& r = rows[i];
      Size stride = 1;
      bool shortcut = true;  // PaddleOCR's blocks with a stride per axis have none, even if it is 1
      for (size_t k = 0; k < places.size(); ++k) {
        if (places[k] != i) continue;
        shortcut = large && k == 0;
        stride = shortcut ? Size(strides[k]) : Size(strides[k], 1);
      }
      const int64_t out = scaled(r.out, o.scale);
      blocks_->append<ResidualUnit>(in, scaled(r.expanded, o.scale), out, r.kernel, stride,
                                    r.gate && !o.disable_se, r.act, shortcut);
      in = out;
    }
    channels_ = {scaled(last, o.scale)};
    last_ = &add<ConvBn>("conv2", in, channels_[0], window(1), 1, Act::kHardSwish);
    start_over_all_channels(*this);
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    const Variable x = (*last_)(tape, (*blocks_)(tape, (*stem_)(tape, images)));
    return {train::max_pool(tape, x, padded_window(2, 2, 0))};
  }

 private:
  ConvBn *stem_, *last_;
  Sequential* blocks_;
};

}  // namespace

std::unique_ptr<Backbone> make_mobilenet_v3_det(const MobileNetV3Options& options) {
  return std::make_unique<MobileNetV3Det>(options);
}

std::unique_ptr<Backbone> make_mobilenet_v3_rec(const MobileNetV3Options& options) {
  return std::make_unique<MobileNetV3Rec>(options);
}

}  // namespace ocr::models
