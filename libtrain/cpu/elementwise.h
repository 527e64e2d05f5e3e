// Element-wise functions of one or two tensors with the broadcasts that networks use.
#pragma once
#include <cstdint>

#include "libtrain/cpu/activation.h"

namespace train::cpu {

/// y[i] = act(x[i]), i < n. y == x is allowed.
void unary(const Activation& act, const float* x, float* y, int64_t n);
/// The same over [rows, cols] with row strides.
void unary(const Activation& act, const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows,
           int64_t cols);

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPow,
  kPRelu  // a < 0 ? a b : a
};

/// Where element (image, row, col) of an operand lies: data[image * image_stride + row * row_stride
/// + col * col_stride], strides in floats; col_stride is 0 or 1. So a scalar is {p, 0, 0, 0}, a
/// channel vector {p, 0, 0, 1}, an SE gate [N, C] {p, C, 0, 1}, one number per pixel {p, rows, 1,
/// 0}.
struct Operand {
  const float* data = nullptr;
  int64_t image_stride = 0, row_stride = 0, col_stride = 1;
};

/// y = act(op(a, b)) over [images, rows, cols]; y is at y[(image * rows + row) * ldy + col]. y may
/// be a or b where those have y's strides.
void binary(BinaryOp op, const Operand& a, const Operand& b, float* y, int64_t ldy, int64_t images,
            int64_t rows, int64_t cols, const Activation& act = {});
/// y[i] = act(op(a[i], b[i])), i < n.
void binary(BinaryOp op, const float* a, const float* b, float* y, int64_t n,
            const Activation& act = {});

/// y = act(x * scale[col] + bias[col]) over [rows, cols] (batch normalisation at inference); bias
/// may be null.
void affine(const float* x, int64_t ldx, const float* scale, const float* bias,
            const Activation& act, float* y, int64_t ldy, int64_t rows, int64_t cols);

}  // namespace train::cpu
