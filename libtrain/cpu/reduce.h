// Reductions over the last axis or over rows, in a fixed order.
#pragma once
#include <cstdint>

namespace train::cpu {

enum class ReduceOp : uint8_t { kSum, kMean, kMax, kMin, kProd, kSumSquare, kL1, kL2 };

/// y[r] = reduction of x[r, 0..cols), row stride ldx.
void reduce_cols(ReduceOp op, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y);
/// y[o, c] = reduction over r of x[o, r, c]; x: [outer, rows, cols] with row stride ldx; y has row
/// stride ldy.
void reduce_rows(ReduceOp op, const float* x, int64_t ldx, int64_t outer, int64_t rows,
                 int64_t cols, float* y, int64_t ldy);

}  // namespace train::cpu
