// What this machine can do: arithmetic and memory bandwidth, measured in a fraction of a second.
#pragma once

namespace app {

struct Peak {
  double flops = 1;      // fp32 operations per second, multiply-add = 2, all threads
  double bandwidth = 1;  // bytes per second read from memory, all threads
};

/// Runs the best dense product of the CPU kernels on data in cache, and sums a buffer larger than
/// the caches, on `threads` threads.
Peak probe_peak(int threads);

}  // namespace app
