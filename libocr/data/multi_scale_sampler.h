// MultiScaleSampler: batches of lines at several sizes, and by aspect when `ds_width` is on.
#pragma once
#include <vector>

#include "libtrain/config/training.h"
#include "libtrain/data/dataset.h"

namespace ocr {

/// The batch of the first scale has first_bs lines; with fix_bs off the others have as many as give
/// the same number of pixels. Batches take the scales in turn, then stand in random order; one that
/// comes out short is filled up from the rank's first samples. With aspects (width / height of each
/// sample) lines go sorted by it, and a batch's width is its height times the mean, rounded, at
/// most max_w.
class MultiScaleSampler final : public train::data::BatchSampler {
 public:
  struct Options {
    uint64_t seed = 0;
    int rank = 0, ranks = 1;
  };
  /// Throws ConfigError for scales that are no [width, height], or that divided_factor leaves
  /// nothing of, DataError for an empty data set.
  MultiScaleSampler(const train::config::SamplerConfig& config, int64_t samples,
                    std::vector<double> aspects, const Options& options);
  std::vector<train::data::BatchPlan> epoch(int64_t number) const override;

  struct Scale {
    int width, height, batch;
  };
  const std::vector<Scale>& scales() const { return scales_; }

 private:
  int width_of(const std::vector<int64_t>& indices, const Scale& scale) const;

  std::vector<Scale> scales_;
  int64_t samples_;
  bool training_;
  double max_width_;
  std::vector<double> aspects_;
  std::vector<int64_t> by_aspect_;
  Options options_;
};

}  // namespace ocr
