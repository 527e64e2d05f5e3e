// Pooling, channels-last f32.
#pragma once
#include <cstddef>
#include <cstdint>

namespace train::cpu {

struct PoolDesc {
  int kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1;
  int pt = 0, pl = 0, pb = 0, pr = 0;
  bool ceil_mode = false;
  bool count_include_pad = false;  // average only

  /// Output size in ONNX's rule: with ceil_mode no window starts in the padding at the far end.
  int64_t out_h(int64_t h) const;
  int64_t out_w(int64_t w) const;
};

/// x: [n, h, w, c], pixel stride ldx; y: [n, out_h, out_w, c], pixel stride ldy. Padding counts as
/// -inf.
void max_pool(const PoolDesc& desc, const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w,
              int64_t c, float* y, int64_t ldy);
void avg_pool(const PoolDesc& desc, const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w,
              int64_t c, float* y, int64_t ldy);

size_t global_avg_pool_workspace_bytes(int64_t n, int64_t h, int64_t w, int64_t c);
/// y: [n, c], row stride ldy: the mean over h and w, as one sum per image row and then the sum of
/// those in order.
void global_avg_pool(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, int64_t c,
                     float* y, int64_t ldy, void* workspace);
void global_max_pool(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, int64_t c,
                     float* y, int64_t ldy);

}  // namespace train::cpu
