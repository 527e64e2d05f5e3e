// parallel_for: the only way work is split over threads, so that one switch decides how many there
// are.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace train {

/// A non-owning reference to a callable, alive for one call: unlike std::function it never
/// allocates.
template <class Signature>
class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): made to be passed a lambda
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* o, A... a) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(a...);
        }) {}
  R operator()(A... a) const { return call_(object_, a...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

/// A pool of `threads - 1` workers plus the caller. One caller uses a pool at a time; concurrent
/// callers own one each (a pool of one thread costs nothing). Workers spin briefly, then sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int threads() const { return threads_; }
  /// Calls fn(i) for i in [0, tasks), task i on worker i % threads; returns when all are done. The
  /// first exception is rethrown.
  void run(int tasks, FunctionRef<void(int)> fn);

 private:
  struct Impl;
  int threads_;
  std::unique_ptr<Impl> impl_;  // null for one thread
};

/// Makes `pool` the pool of parallel_for on this thread, and sets flush-to-zero, for the scope's
/// life.
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

/// Threads that parallel_for would use here: 1 outside a PoolScope and inside a worker (never
/// nested).
int current_threads();

/// Splits [0, n) into at most current_threads() ranges of at least `grain` and calls fn(begin, end)
/// on each. Callers must compute the same bits for any split.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> fn);

/// Denormals cost up to a hundredfold and mean nothing here: every thread that computes flushes
/// them.
void flush_denormals();

/// CPUs this process may use: affinity mask and cgroup quota, at least 1.
int usable_cpus();
/// Memory this process may use in bytes: the cgroup's limit or the machine's, less what is already
/// taken elsewhere.
int64_t usable_memory();

}  // namespace train
