// Profiler: what each op of a training took, as a Chrome trace and as a table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libtrain/autograd/eager.h"

namespace train {

/// Has an Eager time its ops during its life and reads what was counted, by the ops' types. Ops run
/// one after another on one thread; a layout change that an op's input needs counts with the op.
/// Time outside of ops (waiting for data, the optimiser) is only in the sum. Of memory only the
/// peak of the results of ops is known, not what made it up.
class Profiler {
 public:
  /// Keeps at most `max_events` for the trace; the table counts all.
  explicit Profiler(Eager& eager, size_t max_events = 200'000);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  struct Row {
    std::string op;
    int64_t calls = 0;
    double seconds = 0, flops = 0, bytes = 0;
  };
  std::vector<Row> rows() const;  // the longest time first
  /// The rows as text: time, share, calls, GFLOP/s, GB/s; then all ops against the time that went
  /// by since the profiler's beginning, and the peak of memory.
  std::string table() const;
  /// For chrome://tracing and Perfetto: one complete event per op, times in microseconds.
  std::string chrome_trace() const;

 private:
  Eager& eager_;
  double start_;
};

}  // namespace train
