#include "libtrain/cpu/resize.h"

#include <cmath>
#include <cstring>

#include "libtrain/core/error.h"
#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

// Input coordinate of output position o. In f32, as the reference runtimes compute it: nearest
// depends on its rounding.
float source(const ResizeDesc& d, int64_t o, int64_t in, int64_t out, float scale) {
  const float x = static_cast<float>(o);
  switch (d.coord) {
    case ResizeCoord::kAsymmetric:
      return x / scale;
    case ResizeCoord::kAlignCorners:
      return out > 1 ? x * static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0;
    case ResizeCoord::kPytorchHalfPixel:
      return out > 1 ? (x + .5f) / scale - .5f : 0;
    case ResizeCoord::kHalfPixelSymmetric: {
      const float ideal = scale * static_cast<float>(in);
      const float offset = static_cast<float>(in) / 2 * (1 - static_cast<float>(out) / ideal);
      return offset + (x + .5f) / scale - .5f;
    }
    default:
      return (x + .5f) / scale - .5f;
  }
}

int64_t nearest(NearestMode m, float x) {
  const float f = std::floor(x);
  switch (m) {
    case NearestMode::kFloor:
      return static_cast<int64_t>(f);
    case NearestMode::kCeil:
      return static_cast<int64_t>(std::ceil(x));
    case NearestMode::kRoundPreferCeil:
      return static_cast<int64_t>(std::floor(x + .5f));
    default:
      return static_cast<int64_t>(x - f == .5f ? f : std::round(x));
  }
}

// Keys' cubic convolution weights of the taps at floor(x) - 1 ... floor(x) + 2.
void cubic_weights(float t, float a, float* w) {
  w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
  w[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
}

// True where index is i / factor with factor = out / in whole.
bool repeats(const int32_t* index, int64_t in, int64_t out) {
  if (out % in) return false;
  for (int64_t i = 0; i < out; ++i)
    if (index[i] != i / (out / in)) return false;
  return true;
}

}  // namespace

int resize_taps(ResizeMode m) {
  return m == ResizeMode::kNearest ? 1 : m == ResizeMode::kLinear ? 2 : 4;
}

void resize_tables(const ResizeDesc& d, int64_t in, int64_t out, double scale, int32_t* index,
                   float* weight) {
  const float s =
      static_cast<float>(scale > 0 ? scale : static_cast<double>(out) / static_cast<double>(in));
  const auto clamp = [in](int64_t i) {
    return static_cast<int32_t>(std::clamp<int64_t>(i, 0, in - 1));
  };
  for (int64_t o = 0; o < out; ++o) {
    const float x = source(d, o, in, out, s);
    if (d.mode == ResizeMode::kNearest) {
      index[o] = clamp(nearest(d.nearest, x));
    } else if (d.mode == ResizeMode::kLinear) {
      const float c = std::clamp(x, 0.f, static_cast<float>(in - 1));
      const int64_t i = static_cast<int64_t>(c);
      index[2 * o] = clamp(i);
      index[2 * o + 1] = clamp(i + 1);
      weight[2 * o + 1] = c - static_cast<float>(i);
      weight[2 * o] = 1 - weight[2 * o + 1];
    } else {
      const float f = std::floor(x);
      float w[4], sum = 0;
      cubic_weights(x - f, d.cubic_a, w);
      for (int64_t t = 0; t < 4; ++t) {
        const int64_t i = static_cast<int64_t>(f) - 1 + t;
        if (d.exclude_outside && (i < 0 || i >= in)) w[t] = 0;
        sum += w[t];
        index[4 * o + t] = clamp(i);
      }
      for (int64_t t = 0; t < 4; ++t) weight[4 * o + t] = d.exclude_outside ? w[t] / sum : w[t];
    }
  }
}

size_t resize_workspace_bytes(const ResizeDesc& d, int64_t oh, int64_t ow) {
  return align64(static_cast<size_t>((oh + ow) * resize_taps(d.mode)) * 8);
}

void resize(const ResizeDesc& d, const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w,
            int64_t c, float* y, int64_t ldy, int64_t oh, int64_t ow, const float* res, int64_t ldr,
            void* workspace) {
  if (h <= 0 || w <= 0) throw ShapeError("cannot resize an empty image");
  const int taps = resize_taps(d.mode);
  int32_t* iy = static_cast<int32_t*>(workspace);
  int32_t* ix = iy + oh * taps;
  float* wy = reinterpret_cast<float*>(ix + ow * taps);
  float* wx = wy + oh * taps;
  resize_tables(d, h, oh, d.scale_h, iy, wy);
  resize_tables(d, w, ow, d.scale_w, ix, wx);
  ResizeArgs a{};
  a.x = x, a.ldx = ldx, a.h = h, a.w = w, a.c = c;
  a.y = y, a.ldy = ldy, a.oh = oh, a.ow = ow, a.res = res, a.ldr = ldr;
  a.taps = taps, a.iy = iy, a.ix = ix, a.wy = wy, a.wx = wx;
  if (d.mode == ResizeMode::kNearest && repeats(iy, h, oh) && repeats(ix, w, ow)) {
    a.repeat_y = static_cast<int>(oh / h);
    a.repeat_x = static_cast<int>(ow / w);
  }
  const KernelTable& t = kernels();
  parallel_for(n * oh, grain_for(ow * c * taps * taps),
               [&](int64_t r0, int64_t r1) { t.resize(a, r0, r1); });
}

}  // namespace train::cpu
