// Products summed over rows, a^T b: the weight gradients of linear layers and 1x1 convolutions, and
// covariances.
#pragma once
#include <cstddef>
#include <cstdint>

#include "libtrain/cpu/activation.h"

namespace train {

/// out[m, n] = sum over the rows r of a[r, m] b[r, n], for dense a [rows, m] and b [rows, n]. The
/// sum runs in blocks of fixed size, each one chain of multiply-adds, added in order: accurate for
/// many rows, and the same bits for any number of threads, which split the output. In bf16 a and b
/// (less their shifts) are rounded and pairs of rows multiplied; sums are f32.
struct RowProduct {
  int64_t rows, m, n;
  cpu::Precision precision = cpu::Precision::kF32;  // kBf16 wants cpu::has_bf16()

  size_t workspace_bytes() const;
  /// Adds to `out` [m, n] with `add`. `shift_a` [m] and `shift_b` [n], where not null, are
  /// subtracted from every row first (centred moments).
  void run(const float* a, const float* b, float* out, bool add, void* workspace,
           const float* shift_a = nullptr, const float* shift_b = nullptr) const;
};

}  // namespace train
