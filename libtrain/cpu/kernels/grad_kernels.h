// The kernels that only training calls, compiled per instruction set like those of kernels.h but in
// a table of their own, so that inference links none of them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "libtrain/cpu/activation.h"

namespace train::cpu {

/// Batch normalisation over rows of channels, backward: y = act(z), z = (x - mean) inv scale +
/// bias. All vectors have one value per channel; rows are dense.
struct NormGradArgs {
  const float *x, *dy;
  const float *mean, *inv, *scale, *bias;
  Activation act;
  int64_t cols;
};

/// A depthwise convolution's row of taps, for the gradients: strides in floats, positions in
/// pixels. Channels are lanes; at most 16 at a time.
struct DepthwiseRowArgs {
  int64_t ld;  // floats between pixels of x and y
  int64_t w, ow;
  int kw, stride, dilation, before;
  int64_t lanes;
};

/// A tile of a product over rows, a^T b: up to kProductRows columns of a, each padded to
/// kProductLane floats in packed form, by up to product_cols() columns of b.
constexpr int kProductRows = 6, kProductLane = 8;

/// c[m, n] = (or += with `add`) alpha a b: element (i, k) of a is a[i a_row + k a_col], (k, j) of b
/// is b[k ldb + j]; one chain of multiply-adds per element.
struct SmallProductArgs {
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc, m, n, k;
  float alpha;
  bool add;
};

/// y = scale2 act(scale1 x + bias1) + bias2, numbers for all elements.
struct AffineActArgs {
  float scale1, bias1, scale2, bias2;
  Activation act;
};

/// One step of Adam: d = g + l2 x; m = b1 m + c1 d; v = b2 v + c2 d d;
/// x = keep x - rate m / (sqrt(v) + eps).
struct AdamArgs {
  float rate, eps, b1, b2, c1, c2, l2, keep;
};

/// Everything one instruction set offers to the backward pass and to optimisers.
struct GradTable {
  /// dx[i] = dy[i] f'(v[i]); v is the function's output where act_grad_reads_output() says so, else
  /// its input.
  void (*act_grad)(const Activation&, const float* v, const float* dy, float* dx, int64_t n);
  /// Per channel over the rows: the mean, and the sum of squares about it.
  void (*block_moments)(const float* x, int64_t rows, int64_t cols, float* means, float* squares);
  /// Per channel over rows [r0, r1): sum_dz = sum of dz, sum_dzx = sum of dz (x - mean) inv, where
  /// dz = dy act'(z). Overwrites cols floats of each.
  void (*norm_grad_sums)(const NormGradArgs&, int64_t r0, int64_t r1, float* sum_dz,
                         float* sum_dzx);
  /// dx = scale inv (dz - mean_dz - (x - mean) inv mean_dzx) over rows [r0, r1).
  void (*norm_grad_apply)(const NormGradArgs&, const float* mean_dz, const float* mean_dzx,
                          int64_t r0, int64_t r1, float* dx);
  /// One row each of layer normalisation's gradient: dx = inv (g - mean(g) - xhat mean(g xhat)), g
  /// = dy scale; adds dy xhat to dscale and dy to dbias (all cols floats; scale null = ones, dscale
  /// and dbias may be null).
  void (*layer_norm_grad)(const float* x, const float* dy, const float* scale, float eps,
                          int64_t rows, int64_t cols, float* dx, float* dscale, float* dbias);
  /// dx = y (dy - sum(dy y)), or with log_form dy - exp(y) sum(dy), row by row.
  void (*softmax_grad)(const float* y, const float* dy, float* dx, int64_t rows, int64_t cols,
                       bool log_form);
  /// acc[kx][16] += sum over ox of dy[ox] x[ox stride - before + kx dilation], x and dy being rows.
  void (*depthwise_weight_row)(const DepthwiseRowArgs&, const float* x, const float* dy,
                               float* acc);
  /// dx[ix] += sum over kx of taps[kx] dy[ox], where ox stride - before + kx dilation = ix; taps
  /// are ld floats apart.
  void (*depthwise_input_row)(const DepthwiseRowArgs&, const float* taps, const float* dy,
                              float* dx);
  /// One sample's step of an LSTM: z [4 h] in the order i f g o becomes the gates; c_before null =
  /// 0.
  void (*lstm_cell)(float* z, const float* c_before, int64_t h, float* c, float* y);
  /// Its gradient: dh of the output; dc is that of the cell after the step and becomes that before.
  void (*lstm_cell_grad)(const float* gates, const float* c_before, const float* c, const float* dh,
                         int64_t h, float* dc, float* dz);
  /// y[c] += sum over rows of a[r, c] b[r, c].
  void (*dot_rows)(const float* a, const float* b, int64_t rows, int64_t cols, float* y);
  /// out[r] = sum over c of a[r, c] b[r, c].
  void (*dot_cols)(const float* a, const float* b, int64_t rows, int64_t cols, float* out);
  void (*affine_act)(const AffineActArgs&, const float* x, float* y, int64_t n);
  /// dx, and the sums over the n elements that are the gradients of scale1, bias1, scale2, bias2.
  void (*affine_act_grad)(const AffineActArgs&, const float* x, const float* dy, float* dx,
                          int64_t n, float* sums);
  void (*small_product)(const SmallProductArgs&);
  /// x = softmax(x + mask) row by row, rows of cols floats; mask null = 0. A row of -inf becomes 0.
  void (*masked_softmax)(float* x, const float* mask, int64_t rows, int64_t cols);
  /// y = scale softmax(x) of one row (y may be x); top: its maximum, sum: of exp(x - top).
  void (*scaled_softmax)(const float* x, float scale, int64_t n, float* y, float* top, float* sum);
  /// One pass over n elements: reads g, x, m and v once, writes x, m and v once.
  void (*adam)(const AdamArgs&, const float* g, float* x, float* m, float* v, int64_t n);
  /// x -= rate (g + decay x).
  void (*sgd)(float rate, float decay, const float* g, float* x, int64_t n);
  /// Columns of b in a tile.
  int (*product_cols)();
  /// packed[r][lanes] = x[r][cols] - shift[cols] (shift null = 0), zeros in the lanes beyond cols;
  /// in bf16 [ceil(rows / 2)][lanes] pairs of two rows.
  void (*pack_product)(const float* x, int64_t ld, const float* shift, int64_t rows, int64_t cols,
                       int64_t lanes, float* packed);
  /// out[rows, cols] = (or += with add_to) the sum over i < k of a[i][row] b[i][col], both packed;
  /// one chain of multiply-adds per element.
  void (*product_tile)(const float* a, const float* b, int64_t k, float* out, int64_t ldo,
                       int64_t rows, int64_t cols, bool add_to);
};

/// True where f' is best computed from f(x): the output is saved anyway by whoever reads it.
bool act_grad_reads_output(Act kind);

namespace sse4 {
extern const GradTable kGradTable;
}
namespace avx2 {
extern const GradTable kGradTable;
}
namespace avx512 {
extern const GradTable kGradTable;
}
/// The products over pairs of bf16, to take the place of those in the table of avx512.
namespace avx512bf16 {
void pack_product(const float* x, int64_t ld, const float* shift, int64_t rows, int64_t cols,
                  int64_t lanes, float* packed);
void product_tile(const float* a, const float* b, int64_t k, float* out, int64_t ldo, int64_t rows,
                  int64_t cols, bool add_to);
}  // namespace avx512bf16

}  // namespace train::cpu
