// Matrix products: rows of activations times a constant matrix packed once, and small products of
// two activations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "libtrain/cpu/activation.h"

namespace train::cpu {

struct PackedWeights;

/// A constant matrix B [k, n], with an optional bias, in the order the kernels read it. Immutable,
/// thread-safe, cheap to copy.
class PackedMatrix {
 public:
  /// `b`: [k, n] with row stride ldb, or with `trans` [n, k] with row stride ldb; `bias`: [n] or
  /// null.
  /// Throws Error for bf16 where has_bf16() is false.
  PackedMatrix(const float* b, int64_t ldb, bool trans, int64_t k, int64_t n, const float* bias,
               Precision precision = Precision::kF32);
  int64_t k() const;
  int64_t n() const;
  size_t packed_bytes() const;
  /// Bytes that gemm() needs at `workspace` with at most `threads` threads: none in f32.
  size_t workspace_bytes(int threads) const;
  const PackedWeights& weights() const { return *weights_; }

 private:
  std::shared_ptr<const PackedWeights> weights_;
};

/// y[m, n] = epilogue(a[m, k] B + bias, res); row strides lda, ldy, ldr; res may be null or y. A
/// row's bits depend on that row alone.
void gemm(const float* a, int64_t lda, int64_t m, const PackedMatrix& b, const Epilogue& epilogue,
          float* y, int64_t ldy, const float* res = nullptr, int64_t ldr = 0,
          void* workspace = nullptr);

/// Bytes of workspace that matmul needs (one packed copy of b).
size_t matmul_workspace_bytes(int64_t k, int64_t n);
/// y[m, n] = alpha * a[m, k] b, b: [k, n] or with `trans_b` [n, k]; for operands that are both
/// activations (attention). Runs on the calling thread: callers split over (batch, head). A row's
/// bits depend on that row and b alone.
void matmul(const float* a, int64_t lda, const float* b, int64_t ldb, bool trans_b, int64_t m,
            int64_t n, int64_t k, float* y, int64_t ldy, float alpha, void* workspace);
/// `batch` such products, split over threads; the strides are in floats between products, 0 repeats
/// an operand. The workspace needs matmul_workspace_bytes(k, n) per thread.
void batched_matmul(const float* a, int64_t lda, int64_t stride_a, const float* b, int64_t ldb,
                    int64_t stride_b, bool trans_b, int64_t batch, int64_t m, int64_t n, int64_t k,
                    float* y, int64_t ldy, int64_t stride_y, float alpha, void* workspace);

}  // namespace train::cpu
