// Internal to cpu/: weights in the kernels' order, the table in use, and how rows are dealt to
// threads.
#pragma once
#include <memory>
#include <vector>

#include "libtrain/core/tensor.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/isa.h"
#include "libtrain/cpu/kernels/kernels.h"

namespace train::cpu {

const KernelTable& table_of(Isa isa);
/// The table of isa().
const KernelTable& kernels();
/// The same with the dense kernels of this precision. Throws Error where has_bf16() is false.
const KernelTable& kernels(Precision precision);

/// The panels of a matrix of k words by n.
std::vector<Panel> panels_of(const KernelTable& table, int64_t k, int64_t n);

/// A [k, n] matrix and its bias in panels of whole vectors, in words of the table's precision.
struct PackedWeights {
  const KernelTable* table;
  int64_t k, n;
  Storage w, bias;
  std::vector<Panel> panels;

  /// Element (i, j) is b[i * row_stride + j * col_stride]; `bias`: [n] or null.
  PackedWeights(const KernelTable& table, const float* b, int64_t row_stride, int64_t col_stride,
                int64_t k, int64_t n, const float* bias);
  WeightsView view() const {
    return {static_cast<const float*>(w.data()), static_cast<const float*>(bias.data()),
            panels.data(), static_cast<int64_t>(panels.size()), k};
  }
  size_t bytes() const { return w.bytes() + bias.bytes(); }
};

/// Bytes that run_gemm needs at `workspace` with at most `threads` threads.
size_t gemm_workspace_bytes(const PackedWeights& w, int threads);
/// Rows [0, m) of `g` (without weights and scratch), split over threads.
void run_gemm(const PackedWeights& w, GemmArgs g, int64_t m, void* workspace);

EpilogueArgs epilogue_args(const Epilogue& e, bool has_residual);
/// Throws ShapeError when the epilogue wants a residual and there is none or the other way round.
void check_residual(const Epilogue& e, const float* res);

/// Rows worth a thread of their own when one row costs `work` multiply-adds (or as many bytes).
inline int64_t grain_for(int64_t work) {
  return std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1));
}

/// Splits [0, n) into at most current_threads() parts of at least `grain`; fn(part, begin, end).
template <class F>
void parallel_parts(int64_t n, int64_t grain, F&& fn) {
  if (n <= 0) return;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, current_threads());
  if (parts == 1) return fn(0, 0, n);
  parallel_for(parts, 1, [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i) fn(i, n * i / parts, n * (i + 1) / parts);
  });
}

inline size_t align64(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace train::cpu
