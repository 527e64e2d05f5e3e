// The necks of detectors.
#include <algorithm>
#include <array>

#include "libocr/models/necks.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

constexpr size_t kScales = 4;  // 1/4, 1/8, 1/16, 1/32
using Scales = std::array<Variable, kScales>;

void check(const std::vector<int64_t>& in, const PyramidOptions& o, const char* name) {
  if (in.size() != kScales)
    throw train::Error(train::cat(name, " needs a backbone of 4 scales, this one has ", in.size()));
  if (o.use_asf) throw train::Error(train::cat(name, ": use_asf (DB++) is not built"));
  if (o.out_channels < 8 || o.out_channels % 8 != 0)
    throw train::Error(
        train::cat(name, ": out_channels ", o.out_channels, " is not a multiple of 8"));
}

// Coarser scales are added to finer ones.
void add_downwards(Tape& tape, Scales& p) {
  for (size_t i = kScales - 1; i-- > 0;)
    p[i] = train::add(tape, p[i], train::upsample_nearest(tape, p[i + 1], 2));
}

// All at 1/4 resolution, the coarsest channels first.
Variable fuse(Tape& tape, Scales p) {
  for (size_t i = 1; i < kScales; ++i) p[i] = train::upsample_nearest(tape, p[i], 1 << i);
  std::reverse(p.begin(), p.end());
  return train::concat(tape, p, 1);
}

class DbFpn final : public Neck {
 public:
  DbFpn(const std::vector<int64_t>& in, const PyramidOptions& o) {
    check(in, o, "DBFPN");
    channels_ = o.out_channels;
    for (size_t i = 0; i < kScales; ++i)
      lateral_[i] =
          &add<Conv>(train::cat("in", i + 2, "_conv"), in[i], channels_, window(1), 1, false);
    for (size_t i = kScales; i-- > 0;)
      smooth_[i] = &add<Conv>(train::cat("p", i + 2, "_conv"), channels_, channels_ / 4, window(3),
                              1, false);
    start_he_uniform(*this);
  }

  Variable operator()(Tape& tape, const std::vector<Variable>& x) const override {
    Scales p;
    for (size_t i = 0; i < kScales; ++i) p[i] = (*lateral_[i])(tape, x[i]);
    add_downwards(tape, p);
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
    check(in, o, "RSEFPN");
    channels_ = o.out_channels;
    for (size_t i = 0; i < kScales; ++i) {
      lateral_.append(in[i], channels_, 1, o.shortcut);
      smooth_.append(channels_, channels_ / 4, 3, o.shortcut);
    }
  }

  Variable operator()(Tape& tape, const std::vector<Variable>& x) const override {
    Scales p;
    for (size_t i = 0; i < kScales; ++i) p[i] = lateral_[i](tape, x[i]);
    add_downwards(tape, p);
    for (size_t i = 0; i < kScales; ++i) p[i] = smooth_[i](tape, p[i]);
    return fuse(tape, p);
  }

 private:
  List<GatedConv>&lateral_, &smooth_;
};

// A large depthwise kernel in training: itself and small dilated kernels, each normalised (Ding et
// al. 2024). An export makes one kernel of them.
class DilatedRep final : public Layer {
 public:
  DilatedRep(int64_t channels, int kernel)
      : large_(add<Conv>("lk_origin", channels, channels, window(kernel), channels, false)),
        norm_(add<BatchNorm>("origin_bn", channels)) {
    for (const auto& [k, dilation] : branches_of(kernel)) {
      branches_.push_back({&add<Conv>(train::cat("dil_conv_k", k, "_", dilation), channels,
                                      channels, window(k, 1, dilation), channels, false),
                           &add<BatchNorm>(train::cat("dil_bn_k", k, "_", dilation), channels)});
    }
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    Variable sum = norm_(tape, large_(tape, x));
    for (const Branch& b : branches_)
      sum = train::add(tape, sum, (*b.norm)(tape, (*b.conv)(tape, x)));
    return sum;
  }

 private:
  struct Branch {
    Conv* conv;
    BatchNorm* norm;
  };
  static std::vector<std::pair<int, int>> branches_of(int kernel) {
    switch (kernel) {
      case 5:
        return {{3, 1}, {3, 2}};
      case 7:
        return {{5, 1}, {3, 2}, {3, 3}};
      case 9:
        return {{5, 1}, {5, 2}, {3, 3}, {3, 4}};
      case 11:
        return {{5, 1}, {5, 2}, {3, 3}, {3, 4}, {3, 5}};
      case 13:
        return {{5, 1}, {7, 2}, {3, 3}, {3, 4}, {3, 5}};
      default:
        throw train::Error(train::cat("dilated_kernel_size ", kernel,
                                      ": RepLKFPN has the kernels 5, 7, 9, 11 and 13"));
    }
  }
  Conv& large_;
  BatchNorm& norm_;
  std::vector<Branch> branches_;
};

class RepLkFpn final : public Neck {
 public:
  RepLkFpn(const std::vector<int64_t>& in, const PyramidOptions& o)
      : lateral_(add<List<GatedConv>>("ins_conv")),
        depthwise_(add<List<DilatedRep>>("inp_conv_dw")),
        pointwise_(add<List<Conv>>("inp_conv_pw")),
        gate_(add<List<SqueezeExcite>>("inp_conv_se")),
        shortcut_(o.shortcut) {
    check(in, o, "RepLKFPN");
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

  Variable operator()(Tape& tape, const std::vector<Variable>& x) const override {
    Scales p;
    for (size_t i = 0; i < kScales; ++i) p[i] = lateral_[i](tape, x[i]);
    add_downwards(tape, p);
    for (size_t i = 0; i < kScales; ++i) {
      const Variable y = pointwise_[i](tape, depthwise_[i](tape, p[i]));
      const Variable gated = gate_[i](tape, y);
      p[i] = shortcut_ ? train::add(tape, y, gated) : gated;
    }
    return fuse(tape, p);
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
