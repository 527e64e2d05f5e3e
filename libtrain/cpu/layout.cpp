#include "libtrain/cpu/layout.h"

#include <array>
#include <cstring>
#include <vector>

#include "libtrain/core/error.h"
#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

struct Axis {
  int64_t size, x_stride;  // in elements
};

// Axes of y with the strides of x, those merged that lie together in both.
std::vector<Axis> merged_axes(std::span<const int64_t> shape, std::span<const int> perm) {
  const size_t rank = shape.size();
  std::vector<int64_t> stride(rank, 1);
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  std::vector<Axis> axes;
  for (const int p : perm) {
    const Axis a{shape[static_cast<size_t>(p)], stride[static_cast<size_t>(p)]};
    if (a.size == 1) continue;
    if (!axes.empty() && axes.back().x_stride == a.x_stride * a.size)
      axes.back() = {axes.back().size * a.size, a.x_stride};
    else
      axes.push_back(a);
  }
  if (axes.empty()) axes.push_back({1, 1});
  return axes;
}

template <class T>
void copy_strided(const T* x, int64_t stride, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
}

// The innermost axis of y, or its two innermost when they are a plain matrix transpose of 4-byte
// elements.
template <class T>
void transpose_axes(const T* x, const std::vector<Axis>& axes, T* y) {
  const KernelTable& t = kernels();
  const size_t rank = axes.size();
  const Axis last = axes[rank - 1];
  const bool matrix = sizeof(T) == 4 && rank >= 2 && axes[rank - 2].x_stride == 1;
  const size_t outer = rank - (matrix ? 2 : 1);
  int64_t count = 1, chunk = last.size * (matrix ? axes[rank - 2].size : 1);
  for (size_t i = 0; i < outer; ++i) count *= axes[i].size;
  parallel_for(
      count, std::max<int64_t>(1, 16384 / std::max<int64_t>(chunk, 1)), [&](int64_t a, int64_t b) {
        for (int64_t i = a; i < b; ++i) {
          int64_t from = 0, rest = i;
          for (size_t k = outer; k-- > 0; rest /= axes[k].size)
            from += rest % axes[k].size * axes[k].x_stride;
          const T* src = x + from;
          T* dst = y + i * chunk;
          if (matrix)
            t.transpose2d(reinterpret_cast<const float*>(src), last.x_stride,
                          reinterpret_cast<float*>(dst), last.size, last.size, axes[rank - 2].size);
          else if (last.x_stride == 1)
            std::memcpy(dst, src, static_cast<size_t>(last.size) * sizeof(T));
          else
            copy_strided(src, last.x_stride, dst, last.size);
        }
      });
}

}  // namespace

void nchw_to_nhwc(const float* x, int64_t n, int64_t c, int64_t hw, float* y, int64_t ldy) {
  const KernelTable& t = kernels();
  constexpr int64_t kBlock = 1024;  // pixels
  const int64_t blocks = (hw + kBlock - 1) / kBlock;
  parallel_for(n * blocks, std::max<int64_t>(1, 16 / std::max<int64_t>(c, 1)),
               [&](int64_t a, int64_t b) {
                 for (int64_t i = a; i < b; ++i) {
                   const int64_t image = i / blocks, p = i % blocks * kBlock;
                   t.transpose2d(x + image * c * hw + p, hw, y + (image * hw + p) * ldy, ldy, c,
                                 std::min(kBlock, hw - p));
                 }
               });
}

void nhwc_to_nchw(const float* x, int64_t ldx, int64_t n, int64_t c, int64_t hw, float* y) {
  const KernelTable& t = kernels();
  constexpr int64_t kBlock = 1024;
  const int64_t blocks = (hw + kBlock - 1) / kBlock;
  parallel_for(n * blocks, std::max<int64_t>(1, 16 / std::max<int64_t>(c, 1)),
               [&](int64_t a, int64_t b) {
                 for (int64_t i = a; i < b; ++i) {
                   const int64_t image = i / blocks, p = i % blocks * kBlock;
                   t.transpose2d(x + (image * hw + p) * ldx, ldx, y + image * c * hw + p, hw,
                                 std::min(kBlock, hw - p), c);
                 }
               });
}

void copy_rows(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols) {
  if (rows <= 0 || cols <= 0) return;
  parallel_for(rows, std::max<int64_t>(1, 32768 / cols), [&](int64_t a, int64_t b) {
    const size_t bytes = static_cast<size_t>(cols) * sizeof(float);
    if (ldx == cols && ldy == cols) {
      std::memcpy(y + a * cols, x + a * cols, bytes * static_cast<size_t>(b - a));
      return;
    }
    for (int64_t r = a; r < b; ++r) std::memcpy(y + r * ldy, x + r * ldx, bytes);
  });
}

void transpose(const void* x, std::span<const int64_t> shape, std::span<const int> perm, void* y,
               size_t element_size) {
  std::vector<bool> seen(shape.size());
  bool valid = perm.size() == shape.size();
  for (const int p : perm) {
    valid =
        valid && p >= 0 && static_cast<size_t>(p) < shape.size() && !seen[static_cast<size_t>(p)];
    if (valid) seen[static_cast<size_t>(p)] = true;
  }
  if (!valid)
    throw ShapeError("the axes of a transpose must be a permutation of the tensor's axes");
  for (const int64_t s : shape)
    if (s == 0) return;
  const std::vector<Axis> axes = merged_axes(shape, perm);
  switch (element_size) {
    case 1:
      return transpose_axes(static_cast<const uint8_t*>(x), axes, static_cast<uint8_t*>(y));
    case 2:
      return transpose_axes(static_cast<const uint16_t*>(x), axes, static_cast<uint16_t*>(y));
    case 4:
      return transpose_axes(static_cast<const uint32_t*>(x), axes, static_cast<uint32_t*>(y));
    case 8:
      return transpose_axes(static_cast<const uint64_t*>(x), axes, static_cast<uint64_t*>(y));
    default:
      throw ShapeError(cat("transpose of elements of ", element_size, " bytes is not supported"));
  }
}

void normalize_image(const uint8_t* bgr, int64_t row_bytes, int64_t h, int64_t w, bool swap,
                     const float scale[3], const float bias[3], float* y, int64_t ldy,
                     int64_t y_row) {
  const KernelTable& t = kernels();
  parallel_for(h, std::max<int64_t>(1, 8192 / std::max<int64_t>(w, 1)), [&](int64_t a, int64_t b) {
    for (int64_t r = a; r < b; ++r)
      t.normalize_row(bgr + r * row_bytes, w, swap, scale, bias, y + r * y_row, ldy);
  });
}

}  // namespace train::cpu
