#include "libocr/data/multi_scale_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libtrain/core/error.h"

namespace ocr {

using train::cat;
using train::data::BatchPlan;

MultiScaleSampler::MultiScaleSampler(const train::config::SamplerConfig& config, int64_t samples,
                                     std::vector<double> aspects, const Options& options)
    : samples_(samples),
      training_(config.is_training),
      max_width_(config.max_w),
      aspects_(std::move(aspects)),
      options_(options) {
  const auto fail = [](const std::string& why) { throw train::ConfigError("", 0, 0, why); };
  if (samples < options.ranks)
    throw train::DataError("MultiScaleSampler", 0,
                           cat("the data set has ", samples, " samples for ", options.ranks,
                               options.ranks == 1 ? " rank" : " ranks"));
  if (config.scales.empty()) fail("'sampler.scales' is missing");
  if (config.first_bs < 1)
    fail(cat("'sampler.first_bs' must be at least 1, got ", config.first_bs));
  if (config.divided_factor.size() != 2 || config.divided_factor[0] < 1 ||
      config.divided_factor[1] < 1)
    fail("'sampler.divided_factor' takes [of the width, of the height]");
  for (const std::vector<int>& s : config.scales) {
    if (s.empty() || s.size() > 2) fail("'sampler.scales' takes [[width, height], ...]");
    Scale scale{s.front(), s.back(), config.first_bs};
    if (training_) {
      scale.width = scale.width / config.divided_factor[0] * config.divided_factor[0];
      scale.height = scale.height / config.divided_factor[1] * config.divided_factor[1];
    }
    if (scale.width < 1 || scale.height < 1 || scale.width > 1 << 17 || scale.height > 4096)
      fail(cat("'sampler.scales' has ", s.front(), " x ", s.back(),
               ", which divided_factor leaves nothing of, or which is too large"));
    if (!config.fix_bs) {
      const double pixels =
          static_cast<double>(config.scales[0].front()) * config.scales[0].back() * config.first_bs;
      scale.batch = static_cast<int>(std::max(1.0, pixels / (scale.width * scale.height)));
    }
    scales_.push_back(scale);
    if (!training_) break;  // evaluation uses the first
  }
  if (!aspects_.empty()) {
    by_aspect_.resize(aspects_.size());
    std::iota(by_aspect_.begin(), by_aspect_.end(), int64_t{0});
    std::stable_sort(by_aspect_.begin(), by_aspect_.end(), [&](int64_t a, int64_t b) {
      return aspects_[static_cast<size_t>(a)] < aspects_[static_cast<size_t>(b)];
    });
  }
}

int MultiScaleSampler::width_of(const std::vector<int64_t>& indices, const Scale& scale) const {
  if (aspects_.empty()) return scale.width;
  double sum = 0;
  for (const int64_t i : indices) sum += aspects_[static_cast<size_t>(i)];
  const double mean =
      std::min(sum / static_cast<double>(indices.size()), max_width_ / scale.height);
  return scale.height * std::max(1, static_cast<int>(std::nearbyint(mean)));
}

std::vector<BatchPlan> MultiScaleSampler::epoch(int64_t number) const {
  const bool shuffle = training_ && aspects_.empty();
  const std::vector<int64_t> order =
      aspects_.empty() ? train::data::permutation(samples_, options_.seed, number, shuffle)
                       : by_aspect_;
  std::vector<int64_t> mine;
  const int64_t each = samples_ / options_.ranks;
  for (int64_t i = options_.rank; static_cast<int64_t>(mine.size()) < each; i += options_.ranks)
    mine.push_back(order[static_cast<size_t>(i)]);

  std::vector<Scale> sizes;
  for (int64_t taken = 0; taken < each; taken += sizes.back().batch)
    sizes.push_back(scales_[sizes.size() % scales_.size()]);
  // Every rank must take the same sizes in the same order: the permutations know nothing of it.
  const auto batches = static_cast<int64_t>(sizes.size());
  std::vector<BatchPlan> plans;
  int64_t next = 0;
  for (const int64_t s : train::data::permutation(batches, options_.seed + 1, number, training_)) {
    const Scale& scale = sizes[static_cast<size_t>(s)];
    if (next >= each) break;
    BatchPlan plan;
    for (int64_t k = 0; k < scale.batch; ++k, ++next)
      plan.indices.push_back(mine[static_cast<size_t>(next < each ? next : (next - each) % each)]);
    plan.height = scale.height;
    plan.width = width_of(plan.indices, scale);
    plans.push_back(std::move(plan));
  }
  if (aspects_.empty() || !training_) return plans;
  std::vector<BatchPlan> shuffled;
  for (const int64_t p :
       train::data::permutation(static_cast<int64_t>(plans.size()), options_.seed + 2, number))
    shuffled.push_back(std::move(plans[static_cast<size_t>(p)]));
  return shuffled;
}

}  // namespace ocr
