// Softmax, reductions and normalisations: rows dealt to threads.
#include <cmath>

#include "libtrain/cpu/norm.h"
#include "libtrain/cpu/packed.h"
#include "libtrain/cpu/reduce.h"
#include "libtrain/cpu/softmax.h"

namespace train::cpu {
namespace {

constexpr int64_t kBlockRows = 256;  // rows per partial sum of a group norm

int64_t row_grain(int64_t cols) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(cols, 1)); }

}  // namespace

void softmax(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols) {
  const KernelTable& t = kernels();
  parallel_for(rows, row_grain(cols), [&](int64_t a, int64_t b) {
    t.softmax(x + a * ldx, ldx, y + a * ldy, ldy, b - a, cols, false);
  });
}
void log_softmax(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols) {
  const KernelTable& t = kernels();
  parallel_for(rows, row_grain(cols), [&](int64_t a, int64_t b) {
    t.softmax(x + a * ldx, ldx, y + a * ldy, ldy, b - a, cols, true);
  });
}
void softmax_argmax(const float* x, int64_t ldx, int64_t rows, int64_t cols, int32_t* index,
                    float* prob) {
  const KernelTable& t = kernels();
  parallel_for(rows, row_grain(cols), [&](int64_t a, int64_t b) {
    t.softmax_argmax(x + a * ldx, ldx, b - a, cols, index + a, prob + a, nullptr);
  });
}
void argmax(const float* x, int64_t ldx, int64_t rows, int64_t cols, int32_t* index, float* value) {
  const KernelTable& t = kernels();
  parallel_for(rows, row_grain(cols), [&](int64_t a, int64_t b) {
    t.softmax_argmax(x + a * ldx, ldx, b - a, cols, index + a, nullptr,
                     value ? value + a : nullptr);
  });
}

void reduce_cols(ReduceOp op, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y) {
  const KernelTable& t = kernels();
  parallel_for(rows, row_grain(cols), [&](int64_t a, int64_t b) {
    t.reduce_cols(op, x + a * ldx, ldx, b - a, cols, y + a);
  });
}
void reduce_rows(ReduceOp op, const float* x, int64_t ldx, int64_t outer, int64_t rows,
                 int64_t cols, float* y, int64_t ldy) {
  const KernelTable& t = kernels();
  parallel_for(outer, row_grain(rows * cols), [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i)
      t.reduce_rows(op, x + i * rows * ldx, ldx, rows, cols, y + i * ldy);
  });
}

void layer_norm(const float* x, int64_t ldx, const float* scale, const float* bias, float eps,
                float* y, int64_t ldy, int64_t rows, int64_t cols) {
  const KernelTable& t = kernels();
  parallel_for(rows, row_grain(cols), [&](int64_t a, int64_t b) {
    t.layer_norm(x + a * ldx, ldx, scale, bias, eps, y + a * ldy, ldy, b - a, cols);
  });
}

size_t group_norm_workspace_bytes(int64_t n, int64_t hw, int64_t c) {
  const int64_t blocks = (hw + kBlockRows - 1) / kBlockRows;
  return align64(static_cast<size_t>(n * (blocks + 2) * c) * sizeof(float));
}

void group_norm(const float* x, int64_t ldx, int64_t n, int64_t hw, int64_t c, int64_t groups,
                const float* scale, const float* bias, float eps, float* y, int64_t ldy,
                void* workspace) {
  const KernelTable& t = kernels();
  const int64_t blocks = (hw + kBlockRows - 1) / kBlockRows, per = c / groups;
  float* partial = static_cast<float*>(workspace);      // [n, blocks, c]
  float *a = partial + n * blocks * c, *b = a + n * c;  // [n, c]: y = x a + b
  // f(rows, count, first channel sums): per block; then the mean over blocks and the channels of a
  // group.
  const auto statistics = [&](auto&& block_sum, auto&& use) {
    parallel_for(n * blocks, 1, [&](int64_t p, int64_t q) {
      for (int64_t i = p; i < q; ++i) {
        const int64_t image = i / blocks, r0 = i % blocks * kBlockRows;
        block_sum(image, x + (image * hw + r0) * ldx, std::min(kBlockRows, hw - r0),
                  partial + i * c);
      }
    });
    for (int64_t i = 0; i < n; ++i)
      for (int64_t g = 0; g < groups; ++g) {
        double sum = 0;
        for (int64_t k = 0; k < blocks; ++k)
          for (int64_t j = g * per; j < (g + 1) * per; ++j)
            sum += partial[(i * blocks + k) * c + j];
        use(i, g, sum / static_cast<double>(hw * per));
      }
  };
  statistics([&](int64_t, const float* rows, int64_t count,
                 float* out) { t.reduce_rows(ReduceOp::kSum, rows, ldx, count, c, out); },
             [&](int64_t i, int64_t g, double mean) {
               for (int64_t j = g * per; j < (g + 1) * per; ++j)
                 b[i * c + j] = static_cast<float>(mean);
             });
  statistics([&](int64_t i, const float* rows, int64_t count,
                 float* out) { t.centred_square_rows(rows, ldx, b + i * c, count, c, out); },
             [&](int64_t i, int64_t g, double var) {
               for (int64_t j = g * per; j < (g + 1) * per; ++j)
                 a[i * c + j] = static_cast<float>((scale ? scale[j] : 1.0) /
                                                   std::sqrt(var + static_cast<double>(eps)));
             });
  for (int64_t i = 0; i < n * c; ++i) b[i] = (bias ? bias[i % c] : 0) - b[i] * a[i];
  parallel_for(n * hw, row_grain(c), [&](int64_t p, int64_t q) {
    for (int64_t r = p; r < q;) {
      const int64_t i = r / hw, end = std::min(q, (i + 1) * hw);
      t.affine(x + r * ldx, ldx, a + i * c, b + i * c, {}, y + r * ldy, ldy, end - r, c);
      r = end;
    }
  });
}

}  // namespace train::cpu
