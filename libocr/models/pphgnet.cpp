// PP-HGNet and PP-HGNetV2: the backbones of PaddleOCR's server models. Paddle's L2 penalty spares
// all of their normalisations.
#include "libocr/models/backbones.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

constexpr int kLayers = 6;  // of a block

// The gate per channel of one 1 x 1 convolution (Lee and Park 2020).
class Gate final : public Layer {
 public:
  explicit Gate(int64_t channels) : conv_(add<Conv>("conv", channels, channels, window(1))) {}
  Variable operator()(Tape& tape, const Variable& x) const override {
    const Variable squeezed = conv_(tape, train::global_average_pool(tape, x));
    return train::mul(tape, x, train::sigmoid(tape, squeezed));
  }

 private:
  Conv& conv_;
};

// Pointwise without an activation, then depthwise with one.
class LightConv final : public Layer {
 public:
  LightConv(int64_t in, int64_t out, int kernel)
      : pointwise_(add<ConvBn>("conv1", in, out, window(1)).spare_norm()),
        depthwise_(add<ConvBn>("conv2", out, out, window(kernel), out, Act::kRelu).spare_norm()) {}
  Variable operator()(Tape& tape, const Variable& x) const override {
    return depthwise_(tape, pointwise_(tape, x));
  }

 private:
  ConvBn &pointwise_, &depthwise_;
};

struct Stage {
  int64_t in, mid, out;
  int blocks;
  bool light;  // PPHGNetV2: of LightConv
  int kernel;
  Size rec_stride;  // of the depthwise convolution before the blocks; detection: 2, at the first
                    // stage none
};

// What the two generations differ in besides their numbers.
enum class Version : uint8_t { kV1, kV2 };

// Layers one after another; what came in and the output of each are joined and brought to `out`
// channels.
class HgBlock final : public Layer {
 public:
  HgBlock(const Stage& s, int64_t in, bool shortcut, Version version)
      : layers_(add<Layers>("layers")), shortcut_(shortcut) {
    for (int i = 0; i < kLayers; ++i) layers_.append(i == 0 ? in : s.mid, s);
    const int64_t joined = in + kLayers * s.mid;
    if (version == Version::kV1) {
      last_.push_back(
          &add<ConvBn>("aggregation_conv", joined, s.out, window(1), 1, Act::kRelu).spare_norm());
      last_.push_back(&add<Gate>("att", s.out));
    } else {
      last_.push_back(
          &add<ConvBn>("aggregation_squeeze_conv", joined, s.out / 2, window(1), 1, Act::kRelu)
               .spare_norm());
      last_.push_back(
          &add<ConvBn>("aggregation_excitation_conv", s.out / 2, s.out, window(1), 1, Act::kRelu)
               .spare_norm());
    }
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    std::vector<Variable> parts{x};
    for (const Layer* layer : layers_.items) parts.push_back((*layer)(tape, parts.back()));
    Variable y = train::concat(tape, parts, 1);
    for (const Layer* layer : last_) y = (*layer)(tape, y);
    return shortcut_ ? train::add(tape, y, x) : y;
  }

 private:
  struct Layers final : public Block {
    void append(int64_t in, const Stage& s) {
      const std::string name = std::to_string(items.size());
      if (s.light)
        items.push_back(&add<LightConv>(name, in, s.mid, s.kernel));
      else
        items.push_back(
            &add<ConvBn>(name, in, s.mid, window(s.kernel), 1, Act::kRelu).spare_norm());
    }
    std::vector<const Layer*> items;
  };
  Layers& layers_;
  std::vector<const Layer*> last_;
  bool shortcut_;
};

class HgStage final : public Layer {
 public:
  HgStage(const Stage& s, std::optional<Size> stride, Version version) {
    if (stride)
      downsample_ = &add<ConvBn>("downsample", s.in, s.in, window(3, *stride), s.in).spare_norm();
    blocks_ = &add<Sequential>("blocks");
    for (int i = 0; i < s.blocks; ++i)
      blocks_->append<HgBlock>(s, i == 0 ? s.in : s.out, i > 0, version);
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    return (*blocks_)(tape, downsample_ ? (*downsample_)(tape, x) : x);
  }

 private:
  ConvBn* downsample_ = nullptr;
  Sequential* blocks_;
};

// A window of 2 x 2 that steps by one; the missing row and column lie after the image.
train::Window pair_window() {
  train::Window w;
  w.kernel = {2, 2};
  w.auto_pad = train::AutoPad::kSameUpper;
  return w;
}

// Two convolutions of 2 x 2 beside a pool, joined.
class StemV2 final : public Block {
 public:
  StemV2(int64_t mid, int64_t out, bool det)
      : first_(conv("stem1", 3, mid, window(3, 2))),
        a_(conv("stem2a", mid, mid / 2, pair_window())),
        b_(conv("stem2b", mid / 2, mid, pair_window())),
        third_(conv("stem3", 2 * mid, mid, window(3, det ? 2 : 1))),
        last_(conv("stem4", mid, out, window(1))) {}

  Variable operator()(Tape& tape, const Variable& images) const {
    const Variable x = first_(tape, images);
    const Variable parts[] = {train::max_pool(tape, x, pair_window()), b_(tape, a_(tape, x))};
    return last_(tape, third_(tape, train::concat(tape, parts, 1)));
  }

 private:
  ConvBn& conv(const char* name, int64_t in, int64_t out, const train::Window& window) {
    return add<ConvBn>(name, in, out, window, 1, Act::kRelu).spare_norm();
  }
  ConvBn &first_, &a_, &b_, &third_, &last_;
};

class PPHGNet final : public Backbone {
 public:
  PPHGNet(const std::vector<Stage>& stages, const PPHGNetOptions& o, Version version)
      : det_(o.det) {
    if (o.det && o.text_rec) throw train::Error("det and text_rec exclude each other");
    if (version == Version::kV1) {
      stem_ = &add<Sequential>("stem");
      const int64_t channels[] = {3, 64, 64, 128};
      for (int i = 0; i < 3; ++i)
        stem_
            ->append<ConvBn>(channels[i], channels[i + 1], window(3, i == 0 ? 2 : 1), 1, Act::kRelu)
            .spare_norm();
    } else {
      stem_v2_ = &add<StemV2>("stem", 32, 48, det_);
    }
    stages_ = &add<List<HgStage>>("stages");
    for (const Stage& s : stages) {
      std::optional<Size> stride = s.rec_stride;
      if (det_) stride = stages_->size() == 0 ? std::nullopt : std::optional<Size>(2);
      stages_->append(s, stride, version);
      if (det_ || stages_->size() == stages.size()) channels_.push_back(s.out);
    }
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    Variable x = stem_ ? (*stem_)(tape, images) : (*stem_v2_)(tape, images);
    if (stem_ && det_) x = train::max_pool(tape, x, window(3, 2));
    std::vector<Variable> scales;
    for (const HgStage* stage : *stages_) {
      x = (*stage)(tape, x);
      scales.push_back(x);
    }
    if (det_) return scales;
    return {row_of(tape, x, training())};
  }

 private:
  bool det_;
  Sequential* stem_ = nullptr;
  StemV2* stem_v2_ = nullptr;
  List<HgStage>* stages_;
};

}  // namespace

std::unique_ptr<Backbone> make_pphgnet_small(const PPHGNetOptions& options) {
  static const std::vector<Stage> stages{{128, 128, 256, 1, false, 3, {2, 1}},
                                         {256, 160, 512, 1, false, 3, {1, 2}},
                                         {512, 192, 768, 2, false, 3, {2, 1}},
                                         {768, 224, 1024, 1, false, 3, {2, 1}}};
  return std::make_unique<PPHGNet>(stages, options, Version::kV1);
}

std::unique_ptr<Backbone> make_pphgnet_v2_b4(const PPHGNetOptions& options) {
  static const std::vector<Stage> stages{{48, 48, 128, 1, false, 3, {2, 1}},
                                         {128, 96, 512, 1, false, 3, {1, 2}},
                                         {512, 192, 1024, 3, true, 5, {2, 1}},
                                         {1024, 384, 2048, 1, true, 5, {2, 1}}};
  return std::make_unique<PPHGNet>(stages, options, Version::kV2);
}

}  // namespace ocr::models
