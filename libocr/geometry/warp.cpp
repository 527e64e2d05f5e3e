#include "libocr/geometry/warp.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstdint>
#include <opencv2/imgproc.hpp>
#include <vector>

#ifdef __SSE4_1__
#include <smmintrin.h>
#endif

namespace ocr {

#ifdef __SSE4_1__
namespace {

constexpr int kBits = 5;  // positions are rounded to 1/32 pixel
constexpr int kSteps = 1 << kBits;
constexpr int kWeightBits = 15;  // weights of the 4 x 4 pixels sum to 2^15
constexpr int kBlock = 32 * 32;  // pixels of a block: positions are computed from its left edge

using Weights = std::array<int16_t, 16>;

// Cubic convolution (a = -0.75) at distance i / 32 beyond the second of four pixels.
std::array<float, 4> cubic(int i) {
  constexpr float a = -0.75f;
  const float x = static_cast<float>(i) * (1.0f / kSteps);
  std::array<float, 4> c;
  c[0] = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a;
  c[1] = ((a + 2) * x - (a + 3)) * x * x + 1;
  c[2] = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1;
  c[3] = 1.0f - c[0] - c[1] - c[2];
  return c;
}

Weights rounded_weights(const std::array<float, 4>& down, const std::array<float, 4>& across) {
  Weights w;
  int sum = 0;
  for (size_t i = 0; i < 16; ++i) {
    const float exact = down[i / 4] * across[i % 4] * (1 << kWeightBits);
    w[i] = static_cast<int16_t>(std::clamp(std::lrint(exact), -32768L, 32767L));
    sum += w[i];
  }
  // What rounding lost or gained goes to one of the four pixels to the lower right: to the largest
  // weight if the sum is too small, to the smallest if it is too large.
  const int excess = sum - (1 << kWeightBits);
  if (excess == 0) return w;
  size_t least = 10, most = 10;
  for (const size_t i : {10u, 11u, 14u, 15u}) {
    if (w[i] < w[least]) {
      least = i;
    } else if (w[i] > w[most]) {
      most = i;
    }
  }
  w[excess < 0 ? most : least] -= static_cast<int16_t>(excess);
  return w;
}

// Weights by position within a pixel: [row * 32 + column].
const std::vector<Weights>& weight_table() {
  static const std::vector<Weights> table = [] {
    std::vector<Weights> t(kSteps * kSteps);
    for (int y = 0; y < kSteps; ++y) {
      for (int x = 0; x < kSteps; ++x) {
        t[static_cast<size_t>(y * kSteps + x)] = rounded_weights(cubic(y), cubic(x));
      }
    }
    return t;
  }();
  return table;
}

int16_t to_short(int v) { return static_cast<int16_t>(std::clamp(v, SHRT_MIN, SHRT_MAX)); }

// Positions in 1/32 pixel of `n` pixels of a row that starts at numerators (x0, y0), denominator
// w0.
void positions(const cv::Matx33d& m, double x0, double y0, double w0, int n, int* xs, int* ys) {
  const __m128d steps = _mm_set1_pd(kSteps), zero = _mm_setzero_pd();
  const __m128d low = _mm_set1_pd(INT_MIN), high = _mm_set1_pd(INT_MAX);
  const auto along = [](double start, double slope, __m128d i) {
    return _mm_add_pd(_mm_set1_pd(start), _mm_mul_pd(_mm_set1_pd(slope), i));
  };
  for (int i = 0; i < n; i += 2) {  // the arrays have room for one pixel more
    const __m128d at = _mm_set_pd(i + 1, i);
    const __m128d w = along(w0, m(2, 0), at);
    const __m128d scale = _mm_and_pd(_mm_div_pd(steps, w), _mm_cmpneq_pd(w, zero));
    const __m128d x = _mm_mul_pd(along(x0, m(0, 0), at), scale);
    const __m128d y = _mm_mul_pd(along(y0, m(1, 0), at), scale);
    const auto to_int = [&](__m128d v) {
      return _mm_cvtpd_epi32(_mm_max_pd(low, _mm_min_pd(high, v)));
    };
    _mm_storel_epi64(reinterpret_cast<__m128i*>(xs + i), to_int(x));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(ys + i), to_int(y));
  }
}

// One pixel out of four rows of at least 16 readable bytes each, beginning at `from`.
void blend_inside(const uint8_t* from, size_t stride, const Weights& w, uint8_t* to) {
  // Pairs of neighbours by channel: b0 b1 g0 g1 r0 r1, as 16-bit numbers.
  const __m128i left = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m128i right = _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  __m128i sum = _mm_set1_epi32(1 << (kWeightBits - 1));
  for (size_t row = 0; row < 4; ++row, from += stride) {
    const __m128i pixels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(w.data() + 4 * row));
    const __m128i first = _mm_shuffle_epi32(four, 0x00), second = _mm_shuffle_epi32(four, 0x55);
    sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_shuffle_epi8(pixels, left), first));
    sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_shuffle_epi8(pixels, right), second));
  }
  const __m128i bytes =
      _mm_packus_epi16(_mm_packs_epi32(_mm_srai_epi32(sum, kWeightBits), sum), sum);
  const uint32_t bgr = static_cast<uint32_t>(_mm_cvtsi128_si32(bytes));
  to[0] = static_cast<uint8_t>(bgr);
  to[1] = static_cast<uint8_t>(bgr >> 8);
  to[2] = static_cast<uint8_t>(bgr >> 16);
}

// One pixel whose neighbours may lie outside: those are taken from the border.
void blend_border(const cv::Mat& page, int x, int y, const Weights& w, uint8_t* to) {
  int sum[3] = {};
  for (int row = 0; row < 4; ++row) {
    const uint8_t* line = page.ptr<uint8_t>(std::clamp(y + row, 0, page.rows - 1));
    for (int column = 0; column < 4; ++column) {
      const uint8_t* from = line + 3 * std::clamp(x + column, 0, page.cols - 1);
      const int weight = w[static_cast<size_t>(4 * row + column)];
      for (int c = 0; c < 3; ++c) sum[c] += from[c] * weight;
    }
  }
  for (int c = 0; c < 3; ++c) {
    to[c] = static_cast<uint8_t>(
        std::clamp((sum[c] + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
  }
}

}  // namespace

void warp_bicubic(const cv::Mat& page, const cv::Matx33d& m, cv::Size size, cv::Mat* out) {
  out->create(size, CV_8UC3);
  const std::vector<Weights>& table = weight_table();
  const int block_height = std::min(16, size.height);
  const int block_width = std::min(kBlock / block_height, size.width);
  std::array<int, kBlock + 2> xs, ys;
  for (int y = 0; y < size.height; ++y) {
    uint8_t* row = out->ptr<uint8_t>(y);
    for (int x = 0; x < size.width; x += block_width) {
      const int n = std::min(block_width, size.width - x);
      const auto start = [&](int r) { return m(r, 0) * x + m(r, 1) * y + m(r, 2); };
      positions(m, start(0), start(1), start(2), n, xs.data(), ys.data());
      for (int i = 0; i < n; ++i) {
        const size_t at = static_cast<size_t>(i);
        const int left = to_short(xs[at] >> kBits) - 1, top = to_short(ys[at] >> kBits) - 1;
        const Weights& w =
            table[static_cast<size_t>((ys[at] & (kSteps - 1)) * kSteps + (xs[at] & (kSteps - 1)))];
        uint8_t* to = row + 3 * (x + i);
        // 16 bytes are read of each row: not quite up to the right edge.
        if (left >= 0 && top >= 0 && left + 6 <= page.cols && top + 4 <= page.rows) {
          blend_inside(page.ptr<uint8_t>(top) + 3 * left, page.step, w, to);
        } else {
          blend_border(page, left, top, w, to);
        }
      }
    }
  }
}

#else  // other machines: OpenCV's own

void warp_bicubic(const cv::Mat& page, const cv::Matx33d& m, cv::Size size, cv::Mat* out) {
  cv::warpPerspective(page, *out, m, size, cv::INTER_CUBIC | cv::WARP_INVERSE_MAP,
                      cv::BORDER_REPLICATE);
}

#endif

}  // namespace ocr
