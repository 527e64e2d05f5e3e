// Changes of memory order: NCHW and NHWC, general transposes, and 8-bit images to network input.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace train::cpu {

/// x: [n, c, hw] dense -> y: [n, hw, c] with pixel stride ldy >= c.
void nchw_to_nhwc(const float* x, int64_t n, int64_t c, int64_t hw, float* y, int64_t ldy);
/// x: [n, hw, c] with pixel stride ldx >= c -> y: [n, c, hw] dense.
void nhwc_to_nchw(const float* x, int64_t ldx, int64_t n, int64_t c, int64_t hw, float* y);
/// Copies `rows` rows of `cols` floats between row strides.
void copy_rows(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols);
/// y = x with axis i of y being axis perm[i] of x; dense; element_size 1, 2, 4 or 8 bytes. Throws
/// ShapeError when perm is no permutation.
void transpose(const void* x, std::span<const int64_t> shape, std::span<const int> perm, void* y,
               size_t element_size);

/// y[c] = bgr[c] * scale[c] + bias[c] for an h x w image of 3 interleaved bytes, rows `row_bytes`
/// apart; y: pixel stride ldy, rows y_row floats apart. With `swap` y gets the channels in reverse
/// (RGB) order; scale and bias count in y's order.
void normalize_image(const uint8_t* bgr, int64_t row_bytes, int64_t h, int64_t w, bool swap,
                     const float scale[3], const float bias[3], float* y, int64_t ldy,
                     int64_t y_row);

}  // namespace train::cpu
