// The necks of detectors: feature pyramids (Lin et al. 2017).
#include "libocr/models/pyramids.h"

#include <algorithm>

namespace ocr::models {

void check_pyramid(const std::vector<int64_t>& in, const PyramidOptions& o, const char* name) {
  if (in.size() != kScales)
    throw train::Error(train::cat(name, " needs a backbone of 4 scales, this one has ", in.size()));
  if (o.use_asf) throw train::Error(train::cat(name, ": use_asf (DB++) is not built"));
  if (o.out_channels < 8 || o.out_channels % 8 != 0)
    throw train::Error(
        train::cat(name, ": out_channels ", o.out_channels, " is not a multiple of 8"));
}

Variable fuse(Tape& tape, Scales p) {
  for (size_t i = 1; i < kScales; ++i) p[i] = train::upsample_nearest(tape, p[i], 1 << i);
  std::reverse(p.begin(), p.end());
  return train::concat(tape, p, 1);
}

namespace {

class DbFpn final : public Neck {
 public:
  DbFpn(const std::vector<int64_t>& in, const PyramidOptions& o) {
    check_pyramid(in, o, "DBFPN");
    channels_ = o.out_channels;
    for (size_t i = 0; i < kScales; ++i)
      lateral_[i] =
          &add<Conv>(train::cat("in", i + 2, "_conv"), in[i], channels_, window(1), 1, false);
    for (size_t i = kScales; i-- > 0;)
      smooth_[i] = &add<Conv>(train::cat("p", i + 2, "_conv"), channels_, channels_ / 4, window(3),
                              1, false);
    start_he_uniform(*this);
  }

  Features operator()(Tape& tape, const std::vector<Variable>& x) const override {
    Scales p = top_down(tape, x, [&](size_t i) -> const Conv& { return *lateral_[i]; });
    for (size_t i = 0; i < kScales; ++i) p[i] = (*smooth_[i])(tape, p[i]);
    return fuse(tape, p);
  }

 private:
  std::array<Conv*, kScales> lateral_{}, smooth_{};
};

// A convolution whose result is gated, or has its gated self added.
class GatedConv final : public Layer {
 public:
  GatedConv(int64_t in, int64_t out, int kernel, bool shortcut)
      : conv_(add<Conv>("in_conv", in, out, window(kernel), 1, false)),
        gate_(add<SqueezeExcite>("se_block", out, kMobileNetSlope)),
        shortcut_(shortcut) {
    start_he_uniform(conv_);
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    const Variable y = conv_(tape, x);
    return shortcut_ ? train::add(tape, y, gate_(tape, y)) : gate_(tape, y);
  }

 private:
  Conv& conv_;
  SqueezeExcite& gate_;
  bool shortcut_;
};

class RseFpn final : public Neck {
 public:
  RseFpn(const std::vector<int64_t>& in, const PyramidOptions& o)
      : lateral_(add<List<GatedConv>>("ins_conv")), smooth_(add<List<GatedConv>>("inp_conv")) {
    check_pyramid(in, o, "RSEFPN");
    channels_ = o.out_channels;
    for (size_t i = 0; i < kScales; ++i) {
      lateral_.append(in[i], channels_, 1, o.shortcut);
      smooth_.append(channels_, channels_ / 4, 3, o.shortcut);
    }
  }

  Features operator()(Tape& tape, const std::vector<Variable>& x) const override {
    Scales p = top_down(
        tape, x, [&](size_t i) -> const auto& { return lateral_[i]; });
    for (size_t i = 0; i < kScales; ++i) p[i] = smooth_[i](tape, p[i]);
    return fuse(tape, p);
  }

 private:
  List<GatedConv>&lateral_, &smooth_;
};

class RepLkFpn final : public Neck {
 public:
  RepLkFpn(const std::vector<int64_t>& in, const PyramidOptions& o)
      : lateral_(add<List<GatedConv>>("ins_conv")),
        depthwise_(add<List<DilatedRep>>("inp_conv_dw")),
        pointwise_(add<List<Conv>>("inp_conv_pw")),
        gate_(add<List<SqueezeExcite>>("inp_conv_se")),
        shortcut_(o.shortcut) {
    check_pyramid(in, o, "RepLKFPN");
    channels_ = o.out_channels;
    for (size_t i = 0; i < kScales; ++i) {
      lateral_.append(in[i], channels_, 1, o.shortcut);
      depthwise_.append(channels_, o.dilated_kernel_size);
      pointwise_.append(channels_, channels_ / 4, window(1), 1, false);
      gate_.append(channels_ / 4, kMobileNetSlope);
    }
    start_over_all_channels(depthwise_);
    start_he_uniform(pointwise_);
  }

  Features operator()(Tape& tape, const std::vector<Variable>& x) const override {
    const Scales sums = top_down(
        tape, x, [&](size_t i) -> const auto& { return lateral_[i]; });
    Scales p = sums;
    for (size_t i = 0; i < kScales; ++i) {
      const Variable y = pointwise_[i](tape, depthwise_[i](tape, p[i]));
      const Variable gated = gate_[i](tape, y);
      p[i] = shortcut_ ? train::add(tape, y, gated) : gated;
    }
    return with_levels(fuse(tape, p), sums, training());
  }

 private:
  List<GatedConv>& lateral_;
  List<DilatedRep>& depthwise_;
  List<Conv>& pointwise_;
  List<SqueezeExcite>& gate_;
  bool shortcut_;
};

}  // namespace

std::unique_ptr<Neck> make_db_fpn(const std::vector<int64_t>& in, const PyramidOptions& options) {
  return std::make_unique<DbFpn>(in, options);
}

std::unique_ptr<Neck> make_rse_fpn(const std::vector<int64_t>& in, const PyramidOptions& options) {
  return std::make_unique<RseFpn>(in, options);
}

std::unique_ptr<Neck> make_rep_lk_fpn(const std::vector<int64_t>& in,
                                      const PyramidOptions& options) {
  return std::make_unique<RepLkFpn>(in, options);
}

}  // namespace ocr::models
