// Element-wise functions of one or two operands.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/vec_math.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

template <BinaryOp O>
OCR_INLINE V combine(V a, V b) {
  if constexpr (O == BinaryOp::kAdd) return add(a, b);
  if constexpr (O == BinaryOp::kSub) return sub(a, b);
  if constexpr (O == BinaryOp::kMul) return mul(a, b);
  if constexpr (O == BinaryOp::kDiv) return div(a, b);
  // Of two operands the NaN wins, on either side.
  if constexpr (O == BinaryOp::kMin) return select(equal(a, a), min(a, b), a);
  if constexpr (O == BinaryOp::kMax) return select(equal(a, a), max(a, b), a);
  if constexpr (O == BinaryOp::kPRelu) return select(less(a, zero()), mul(a, b), a);
  if constexpr (O == BinaryOp::kPow) {
    float x[W], y[W];
    store(x, a);
    store(y, b);
    for (int i = 0; i < W; ++i)
      x[i] = y[i] == 2.f   ? x[i] * x[i]
             : y[i] == .5f ? __builtin_sqrtf(x[i])
                           : __builtin_powf(x[i], y[i]);
    return load(x);
  }
}

// One row; kA, kB: the operand has a value per column (else one for the row).
template <BinaryOp O, bool kA, bool kB>
void row(const float* a, const float* b, float* y, int64_t n) {
  const V sa = kA ? zero() : set1(*a), sb = kB ? zero() : set1(*b);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(y + i, combine<O>(kA ? load(a + i) : sa, kB ? load(b + i) : sb));
  if (i < n)
    store_n(y + i, combine<O>(kA ? load_n(a + i, n - i) : sa, kB ? load_n(b + i, n - i) : sb),
            n - i);
}

using RowFn = void (*)(const float*, const float*, float*, int64_t);
template <BinaryOp O>
RowFn pick(bool a, bool b) {
  return a ? (b ? row<O, true, true> : row<O, true, false>)
           : (b ? row<O, false, true> : row<O, false, false>);
}
RowFn pick(BinaryOp op, bool a, bool b) {
  switch (op) {
    case BinaryOp::kAdd:
      return pick<BinaryOp::kAdd>(a, b);
    case BinaryOp::kSub:
      return pick<BinaryOp::kSub>(a, b);
    case BinaryOp::kMul:
      return pick<BinaryOp::kMul>(a, b);
    case BinaryOp::kDiv:
      return pick<BinaryOp::kDiv>(a, b);
    case BinaryOp::kMin:
      return pick<BinaryOp::kMin>(a, b);
    case BinaryOp::kMax:
      return pick<BinaryOp::kMax>(a, b);
    case BinaryOp::kPow:
      return pick<BinaryOp::kPow>(a, b);
    default:
      return pick<BinaryOp::kPRelu>(a, b);
  }
}

}  // namespace

void unary(const Activation& act, const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows,
           int64_t cols) {
  dispatch_act(act.kind, [&]<Act A>() {
    const V a = set1(act.alpha), b = set1(act.beta);
    for (int64_t r = 0; r < rows; ++r, x += ldx, y += ldy) {
      int64_t i = 0;
      for (; i + W <= cols; i += W) store(y + i, activate<A>(load(x + i), a, b));
      if (i < cols) store_n(y + i, activate<A>(load_n(x + i, cols - i), a, b), cols - i);
    }
  });
}

void binary(const BinaryArgs& g, int64_t r0, int64_t r1) {
  const RowFn fn = pick(g.op, g.a.col_stride != 0, g.b.col_stride != 0);
  for (int64_t r = r0; r < r1; ++r) {
    const int64_t image = r / g.rows, line = r % g.rows;
    const float* a = g.a.data + image * g.a.image_stride + line * g.a.row_stride;
    const float* b = g.b.data + image * g.b.image_stride + line * g.b.row_stride;
    float* y = g.y + r * g.ldy;
    if (g.act.kind == Act::kNone) {
      fn(a, b, y, g.cols);
      continue;
    }
    constexpr int64_t kChunk = 2048;  // stays in L1 between the two passes
    for (int64_t c = 0; c < g.cols; c += kChunk) {
      const int64_t n = min_i(kChunk, g.cols - c);
      fn(a + (g.a.col_stride ? c : 0), b + (g.b.col_stride ? c : 0), y + c, n);
      OCR_ISA_NS::unary(g.act, y + c, 0, y + c, 0, 1, n);
    }
  }
}

void affine(const float* x, int64_t ldx, const float* scale, const float* bias,
            const Activation& act, float* y, int64_t ldy, int64_t rows, int64_t cols) {
  dispatch_act(act.kind, [&]<Act A>() {
    const V a = set1(act.alpha), b = set1(act.beta);
    for (int64_t r = 0; r < rows; ++r, x += ldx, y += ldy)
      for (int64_t i = 0; i < cols; i += W) {
        const int64_t left = cols - i;
        const V t = bias ? load_n(bias + i, left) : zero();
        store_n(y + i, activate<A>(fma(load_n(x + i, left), load_n(scale + i, left), t), a, b),
                left);
      }
  });
}

}  // namespace train::cpu::OCR_ISA_NS
