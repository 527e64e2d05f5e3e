#include "libtrain/cpu/elementwise.h"

#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

// Elements worth a thread; transcendental functions cost about ten times a copy.
int64_t grain_of(const Activation& a) { return a.kind <= Act::kLeakyRelu ? 32768 : 8192; }

// Neighbouring rows of an operand follow each other without a gap, or all are the same.
bool flat(const Operand& o, int64_t cols) {
  return o.col_stride ? o.row_stride == cols : o.row_stride == 0;
}

}  // namespace

void unary(const Activation& act, const float* x, float* y, int64_t n) {
  const KernelTable& t = kernels();
  parallel_for((n + 63) / 64, grain_of(act) / 64, [&](int64_t a, int64_t b) {
    t.unary(act, x + a * 64, 0, y + a * 64, 0, 1, std::min(n, b * 64) - a * 64);
  });
}

void unary(const Activation& act, const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows,
           int64_t cols) {
  if (ldx == cols && ldy == cols) return unary(act, x, y, rows * cols);
  const KernelTable& t = kernels();
  parallel_for(
      rows, std::max<int64_t>(1, grain_of(act) / std::max<int64_t>(cols, 1)),
      [&](int64_t a, int64_t b) { t.unary(act, x + a * ldx, ldx, y + a * ldy, ldy, b - a, cols); });
}

void binary(BinaryOp op, const Operand& a, const Operand& b, float* y, int64_t ldy, int64_t images,
            int64_t rows, int64_t cols, const Activation& act) {
  if (rows <= 0 || cols <= 0 || images <= 0) return;
  BinaryArgs g{op, a, b, y, ldy, rows, cols, act};
  int64_t lines = images * rows;
  if (ldy == cols && flat(a, cols) &&
      flat(b, cols)) {  // one long row per image, cut into equal pieces
    const int64_t all = rows * cols;
    const bool one = (a.image_stride == (a.col_stride ? all : 0) || images == 1) &&
                     (b.image_stride == (b.col_stride ? all : 0) || images == 1);
    const int64_t total = one ? images * all : all;
    const KernelTable& t = kernels();
    for (int64_t i = 0; i < (one ? 1 : images); ++i)
      parallel_for((total + 63) / 64, grain_of(act) / 64, [&](int64_t p, int64_t q) {
        const int64_t first = p * 64, n = std::min(total, q * 64) - first;
        const BinaryArgs part{
            op,
            {a.data + i * a.image_stride + first * a.col_stride, 0, 0, a.col_stride},
            {b.data + i * b.image_stride + first * b.col_stride, 0, 0, b.col_stride},
            y + i * all + first,
            n,
            1,
            n,
            act};
        t.binary(part, 0, 1);
      });
    return;
  }
  const KernelTable& t = kernels();
  parallel_for(lines, std::max<int64_t>(1, grain_of(act) / cols),
               [&](int64_t p, int64_t q) { t.binary(g, p, q); });
}

void binary(BinaryOp op, const float* a, const float* b, float* y, int64_t n,
            const Activation& act) {
  binary(op, {a, 0, n, 1}, {b, 0, n, 1}, y, n, 1, 1, n, act);
}

void affine(const float* x, int64_t ldx, const float* scale, const float* bias,
            const Activation& act, float* y, int64_t ldy, int64_t rows, int64_t cols) {
  const KernelTable& t = kernels();
  parallel_for(rows, std::max<int64_t>(1, grain_of(act) / std::max<int64_t>(cols, 1)),
               [&](int64_t a, int64_t b) {
                 t.affine(x + a * ldx, ldx, scale, bias, act, y + a * ldy, ldy, b - a, cols);
               });
}

}  // namespace train::cpu
