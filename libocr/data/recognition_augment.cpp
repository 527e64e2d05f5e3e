#include "libocr/data/recognition_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int kGrid = 100;

// Grid positions 0, 100, ... and the last pixel.
std::vector<int> grid_lines(int n) {
  std::vector<int> at;
  for (int i = 0; i < n - 1; i += kGrid) at.push_back(i);
  at.push_back(n - 1);
  return at;
}

// Where the source of a pixel lies, less the pixel.
cv::Point2d displacement(cv::Point2d v, const std::vector<cv::Point2d>& from,
                         const std::vector<cv::Point2d>& to) {
  std::vector<double> weight(to.size());
  double sum = 0;
  cv::Point2d p, q;
  for (size_t k = 0; k < to.size(); ++k) {
    const cv::Point2d d = v - to[k];
    const double square = d.dot(d);
    if (square == 0 && k + 1 < to.size()) return from[k] - v;
    weight[k] = square == 0 ? 0 : 1 / square;
    sum += weight[k];
    p += weight[k] * to[k];
    q += weight[k] * from[k];
  }
  p *= 1 / sum;
  q *= 1 / sum;
  double mu = 0;
  for (size_t k = 0; k < to.size(); ++k) {
    const cv::Point2d d = to[k] - p;
    mu += weight[k] * d.dot(d);
  }
  const cv::Point2d c = v - p, turned(-c.y, c.x);
  cv::Point2d moved = q;
  for (size_t k = 0; k < to.size(); ++k) {
    const cv::Point2d d = to[k] - p, e(-d.y, d.x);
    moved += weight[k] / mu *
             cv::Point2d(d.dot(c) * from[k].x - e.dot(c) * from[k].y,
                         -d.dot(turned) * from[k].x + e.dot(turned) * from[k].y);
  }
  return moved - v;
}

}  // namespace

cv::Mat warp_mls(const cv::Mat& image, const std::vector<cv::Point2d>& from,
                 const std::vector<cv::Point2d>& to) {
  const int h = image.rows, w = image.cols;
  const std::vector<int> xs = grid_lines(w), ys = grid_lines(h);
  std::vector<std::vector<cv::Point2d>> moves;
  for (const int y : ys) {
    auto& row = moves.emplace_back();
    for (const int x : xs) row.push_back(displacement(cv::Point2d(x, y), from, to));
  }
  cv::Mat out(h, w, CV_8UC3);
  for (int y = 0; y < h; ++y) {
    const size_t gy = std::min(static_cast<size_t>(y / kGrid), ys.size() < 2 ? 0 : ys.size() - 2);
    const size_t gy1 = std::min(gy + 1, ys.size() - 1);
    // A cut cell at the end counts its last line in its length, as upstream's does.
    const double ch = ys[gy] + kGrid >= h ? h - ys[gy] : kGrid;
    const double v = (y - ys[gy]) / ch;
    uint8_t* target = out.ptr<uint8_t>(y);
    for (int x = 0; x < w; ++x) {
      const size_t gx = std::min(static_cast<size_t>(x / kGrid), xs.size() < 2 ? 0 : xs.size() - 2);
      const size_t gx1 = std::min(gx + 1, xs.size() - 1);
      const double cw = xs[gx] + kGrid >= w ? w - xs[gx] : kGrid;
      const double u = (x - xs[gx]) / cw;
      const cv::Point2d d = (moves[gy][gx] * (1 - u) + moves[gy][gx1] * u) * (1 - v) +
                            (moves[gy1][gx] * (1 - u) + moves[gy1][gx1] * u) * v;
      const double sx = std::clamp(x + d.x, 0.0, w - 1.0), sy = std::clamp(y + d.y, 0.0, h - 1.0);
      const int x0 = static_cast<int>(sx), y0 = static_cast<int>(sy);
      const int x1 = std::min(x0 + 1, w - 1), y1 = std::min(y0 + 1, h - 1);
      const auto a = static_cast<float>(sx - x0), b = static_cast<float>(sy - y0);
      const uint8_t* p = image.ptr<uint8_t>(y0);
      const uint8_t* q = image.ptr<uint8_t>(y1);
      for (int c = 0; c < 3; ++c) {
        const float top = p[3 * x0 + c] * (1 - a) + p[3 * x1 + c] * a;
        const float bottom = q[3 * x0 + c] * (1 - a) + q[3 * x1 + c] * a;
        target[3 * x + c] = static_cast<uint8_t>(top * (1 - b) + bottom * b);
      }
    }
  }
  return out;
}

cv::Mat tia_distort(const cv::Mat& image, int segments, Random& random) {
  const int w = image.cols, h = image.rows, cut = w / segments, reach = std::max(1, cut / 3);
  const double half = reach * 0.5;
  const auto r = [&] { return static_cast<double>(random.below(reach)); };
  std::vector<cv::Point2d> from{{0, 0}, {1. * w, 0}, {1. * w, 1. * h}, {0, 1. * h}}, to;
  to.emplace_back(r(), r());
  to.emplace_back(w - r(), r());
  to.emplace_back(w - r(), h - r());
  to.emplace_back(r(), h - r());
  for (int i = 1; i < segments; ++i) {
    const double x = cut * i;
    from.emplace_back(x, 0);
    from.emplace_back(x, h);
    to.emplace_back(x + r() - half, r() - half);
    to.emplace_back(x + r() - half, h + r() - half);
  }
  return warp_mls(image, from, to);
}

cv::Mat tia_stretch(const cv::Mat& image, int segments, Random& random) {
  const int w = image.cols, h = image.rows, cut = w / segments, reach = std::max(1, cut * 4 / 5);
  std::vector<cv::Point2d> from{{0, 0}, {1. * w, 0}, {1. * w, 1. * h}, {0, 1. * h}}, to = from;
  for (int i = 1; i < segments; ++i) {
    const double x = cut * i, move = random.below(reach) - reach * 0.5;
    from.emplace_back(x, 0);
    from.emplace_back(x, h);
    to.emplace_back(x + move, 0);
    to.emplace_back(x + move, h);
  }
  return warp_mls(image, from, to);
}

cv::Mat tia_perspective(const cv::Mat& image, Random& random) {
  const int w = image.cols, h = image.rows, reach = std::max(1, h / 2);
  const auto r = [&] { return static_cast<double>(random.below(reach)); };
  const std::vector<cv::Point2d> from{{0, 0}, {1. * w, 0}, {1. * w, 1. * h}, {0, 1. * h}};
  const std::vector<cv::Point2d> to{{0, r()}, {1. * w, r()}, {1. * w, h - r()}, {0, h - r()}};
  return warp_mls(image, from, to);
}

namespace {

// Cuts 1 to 8 rows off the top or the bottom.
void crop_rows(cv::Mat& image, Random& random) {
  const int rows = std::min(random.between(1, 8), image.rows - 1);
  const bool top = random.below(2) == 1;
  image = image.rowRange(top ? rows : 0, top ? image.rows : image.rows - rows).clone();
}

void shade(cv::Mat& image, Random& random) {
  cv::Mat hsv;
  cv::cvtColor(image, hsv, cv::COLOR_BGR2HSV);
  const double u = random.uniform();
  const double factor = 1 + 0.001 * u * (random.chance(0.5) ? 1 : -1);
  for (int y = 0; y < hsv.rows; ++y) {
    uint8_t* p = hsv.ptr<uint8_t>(y);
    for (int x = 2; x < 3 * hsv.cols; x += 3) p[x] = static_cast<uint8_t>(p[x] * factor);
  }
  cv::cvtColor(hsv, image, cv::COLOR_HSV2BGR);
}

// Smears the picture down to the right by up to one pixel in a hundred.
void jitter(cv::Mat& image, Random& random) {
  const int least = std::min(image.rows, image.cols);
  const int steps = static_cast<int>(random.uniform() * least * 0.01);
  if (least <= 10) return;
  const cv::Mat source = image.clone();
  for (int i = 1; i < steps; ++i)
    source(cv::Rect(0, 0, image.cols - i, image.rows - i))
        .copyTo(image(cv::Rect(i, i, image.cols - i, image.rows - i)));
}

// Upstream adds half of a normal number of variance 0.1 and cuts to whole numbers: that takes 1 off
// where the number is negative (half of all) and changes nothing else, but once in 10^9 pixels.
void add_noise(cv::Mat& image, Random& random) {
  image = image.clone();
  for (int y = 0; y < image.rows; ++y) {
    uint8_t* p = image.ptr<uint8_t>(y);
    for (int x = 0; x < 3 * image.cols;) {
      uint32_t bits = random.bits();
      for (int k = 0; k < 32 && x < 3 * image.cols; ++k, ++x, bits >>= 1)
        p[x] = static_cast<uint8_t>(p[x] - ((bits & 1) & (p[x] > 0)));
    }
  }
}

}  // namespace

void base_augment(cv::Mat& image, const BaseAugmentOptions& o, Random& random) {
  if (random.chance(o.crop_prob) && image.rows >= 20 && image.cols >= 20) crop_rows(image, random);
  if (random.chance(o.blur_prob)) {
    static const cv::Mat kernel = cv::getGaussianKernel(5, 1, CV_32F);
    cv::Mat out;
    cv::sepFilter2D(image, out, -1, kernel, kernel);
    image = out;
  }
  if (random.chance(o.hsv_aug_prob)) shade(image, random);
  if (random.chance(o.jitter_prob)) {
    image = image.clone();
    jitter(image, random);
  }
  if (random.chance(o.noise_prob)) add_noise(image, random);
  if (random.chance(o.reverse_prob)) {
    cv::Mat out;
    cv::bitwise_not(image, out);
    image = out;
  }
}

void join_lines(Sample& s, const Sample& other, int height) {
  const auto width = [&](const cv::Mat& m) {
    return std::max(
        1, static_cast<int>(std::nearbyint(static_cast<double>(m.cols) / m.rows * height)));
  };
  cv::Mat joined(height, width(s.image) + width(other.image), CV_8UC3);
  cv::Mat left = joined.colRange(0, width(s.image)),
          right = joined.colRange(left.cols, joined.cols);
  cv::resize(s.image, left, left.size(), 0, 0, cv::INTER_LINEAR);
  cv::resize(other.image, right, right.size(), 0, 0, cv::INTER_LINEAR);
  s.image = joined;
  s.label += other.label;
}

namespace {

// (v / 255 - .5) / .5 step by step in single precision, as upstream's arrays have it.
const std::array<float, 256>& half_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> t;
    for (size_t v = 0; v < t.size(); ++v) t[v] = (static_cast<float>(v) / 255.f - 0.5f) / 0.5f;
    return t;
  }();
  return table;
}

void resize_to(Sample& s, int height, int width, int text_width) {
  cv::Mat text = s.image;
  if (text.rows != height || text.cols != text_width)
    cv::resize(s.image, text, cv::Size(text_width, height), 0, 0, cv::INTER_LINEAR);
  cv::Mat out(height, width, CV_32FC3, cv::Scalar(0, 0, 0));
  const std::array<float, 256>& table = half_table();
  for (int y = 0; y < height; ++y) {
    const uint8_t* in = text.ptr<uint8_t>(y);
    float* row = out.ptr<float>(y);
    for (int x = 0; x < 3 * text_width; ++x) row[x] = table[in[x]];
  }
  s.image = out;
  s.valid_ratio = std::min(1.0f, static_cast<float>(static_cast<double>(text_width) / width));
}

int wanted_width(const cv::Mat& image, int height) {
  return static_cast<int>(
      std::min(1e6, std::ceil(height * (image.cols / static_cast<double>(image.rows)))));
}

}  // namespace

void resize_line(Sample& s, LineShape shape, bool padding) {
  const int wanted = padding ? wanted_width(s.image, shape.height) : shape.width;
  resize_to(s, shape.height, shape.width, std::min(wanted, shape.width));
}

void resize_line_freely(Sample& s, LineShape shape) {
  const double ratio = s.image.cols * 1.0 / s.image.rows;
  const double widest = std::max(shape.width * 1.0 / shape.height, ratio);
  if (shape.height * widest > 1 << 17)
    throw train::ShapeError(train::cat(s.image_name, ": a line too long to be read at once"));
  const int width = static_cast<int>(shape.height * widest);
  resize_to(s, shape.height, width, std::min(wanted_width(s.image, shape.height), width));
}

}  // namespace ocr
