// The necks of the server detectors: a pyramid with large kernels and a second path, upwards (Liu
// et al. 2018).
#include "libocr/models/pyramids.h"

namespace ocr::models {
namespace {

constexpr int kKernel = 9;

// Relations along rows, columns and both, from the widest kernels to the narrowest (PP-OCRv4's
// intra-class block), added to what comes in.
class IntraBlock final : public Layer {
 public:
  explicit IntraBlock(int64_t channels)
      : reduce_(add<Conv>("conv1x1_reduce_channel", channels, channels / 2, window(1))) {
    const int64_t mid = channels / 2;
    for (const int k : {7, 5, 3}) {
      const std::string n = std::to_string(k);
      steps_.push_back({&add<Conv>("c_layer_" + n + "x" + n, mid, mid, window(k)),
                        &add<Conv>("v_layer_" + n + "x1", mid, mid, window({k, 1})),
                        &add<Conv>("q_layer_1x" + n, mid, mid, window({1, k}))});
    }
    expand_ = &add<Conv>("conv1x1_return_channel", mid, channels, window(1));
    norm_ = &add<BatchNorm>("bn", channels);
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    Variable y = reduce_(tape, x);
    for (const Step& s : steps_)
      y = train::add(tape, train::add(tape, (*s.both)(tape, y), (*s.column)(tape, y)),
                     (*s.row)(tape, y));
    return train::add(tape, x, (*norm_)(tape, (*expand_)(tape, y), activation(Act::kRelu)));
  }

 private:
  struct Step {
    Conv *both, *column, *row;
  };
  Conv& reduce_;
  std::vector<Step> steps_;
  Conv* expand_;
  BatchNorm* norm_;
};

// A 9 x 9 convolution of PP-OCRv6 medium: depthwise of several branches, then pointwise.
class RepConv final : public Layer {
 public:
  RepConv(int64_t in, int64_t out)
      : depthwise_(add<DilatedRep>("dw", in, kKernel)),
        pointwise_(add<Conv>("pw", in, out, window(1), 1, false)),
        norm_(add<BatchNorm>("bn", out)) {
    start_over_all_channels(depthwise_);
    start_he_uniform(pointwise_);
  }
  Variable operator()(Tape& tape, const Variable& x) const override {
    return norm_(tape, pointwise_(tape, depthwise_(tape, x)));
  }

 private:
  DilatedRep& depthwise_;
  Conv& pointwise_;
  BatchNorm& norm_;
};

// LKPAN with plain convolutions for `Smooth`, RepLKPAN with RepConv.
template <class Smooth>
class PathPyramid final : public Neck {
 public:
  PathPyramid(const std::vector<int64_t>& in, const PyramidOptions& o, const char* name)
      : lateral_(add<List<Conv>>("ins_conv")),
        smooth_(add<List<Smooth>>("inp_conv")),
        up_(add<List<Conv>>("pan_head_conv")),
        last_(add<List<Smooth>>("pan_lat_conv")) {
    check_pyramid(in, o, name);
    if (o.mode != "large")
      throw train::Error(train::cat(name, ": mode '", o.mode, "' is not built, only 'large'"));
    channels_ = o.out_channels;
    const int64_t width = channels_ / 4;
    for (size_t i = 0; i < kScales; ++i) {
      start_he_uniform(lateral_.append(in[i], channels_, window(1), 1, false));
      append(smooth_, channels_, width);
      if (i > 0) start_he_uniform(up_.append(width, width, window(3, 2), 1, false));
      append(last_, width, width);
    }
    for (size_t i = 0; o.intracl && i < kScales; ++i)
      intra_[i] = &add<IntraBlock>(train::cat("incl", i + 1), width);
  }

  Features operator()(Tape& tape, const std::vector<Variable>& x) const override {
    const Scales sums = top_down(
        tape, x, [&](size_t i) -> const auto& { return lateral_[i]; });
    Scales p = sums;
    for (size_t i = 0; i < kScales; ++i) {
      p[i] = smooth_[i](tape, p[i]);
      if (i > 0) p[i] = train::add(tape, p[i], up_[i - 1](tape, p[i - 1]));
    }
    for (size_t i = 0; i < kScales; ++i) {
      p[i] = last_[i](tape, p[i]);
      if (intra_[i]) p[i] = (*intra_[i])(tape, p[i]);
    }
    return with_levels(fuse(tape, p), sums, training());
  }

 private:
  static void append(List<Conv>& list, int64_t in, int64_t out) {
    start_he_uniform(list.append(in, out, window(kKernel), 1, false));
  }
  static void append(List<RepConv>& list, int64_t in, int64_t out) { list.append(in, out); }

  List<Conv>& lateral_;
  List<Smooth>& smooth_;
  List<Conv>& up_;
  List<Smooth>& last_;
  std::array<IntraBlock*, kScales> intra_{};
};

}  // namespace

std::unique_ptr<Neck> make_lk_pan(const std::vector<int64_t>& in, const PyramidOptions& options) {
  return std::make_unique<PathPyramid<Conv>>(in, options, "LKPAN");
}

std::unique_ptr<Neck> make_rep_lk_pan(const std::vector<int64_t>& in,
                                      const PyramidOptions& options) {
  return std::make_unique<PathPyramid<RepConv>>(in, options, "RepLKPAN");
}

}  // namespace ocr::models
