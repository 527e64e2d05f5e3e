#include "libtrain/autograd/weight_gemm.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/cpu/packed.h"

namespace train {
namespace {

// A packed block of b (512 x N words) stays in the L2 cache while all rows of A pass over it.
constexpr int64_t kWords = 512;
// Blocks packed at a time: bounds the memory of packed copies.
constexpr int64_t kBlocksAtOnce = 16;
constexpr int64_t kRowGrain = 4;

// Rows [begin, end) of all groups times one packed block that starts at column k of A.
void rows_times_block(std::span<const RowGroup> groups, int64_t begin, int64_t end, int64_t k,
                      const cpu::PackedMatrix& b, float* out, bool add) {
  const cpu::PackedWeights& w = b.weights();
  const bool pairs = w.table->precision == cpu::Precision::kBf16;
  const int64_t n = b.n(), size = pairs ? 2 : 4;
  cpu::GemmArgs a{};
  a.b = w.view();
  a.ldy = a.ldr = n;
  a.words = pairs;
  cpu::Epilogue epilogue;
  if (add) epilogue.residual = cpu::Residual::kBeforeAct;
  a.e = cpu::epilogue_args(epilogue, add);
  int64_t first = 0;  // row of the output where the group starts
  for (const RowGroup& g : groups) {
    const int64_t r0 = std::max(begin - first, int64_t{0}), r1 = std::min(end - first, g.rows);
    float* y = out + (first + r0) * n;
    if (r0 < r1) {
      a.x = static_cast<const float*>(
          static_cast<const void*>(static_cast<const char*>(g.data) + (r0 * g.ld + k) * size));
      a.ldx = pairs ? g.ld / 2 : g.ld;
      a.y = y;
      a.res = add ? y : nullptr;
      w.table->gemm(a, 0, r1 - r0);
    }
    first += g.rows;
  }
}

}  // namespace

void weight_gemm(std::span<const RowGroup> groups, const float* b, int64_t ldb, int64_t K,
                 int64_t N, float* out, bool add, cpu::Precision precision) {
  int64_t rows = 0;
  for (const RowGroup& g : groups) rows += g.rows;
  if (K == 0 && !add) std::fill_n(out, rows * N, 0.f);
  const int64_t block = precision == cpu::Precision::kBf16 ? 2 * kWords : kWords;
  const int64_t blocks = (K + block - 1) / block;
  std::vector<std::optional<cpu::PackedMatrix>> packed(std::min(blocks, kBlocksAtOnce));
  for (int64_t from = 0; from < blocks; from += kBlocksAtOnce) {
    const int64_t count = std::min(kBlocksAtOnce, blocks - from);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = (from + i) * block;
        packed[i].emplace(b + k * ldb, ldb, false, std::min(block, K - k), N, nullptr, precision);
      }
    });
    parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; ++i)
        rows_times_block(groups, begin, end, (from + i) * block, *packed[i], out,
                         add || from + i > 0);
    });
  }
}

void transpose_rows(const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y,
                    int64_t ldy) {
  constexpr int64_t kTile = 16;
  parallel_for((rows + kTile - 1) / kTile, 4, [&](int64_t begin, int64_t end) {
    for (int64_t r0 = begin * kTile; r0 < std::min(end * kTile, rows); r0 += kTile)
      for (int64_t c0 = 0; c0 < cols; c0 += kTile)
        for (int64_t c = c0; c < std::min(c0 + kTile, cols); ++c)
          for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) y[c * ldy + r] = x[r * ldx + c];
  });
}

}  // namespace train
