// The training kernels of one instruction set that grad_map.cpp's table names from other files.
#pragma once
#include "libtrain/cpu/kernels/grad_kernels.h"

namespace train::cpu::OCR_ISA_NS {

void depthwise_weight_row(const DepthwiseRowArgs& g, const float* x, const float* dy, float* acc);
void depthwise_input_row(const DepthwiseRowArgs& g, const float* taps, const float* dy, float* dx);
void block_moments(const float* x, int64_t rows, int64_t cols, float* means, float* squares);
void norm_grad_sums(const NormGradArgs& g, int64_t r0, int64_t r1, float* sum_dz, float* sum_dzx);
void norm_grad_apply(const NormGradArgs& g, const float* mean_dz, const float* mean_dzx, int64_t r0,
                     int64_t r1, float* dx);
void small_product(const SmallProductArgs& g);
void masked_softmax(float* x, const float* mask, int64_t rows, int64_t cols);
void scaled_softmax(const float* x, float scale, int64_t n, float* y, float* top, float* sum);
void adam(const AdamArgs& a, const float* g, float* x, float* m, float* v, int64_t n);
void sgd(float rate, float decay, const float* g, float* x, int64_t n);
int product_cols();
void pack_product(const float* x, int64_t ld, const float* shift, int64_t rows, int64_t cols,
                  int64_t lanes, float* packed);
void product_tile(const float* a, const float* b, int64_t k, float* out, int64_t ldo, int64_t rows,
                  int64_t cols, bool add_to);

}  // namespace train::cpu::OCR_ISA_NS
