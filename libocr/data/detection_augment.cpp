#include "libocr/data/detection_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <opencv2/imgproc.hpp>
#include <optional>

#include "libocr/geometry/crop.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr double kMaxPixels = 1 << 27;  // of a scaled page: 400 MB

struct Box {
  double x0, y0, x1, y1;
};
Box box_of(const PolygonD& p) {
  Box b{p[0].x, p[0].y, p[0].x, p[0].y};
  for (const cv::Point2d& q : p) {
    b.x0 = std::min(b.x0, q.x), b.x1 = std::max(b.x1, q.x);
    b.y0 = std::min(b.y0, q.y), b.y1 = std::max(b.y1, q.y);
  }
  return b;
}

bool outside(const PolygonD& p, const Box& r) {
  const Box b = box_of(p);
  return b.x1 < r.x0 || b.x0 > r.x1 || b.y1 < r.y0 || b.y0 > r.y1;
}

// Rows or columns that no text crosses, as runs of neighbours. Upstream's loop leaves the last run
// out when there are several.
struct FreeLines {
  std::vector<int> all;
  std::vector<std::vector<int>> runs;

  explicit FreeLines(const std::vector<uint8_t>& taken) {
    for (size_t i = 0; i < taken.size(); ++i)
      if (!taken[i]) all.push_back(static_cast<int>(i));
    size_t first = 0;
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i] == all[i - 1] + 1) continue;
      runs.emplace_back(all.begin() + static_cast<ptrdiff_t>(first),
                        all.begin() + static_cast<ptrdiff_t>(i));
      first = i;
    }
  }

  int any(Random& random) const {
    if (runs.size() <= 1)
      return all[static_cast<size_t>(random.below(static_cast<int>(all.size())))];
    const auto& run = runs[static_cast<size_t>(random.below(static_cast<int>(runs.size())))];
    return run[static_cast<size_t>(random.below(static_cast<int>(run.size())))];
  }
  std::pair<int, int> two(Random& random) const {
    const int a = any(random), b = any(random);
    return {std::min(a, b), std::max(a, b)};
  }
};

void mark(std::vector<uint8_t>& line, double from, double to) {
  // numpy's slices: a negative start counts from the end, so it marks nothing or little; clip it.
  const int n = static_cast<int>(line.size());
  for (int i = std::clamp(static_cast<int>(from), 0, n); i < std::clamp(static_cast<int>(to), 0, n);
       ++i)
    line[static_cast<size_t>(i)] = 1;
}

}  // namespace

void affine(Sample& s, const cv::Matx23d& map, cv::Size size) {
  cv::Mat out;
  cv::warpAffine(s.image, out, map, size, cv::INTER_LINEAR, cv::BORDER_CONSTANT);
  s.image = out;
  for (PolygonD& poly : s.polys)
    for (cv::Point2d& p : poly)
      p = {map(0, 0) * p.x + map(0, 1) * p.y + map(0, 2),
           map(1, 0) * p.x + map(1, 1) * p.y + map(1, 2)};
}

void flip_horizontally(Sample& s) {
  cv::flip(s.image, s.image, 1);
  for (PolygonD& poly : s.polys)
    for (cv::Point2d& p : poly) p.x = s.image.cols - 1 - p.x;
}

void flip_vertically(Sample& s) {
  cv::flip(s.image, s.image, 0);
  for (PolygonD& poly : s.polys)
    for (cv::Point2d& p : poly) p.y = s.image.rows - 1 - p.y;
}

void scale(Sample& s, double factor) {
  const double pixels = static_cast<double>(s.image.rows) * s.image.cols;
  factor = std::min(factor, std::sqrt(kMaxPixels / pixels));
  const cv::Size size(std::max(1, static_cast<int>(s.image.cols * factor)),
                      std::max(1, static_cast<int>(s.image.rows * factor)));
  cv::Mat out;
  cv::resize(s.image, out, size, 0, 0, cv::INTER_LINEAR);
  s.image = out;
  for (PolygonD& poly : s.polys)
    for (cv::Point2d& p : poly) p *= factor;
}

void turn(Sample& s, double degrees, double factor, bool fit) {
  const double a = degrees * std::numbers::pi / 180;
  const double c = std::cos(a) * factor, d = std::sin(a) * factor;  // clockwise: y points down
  const double w = s.image.cols, h = s.image.rows;
  cv::Size size = s.image.size();
  if (fit)
    size = {std::max(1, static_cast<int>(std::ceil(std::abs(c) * w + std::abs(d) * h - 1e-9))),
            std::max(1, static_cast<int>(std::ceil(std::abs(d) * w + std::abs(c) * h - 1e-9)))};
  const double cx = (w - 1) / 2, cy = (h - 1) / 2;
  const double tx = (size.width - 1) / 2.0, ty = (size.height - 1) / 2.0;
  affine(s, {c, -d, tx - c * cx + d * cy, d, c, ty - d * cx - c * cy}, size);
}

cv::Rect choose_crop(cv::Size page, const std::vector<PolygonD>& texts, const CropOptions& options,
                     Random& random) {
  std::vector<uint8_t> columns(static_cast<size_t>(page.width)),
      rows(static_cast<size_t>(page.height));
  for (const PolygonD& t : texts) {
    const Box b = box_of(t);
    mark(columns, std::nearbyint(b.x0), std::nearbyint(b.x1));
    mark(rows, std::nearbyint(b.y0), std::nearbyint(b.y1));
  }
  const cv::Rect whole(0, 0, page.width, page.height);
  const FreeLines x(columns), y(rows);
  if (x.all.empty() || y.all.empty()) return whole;
  for (int i = 0; i < options.max_tries; ++i) {
    const auto [x0, x1] = x.two(random);
    const auto [y0, y1] = y.two(random);
    if (x1 - x0 < options.min_crop_side_ratio * page.width ||
        y1 - y0 < options.min_crop_side_ratio * page.height || x1 == x0 || y1 == y0)
      continue;
    const Box crop{static_cast<double>(x0), static_cast<double>(y0), static_cast<double>(x1),
                   static_cast<double>(y1)};
    for (const PolygonD& t : texts)
      if (!outside(t, crop)) return {x0, y0, x1 - x0, y1 - y0};
  }
  return whole;
}

void random_crop(Sample& s, const CropOptions& options, Random& random) {
  std::vector<PolygonD> cared;
  for (size_t i = 0; i < s.polys.size(); ++i)
    if (!s.ignore[i]) cared.push_back(s.polys[i]);
  const cv::Rect crop = choose_crop(s.image.size(), cared, options, random);
  const double factor = std::min(static_cast<double>(options.size.width) / crop.width,
                                 static_cast<double>(options.size.height) / crop.height);
  const cv::Size inner(std::max(1, static_cast<int>(crop.width * factor)),
                       std::max(1, static_cast<int>(crop.height * factor)));
  cv::Mat out;
  if (options.keep_ratio) {
    out = cv::Mat::zeros(options.size, CV_8UC3);
    cv::Mat part = out(cv::Rect({0, 0}, inner));
    cv::resize(s.image(crop), part, inner, 0, 0, cv::INTER_LINEAR);
  } else {
    cv::resize(s.image(crop), out, options.size, 0, 0, cv::INTER_LINEAR);
  }
  s.image = out;
  const Box frame{0, 0, static_cast<double>(inner.width), static_cast<double>(inner.height)};
  size_t kept = 0;
  for (size_t i = 0; i < s.polys.size(); ++i) {
    PolygonD poly = std::move(s.polys[i]);
    for (cv::Point2d& p : poly) p = (p - cv::Point2d(crop.x, crop.y)) * factor;
    if (outside(poly, frame)) continue;
    s.polys[kept] = std::move(poly);
    s.texts[kept] = std::move(s.texts[i]);
    s.ignore[kept] = s.ignore[i];
    ++kept;
  }
  s.polys.resize(kept);
  s.texts.resize(kept);
  s.ignore.resize(kept);
}

namespace {

// Where a turned crop goes: 50 tries for a place whose rectangle meets no text.
std::optional<cv::Point> place_for(const PolygonD& corners, cv::Size room,
                                   const std::vector<PolygonD>& texts, bool limited,
                                   Random& random) {
  const Box b = box_of(corners);
  for (int i = 0; i < (limited ? 50 : 1); ++i) {
    const cv::Point at(random.between(0, room.width), random.between(0, room.height));
    if (!limited) return at;
    const Box there{b.x0 + at.x, b.y0 + at.y, b.x1 + at.x, b.y1 + at.y};
    if (std::all_of(texts.begin(), texts.end(),
                    [&](const PolygonD& t) { return outside(t, there); }))
      return at;
  }
  return std::nullopt;
}

bool paste(Sample& s, const cv::Mat& crop, bool limited, Random& random) {
  const double a = random.below(360) * std::numbers::pi / 180;
  const double c = std::cos(a), d = std::sin(a), w = crop.cols, h = crop.rows;
  const cv::Size size(static_cast<int>(std::ceil(std::abs(c) * w + std::abs(d) * h - 1e-9)),
                      static_cast<int>(std::ceil(std::abs(d) * w + std::abs(c) * h - 1e-9)));
  const cv::Size room(s.image.cols - size.width, s.image.rows - size.height);
  if (room.width < 0 || room.height < 0 || size.area() == 0) return false;
  const double tx = size.width / 2.0, ty = size.height / 2.0;
  const cv::Matx23d map(c, d, tx - c * w / 2 - d * h / 2, -d, c, ty + d * w / 2 - c * h / 2);
  PolygonD corners{{0, 0}, {w, 0}, {w, h}, {0, h}};
  for (cv::Point2d& p : corners)
    p = {map(0, 0) * p.x + map(0, 1) * p.y + map(0, 2),
         map(1, 0) * p.x + map(1, 1) * p.y + map(1, 2)};
  const std::optional<cv::Point> at = place_for(corners, room, s.polys, limited, random);
  if (!at) return false;
  cv::Mat turned, mask;
  cv::warpAffine(crop, turned, map, size, cv::INTER_NEAREST);
  cv::warpAffine(cv::Mat(crop.size(), CV_8U, cv::Scalar(255)), mask, map, size, cv::INTER_NEAREST);
  turned.copyTo(s.image(cv::Rect(*at, size)), mask);
  for (cv::Point2d& p : corners) p += cv::Point2d(at->x, at->y);
  const size_t points = s.polys.empty() ? 4 : std::max<size_t>(4, s.polys[0].size());
  corners.resize(points, corners.back());
  s.polys.push_back(std::move(corners));
  return true;
}

}  // namespace

void copy_paste(Sample& s, double objects_paste_ratio, bool limit_paste, Random& random) {
  if (s.extra.empty()) return;
  const Sample& other = s.extra[0];
  std::vector<size_t> candidates;
  for (size_t i = 0; i < other.polys.size(); ++i)
    if (!other.ignore[i] && other.polys[i].size() == 4) candidates.push_back(i);
  random.shuffle(candidates);
  const int wanted = std::max(
      1, std::min(static_cast<int>(objects_paste_ratio * static_cast<double>(other.polys.size())),
                  30));
  if (candidates.size() > static_cast<size_t>(wanted))
    candidates.resize(static_cast<size_t>(wanted));
  s.image = s.image.clone();
  for (const size_t i : candidates) {
    Quad quad;
    for (size_t k = 0; k < 4; ++k)
      quad[k] = {static_cast<float>(other.polys[i][k].x), static_cast<float>(other.polys[i][k].y)};
    cv::Mat crop;
    try {
      crop = cut_crop(other.image, crop_shape(quad));
    } catch (const train::ShapeError&) {
      continue;  // a box of no or absurd size has nothing to paste
    }
    if (!paste(s, crop, limit_paste, random)) continue;
    s.texts.push_back(other.texts[i]);
    s.ignore.push_back(other.ignore[i]);
  }
  for (PolygonD& poly : s.polys)
    for (cv::Point2d& p : poly)
      p = {std::clamp<double>(p.x, 0, s.image.cols), std::clamp<double>(p.y, 0, s.image.rows)};
}

namespace {

using Table = std::array<uint8_t, 256>;

void look_up(cv::Mat& image, const Table& table) {
  cv::LUT(image, cv::Mat(1, 256, CV_8U, const_cast<uint8_t*>(table.data())), image);
}

Table line(double factor, double pivot) {
  Table t;
  for (int v = 0; v < 256; ++v)
    t[static_cast<size_t>(v)] =
        static_cast<uint8_t>(std::clamp((v - pivot) * factor + pivot, 0.0, 255.0));
  return t;
}

void saturate(cv::Mat& image, double factor) {
  cv::Mat gray;
  cv::cvtColor(image, gray, cv::COLOR_RGB2GRAY);
  for (int y = 0; y < image.rows; ++y) {
    uint8_t* p = image.ptr<uint8_t>(y);
    const uint8_t* g = gray.ptr<uint8_t>(y);
    for (int x = 0; x < 3 * image.cols; ++x)
      p[x] = static_cast<uint8_t>(
          std::clamp(p[x] * static_cast<float>(factor) + g[x / 3] * static_cast<float>(1 - factor),
                     0.f, 255.f));
  }
}

void turn_hue(cv::Mat& image, double part) {
  cv::cvtColor(image, image, cv::COLOR_RGB2HSV_FULL);
  const auto by = static_cast<uint8_t>(static_cast<int>(part * 255) & 255);
  for (int y = 0; y < image.rows; ++y) {
    uint8_t* p = image.ptr<uint8_t>(y);
    for (int x = 0; x < image.cols; ++x) p[3 * x] = static_cast<uint8_t>(p[3 * x] + by);
  }
  cv::cvtColor(image, image, cv::COLOR_HSV2RGB_FULL);
}

}  // namespace

void color_jitter(cv::Mat& image, const ColorJitterOptions& o, Random& random) {
  std::array<int, 4> order{0, 1, 2, 3};
  random.shuffle(order);
  const auto factor = [&](double range) {
    return random.uniform(std::max(0.0, 1 - range), 1 + range);
  };
  image = image.clone();
  for (const int step : order) {
    if (step == 0 && o.brightness > 0) look_up(image, line(factor(o.brightness), 0));
    if (step == 1 && o.contrast > 0) look_up(image, line(factor(o.contrast), 74));
    if (step == 2 && o.saturation > 0) saturate(image, factor(o.saturation));
    if (step == 3 && o.hue > 0) turn_hue(image, random.uniform(-o.hue, o.hue));
  }
}

}  // namespace ocr
