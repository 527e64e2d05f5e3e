#include "libtrain/cpu/pool.h"

#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

int64_t out_size(int64_t in, int k, int s, int d, int before, int after, bool ceil_mode) {
  const int64_t room = in + before + after - (int64_t{k} - 1) * d - 1;
  if (room < 0) return 0;
  int64_t out = (ceil_mode ? (room + s - 1) / s : room / s) + 1;
  if (ceil_mode && (out - 1) * s >= in + before) --out;
  return out;
}

void pool(bool max, const PoolDesc& d, const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w,
          int64_t c, float* y, int64_t ldy) {
  PoolArgs p{};
  const int64_t oh = d.out_h(h), ow = d.out_w(w);
  p.g = {x,    ldx,  h,    w,    c,    y,    ldy,  oh,   ow,       nullptr,       0,
         d.kh, d.kw, d.sh, d.sw, d.dh, d.dw, d.pt, d.pl, ow * ldy, oh * ow * ldy, 0,
         0};
  p.max = max;
  p.count_include_pad = d.count_include_pad;
  p.pb = d.pb;
  p.pr = d.pr;
  const KernelTable& t = kernels();
  parallel_for(n * oh, grain_for(ow * c * d.kh * d.kw),
               [&](int64_t r0, int64_t r1) { t.pool(p, r0, r1); });
}

}  // namespace

int64_t PoolDesc::out_h(int64_t h) const { return out_size(h, kh, sh, dh, pt, pb, ceil_mode); }
int64_t PoolDesc::out_w(int64_t w) const { return out_size(w, kw, sw, dw, pl, pr, ceil_mode); }

void max_pool(const PoolDesc& d, const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w,
              int64_t c, float* y, int64_t ldy) {
  pool(true, d, x, ldx, n, h, w, c, y, ldy);
}
void avg_pool(const PoolDesc& d, const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w,
              int64_t c, float* y, int64_t ldy) {
  pool(false, d, x, ldx, n, h, w, c, y, ldy);
}

size_t global_avg_pool_workspace_bytes(int64_t n, int64_t h, int64_t, int64_t c) {
  return align64(static_cast<size_t>(n * h * c) * sizeof(float));
}

void global_avg_pool(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, int64_t c,
                     float* y, int64_t ldy, void* workspace) {
  const KernelTable& t = kernels();
  float* sums = static_cast<float*>(workspace);  // [n, h, c]
  parallel_for(n * h, grain_for(w * c), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      t.reduce_rows(ReduceOp::kSum, x + r * w * ldx, ldx, w, c, sums + r * c);
  });
  const float count = static_cast<float>(h * w);
  for (int64_t i = 0; i < n; ++i) {
    float* out = y + i * ldy;
    t.reduce_rows(ReduceOp::kSum, sums + i * h * c, c, h, c, out);
    for (int64_t k = 0; k < c; ++k) out[k] /= count;
  }
}

void global_max_pool(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, int64_t c,
                     float* y, int64_t ldy) {
  const KernelTable& t = kernels();
  parallel_for(n, 1, [&](int64_t n0, int64_t n1) {
    for (int64_t i = n0; i < n1; ++i)
      t.reduce_rows(ReduceOp::kMax, x + i * h * w * ldx, ldx, h * w, c, y + i * ldy);
  });
}

}  // namespace train::cpu
