// parallel_for: the only way work is split over threads, so that one switch decides how many there are.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace train {

/// A pool of `threads - 1` workers plus the caller. One caller uses a pool at a time; concurrent callers own one each
/// (a pool of one thread costs nothing). Workers spin briefly, then sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int threads() const { return threads_; }
  /// Calls fn(i) for i in [0, tasks), task i on worker i % threads; returns when all are done. The first exception is rethrown.
  void run(int tasks, const std::function<void(int)>& fn);

 private:
  struct Impl;
  int threads_;
  std::unique_ptr<Impl> impl_;  // null for one thread
};

/// Makes `pool` the pool of parallel_for on this thread, and sets flush-to-zero, for the scope's life.
class PoolScope {
 public:
  explicit PoolScope(ThreadPool* pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  ThreadPool* previous_;
  unsigned mxcsr_;
};

/// Threads that parallel_for would use here: 1 outside a PoolScope and inside a worker (never nested).
int current_threads();

/// Splits [0, n) into at most current_threads() ranges of at least `grain` and calls fn(begin, end) on each.
/// Callers must compute the same bits for any split.
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& fn);

/// Denormals cost up to a hundredfold and mean nothing here: every thread that computes flushes them.
void flush_denormals();

/// CPUs this process may use: affinity mask and cgroup quota, at least 1.
int usable_cpus();
/// Memory this process may use in bytes: the cgroup's limit or the machine's, less what is already taken elsewhere.
int64_t usable_memory();

}  // namespace train
