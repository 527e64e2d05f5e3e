// The kernels of one instruction set, as its table names them.
#pragma once
#include "libtrain/cpu/kernels/kernels.h"

namespace train::cpu::OCR_ISA_NS {

void gemm(const GemmArgs& g, int64_t m0, int64_t m1);
int64_t gemm_scratch(int64_t k);
void conv(const ConvArgs& a, int64_t r0, int64_t r1);
int64_t conv_scratch(const ConvArgs& a);
void depthwise(const DepthwiseArgs& a, int64_t r0, int64_t r1);
void pool(const PoolArgs& a, int64_t r0, int64_t r1);
void resize(const ResizeArgs& a, int64_t r0, int64_t r1);
void gather_add(const float* x, int64_t ldx, const int32_t* index, bool add, float* y, int64_t ldy,
                int64_t w, int64_t c);
void unary(const Activation& act, const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows,
           int64_t cols);
void binary(const BinaryArgs& a, int64_t r0, int64_t r1);
void affine(const float* x, int64_t ldx, const float* scale, const float* bias,
            const Activation& act, float* y, int64_t ldy, int64_t rows, int64_t cols);
void reduce_cols(ReduceOp op, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y);
void reduce_rows(ReduceOp op, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y);
void softmax(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols,
             bool log);
void softmax_argmax(const float* x, int64_t ldx, int64_t rows, int64_t cols, int32_t* index,
                    float* prob, float* value);
void layer_norm(const float* x, int64_t ldx, const float* scale, const float* bias, float eps,
                float* y, int64_t ldy, int64_t rows, int64_t cols);
void centred_square_rows(const float* x, int64_t ldx, const float* shift, int64_t rows,
                         int64_t cols, float* out);
void transpose2d(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols);
void normalize_row(const uint8_t* bgr, int64_t w, bool swap, const float* scale, const float* bias,
                   float* y, int64_t ldy);
void pack_b(const float* b, int64_t ldb, bool trans, int64_t k, int64_t n, float alpha,
            float* packed);
void matmul(const MatmulArgs& a);
void attention(const AttentionArgs& a);

}  // namespace train::cpu::OCR_ISA_NS
