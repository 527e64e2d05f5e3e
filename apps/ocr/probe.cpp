#include "apps/ocr/probe.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "libtrain/core/tensor.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/gemm.h"

namespace app {
namespace {

// Best time of `work` on all threads at once, in seconds; a tenth of a second of tries.
template <class F>
double best_time(train::ThreadPool& pool, F&& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  const auto end = Clock::now() + std::chrono::milliseconds(120);
  do {
    const auto t = Clock::now();
    pool.run(pool.threads(), work);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - t).count());
  } while (Clock::now() < end);
  return best;
}

}  // namespace

Peak probe_peak(int threads) {
  train::ThreadPool pool(threads);
  Peak peak;
  {
    // Operands in the first-level cache: 48 rows of 96 times 96 x 48, many times over.
    constexpr int64_t m = 48, k = 96, n = 48, repeat = 200;
    std::vector<float> b(k * n, 0.5f);
    const train::cpu::PackedMatrix packed(b.data(), n, false, k, n, nullptr);
    std::vector<std::vector<float>> a(threads), y(threads);
    for (int t = 0; t < threads; ++t) a[t].assign(m * k, 0.25f), y[t].assign(m * n, 0.f);
    const double s = best_time(pool, [&](int t) {
      for (int i = 0; i < repeat; ++i)
        train::cpu::gemm(a[t].data(), k, m, packed, {}, y[t].data(), n);
    });
    peak.flops = 2.0 * m * k * n * repeat * threads / s;
  }
  {
    constexpr size_t bytes = size_t{64} << 20;  // per thread; beyond the caches
    std::vector<std::unique_ptr<train::Storage>> from;
    for (int t = 0; t < threads; ++t) {
      from.push_back(std::make_unique<train::Storage>(bytes));
      std::memset(from.back()->data(), 1, bytes);
    }
    std::vector<uint64_t> sums(static_cast<size_t>(threads) * 8);
    const double s = best_time(pool, [&](int t) {
      const auto* p = static_cast<const uint64_t*>(from[t]->data());
      uint64_t sum[4] = {};
      for (size_t i = 0; i < bytes / 8; i += 4)
        for (int j = 0; j < 4; ++j) sum[j] += p[i + j];
      sums[static_cast<size_t>(t) * 8] = sum[0] + sum[1] + sum[2] + sum[3];
    });
    volatile uint64_t kept = sums[0];
    (void)kept;
    peak.bandwidth = static_cast<double>(bytes) * threads / s;
  }
  return peak;
}

}  // namespace app
