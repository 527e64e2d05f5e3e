// What the necks of detectors share.
#pragma once
#include <array>
#include <utility>
#include <vector>

#include "libocr/models/necks.h"
#include "libtrain/core/error.h"

namespace ocr::models {

constexpr size_t kScales = 4;  // 1/4, 1/8, 1/16, 1/32
using Scales = std::array<Variable, kScales>;

/// Throws train::Error for another number of scales or an option that is not built.
void check_pyramid(const std::vector<int64_t>& in, const PyramidOptions& o, const char* name);
/// Each scale through its lateral layer (lateral(i) gives it), coarser ones added to finer ones.
template <class Lateral>
Scales top_down(Tape& tape, const std::vector<Variable>& x, const Lateral& lateral) {
  Scales p;
  for (size_t i = 0; i < kScales; ++i) p[i] = lateral(i)(tape, x[i]);
  for (size_t i = kScales - 1; i-- > 0;)
    p[i] = train::add(tape, p[i], train::upsample_nearest(tape, p[i + 1], 2));
  return p;
}
/// All at 1/4 resolution, the coarsest channels first.
Variable fuse(Tape& tape, Scales p);
/// In training the sums at kAuxLevels go along.
inline Features with_levels(Variable fused, const Scales& sums, bool training) {
  Features out(std::move(fused));
  if (training) out.levels.assign(sums.begin(), sums.begin() + kAuxLevels.size());
  return out;
}

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

}  // namespace ocr::models
