// The boundary between ordinary code and the kernels compiled per instruction set: plain argument
// structs and one table of function pointers. Nothing here may have inline code.
#pragma once
#include <cstddef>
#include <cstdint>

#include "libtrain/cpu/activation.h"
#include "libtrain/cpu/elementwise.h"
#include "libtrain/cpu/reduce.h"

namespace train::cpu {

/// What happens to a tile of sums before it is stored. `res_before`: the residual joins before the
/// activation.
struct EpilogueArgs {
  Act act;
  float alpha, beta, post_scale, post_bias;
  bool res_before;
};

/// A group of output channels computed together: `nr` vectors, of which `width` channels are real.
/// `lanes` floats per row of weights: nr vectors, or with AVX-512 half a vector less.
struct Panel {
  int64_t n0, width, w_off, b_off, lanes;  // offsets in floats
  int nr;
};

/// Weights as the GEMM kernels read them: per panel [k][lanes] floats, or in bf16
/// [ceil(k / 2)][lanes] pairs.
struct WeightsView {
  const float* w;
  const float* bias;  // per panel, padded to whole vectors
  const Panel* panels;
  int64_t panel_count, k;
};

/// y[m, :] = epilogue(x[m, :] B); with `shuffle_w` > 0 (transposed convolution) rows are pixels of
/// lines of `shuffle_w` pixels and row m goes to y + (m / shuffle_w) * line + (m % shuffle_w) *
/// ldy.
struct GemmArgs {
  const float* x;
  int64_t ldx;
  WeightsView b;
  float* y;
  int64_t ldy;
  const float* res;  // or null
  int64_t ldr;
  EpilogueArgs e;
  int64_t shuffle_w, line, res_line;
  float* scratch;  // gemm_scratch floats
  bool words;  // bf16: x holds pairs of bf16 already, ldx in pairs; x may lie between two floats
};

/// Geometry of a window operation over x: [n, h, w, c] -> y: [n, oh, ow, cout]. Strides ld* in
/// floats between pixels.
struct WindowArgs {
  const float* x;
  int64_t ldx, h, w, c;
  float* y;
  int64_t ldy, oh, ow;
  const float* res;  // or null
  int64_t ldr;
  int kh, kw, sh, sw, dh, dw, pt, pl;
  int64_t y_line, y_image, res_line, res_image;  // floats between rows and images of y and res
};

struct ConvArgs {
  WindowArgs g;
  WeightsView b;  // k = kh * kw * c
  EpilogueArgs e;
  float* scratch;  // conv_scratch floats
};

struct DepthwiseArgs {
  WindowArgs g;
  const float* w;     // [ceil(c / W)][kh * kw][W]
  const float* bias;  // [ceil(c / W)][W]
  EpilogueArgs e;
};

struct PoolArgs {
  WindowArgs g;
  bool max;                // else average
  bool count_include_pad;  // average
  int pb, pr;
};

/// One output row = sum over `taps` input rows and columns; index and weight tables of the caller.
struct ResizeArgs {
  const float* x;
  int64_t ldx, h, w, c;
  float* y;
  int64_t ldy, oh, ow;
  const float* res;
  int64_t ldr;
  int taps;                // 1 nearest, 2 linear, 4 cubic
  const int32_t *iy, *ix;  // [oh][taps], [ow][taps]
  const float *wy, *wx;
  int repeat_x, repeat_y;  // nearest by whole factors: > 0
};

struct BinaryArgs {
  BinaryOp op;
  Operand a, b;
  float* y;
  int64_t ldy, rows, cols;
  Activation act;
};

struct MatmulArgs {
  const float* a;
  int64_t lda;
  const float* b;  // by pack_b
  float* y;
  int64_t ldy, m, n, k;
};

struct AttentionArgs {
  const float *q, *k, *v;
  float* y;
  int64_t q_stride, k_stride, v_stride, y_stride;  // between tokens
  int64_t tq, tk, d, dv;
  float scale;
  float* scratch;
};

/// Everything one instruction set offers. `width` floats per vector; `panel_max` vectors per GEMM
/// panel, of which the last may be half a one with `halves`.
struct KernelTable {
  const char* name;
  int width, panel_max;
  bool halves;
  Precision precision;  // of gemm's and conv's factors

  void (*gemm)(const GemmArgs&, int64_t m0, int64_t m1);
  int64_t (*gemm_scratch)(int64_t k);                     // floats one thread needs
  void (*conv)(const ConvArgs&, int64_t r0, int64_t r1);  // rows of n * oh
  int64_t (*conv_scratch)(const ConvArgs&);               // floats one thread needs
  /// Pairs of bf16 (null in f32). round_words: those of n floats in a row, of which an odd last one
  /// is written alone, as 2 bytes; `words` may lie between two floats. pair_rows: word i holds
  /// first[i] and second[i] (null = zeros).
  void (*round_words)(const float* x, int64_t n, void* words);
  void (*pair_rows)(const float* first, const float* second, int64_t n, float* words);
  void (*depthwise)(const DepthwiseArgs&, int64_t r0, int64_t r1);
  void (*pool)(const PoolArgs&, int64_t r0, int64_t r1);
  void (*resize)(const ResizeArgs&, int64_t r0, int64_t r1);
  /// y[o, :] = x[index[o], :], or += with `add`; o in [0, w), c channels.
  void (*gather_add)(const float* x, int64_t ldx, const int32_t* index, bool add, float* y,
                     int64_t ldy, int64_t w, int64_t c);

  void (*unary)(const Activation&, const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows,
                int64_t cols);
  void (*binary)(const BinaryArgs&, int64_t r0, int64_t r1);  // rows of images * rows
  void (*affine)(const float* x, int64_t ldx, const float* scale, const float* bias,
                 const Activation&, float* y, int64_t ldy, int64_t rows, int64_t cols);
  void (*reduce_cols)(ReduceOp, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y);
  /// y[c] = reduction of x[0..rows, c]
  void (*reduce_rows)(ReduceOp, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y);

  void (*softmax)(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols,
                  bool log);
  void (*softmax_argmax)(const float* x, int64_t ldx, int64_t rows, int64_t cols, int32_t* index,
                         float* prob, float* value);
  void (*layer_norm)(const float* x, int64_t ldx, const float* scale, const float* bias, float eps,
                     float* y, int64_t ldy, int64_t rows, int64_t cols);
  /// out[c] = sum over rows of (x - shift)^2, shift null = 0 with plain x: a partial sum for group
  /// norms.
  void (*centred_square_rows)(const float* x, int64_t ldx, const float* shift, int64_t rows,
                              int64_t cols, float* out);

  void (*transpose2d)(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows,
                      int64_t cols);  // y[c][r] = x[r][c]
  void (*normalize_row)(const uint8_t* bgr, int64_t w, bool swap, const float* scale,
                        const float* bias, float* y, int64_t ldy);

  /// Packs alpha * b for matmul: panels of 2 vectors, the last of 1 or 2, [k][lanes], zero padded.
  void (*pack_b)(const float* b, int64_t ldb, bool trans, int64_t k, int64_t n, float alpha,
                 float* packed);
  void (*matmul)(const MatmulArgs&);
  void (*attention)(const AttentionArgs&);
};

namespace sse4 {
extern const KernelTable kTable;
}
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}
/// The dense kernels over pairs of bf16, to take the place of those in the table of avx512.
namespace avx512bf16 {
void gemm(const GemmArgs& g, int64_t m0, int64_t m1);
int64_t gemm_scratch(int64_t k);
void conv(const ConvArgs& a, int64_t r0, int64_t r1);
int64_t conv_scratch(const ConvArgs& a);
void round_words(const float* x, int64_t n, void* words);
void pair_rows(const float* first, const float* second, int64_t n, float* words);
}  // namespace avx512bf16

}  // namespace train::cpu
