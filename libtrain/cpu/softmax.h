// Softmax over the rows of a matrix, and the greedy CTC step that needs no probabilities of the
// other classes.
#pragma once
#include <cstdint>

namespace train::cpu {

/// x: [rows, cols], row stride ldx -> y, row stride ldy. y == x is allowed.
void softmax(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols);
void log_softmax(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols);
/// index[r] = the first column with the row's largest value, prob[r] = its softmax; both without a
/// row being written.
void softmax_argmax(const float* x, int64_t ldx, int64_t rows, int64_t cols, int32_t* index,
                    float* prob);
/// index[r] = the first column with the row's largest value, value[r] (unless null) = that value.
void argmax(const float* x, int64_t ldx, int64_t rows, int64_t cols, int32_t* index, float* value);

}  // namespace train::cpu
