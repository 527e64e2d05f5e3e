// Random numbers of one step of one sample: a pure function of seed, epoch, sample and step, so
// that any worker draws the same, and a change of one step does not move the draws of another.
#pragma once
#include <cstdint>

#include "libtrain/core/philox.h"

namespace ocr {

class Random {
 public:
  /// The numbers of step `step` of the sample that `sample` belongs to.
  Random(const train::RandomStream& sample, int step)
      : stream_(word(sample, step, 0), word(sample, step, 2)) {}

  uint32_t bits() { return stream_.bits(next_++); }
  double uniform() { return static_cast<double>(stream_.uniform(next_++)); }  // [0, 1)
  double uniform(double lo, double hi) { return lo + (hi - lo) * uniform(); }
  int below(int n) {
    return n > 1 ? static_cast<int>(stream_.below(next_++, static_cast<uint32_t>(n))) : 0;
  }
  int between(int lo, int hi) { return lo + below(hi - lo + 1); }  // both ends included
  bool chance(double p) { return uniform() < p; }
  template <class Container>
  void shuffle(Container& items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<size_t>(below(static_cast<int>(i)))]);
  }

 private:
  static uint64_t word(const train::RandomStream& sample, int step, uint64_t at) {
    const uint64_t first = 4 * static_cast<uint64_t>(step) + at;
    return static_cast<uint64_t>(sample.bits(first)) << 32 | sample.bits(first + 1);
  }
  train::RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace ocr
