// ResNet-D (He et al. 2016 and 2019): a stem of three convolutions, and shortcuts that average
// before they project.
#include "libocr/models/backbones.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

std::vector<int> depths_of(int layers) {
  switch (layers) {
    case 18:
      return {2, 2, 2, 2};
    case 34:
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    case 152:
      return {3, 8, 36, 3};
    case 200:
      return {3, 12, 48, 3};
    default:
      throw train::Error(
          train::cat("layers ", layers, ": ResNet has 18, 34, 50, 101, 152 or 200 layers"));
  }
}

// A projection behind a mean over the block's stride.
class Shortcut final : public Layer {
 public:
  Shortcut(int64_t in, int64_t out, Size stride)
      : stride_(stride),
        conv_(add<Conv>(kUnderscored.conv, in, out, window(1), 1, false)),
        norm_(add<BatchNorm>(kUnderscored.norm, out)) {}

  Variable operator()(Tape& tape, const Variable& x) const override {
    if (stride_ == Size(1)) return norm_(tape, conv_(tape, x));
    train::Window mean = padded_window(stride_, stride_, 0);
    mean.ceil_mode = true;
    return norm_(tape, conv_(tape, train::average_pool(tape, x, mean)));
  }

 private:
  Size stride_;
  Conv& conv_;
  BatchNorm& norm_;
};

// Two 3 x 3 convolutions, or (a bottleneck) 1 x 1, 3 x 3 and 1 x 1 to four times the channels.
class ResidualBlock final : public Layer {
 public:
  ResidualBlock(int64_t in, int64_t channels, Size stride, bool bottleneck, bool project,
                bool first_of_all) {
    const auto conv = [&](const char* name, int64_t from, int64_t to, int kernel, Size s, Act act) {
      convs_.push_back(&add<ConvBn>(name, from, to, window(kernel, s), 1, act, kUnderscored));
    };
    const int64_t out = bottleneck ? 4 * channels : channels;
    if (bottleneck) {
      conv("conv0", in, channels, 1, 1, Act::kRelu);
      conv("conv1", channels, channels, 3, stride, Act::kRelu);
      conv("conv2", channels, out, 1, 1, Act::kNone);
    } else {
      conv("conv0", in, channels, 3, stride, Act::kRelu);
      conv("conv1", channels, out, 3, 1, Act::kNone);
    }
    if (project) shortcut_ = &add<Shortcut>("short", in, out, first_of_all ? Size(1) : stride);
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    Variable y = x;
    for (const ConvBn* conv : convs_) y = (*conv)(tape, y);
    return train::relu(tape, train::add(tape, shortcut_ ? (*shortcut_)(tape, x) : x, y));
  }

 private:
  std::vector<ConvBn*> convs_;
  Shortcut* shortcut_ = nullptr;
};

class ResNetVd final : public Backbone {
 public:
  ResNetVd(int layers, bool det) : det_(det) {
    const std::vector<int> depths = depths_of(layers);
    const auto stem = [&](const char* name, int64_t in, int64_t out, int stride) {
      stem_.push_back(&add<ConvBn>(name, in, out, window(3, stride), 1, Act::kRelu, kUnderscored));
    };
    stem("conv1_1", 3, 32, det ? 2 : 1);
    stem("conv1_2", 32, 32, 1);
    stem("conv1_3", 32, 64, 1);
    const bool bottleneck = layers >= 50;
    int64_t in = 64;
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t channels = int64_t{64} << stage;
      stages_.emplace_back();
      for (int i = 0; i < depths[static_cast<size_t>(stage)]; ++i) {
        const Size stride = i > 0 || stage == 0 ? Size(1) : det ? Size(2) : Size(2, 1);
        stages_.back().push_back(&add<ResidualBlock>(train::cat("bb_", stage, "_", i), in, channels,
                                                     stride, bottleneck, i == 0,
                                                     i == 0 && stage == 0));
        in = bottleneck ? 4 * channels : channels;
      }
      if (det || stage == 3) channels_.push_back(in);
    }
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    Variable x = images;
    for (const ConvBn* conv : stem_) x = (*conv)(tape, x);
    x = train::max_pool(tape, x, padded_window(3, 2, 1));
    std::vector<Variable> scales;
    for (const auto& stage : stages_) {
      for (const ResidualBlock* block : stage) x = (*block)(tape, x);
      scales.push_back(x);
    }
    if (det_) return scales;
    return {train::max_pool(tape, x, padded_window(2, 2, 0))};
  }

 private:
  bool det_;
  std::vector<ConvBn*> stem_;
  std::vector<std::vector<ResidualBlock*>> stages_;
};

}  // namespace

std::unique_ptr<Backbone> make_resnet_vd_det(const ResNetOptions& options) {
  for (const std::string& stage : options.dcn_stage)
    if (stage != "False" && stage != "false")
      throw train::Error("dcn_stage: deformable convolutions are not built");
  return std::make_unique<ResNetVd>(options.layers, true);
}

std::unique_ptr<Backbone> make_resnet_vd_rec(const ResNetOptions& options) {
  return std::make_unique<ResNetVd>(options.layers, false);
}

}  // namespace ocr::models
