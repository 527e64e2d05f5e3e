// RandAugment (Cubuk et al., 2020) as PaddleOCR has it on Pillow's operations. Pixels are BGR where
// Pillow takes them for RGB, there and here: grey is weighted accordingly.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <opencv2/imgproc.hpp>

#include "libocr/data/recognition_augment.h"

namespace ocr {
namespace {

const cv::Scalar kFill(128, 128, 128);

using Table = std::array<std::array<uint8_t, 256>, 3>;

template <class F>
cv::Mat by_table(const cv::Mat& image, F value) {
  cv::Mat table(1, 256, CV_8UC3);
  for (int v = 0; v < 256; ++v)
    for (int c = 0; c < 3; ++c) table.ptr<uint8_t>(0)[3 * v + c] = value(v, c);
  cv::Mat out;
  cv::LUT(image, table, out);
  return out;
}

uint8_t byte(double v) { return static_cast<uint8_t>(std::clamp(v, 0.0, 255.0)); }

// Pillow's blend: degenerate + factor (image - degenerate).
cv::Mat blend(const cv::Mat& degenerate, const cv::Mat& image, double factor) {
  cv::Mat out(image.size(), CV_8UC3);
  for (int y = 0; y < image.rows; ++y) {
    const uint8_t* a = degenerate.ptr<uint8_t>(y);
    const uint8_t* b = image.ptr<uint8_t>(y);
    uint8_t* o = out.ptr<uint8_t>(y);
    for (int x = 0; x < 3 * image.cols; ++x) o[x] = byte(a[x] + factor * (b[x] - a[x]));
  }
  return out;
}

cv::Mat grey3(const cv::Mat& image) {
  cv::Mat grey, out;
  cv::cvtColor(image, grey, cv::COLOR_RGB2GRAY);
  cv::cvtColor(grey, out, cv::COLOR_GRAY2RGB);
  return out;
}

// Pillow's transforms name, for a pixel of the result, its place in the source, by pixel centres.
cv::Mat move(const cv::Mat& image, double a, double b, double c, double d, double e, double f,
             int interpolation) {
  const cv::Matx23d map(a, b, c + (a + b - 1) / 2, d, e, f + (d + e - 1) / 2);
  cv::Mat out;
  cv::warpAffine(image, out, map, image.size(), interpolation | cv::WARP_INVERSE_MAP,
                 cv::BORDER_CONSTANT, kFill);
  return out;
}

cv::Mat turn_by(const cv::Mat& image, double degrees) {
  const double t = degrees * std::numbers::pi / 180, c = std::cos(t), s = std::sin(t);
  const double x = image.cols / 2.0, y = image.rows / 2.0;
  // Counter-clockwise; the source of (u, v) about the centre is (c u - s v, s u + c v).
  return move(image, c, -s, x - c * x + s * y, s, c, y - s * x - c * y, cv::INTER_NEAREST);
}

cv::Mat sharpen(const cv::Mat& image, double factor) {
  cv::Mat smooth;
  const cv::Mat kernel = (cv::Mat_<float>(3, 3) << 1, 1, 1, 1, 5, 1, 1, 1, 1) / 13;
  cv::filter2D(image, smooth, -1, kernel, cv::Point(-1, -1), 0, cv::BORDER_REPLICATE);
  // Pillow leaves the outermost pixels as they are.
  if (image.rows > 2 && image.cols > 2) {
    cv::Mat framed = image.clone();
    const cv::Rect inner(1, 1, image.cols - 2, image.rows - 2);
    smooth(inner).copyTo(framed(inner));
    smooth = framed;
  } else {
    smooth = image;
  }
  return blend(smooth, image, factor);
}

std::array<std::array<int64_t, 256>, 3> histograms(const cv::Mat& image) {
  std::array<std::array<int64_t, 256>, 3> h{};
  for (int y = 0; y < image.rows; ++y) {
    const uint8_t* p = image.ptr<uint8_t>(y);
    for (int x = 0; x < 3 * image.cols; ++x) ++h[static_cast<size_t>(x % 3)][p[x]];
  }
  return h;
}

cv::Mat autocontrast(const cv::Mat& image) {
  const auto h = histograms(image);
  Table t;
  for (size_t c = 0; c < 3; ++c) {
    int lo = 0, hi = 255;
    while (lo < 255 && !h[c][static_cast<size_t>(lo)]) ++lo;
    while (hi > 0 && !h[c][static_cast<size_t>(hi)]) --hi;
    const double scale = hi > lo ? 255.0 / (hi - lo) : 1, offset = hi > lo ? -lo * scale : 0;
    for (int v = 0; v < 256; ++v) t[c][static_cast<size_t>(v)] = byte(v * scale + offset);
  }
  return by_table(image,
                  [&](int v, int c) { return t[static_cast<size_t>(c)][static_cast<size_t>(v)]; });
}

cv::Mat equalize(const cv::Mat& image) {
  const auto h = histograms(image);
  Table t;
  for (size_t c = 0; c < 3; ++c) {
    int64_t total = 0, last = 0;
    int levels = 0;
    for (const int64_t n : h[c])
      if (n) ++levels, total += n, last = n;
    const int64_t step = levels <= 1 ? 0 : (total - last) / 255;
    int64_t n = step / 2;
    for (size_t v = 0; v < 256; ++v) {
      t[c][v] = step == 0 ? static_cast<uint8_t>(v) : byte(static_cast<double>(n / step));
      n += h[c][v];
    }
  }
  return by_table(image,
                  [&](int v, int c) { return t[static_cast<size_t>(c)][static_cast<size_t>(v)]; });
}

cv::Mat contrast(const cv::Mat& image, double factor) {
  cv::Mat grey;
  cv::cvtColor(image, grey, cv::COLOR_RGB2GRAY);
  const double mean = std::floor(cv::mean(grey)[0] + 0.5);
  return by_table(image, [&](int v, int) { return byte(mean + factor * (v - mean)); });
}

}  // namespace

cv::Mat rand_op(const cv::Mat& image, RandOp op, double magnitude, int sign) {
  const double level = magnitude / 10, shear = 0.3 * level * sign,
               shift = 150.0 / 331 * level * sign;
  const double factor = 1 + 0.9 * level * sign;
  switch (op) {
    case RandOp::kShearX:
      return move(image, 1, shear, 0, 0, 1, 0, cv::INTER_CUBIC);
    case RandOp::kShearY:
      return move(image, 1, 0, 0, shear, 1, 0, cv::INTER_CUBIC);
    case RandOp::kTranslateX:
      return move(image, 1, 0, shift * image.cols, 0, 1, 0, cv::INTER_NEAREST);
    case RandOp::kTranslateY:
      return move(image, 1, 0, 0, 0, 1, shift * image.rows, cv::INTER_NEAREST);
    case RandOp::kRotate:
      return turn_by(image, 30 * level);  // upstream never turns the other way
    case RandOp::kColor:
      return blend(grey3(image), image, factor);
    case RandOp::kPosterize: {
      const int bits = static_cast<int>(4.0 * level);
      const int mask = ~((1 << (8 - bits)) - 1);
      return by_table(image, [&](int v, int) { return static_cast<uint8_t>(v & mask); });
    }
    case RandOp::kSolarize:
      return by_table(
          image, [&](int v, int) { return static_cast<uint8_t>(v < 256 * level ? v : 255 - v); });
    case RandOp::kContrast:
      return contrast(image, factor);
    case RandOp::kSharpness:
      return sharpen(image, factor);
    case RandOp::kBrightness:
      return by_table(image, [&](int v, int) { return byte(factor * v); });
    case RandOp::kAutocontrast:
      return autocontrast(image);
    case RandOp::kEqualize:
      return equalize(image);
    case RandOp::kInvert:
      return by_table(image, [](int v, int) { return static_cast<uint8_t>(255 - v); });
  }
  return image;
}

void rand_augment(cv::Mat& image, const RandAugmentOptions& o, Random& random) {
  if (!random.chance(o.prob)) return;
  for (int i = 0; i < o.num_layers; ++i) {
    const auto op = static_cast<RandOp>(random.below(kRandOps));
    image = rand_op(image, op, o.magnitude, random.below(2) ? 1 : -1);
  }
}

}  // namespace ocr
