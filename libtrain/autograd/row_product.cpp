#include "libtrain/autograd/row_product.h"

#include <algorithm>

#include "libtrain/autograd/kernels.h"

namespace train {
namespace {

constexpr int64_t kRows = cpu::kProductRows, kLane = cpu::kProductLane;
// Rows of a block, and their words in packed form: a packed panel of b stays in L1, a packed block
// of a in L2 while all panels of b pass over it.
constexpr int64_t kWords = 256;
constexpr int64_t kMostCols = 32;           // of a panel of b, any instruction set
constexpr int64_t kPackedFloats = 1 << 20;  // of a at a time, unless one block alone has more

int64_t panels_of(int64_t m) { return (m + kRows - 1) / kRows; }
int64_t floats_of_block(int64_t m) { return panels_of(m) * kWords * kLane; }
int64_t block_rows(const RowProduct& p) {
  return p.precision == cpu::Precision::kBf16 ? 2 * kWords : kWords;
}
int64_t blocks_of(const RowProduct& p) { return (p.rows + block_rows(p) - 1) / block_rows(p); }
int64_t blocks_at_once(const RowProduct& p) {
  const int64_t blocks = blocks_of(p);
  return std::clamp<int64_t>(kPackedFloats / floats_of_block(p.m), 1, std::max<int64_t>(blocks, 1));
}

// Blocks [first, first + count) of a in packed form: [block][panel][row][kLane].
void pack_a(const RowProduct& p, const float* a, const float* shift, int64_t first, int64_t count,
            float* packed) {
  const cpu::GradTable& t = grad_kernels(p.precision);
  const int64_t panels = panels_of(p.m), block = block_rows(p);
  parallel_for(count * panels, std::max<int64_t>(1, kElementGrain / (block * kRows)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t r0 = (first + i / panels) * block, c0 = i % panels * kRows;
                   t.pack_product(a + r0 * p.m + c0, p.m, shift ? shift + c0 : nullptr,
                                  std::min(block, p.rows - r0), std::min(kRows, p.m - c0), kLane,
                                  packed + i * kWords * kLane);
                 }
               });
}

// A part of the output: one panel of b by a range of the panels of a.
struct Unit {
  int64_t col, first_panel, end_panel;
};

}  // namespace

size_t RowProduct::workspace_bytes() const {
  return static_cast<size_t>(blocks_at_once(*this) * floats_of_block(m)) * sizeof(float);
}

void RowProduct::run(const float* a, const float* b, float* out, bool add, void* workspace,
                     const float* shift_a, const float* shift_b) const {
  const cpu::GradTable& t = grad_kernels(precision);
  auto* packed = static_cast<float*>(workspace);
  if (rows == 0 && !add) std::fill_n(out, m * n, 0.f);
  const int64_t cols = t.product_cols(), panels = panels_of(m);
  const int64_t col_panels = (n + cols - 1) / cols, splits = std::min<int64_t>(panels, 4);
  const auto unit_of = [&](int64_t i) {
    const int64_t s = i % splits;
    return Unit{i / splits, panels * s / splits, panels * (s + 1) / splits};
  };
  const int64_t blocks = blocks_of(*this), at_once = blocks_at_once(*this);
  const int64_t block = block_rows(*this);
  for (int64_t from = 0; from < blocks; from += at_once) {
    const int64_t count = std::min(at_once, blocks - from);
    pack_a(*this, a, shift_a, from, count, packed);
    const int64_t work = std::min(count * block, rows) * cols * m / splits;
    parallel_for(col_panels * splits, std::max<int64_t>(1, 262144 / std::max<int64_t>(work, 1)),
                 [&](int64_t begin, int64_t end) {
                   alignas(64) float panel[kWords * kMostCols];
                   for (int64_t k = 0; k < count; ++k) {
                     const int64_t r0 = (from + k) * block, len = std::min(block, rows - r0);
                     int64_t held = -1;
                     for (int64_t i = begin; i < end; ++i) {
                       const Unit u = unit_of(i);
                       const int64_t c0 = u.col * cols, width = std::min(cols, n - c0);
                       if (u.col != held)
                         t.pack_product(b + r0 * n + c0, n, shift_b ? shift_b + c0 : nullptr, len,
                                        width, cols, panel);
                       held = u.col;
                       for (int64_t j = u.first_panel; j < u.end_panel; ++j)
                         t.product_tile(packed + (k * panels + j) * kWords * kLane, panel, len,
                                        out + j * kRows * n + c0, n, std::min(kRows, m - j * kRows),
                                        width, add || from + k > 0);
                     }
                   }
                 });
  }
}

}  // namespace train
