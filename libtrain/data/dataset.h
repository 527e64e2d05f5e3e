// Dataset and BatchSampler: where samples come from, and in which order and company they come.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libtrain/core/philox.h"
#include "libtrain/core/tensor.h"

namespace train::data {

/// The random numbers of one sample in one epoch: a function of the three alone, so that they do
/// not depend on workers, batches or where a run was resumed.
RandomStream sample_random(uint64_t seed, int64_t epoch, int64_t index);

struct SampleRequest {
  int64_t index = 0, epoch = 0;
  RandomStream random{0, 0};
  int height = 0, width = 0;  // the size that the batch wants; 0 where it does not say
};

struct Sample {
  std::vector<Tensor> fields;
};

struct Batch {
  std::vector<Tensor> fields;
  std::vector<int64_t> indices;   // of its samples in the data set
  int64_t epoch = 0, number = 0;  // counted in the epoch, from 0
  int height = 0, width = 0;
  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// Reads and transforms one sample. Called by several threads at once. Throws DataError with path
  /// and line on a bad one; draws random numbers from the request only.
  virtual Sample get(const SampleRequest& request) const = 0;
  /// What a person finds sample `index` by: "path" or "path:line".
  virtual std::string name(int64_t index) const = 0;
  /// Makes the fields of a batch; by default stacks each field: n tensors [...] -> [n, ...]. Throws
  /// ShapeError when samples differ. Called by several threads at once.
  virtual std::vector<Tensor> collate(std::span<const Sample> samples) const;
};

struct BatchPlan {
  std::vector<int64_t> indices;
  int height = 0, width = 0;
};

class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  /// The batches of one epoch, a function of the number alone: a position in training is (epoch,
  /// batch) and nothing else.
  virtual std::vector<BatchPlan> epoch(int64_t number) const = 0;
};

struct BatchOptions {
  int64_t batch_size = 1;  // per rank
  bool shuffle = false, drop_last = false;
  uint64_t seed = 0;
  int rank = 0, ranks = 1;
};

/// Batches of equal size. Over ranks, every global batch of batch_size * ranks samples is cut into
/// consecutive pieces, so that ranks together see what one rank with the larger batch would see; a
/// last one that does not divide is filled up from the start of the epoch.
class SimpleBatchSampler final : public BatchSampler {
 public:
  /// Throws DataError with both numbers when `drop_last` would leave nothing of the data set, and
  /// ConfigError on an impossible option.
  SimpleBatchSampler(int64_t dataset_size, const BatchOptions& options);
  std::vector<BatchPlan> epoch(int64_t number) const override;

 private:
  int64_t size_;
  BatchOptions options_;
};

/// [0, n) in the random order of (seed, epoch) (Fisher-Yates), or in its own.
std::vector<int64_t> permutation(int64_t n, uint64_t seed, int64_t epoch, bool shuffle = true);

}  // namespace train::data
