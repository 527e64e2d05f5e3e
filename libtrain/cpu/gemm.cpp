#include "libtrain/cpu/gemm.h"

#include "libtrain/cpu/packed.h"

namespace train::cpu {

PackedMatrix::PackedMatrix(const float* b, int64_t ldb, bool trans, int64_t k, int64_t n,
                           const float* bias, Precision precision)
    : weights_(std::make_shared<PackedWeights>(kernels(precision), b, trans ? 1 : ldb,
                                               trans ? ldb : 1, k, n, bias)) {}
int64_t PackedMatrix::k() const { return weights_->k; }
int64_t PackedMatrix::n() const { return weights_->n; }
size_t PackedMatrix::packed_bytes() const { return weights_->bytes(); }
size_t PackedMatrix::workspace_bytes(int threads) const {
  return gemm_workspace_bytes(*weights_, threads);
}

void gemm(const float* a, int64_t lda, int64_t m, const PackedMatrix& b, const Epilogue& epilogue,
          float* y, int64_t ldy, const float* res, int64_t ldr, void* workspace) {
  check_residual(epilogue, res);
  GemmArgs g{};
  g.x = a;
  g.ldx = lda;
  g.y = y;
  g.ldy = ldy;
  g.res = res;
  g.ldr = ldr;
  g.e = epilogue_args(epilogue, res != nullptr);
  run_gemm(b.weights(), g, m, workspace);
}

size_t matmul_workspace_bytes(int64_t k, int64_t n) {
  const int64_t panel = 2 * kernels().width;
  return align64(static_cast<size_t>(k * ((n + panel - 1) / panel * panel) + 64) * sizeof(float));
}

void matmul(const float* a, int64_t lda, const float* b, int64_t ldb, bool trans_b, int64_t m,
            int64_t n, int64_t k, float* y, int64_t ldy, float alpha, void* workspace) {
  const KernelTable& t = kernels();
  float* packed = static_cast<float*>(workspace);
  t.pack_b(b, ldb, trans_b, k, n, alpha, packed);
  t.matmul({a, lda, packed, y, ldy, m, n, k});
}

void batched_matmul(const float* a, int64_t lda, int64_t stride_a, const float* b, int64_t ldb,
                    int64_t stride_b, bool trans_b, int64_t batch, int64_t m, int64_t n, int64_t k,
                    float* y, int64_t ldy, int64_t stride_y, float alpha, void* workspace) {
  const size_t slot = matmul_workspace_bytes(k, n);
  parallel_parts(batch, grain_for(m * n * k), [&](int64_t part, int64_t b0, int64_t b1) {
    char* const own = static_cast<char*>(workspace) + static_cast<size_t>(part) * slot;
    for (int64_t i = b0; i < b1; ++i)
      matmul(a + i * stride_a, lda, b + i * stride_b, ldb, trans_b, m, n, k, y + i * stride_y, ldy,
             alpha, own);
  });
}

}  // namespace train::cpu
