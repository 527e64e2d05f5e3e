// The training kernels of one instruction set that grad_map.cpp's table names from other files.
#pragma once
#include "libtrain/cpu/kernels/grad_kernels.h"

namespace train::cpu::OCR_ISA_NS {

void depthwise_weight_row(const DepthwiseRowArgs& g, const float* x, const float* dy, float* acc);
void depthwise_input_row(const DepthwiseRowArgs& g, const float* taps, const float* dy, float* dx);
void scaled_softmax(const float* x, float scale, int64_t n, float* y, float* top, float* sum);
void adam(const AdamArgs& a, const float* g, float* x, float* m, float* v, int64_t n);
void sgd(float rate, float decay, const float* g, float* x, int64_t n);
int product_cols();
void pack_product(const float* x, int64_t ld, const float* shift, int64_t rows, int64_t cols,
                  int64_t lanes, float* packed);
void product_tile(const float* a, const float* b, int64_t k, float* out, int64_t ldo, int64_t rows,
                  int64_t cols, bool add_to);

}  // namespace train::cpu::OCR_ISA_NS
