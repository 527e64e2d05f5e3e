// Products summed over pixels or samples, A B with a long inner dimension: weight gradients.
#pragma once
#include <cstdint>
#include <span>

#include "libtrain/cpu/activation.h"

namespace train {

/// Rows of A: `rows` rows of length K at `data`, `ld` elements apart. Elements are floats, or bf16
/// in a product of that precision; then `ld` is even and an odd K is followed by one more finite
/// one.
struct RowGroup {
  const void* data;
  int64_t ld, rows;
};

/// out[r, n] = sum over k < K of A[r, k] b[k, n] (+ out[r, n] with `add`), where A's rows are those
/// of `groups` in order; b: [K, N] with row stride ldb; out: dense. The sum runs in blocks of fixed
/// size, each summed on its own and added in order: accurate for long K, and the same bits for any
/// number of threads, which split the rows of the output. In bf16, which wants cpu::has_bf16(), b
/// is rounded and pairs of neighbours in K multiplied; sums are f32.
void weight_gemm(std::span<const RowGroup> groups, const float* b, int64_t ldb, int64_t K,
                 int64_t N, float* out, bool add, cpu::Precision precision = cpu::Precision::kF32);

/// y[c, r] = x[r, c]; x: [rows, cols] with row stride ldx; y: row stride ldy. Over the pool.
void transpose_rows(const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y, int64_t ldy);

}  // namespace train
