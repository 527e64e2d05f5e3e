// Normalisation with statistics taken from the activations themselves.
#pragma once
#include <cstddef>
#include <cstdint>

namespace train::cpu {

/// Over the last axis: y = (x - mean) / sqrt(var + eps) * scale + bias; x: [rows, cols]; scale,
/// bias: [cols] or null.
void layer_norm(const float* x, int64_t ldx, const float* scale, const float* bias, float eps,
                float* y, int64_t ldy, int64_t rows, int64_t cols);

size_t group_norm_workspace_bytes(int64_t n, int64_t hw, int64_t c);
/// x: [n, hw, c]; statistics per image and group of c / groups channels (groups == c: instance
/// norm); scale, bias: [c] or null.
void group_norm(const float* x, int64_t ldx, int64_t n, int64_t hw, int64_t c, int64_t groups,
                const float* scale, const float* bias, float eps, float* y, int64_t ldy,
                void* workspace);

}  // namespace train::cpu
