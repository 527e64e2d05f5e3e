#include "libtrain/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "libtrain/core/error.h"

namespace train::data {
namespace {

// Two numbers into one that differs in all bits where they differ in one (Philox as a hash).
uint64_t mix(uint64_t a, uint64_t b) {
  const auto c =
      Philox::block({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), 0x5eed, 0},
                    {static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)});
  return uint64_t{c[1]} << 32 | c[0];
}

}  // namespace

RandomStream sample_random(uint64_t seed, int64_t epoch, int64_t index) {
  return {mix(seed, static_cast<uint64_t>(epoch)), static_cast<uint64_t>(index)};
}

std::vector<Tensor> Dataset::collate(std::span<const Sample> samples) const {
  std::vector<Tensor> fields;
  for (size_t f = 0; f < samples[0].fields.size(); ++f) {
    const Tensor& first = samples[0].fields[f];
    Shape shape = first.shape();
    shape.insert(0, static_cast<int64_t>(samples.size()));
    Tensor all(shape, first.dtype());
    char* to = static_cast<char*>(all.raw());
    for (const Sample& s : samples) {
      const Tensor& t = s.fields.at(f);
      if (t.shape() != first.shape() || t.dtype() != first.dtype())
        throw ShapeError(cat("field ", f, " of a batch has samples of shapes ", first.shape().str(),
                             " and ", t.shape().str()));
      std::memcpy(to, t.raw(), t.bytes());
      to += t.bytes();
    }
    fields.push_back(std::move(all));
  }
  return fields;
}

std::vector<int64_t> permutation(int64_t n, uint64_t seed, int64_t epoch, bool shuffle) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  const RandomStream random(mix(seed, static_cast<uint64_t>(epoch)), stream_of("order"));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(i, static_cast<uint32_t>(i))]);
  return order;
}

SimpleBatchSampler::SimpleBatchSampler(int64_t dataset_size, const BatchOptions& options)
    : size_(dataset_size), options_(options) {
  const BatchOptions& o = options;
  if (o.batch_size <= 0 || o.ranks <= 0 || o.rank < 0 || o.rank >= o.ranks)
    throw ConfigError(
        "", 0, 0,
        cat("impossible batches: batch size ", o.batch_size, ", rank ", o.rank, " of ", o.ranks));
  if (dataset_size <= 0) throw DataError("the data set", 0, "holds no samples");
  if (dataset_size > INT32_MAX) throw DataError("the data set", 0, "more than 2^31 samples");
  if (o.drop_last && dataset_size < o.batch_size * o.ranks)
    throw DataError(
        "the data set", 0,
        cat("holds ", dataset_size, " samples, fewer than one batch of ", o.batch_size * o.ranks,
            ", and drop_last would drop them all; set drop_last to false or the batch "
            "size to at most ",
            std::max<int64_t>(1, dataset_size / o.ranks)));
}

std::vector<BatchPlan> SimpleBatchSampler::epoch(int64_t number) const {
  const BatchOptions& o = options_;
  std::vector<int64_t> order = permutation(size_, o.seed, number, o.shuffle);
  const int64_t global = o.batch_size * o.ranks;
  std::vector<BatchPlan> plans;
  for (int64_t begin = 0; begin < size_; begin += global) {
    int64_t n = std::min(global, size_ - begin);
    if (n < global && o.drop_last) break;
    for (int64_t i = 0; n % o.ranks != 0; ++n, ++i)  // only the last: nothing comes after
      order.push_back(order[static_cast<size_t>(i % size_)]);
    const auto piece = order.begin() + begin + n / o.ranks * o.rank;
    plans.push_back({std::vector<int64_t>(piece, piece + n / o.ranks)});
  }
  return plans;
}

}  // namespace train::data
