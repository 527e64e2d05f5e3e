#include "libocr/postprocess/reading_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libocr/geometry/quad.h"

namespace ocr {
namespace {

constexpr double kMaxSlant = 15 * M_PI / 180;
constexpr float kRowTolerance = 10;  // pixels, of the two peers' orders

// NaN has no place in an order: such a corner counts as the origin.
Point2f first_corner(const Polygon& p) {
  const bool usable = !p.empty() && std::isfinite(p[0].x) && std::isfinite(p[0].y);
  return usable ? p[0] : Point2f{};
}

// A box in reading coordinates: u along the line, v from line to line.
struct Box {
  double u0, u1, v0, v1;
  int index;
  double height() const { return v1 - v0; }
  double middle() const { return (v0 + v1) / 2; }
};

struct Interval {
  double low, high;
  double length() const { return high - low; }
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Sides {
  Point2f across, down;  // vectors TL -> TR and TL -> BL
  double width, height;
};

Sides sides_of(const Polygon& polygon) {
  Quad q{};
  if (polygon.size() == 4) {
    std::copy(polygon.begin(), polygon.end(), q.begin());
  } else {
    q = min_area_rect(polygon).corners;
  }
  const auto vector = [](Point2f a, Point2f b) { return Point2f{b.x - a.x, b.y - a.y}; };
  const Point2f across = vector(q[0], q[1]), down = vector(q[0], q[3]);
  return {across, down, std::hypot(across.x, across.y), std::hypot(down.x, down.y)};
}

bool stands_dominate(const std::vector<Sides>& sides) {
  double standing = 0, lying = 0;
  for (const Sides& s : sides) {
    if (s.height >= 1.5 * s.width) standing += s.height;
    if (s.width >= 1.5 * s.height) lying += s.width;
  }
  return standing > 1.5 * lying;
}

// Median slant of the lines, weighted by length; 0 where it is too large to be one.
double slant_of(const std::vector<Sides>& sides, bool vertical) {
  std::vector<std::pair<double, double>> angles;  // angle, length
  double total = 0;
  for (const Sides& s : sides) {
    const double length = vertical ? s.height : s.width, other = vertical ? s.width : s.height;
    if (length < 2 * other || !std::isfinite(length)) continue;
    const double angle =
        vertical ? std::atan2(-s.down.x, s.down.y) : std::atan2(s.across.y, s.across.x);
    if (std::abs(angle) > kMaxSlant) continue;
    angles.emplace_back(angle, length);
    total += length;
  }
  std::sort(angles.begin(), angles.end());
  double sum = 0;
  for (const auto& [angle, length] : angles) {
    sum += length;
    if (sum >= total / 2) return angle;
  }
  return 0;
}

// Reading coordinates of all boxes: slant taken out, vertical writing laid down.
std::vector<Box> to_reading(std::span<const Polygon> polygons, double slant, bool vertical) {
  const double c = std::cos(slant), s = std::sin(slant);
  std::vector<Box> boxes;
  boxes.reserve(polygons.size());
  for (size_t i = 0; i < polygons.size(); ++i) {
    Box b{INFINITY, -INFINITY, INFINITY, -INFINITY, static_cast<int>(i)};
    for (Point2f p : polygons[i]) {
      if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
      const double x = p.x * c + p.y * s, y = p.y * c - p.x * s;
      const double u = vertical ? y : x, v = vertical ? -x : y;
      b.u0 = std::min(b.u0, u);
      b.u1 = std::max(b.u1, u);
      b.v0 = std::min(b.v0, v);
      b.v1 = std::max(b.v1, v);
    }
    if (b.u0 > b.u1) b = {0, 0, 0, 0, static_cast<int>(i)};
    boxes.push_back(b);
  }
  return boxes;
}

// Boxes grouped into text lines, lines from top to bottom, boxes along the line.
std::vector<std::vector<Box>> text_lines(std::vector<Box> boxes) {
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) {
    if (a.middle() != b.middle()) return a.middle() < b.middle();
    return a.u0 != b.u0 ? a.u0 < b.u0 : a.index < b.index;
  });
  std::vector<std::vector<Box>> lines;
  double middle = 0, height = 0;
  for (const Box& b : boxes) {
    const bool same = !lines.empty() && b.middle() - middle < 0.5 * std::min(height, b.height());
    if (!same) {
      lines.push_back({b});
      middle = b.middle();
      height = b.height();
      continue;
    }
    std::vector<Box>& line = lines.back();
    line.push_back(b);
    const double n = static_cast<double>(line.size());
    middle += (b.middle() - middle) / n;
    height += (b.height() - height) / n;
  }
  for (std::vector<Box>& line : lines) {
    std::sort(line.begin(), line.end(), [](const Box& a, const Box& b) {
      if (a.u0 != b.u0) return a.u0 < b.u0;
      return a.v0 != b.v0 ? a.v0 < b.v0 : a.index < b.index;
    });
  }
  return lines;
}

class Orderer {
 public:
  explicit Orderer(const ReadingOrderOptions& options) : options_(options) {}

  std::vector<int> run(std::vector<Box> boxes) {
    order(std::move(boxes));
    return std::move(out_);
  }

 private:
  // Splits into bands that share gutters, and each such band into its columns.
  void order(std::vector<Box> boxes) {
    if (boxes.empty()) return;
    std::vector<double> heights;
    for (const Box& b : boxes) heights.push_back(b.height());
    const double line_height = median(heights);
    std::vector<std::vector<Box>> rows = clean_rows(std::move(boxes));

    std::vector<Box> plain;  // rows outside of any columns, until the next columns
    for (size_t first = 0; first < rows.size();) {
      const size_t last = common_gutter_end(rows, first, line_height);
      std::vector<Box> band;
      for (size_t r = first; r < last; ++r) band.insert(band.end(), rows[r].begin(), rows[r].end());
      std::vector<std::vector<Box>> columns = split_columns(band, line_height);
      if (columns.size() < 2) {
        // Columns may still begin at the next row. Bands of very many rows are tried at fewer
        // starts, so that the work stays linear.
        const size_t next = first + 1 + (last - first) / 64;
        for (; first < next; ++first) {
          plain.insert(plain.end(), rows[first].begin(), rows[first].end());
        }
        continue;
      }
      if (first + 1 < last && stands_alone(rows[first], rows[first + 1], columns, line_height)) {
        plain.insert(plain.end(), rows[first].begin(), rows[first].end());
        ++first;
        continue;
      }
      flush(&plain);
      for (std::vector<Box>& column : columns) order(std::move(column));
      first = last;
    }
    flush(&plain);
  }

  void flush(std::vector<Box>* plain) {
    for (const std::vector<Box>& line : text_lines(std::move(*plain))) {
      for (const Box& b : line) out_.push_back(b.index);
    }
    plain->clear();
  }

  // Rows parted by white over the full width. Only the middle half of a box's height counts, so
  // that boxes grown into each other, or a rest of slant, do not glue rows together.
  static std::vector<std::vector<Box>> clean_rows(std::vector<Box> boxes) {
    std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) {
      const double x = a.v0 + a.height() / 4, y = b.v0 + b.height() / 4;
      if (x != y) return x < y;
      return a.u0 != b.u0 ? a.u0 < b.u0 : a.index < b.index;
    });
    std::vector<std::vector<Box>> rows;
    double end = -INFINITY;
    for (const Box& b : boxes) {
      if (rows.empty() || b.v0 + b.height() / 4 > end) rows.emplace_back();
      rows.back().push_back(b);
      end = std::max(end, b.v1 - b.height() / 4);
    }
    return rows;
  }

  // Parts of the u axis that no box covers, between the outermost boxes. Boxes count a little
  // narrower than they are: detection grows them.
  static std::vector<Interval> gutters(std::span<const Box> boxes, double least) {
    std::vector<Interval> covered;
    for (const Box& b : boxes) {
      const double inset = std::min(b.height() * 0.15, (b.u1 - b.u0) / 4);
      covered.push_back({b.u0 + inset, b.u1 - inset});
    }
    std::sort(covered.begin(), covered.end(), [](const Interval& a, const Interval& b) {
      return a.low != b.low ? a.low < b.low : a.high < b.high;
    });
    std::vector<Interval> out;
    double end = covered.empty() ? 0 : covered[0].high;
    for (const Interval& c : covered) {
      if (c.low - end >= least) out.push_back({end, c.low});
      end = std::max(end, c.high);
    }
    return out;
  }

  // End of the longest run of rows from `first` that has a gutter in common. Free space beside the
  // text of a single row is a gutter too, hence the bounds of what lies to both sides come later.
  size_t common_gutter_end(const std::vector<std::vector<Box>>& rows, size_t first,
                           double line_height) const {
    const double least = options_.min_gutter * line_height;
    std::vector<Interval> free{{-INFINITY, INFINITY}};
    size_t r = first;
    for (; r < rows.size(); ++r) {
      std::vector<Interval> next;
      for (const Interval& f : free) subtract(f, rows[r], least, &next);
      // The outer margins always stay free; they are no gutters.
      const bool inner = std::any_of(next.begin(), next.end(), [](const Interval& i) {
        return std::isfinite(i.low) && std::isfinite(i.high);
      });
      if (!inner && r > first) {
        // Rows of one side only leave the other side open: that is no obstacle.
        const bool one_sided = !std::any_of(free.begin(), free.end(), [](const Interval& i) {
          return std::isfinite(i.low) && std::isfinite(i.high);
        });
        if (!one_sided) break;
      }
      free = std::move(next);
    }
    return std::max(r, first + 1);
  }

  static void subtract(const Interval& from, std::span<const Box> row, double least,
                       std::vector<Interval>* out) {
    std::vector<Interval> covered;
    for (const Box& b : row) {
      const double inset = std::min(b.height() * 0.15, (b.u1 - b.u0) / 4);
      covered.push_back({b.u0 + inset, b.u1 - inset});
    }
    std::sort(covered.begin(), covered.end(),
              [](const Interval& a, const Interval& b) { return a.low < b.low; });
    double start = from.low;
    for (const Interval& c : covered) {
      const double end = std::min(c.low, from.high);
      if (end - start >= least) out->push_back({start, end});
      start = std::max(start, c.high);
      if (start >= from.high) return;
    }
    if (from.high - start >= least) out->push_back({start, from.high});
  }

  // Length of the longest part of a line without white of `gap`: cells of a table side by side are
  // no running text, however much of the width they cover together.
  static double longest_run(const std::vector<Box>& line, double gap) {
    double longest = 0, start = line[0].u0, end = line[0].u1;
    for (const Box& b : line) {
      if (b.u0 - end >= gap) start = b.u0;
      end = std::max(end, b.u1);
      longest = std::max(longest, end - start);
    }
    return longest;
  }

  // A row of one column only, with white below it: a header or title beside nothing.
  static bool stands_alone(const std::vector<Box>& row, const std::vector<Box>& next,
                           const std::vector<std::vector<Box>>& columns, double line_height) {
    double bottom = -INFINITY, top = INFINITY;
    for (const Box& b : row) bottom = std::max(bottom, b.v1);
    for (const Box& b : next) top = std::min(top, b.v0);
    if (top - bottom < line_height) return false;
    const auto holds_row = [&row](const std::vector<Box>& column) {
      return std::any_of(column.begin(), column.end(), [&row](const Box& c) {
        return std::any_of(row.begin(), row.end(),
                           [&c](const Box& b) { return b.index == c.index; });
      });
    };
    return std::count_if(columns.begin(), columns.end(), holds_row) == 1;
  }

  // Does a set of boxes look like a column of running text?
  bool is_text_column(const std::vector<Box>& boxes) const {
    const std::vector<std::vector<Box>> lines = text_lines(boxes);
    if (static_cast<int>(lines.size()) < options_.min_lines) return false;
    double left = INFINITY, right = -INFINITY;
    for (const Box& b : boxes) {
      left = std::min(left, b.u0);
      right = std::max(right, b.u1);
    }
    std::vector<double> lengths, ratios;
    for (const std::vector<Box>& line : lines) {
      double height = 0;
      for (const Box& b : line) height = std::max(height, b.height());
      const double length = longest_run(line, options_.min_gutter * height);
      lengths.push_back(length);
      ratios.push_back(height > 0 ? length / height : 0);
    }
    return median(ratios) >= options_.min_line_ratio &&
           median(lengths) >= options_.min_fill * (right - left);
  }

  // Columns between the gutters of a band; parts that are no text columns join the neighbour
  // across the narrower gutter. One element when nothing splits.
  std::vector<std::vector<Box>> split_columns(const std::vector<Box>& band,
                                              double line_height) const {
    std::vector<Interval> cuts = gutters(band, options_.min_gutter * line_height);
    std::vector<std::vector<Box>> columns(cuts.size() + 1);
    for (const Box& b : band) {
      size_t c = 0;
      while (c < cuts.size() && (b.u0 + b.u1) / 2 > cuts[c].high) ++c;
      columns[c].push_back(b);
    }
    for (size_t c = 0; columns.size() > 1 && c < columns.size();) {
      if (is_text_column(columns[c])) {
        ++c;
        continue;
      }
      const bool to_left =
          c + 1 == columns.size() || (c > 0 && cuts[c - 1].length() <= cuts[c].length());
      const size_t left = to_left ? c - 1 : c;
      columns[left].insert(columns[left].end(), columns[left + 1].begin(), columns[left + 1].end());
      columns.erase(columns.begin() + static_cast<int64_t>(left) + 1);
      cuts.erase(cuts.begin() + static_cast<int64_t>(left));
      c = left;  // the joined column is looked at again
    }
    return columns;
  }

  const ReadingOrderOptions& options_;
  std::vector<int> out_;
};

}  // namespace

std::vector<int> order_paddle(std::span<const Polygon> boxes, BubbleVariant variant) {
  std::vector<int> order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto corner = [&boxes](int i) { return first_corner(boxes[static_cast<size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const Point2f p = corner(a), q = corner(b);
    return p.y != q.y ? p.y < q.y : p.x < q.x;
  });
  const int last = variant == BubbleVariant::kFull ? 0 : 1;
  for (int i = 0; i + 1 < static_cast<int>(order.size()); ++i) {
    for (int j = i; j >= last; --j) {
      int& upper = order[static_cast<size_t>(j)];
      int& lower = order[static_cast<size_t>(j) + 1];
      const Point2f p = corner(upper), q = corner(lower);
      if (!(std::abs(q.y - p.y) < kRowTolerance && q.x < p.x)) break;
      std::swap(upper, lower);
    }
  }
  return order;
}

std::vector<int> order_rapidocr(std::span<const Polygon> boxes) {
  std::vector<int> order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto corner = [&boxes](int i) { return first_corner(boxes[static_cast<size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return corner(a).y < corner(b).y; });
  for (size_t first = 0; first < order.size();) {
    size_t last = first + 1;
    while (last < order.size() &&
           !(corner(order[last]).y - corner(order[last - 1]).y >= kRowTolerance)) {
      ++last;
    }
    std::stable_sort(order.begin() + static_cast<int64_t>(first),
                     order.begin() + static_cast<int64_t>(last),
                     [&](int a, int b) { return corner(a).x < corner(b).x; });
    first = last;
  }
  return order;
}

std::vector<int> reading_order(std::span<const Polygon> boxes, const ReadingOrderOptions& options) {
  std::vector<Sides> sides;
  sides.reserve(boxes.size());
  for (const Polygon& p : boxes) sides.push_back(sides_of(p));
  const bool vertical = options.direction == WritingDirection::kVertical ||
                        (options.direction == WritingDirection::kAuto && stands_dominate(sides));
  return Orderer(options).run(to_reading(boxes, slant_of(sides, vertical), vertical));
}

}  // namespace ocr
