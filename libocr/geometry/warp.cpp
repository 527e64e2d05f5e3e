#include "libocr/geometry/warp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#ifdef __SSE4_1__
#include <smmintrin.h>
#endif

namespace ocr {
namespace {

// Weights of four neighbouring pixels for a position `t` beyond the second of them.
struct Cubic {
  explicit Cubic(float t) {
    constexpr float a = -0.75f;
    w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
    w[3] = 1 - w[0] - w[1] - w[2];
  }
  float w[4];
};

// One pixel whose neighbours may lie outside: those are taken from the border. The sums are in the
// order of blend_inside, so that both give the same bytes.
void blend_border(const cv::Mat& page, int x, int y, const Cubic& across, const Cubic& down,
                  uint8_t* to) {
  float sum[3] = {};
  for (int j = 0; j < 4; ++j) {
    const uint8_t* line = page.ptr<uint8_t>(std::clamp(y + j, 0, page.rows - 1));
    float row[3] = {};
    for (int i = 0; i < 4; ++i) {
      const uint8_t* from = line + 3 * std::clamp(x + i, 0, page.cols - 1);
      for (int c = 0; c < 3; ++c) row[c] += across.w[i] * static_cast<float>(from[c]);
    }
    for (int c = 0; c < 3; ++c) sum[c] += down.w[j] * row[c];
  }
  for (int c = 0; c < 3; ++c)
    to[c] = static_cast<uint8_t>(std::clamp(std::lrint(sum[c]), 0L, 255L));
}

#ifdef __SSE4_1__
// One pixel out of four rows of at least 16 readable bytes each, beginning at `from`.
void blend_inside(const uint8_t* from, size_t stride, const Cubic& across, const Cubic& down,
                  uint8_t* to) {
  __m128 sum = _mm_setzero_ps();
  for (int j = 0; j < 4; ++j, from += stride) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const auto pixel = [](__m128i b) { return _mm_cvtepi32_ps(_mm_cvtepu8_epi32(b)); };
    __m128 row = _mm_mul_ps(_mm_set1_ps(across.w[0]), pixel(bytes));
    row = _mm_add_ps(row, _mm_mul_ps(_mm_set1_ps(across.w[1]), pixel(_mm_srli_si128(bytes, 3))));
    row = _mm_add_ps(row, _mm_mul_ps(_mm_set1_ps(across.w[2]), pixel(_mm_srli_si128(bytes, 6))));
    row = _mm_add_ps(row, _mm_mul_ps(_mm_set1_ps(across.w[3]), pixel(_mm_srli_si128(bytes, 9))));
    sum = _mm_add_ps(sum, _mm_mul_ps(_mm_set1_ps(down.w[j]), row));
  }
  const __m128i rounded = _mm_cvtps_epi32(sum);  // to nearest, ties to even, as lrint does
  const __m128i packed = _mm_packus_epi16(_mm_packs_epi32(rounded, rounded), rounded);
  const auto bgr = static_cast<uint32_t>(_mm_cvtsi128_si32(packed));
  to[0] = static_cast<uint8_t>(bgr);
  to[1] = static_cast<uint8_t>(bgr >> 8);
  to[2] = static_cast<uint8_t>(bgr >> 16);
}
#endif

// A coordinate far outside (or no number) would overflow an int: the border is the same there.
double bounded(double v, int side) {
  return v > -8 ? std::min(v, static_cast<double>(side) + 8) : -8;
}

}  // namespace

void warp_bicubic(const cv::Mat& page, const cv::Matx33d& m, cv::Size size, cv::Mat* out) {
  out->create(size, CV_8UC3);
  for (int y = 0; y < size.height; ++y) {
    uint8_t* to = out->ptr<uint8_t>(y);
    const double x0 = m(0, 1) * y + m(0, 2), y0 = m(1, 1) * y + m(1, 2), w0 = m(2, 1) * y + m(2, 2);
    for (int x = 0; x < size.width; ++x, to += 3) {
      const double w = m(2, 0) * x + w0;
      const double scale = w != 0 ? 1 / w : 0;
      const double px = bounded((m(0, 0) * x + x0) * scale, page.cols);
      const double py = bounded((m(1, 0) * x + y0) * scale, page.rows);
      const double fx = std::floor(px), fy = std::floor(py);
      const int left = static_cast<int>(fx) - 1, top = static_cast<int>(fy) - 1;
      const Cubic across(static_cast<float>(px - fx)), down(static_cast<float>(py - fy));
#ifdef __SSE4_1__
      // 16 bytes are read of each row: not quite up to the right edge.
      if (left >= 0 && top >= 0 && left + 6 <= page.cols && top + 4 <= page.rows) {
        blend_inside(page.ptr<uint8_t>(top) + 3 * left, page.step, across, down, to);
        continue;
      }
#endif
      blend_border(page, left, top, across, down, to);
    }
  }
}

}  // namespace ocr
