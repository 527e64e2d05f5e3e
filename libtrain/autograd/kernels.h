// The training kernels of the instruction set in use, and sums over blocks of fixed size.
#pragma once
#include <algorithm>

#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/kernels/grad_kernels.h"

namespace train {

/// The table of cpu::isa().
const cpu::GradTable& grad_kernels();
/// The same with the products over rows of this precision. Throws Error where cpu::has_bf16() is
/// false.
const cpu::GradTable& grad_kernels(cpu::Precision precision);

/// Elements worth a thread of their own in a pass over memory.
constexpr int64_t kElementGrain = 8192;

/// Rows of `cols` elements worth a thread.
inline int64_t row_grain(int64_t cols) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(cols, 1));
}

/// Long sums over rows run in blocks of this many rows, each summed on its own, and the blocks'
/// sums are added in order: accurate, and the same bits for any number of threads.
constexpr int64_t kBlockRows = 256;
inline int64_t row_blocks(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

/// Calls fn(block, first row, last row + 1) for every block, over the pool.
template <class F>
void for_row_blocks(int64_t rows, int64_t cols, F&& fn) {
  parallel_for(row_blocks(rows), std::max<int64_t>(1, row_grain(cols) / kBlockRows),
               [&](int64_t begin, int64_t end) {
                 for (int64_t b = begin; b < end; ++b)
                   fn(b, b * kBlockRows, std::min(rows, (b + 1) * kBlockRows));
               });
}

/// y[c] = sum of the blocks' partial[b, c], in order, in double.
void add_blocks(const float* partial, int64_t blocks, int64_t cols, float* y);

}  // namespace train
