// MemoryPool: memory of freed tensors kept for the next ones of their size class.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libtrain/core/tensor.h"

namespace train {

/// A training step allocates and frees the same sizes again and again; returning pages to the
/// system in between costs a page fault per 4 KiB touched, more than most layers compute. The pool
/// keeps what is freed, in classes a quarter of a power of two apart (at most a quarter is wasted),
/// and lends blocks of up to twice the size. Batches of ever other sizes would leave ever more
/// behind: when new memory must be taken, what was freed longest ago goes back to the system as far
/// as all together would pass kMostKept times the most that ever lay in tensors. Thread-safe;
/// tensors may outlive it.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  /// What lies in tensors, what waits for the next ones, and the most that ever lay in tensors;
  /// bytes, rounded up to classes.
  struct Stats {
    size_t used = 0, kept = 0, peak = 0;
  };

  /// All together, of the most that ever lay in tensors, beyond which blocks are given back.
  static constexpr double kMostKept = 1.25;

  static std::shared_ptr<MemoryPool> create() { return std::make_shared<MemoryPool>(); }
  /// Uninitialised, as Tensor(shape, dtype).
  Tensor tensor(const Shape& shape, DType dtype = DType::kF32);
  /// Gives what waits back to the system.
  void trim();
  Stats stats() const;

 private:
  std::shared_ptr<Storage> storage(size_t bytes);
  void give_back(Storage* storage);
  mutable std::mutex mutex_;
  struct Free {
    std::unique_ptr<Storage> storage;
    uint64_t freed;  // when, of clock_
  };
  void release_oldest(size_t most);
  std::map<size_t, std::vector<Free>> free_;  // by size class, each in the order freed
  uint64_t clock_ = 0;
  Stats stats_;
};

}  // namespace train
