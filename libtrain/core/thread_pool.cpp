#include "libtrain/core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace train {
namespace {

thread_local ThreadPool* current_pool = nullptr;
constexpr int kSpins = 2000;  // about 20-60 microseconds: longer than the gap between two layers

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until `a` differs from `old`: spins first, then sleeps in the kernel.
uint32_t await_change(const std::atomic<uint32_t>& a, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const uint32_t v = a.load(std::memory_order_acquire);
    if (v != old) return v;
    pause();
  }
  a.wait(old, std::memory_order_acquire);
  return a.load(std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::Impl {
  std::vector<std::thread> workers;
  std::atomic<uint32_t> epoch{0};  // raised once per run
  std::atomic<uint32_t> pending{0};
  bool stop = false;
  int tasks = 0;
  const FunctionRef<void(int)>* fn = nullptr;
  std::mutex mutex;  // guards `failure`
  std::exception_ptr failure;

  void work(int first, int stride) {
    try {
      for (int i = first; i < tasks; i += stride) (*fn)(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)) {
  if (threads_ == 1) return;
  impl_ = std::make_unique<Impl>();
  for (int w = 1; w < threads_; ++w) {
    impl_->workers.emplace_back([this, w] {
      flush_denormals();
      Impl& s = *impl_;
      for (uint32_t seen = 0;;) {
        seen = await_change(s.epoch, seen);
        if (s.stop) return;
        s.work(w, threads_);
        if (s.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) s.pending.notify_one();
      }
    });
  }
}

ThreadPool::~ThreadPool() {
  if (!impl_) return;
  impl_->stop = true;
  impl_->epoch.fetch_add(1, std::memory_order_release);
  impl_->epoch.notify_all();
  for (auto& t : impl_->workers) t.join();
}

void ThreadPool::run(int tasks, FunctionRef<void(int)> fn) {
  if (!impl_ || tasks <= 1) {
    for (int i = 0; i < tasks; ++i) fn(i);
    return;
  }
  Impl& s = *impl_;
  s.fn = &fn;
  s.tasks = tasks;
  s.failure = nullptr;
  s.pending.store(static_cast<uint32_t>(threads_ - 1), std::memory_order_relaxed);
  s.epoch.fetch_add(1, std::memory_order_release);
  s.epoch.notify_all();
  ThreadPool* const saved = current_pool;
  current_pool = nullptr;  // a nested parallel_for runs inline
  s.work(0, threads_);
  current_pool = saved;
  for (uint32_t left; (left = s.pending.load(std::memory_order_acquire)) != 0;)
    await_change(s.pending, left);
  if (s.failure) std::rethrow_exception(s.failure);
}

PoolScope::PoolScope(ThreadPool* pool) : previous_(current_pool), mxcsr_(0) {
  current_pool = pool;
#if defined(__x86_64__)
  mxcsr_ = _mm_getcsr();
#endif
  flush_denormals();
}

PoolScope::~PoolScope() {
  current_pool = previous_;
#if defined(__x86_64__)
  _mm_setcsr(mxcsr_);
#endif
}

int current_threads() { return current_pool ? current_pool->threads() : 1; }

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> fn) {
  if (n <= 0) return;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, current_threads());
  if (parts == 1) return fn(0, n);
  current_pool->run(static_cast<int>(parts),
                    [&](int i) { fn(n * i / parts, n * (i + 1) / parts); });
}

void flush_denormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ | DAZ
#endif
}

}  // namespace train
