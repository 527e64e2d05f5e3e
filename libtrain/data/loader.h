// DataLoader: worker threads that read samples ahead of training, in the order of the sampler.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libtrain/data/dataset.h"

namespace train::data {

struct LoaderOptions {
  int workers = 0;      // 0: samples are read by the caller
  int prefetch = 2;     // batches read ahead, at least 1
  uint64_t seed = 0;    // of the samples' random numbers
  int64_t max_bad = 0;  // samples per run that may fail; one more ends it
  bool whole = false;  // a batch that loses all its samples ends the run: ranks count on each batch
};

struct BadSample {
  std::string name, reason;
  int64_t epoch = 0;
};

/// Gives the same batches, bit for bit, for any number of workers. Samples are handed out one by
/// one, so a batch is ready as soon as all workers together can read it; at most `prefetch` batches
/// wait. One caller; the data set and the sampler outlive the loader.
///
/// A sample that throws an Error is left out of its batch and noted, in order, when the batch is
/// taken, once however many epochs it fails in; past `max_bad` of them next() throws DataError with
/// the name and reason of the last. A
/// batch that loses all its samples is left out altogether.
class DataLoader {
 public:
  DataLoader(const Dataset& dataset, const BatchSampler& sampler, const LoaderOptions& options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Begins an epoch at one of its batches; what was read ahead of another place is thrown away.
  void start(int64_t epoch, int64_t first_batch = 0);
  /// The next batch, nothing after the epoch's last.
  std::optional<Batch> next();

  int64_t batches() const;  // in the epoch begun last
  const std::vector<BadSample>& bad() const { return bad_; }
  /// Seconds that next() waited since the last call of this, and how often it waited at all.
  double take_wait_seconds();

 private:
  struct Slot;
  struct Impl;
  void read(Slot& slot, size_t i) const;
  void finish(Slot& slot) const;
  std::shared_ptr<Slot> make_slot(int64_t number) const;
  std::optional<Batch> deliver(Slot& slot);
  void note_bad(int64_t index, std::string reason);

  const Dataset& dataset_;
  const BatchSampler& sampler_;
  const LoaderOptions options_;
  std::vector<BatchPlan> plans_;
  int64_t epoch_ = 0, position_ = 0;  // the batch that next() gives
  std::vector<BadSample> bad_;
  std::set<int64_t> bad_indices_;
  double wait_seconds_ = 0;
  std::unique_ptr<Impl> impl_;  // null without workers
};

}  // namespace train::data
