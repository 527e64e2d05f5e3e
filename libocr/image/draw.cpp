#include "libocr/image/draw.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ocr {
namespace {

constexpr double kMaxCoordinate = 1e7;
constexpr double kFillOpacity = 0.35;
constexpr double kTextSize = 0.9, kBaseline = 0.84;  // of the box height
constexpr double kMinVerticalHeight = 30;  // pixels, from which a tall box holds turned text
constexpr int kWeightBits = 12;

bool drawable(const DrawPoint& p) {
  return std::abs(p.x) < kMaxCoordinate && std::abs(p.y) < kMaxCoordinate;  // false for NaN
}

void blend(uint8_t* pixel, Bgr colour, int alpha) {
  const int c[3] = {colour.b, colour.g, colour.r};
  for (int k = 0; k < 3; k++)
    pixel[k] = static_cast<uint8_t>((pixel[k] * (255 - alpha) + c[k] * alpha + 127) / 255);
}

// Coverage falls from 1 to 0 over one pixel around the edge of the line.
void draw_segment(Image& image, DrawPoint a, DrawPoint b, Bgr colour, double thickness) {
  const double radius = thickness / 2, reach = radius + 1;
  const double dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
  const int y0 = static_cast<int>(std::max(0.0, std::floor(std::min(a.y, b.y) - reach)));
  const int y1 =
      static_cast<int>(std::min<double>(image.height - 1, std::ceil(std::max(a.y, b.y) + reach)));
  for (int y = y0; y <= y1; y++) {
    // Only the part of the segment near this row can cover its pixels.
    double t0 = 0, t1 = 1;
    if (dy != 0) {
      const double s0 = (y + 0.5 - reach - a.y) / dy, s1 = (y + 0.5 + reach - a.y) / dy;
      t0 = std::clamp(std::min(s0, s1), 0.0, 1.0), t1 = std::clamp(std::max(s0, s1), 0.0, 1.0);
    }
    const double xa = a.x + t0 * dx, xb = a.x + t1 * dx;
    const int x0 = static_cast<int>(std::max(0.0, std::floor(std::min(xa, xb) - reach)));
    const int x1 =
        static_cast<int>(std::min<double>(image.width - 1, std::ceil(std::max(xa, xb) + reach)));
    for (int x = x0; x <= x1; x++) {
      const double px = x + 0.5 - a.x, py = y + 0.5 - a.y;
      const double t = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0;
      const double distance = std::hypot(px - t * dx, py - t * dy);
      const int alpha =
          static_cast<int>(std::lround(255 * std::clamp(radius + 0.5 - distance, 0.0, 1.0)));
      if (alpha > 0) blend(image.row(y) + ptrdiff_t{3} * x, colour, alpha);
    }
  }
}

// Hues a golden angle apart, so that neighbours in the list differ; dark enough for white paper.
Bgr box_colour(size_t index) {
  const double hue = std::fmod(static_cast<double>(index) * 0.6180339887 * 6, 6.0);
  const auto channel = [&](double shift) {
    const double k = std::fmod(hue + shift, 6.0);
    return static_cast<uint8_t>(200 * (1 - std::clamp(std::min(k, 4 - k), 0.0, 1.0)) + 20);
  };
  return {channel(1), channel(3), channel(5)};
}

struct Box {
  DrawPoint corner, along, down;  // the corner where the text begins; unit vectors
  double width, height;
};

Box text_frame(const std::vector<DrawPoint>& q) {
  const auto distance = [](DrawPoint a, DrawPoint b) { return std::hypot(a.x - b.x, a.y - b.y); };
  const auto unit = [](DrawPoint a, DrawPoint b, double length) -> DrawPoint {
    return length > 0 ? DrawPoint{(b.x - a.x) / length, (b.y - a.y) / length} : DrawPoint{1, 0};
  };
  const double width = (distance(q[0], q[1]) + distance(q[3], q[2])) / 2;
  const double height = (distance(q[0], q[3]) + distance(q[1], q[2])) / 2;
  if (height > 2 * width && height > kMinVerticalHeight)
    return {q[1], unit(q[1], q[2], distance(q[1], q[2])), unit(q[1], q[0], distance(q[1], q[0])),
            height, width};
  return {q[0], unit(q[0], q[1], distance(q[0], q[1])), unit(q[0], q[3], distance(q[0], q[3])),
          width, height};
}

// The upright rectangle around an outline of other than four points.
std::vector<DrawPoint> quad_of(const std::vector<DrawPoint>& points) {
  if (points.size() == 4) return points;
  DrawPoint low = points[0], high = points[0];
  for (const DrawPoint& p : points) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  return {low, {high.x, low.y}, high, {low.x, high.y}};
}

// Which source columns (or rows) make up each target one, with weights that sum to 1 <<
// kWeightBits.
struct Span {
  int first, last;
  int head, body, tail;  // weights of the first, each inner and the last one
};

std::vector<Span> spans(int from, int to) {
  std::vector<Span> out(static_cast<size_t>(to));
  const double step = static_cast<double>(from) / to;
  for (int i = 0; i < to; i++) {
    const double a = i * step, b = std::min<double>(from, (i + 1) * step);
    Span& s = out[static_cast<size_t>(i)];
    s.first = static_cast<int>(a);
    s.last = std::clamp(static_cast<int>(std::ceil(b)) - 1, s.first, from - 1);
    const int unit = 1 << kWeightBits;
    s.body = static_cast<int>(unit / (b - a));
    s.head = s.first == s.last ? unit : static_cast<int>((s.first + 1 - a) * unit / (b - a));
    s.tail = s.first == s.last ? 0 : unit - s.head - std::max(0, s.last - s.first - 1) * s.body;
  }
  return out;
}

}  // namespace

void draw_polyline(Image& image, const std::vector<DrawPoint>& points, bool closed, Bgr colour,
                   double thickness) {
  for (size_t i = 0; i + (closed ? 0 : 1) < points.size(); i++) {
    const DrawPoint a = points[i], b = points[(i + 1) % points.size()];
    if (drawable(a) && drawable(b)) draw_segment(image, a, b, colour, thickness);
  }
}

void fill_polygon(Image& image, const std::vector<DrawPoint>& points, Bgr colour, double opacity) {
  if (points.size() < 3 || !std::all_of(points.begin(), points.end(), drawable)) return;
  const int alpha = static_cast<int>(std::lround(255 * std::clamp(opacity, 0.0, 1.0)));
  double low = points[0].y, high = points[0].y;
  for (const DrawPoint& p : points) low = std::min(low, p.y), high = std::max(high, p.y);
  std::vector<double> crossings;
  const int y1 = static_cast<int>(std::min<double>(image.height, std::ceil(high)));
  for (int y = static_cast<int>(std::max(0.0, std::floor(low))); y < y1; y++) {
    crossings.clear();
    const double centre = y + 0.5;
    for (size_t i = 0; i < points.size(); i++) {
      const DrawPoint a = points[i], b = points[(i + 1) % points.size()];
      if ((a.y <= centre) != (b.y <= centre))
        crossings.push_back(a.x + (centre - a.y) * (b.x - a.x) / (b.y - a.y));
    }
    std::sort(crossings.begin(), crossings.end());
    for (size_t i = 0; i + 1 < crossings.size(); i += 2) {
      const int x0 = static_cast<int>(std::max(0.0, std::ceil(crossings[i] - 0.5)));
      const int x1 =
          static_cast<int>(std::min<double>(image.width, std::ceil(crossings[i + 1] - 0.5)));
      for (int x = x0; x < x1; x++) blend(image.row(y) + ptrdiff_t{3} * x, colour, alpha);
    }
  }
}

void draw_text_in_box(Image& image, const std::vector<DrawPoint>& quad, std::u32string_view text,
                      FontSet& fonts, Bgr colour) {
  if (quad.size() != 4 || text.empty() || !std::all_of(quad.begin(), quad.end(), drawable)) return;
  const Box box = text_frame(quad);
  const double length = fonts.measure(text);
  if (box.height < 1 || box.width < 1 || length <= 0) return;
  const double size = std::min(box.height * kTextSize, box.width / length);
  // Smaller text keeps its middle in the middle of the box.
  const double baseline = box.height / 2 + (kBaseline - 0.5) / kTextSize * size;
  fonts.draw(image, text,
             {box.corner.x + baseline * box.down.x, box.corner.y + baseline * box.down.y,
              box.along.x, box.along.y, size},
             colour);
}

Image shrink_to(const ImageView& image, int max_side) {
  const int longer = std::max(image.width, image.height);
  if (max_side <= 0 || longer <= max_side || image.empty()) return copy_image(image);
  const auto scaled = [&](int side) {
    return std::max(1, static_cast<int>(static_cast<int64_t>(side) * max_side / longer));
  };
  Image out(scaled(image.width), scaled(image.height));
  const std::vector<Span> columns = spans(image.width, out.width),
                          rows = spans(image.height, out.height);
  const auto weight = [](const Span& s, int i) {
    return i == s.first ? s.head : i == s.last ? s.tail : s.body;
  };
  std::vector<int64_t> sums(size_t{3} * static_cast<size_t>(out.width));
  for (int y = 0; y < out.height; y++) {
    const Span& row = rows[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), 0);
    for (int sy = row.first; sy <= row.last; sy++) {
      const int64_t row_weight = weight(row, sy);
      const uint8_t* from = image.row(sy);
      for (int x = 0; x < out.width; x++) {
        const Span& column = columns[static_cast<size_t>(x)];
        int sum[3] = {};
        for (int sx = column.first; sx <= column.last; sx++) {
          const int w = weight(column, sx);
          for (int k = 0; k < 3; k++) sum[k] += w * from[ptrdiff_t{3} * sx + k];
        }
        for (int k = 0; k < 3; k++) sums[static_cast<size_t>(3 * x + k)] += row_weight * sum[k];
      }
    }
    for (size_t i = 0; i < sums.size(); i++)
      out.row(y)[i] = static_cast<uint8_t>((sums[i] + (int64_t{1} << (2 * kWeightBits - 1))) >>
                                           (2 * kWeightBits));
  }
  return out;
}

Image annotate(const ImageView& page, const std::vector<AnnotatedBox>& boxes, FontSet& fonts,
               const AnnotateOptions& options) {
  Image left = shrink_to(page, options.max_side);
  if (left.empty()) return left;
  const double scale_x = static_cast<double>(left.width) / page.width,
               scale_y = static_cast<double>(left.height) / page.height;
  const double thickness = std::clamp(std::max(left.width, left.height) / 700.0, 1.0, 4.0);
  Image panel = options.text_panel ? Image(left.width, left.height, Bgr{255, 255, 255}) : Image();
  for (size_t i = 0; i < boxes.size(); i++) {
    std::vector<DrawPoint> points = boxes[i].points;
    if (points.empty()) continue;
    for (DrawPoint& p : points) p = {p.x * scale_x, p.y * scale_y};
    const Bgr colour = box_colour(i);
    if (options.text_panel) {
      fill_polygon(left, points, colour, kFillOpacity);
      draw_polyline(panel, points, true, colour, 1);
      draw_text_in_box(panel, quad_of(points), boxes[i].text, fonts, Bgr{0, 0, 0});
    }
    draw_polyline(left, points, true, colour, thickness);
  }
  if (!options.text_panel) return left;
  Image out(2 * left.width, left.height);
  const size_t half = size_t{3} * static_cast<size_t>(left.width);
  for (int y = 0; y < out.height; y++) {
    std::memcpy(out.row(y), left.row(y), half);
    std::memcpy(out.row(y) + half, panel.row(y), half);
  }
  return out;
}

}  // namespace ocr
