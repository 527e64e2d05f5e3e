#include "libocr/postprocess/tiles.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

struct Item {
  Polygon points;
  double score = 0, area = 0;
  Bounds bounds;
  size_t tile = 0;
  bool left = false, right = false, top = false, bottom = false;  // cut at this side of its tile
  bool cut() const { return left || right || top || bottom; }
};

auto bounds_key(const Item& i) {
  return std::make_tuple(i.bounds.y0, i.bounds.x0, i.bounds.y1, i.bounds.x1);
}

bool before(const Item& a, const Item& b) {
  if (bounds_key(a) != bounds_key(b)) return bounds_key(a) < bounds_key(b);
  if (a.cut() != b.cut()) return b.cut();
  if (a.score != b.score) return a.score > b.score;
  return std::lexicographical_compare(
      a.points.begin(), a.points.end(), b.points.begin(), b.points.end(),
      [](Point2f p, Point2f q) { return p.x != q.x ? p.x < q.x : p.y < q.y; });
}

std::vector<Item> collect(const std::vector<Tile>& tiles, int page_width, int page_height,
                          float margin) {
  std::vector<Item> items;
  for (size_t t = 0; t < tiles.size(); ++t) {
    const Tile& tile = tiles[t];
    for (const Detection& d : tile.detections) {
      const bool usable =
          d.points.size() >= 3 && std::all_of(d.points.begin(), d.points.end(), [](Point2f p) {
            return std::isfinite(p.x) && std::isfinite(p.y);
          });
      if (!usable) continue;
      Item item;
      item.points = d.points;
      item.score = d.score;
      item.tile = t;
      for (Point2f& p : item.points) {
        p.x += static_cast<float>(tile.x);
        p.y += static_cast<float>(tile.y);
      }
      item.area = polygon_area(item.points);
      const Bounds b = item.bounds = bounds_of(item.points);
      const float x1 = static_cast<float>(tile.x + tile.width - 1);
      const float y1 = static_cast<float>(tile.y + tile.height - 1);
      item.left = tile.x > 0 && b.x0 <= static_cast<float>(tile.x) + margin;
      item.right = tile.x + tile.width < page_width && b.x1 >= x1 - margin;
      item.top = tile.y > 0 && b.y0 <= static_cast<float>(tile.y) + margin;
      item.bottom = tile.y + tile.height < page_height && b.y1 >= y1 - margin;
      items.push_back(std::move(item));
    }
  }
  std::sort(items.begin(), items.end(), before);
  return items;
}

struct Interval {
  double low = INFINITY, high = -INFINITY;
  double length() const { return high - low; }
};

Interval project(const Polygon& points, double dx, double dy) {
  Interval out;
  for (Point2f p : points) {
    const double v = p.x * dx + p.y * dy;
    out.low = std::min(out.low, v);
    out.high = std::max(out.high, v);
  }
  return out;
}

double shared(const Interval& a, const Interval& b) {
  return std::min(a.high, b.high) - std::max(a.low, b.low);
}

// Unit vector along the longer side of the smallest rectangle.
Point2f direction_of(const Polygon& points) {
  const Quad q = min_area_rect(points).corners;
  const Point2f across{q[1].x - q[0].x, q[1].y - q[0].y}, down{q[3].x - q[0].x, q[3].y - q[0].y};
  const float w = std::hypot(across.x, across.y), h = std::hypot(down.x, down.y);
  const Point2f side = w >= h ? across : down;
  const float length = std::max(w, h);
  return length > 0 ? Point2f{side.x / length, side.y / length} : Point2f{1, 0};
}

// Two parts of one line whose direction is nearer to x (or to y): the first is cut at its end, and
// the second goes on from there, at the same height and alike in height.
bool continues_along(const Item& a, const Item& b, bool along_x, const TileMergeOptions& options) {
  const bool a_first = (along_x && a.right && b.bounds.x1 > a.bounds.x1) ||
                       (!along_x && a.bottom && b.bounds.y1 > a.bounds.y1) ||
                       (along_x && b.left && a.bounds.x0 < b.bounds.x0) ||
                       (!along_x && b.top && a.bounds.y0 < b.bounds.y0);
  if (!a_first) return false;
  const auto length = [along_x](const Item& i) {
    return along_x ? i.bounds.width() : i.bounds.height();
  };
  Point2f d = direction_of(length(a) >= length(b) ? a.points : b.points);
  const float main = along_x ? d.x : d.y, side = along_x ? d.y : d.x;
  // The shape of a short rest says nothing about its direction: only lines can be cut in two, for
  // whatever is shorter than the overlap of two tiles is whole in one of them.
  if (std::abs(side) > 0.6f * std::abs(main)) return false;
  if (main < 0) d = {-d.x, -d.y};
  const Interval across_a = project(a.points, -d.y, d.x), across_b = project(b.points, -d.y, d.x);
  const Interval along_a = project(a.points, d.x, d.y), along_b = project(b.points, d.x, d.y);
  const double low = std::min(across_a.length(), across_b.length());
  const double high = std::max(across_a.length(), across_b.length());
  if (low <= 0 || low < 0.5 * high || shared(across_a, across_b) < options.line_overlap * low ||
      std::max(along_a.length(), along_b.length()) < 1.5 * high) {
    return false;
  }
  const double common = shared(along_a, along_b);
  return a.cut() && b.cut() ? common > -0.3 * low : common > 0;
}

bool same_text(const Item& a, const Item& b, const TileMergeOptions& options) {
  const double common = intersection_area(a.points, b.points);
  const double smaller = std::min(a.area, b.area);
  if (smaller > 0 && common >= options.duplicate_overlap * smaller) return true;
  for (const bool along_x : {true, false}) {
    if (continues_along(a, b, along_x, options) || continues_along(b, a, along_x, options)) {
      return true;
    }
  }
  return false;
}

// Calls use(i, j) for all pairs i < j of items from different tiles that lie near each other.
template <class F>
void for_neighbours(const std::vector<Item>& items, float reach, F&& use) {
  for (size_t i = 0; i < items.size(); ++i) {
    const Bounds& a = items[i].bounds;
    // Sorted by upper edge: later boxes that start below this one's lower edge cannot touch it.
    for (size_t j = i + 1; j < items.size() && items[j].bounds.y0 <= a.y1 + reach; ++j) {
      const Bounds& b = items[j].bounds;
      if (items[i].tile != items[j].tile && b.x0 <= a.x1 + reach && a.x0 <= b.x1 + reach) {
        use(i, j);
      }
    }
  }
}

// Takes out the cut boxes that whole boxes of one other tile cover. Such a rest can be anything, a
// narrow piece of two lines for one, and would tie together what is not.
void drop_covered_rests(std::vector<Item>* items) {
  std::vector<std::map<size_t, double>> covered(items->size());  // by the tile that covers
  const auto cover = [&](size_t rest, size_t whole) {
    const Item &r = (*items)[rest], &w = (*items)[whole];
    if (r.cut() && !w.cut()) covered[rest][w.tile] += intersection_area(r.points, w.points);
  };
  for_neighbours(*items, 0, [&](size_t i, size_t j) {
    cover(i, j);
    cover(j, i);
  });
  std::vector<Item> kept;
  for (size_t i = 0; i < items->size(); ++i) {
    const double least = 0.8 * (*items)[i].area;
    const bool drop = std::any_of(covered[i].begin(), covered[i].end(),
                                  [least](const auto& c) { return c.second >= least; });
    if (!drop) kept.push_back(std::move((*items)[i]));
  }
  items->swap(kept);
}

// How much an item inside a tall line looks like a line of its own: 1 when it is longer than a part
// of a letter could be, 0.5 when it could be a stroke of one, of which there are not many; never a
// slice that a seam along the line has cut off.
double as_other_line(const Item& item, const Item& line) {
  const bool across = item.bounds.width() >= item.bounds.height();
  if (across ? item.top || item.bottom : item.left || item.right) return 0;
  const RotatedRect i = min_area_rect(item.points), l = min_area_rect(line.points);
  if (i.short_side < 0.6f * l.short_side && i.long_side > 1.2f * l.short_side) return 1;
  const bool thin = i.short_side < 0.3f * l.short_side && i.long_side > 3 * i.short_side;
  return thin && i.long_side > 0.4f * l.short_side ? 0.5 : 0;
}

// Whether a line of the smaller copy adds nothing: a tile shows it whole, or other lines in its
// place. `inside`: the items that lie mostly in it.
bool is_known(const Item& line, const std::vector<const Item*>& inside) {
  double whole = 0, others = 0;
  for (const Item* item : inside) {
    others += as_other_line(*item, line);
    if (others >= 1) return true;
    if (item->cut()) continue;
    const double common = intersection_area(item->points, line.points);
    if (common >= 0.6 * line.area) return true;
    whole += common;
  }
  return whole >= 0.35 * line.area;
}

// Puts lines of the smaller copy in the place of their pieces.
void take_tall(const std::vector<Detection>& tall, size_t tile, std::vector<Item>* items) {
  for (const Detection& d : tall) {
    Item line;
    line.points = d.points;
    line.score = d.score;
    line.area = polygon_area(line.points);
    line.bounds = bounds_of(line.points);
    line.tile = tile;
    std::vector<const Item*> inside;
    for (const Item& item : *items)
      if (intersection_area(item.points, line.points) > 0.5 * item.area) inside.push_back(&item);
    if (is_known(line, inside)) continue;
    std::vector<Item> kept;
    size_t next = 0;
    for (Item& item : *items) {
      if (next < inside.size() && inside[next] == &item)
        ++next;
      else
        kept.push_back(std::move(item));
    }
    kept.push_back(std::move(line));
    items->swap(kept);
  }
  std::sort(items->begin(), items->end(), before);
}

size_t find_root(std::vector<size_t>* parent, size_t i) {
  while ((*parent)[i] != i) i = (*parent)[i] = (*parent)[(*parent)[i]];
  return i;
}

// The members of a group that add something: the best first, without what others cover.
std::vector<const Item*> essential(std::vector<const Item*> group) {
  std::stable_sort(group.begin(), group.end(), [](const Item* a, const Item* b) {
    return a->cut() != b->cut() ? b->cut() : a->area > b->area;
  });
  std::vector<const Item*> parts{group[0]};
  for (size_t i = 1; i < group.size(); ++i) {
    // A box that no seam cut stands for what lies mostly inside it; a cut one lacks its end, so
    // that every further part counts.
    const bool covered = std::any_of(parts.begin(), parts.end(), [&](const Item* p) {
      const double least = p->cut() ? 0.99 : 0.7;
      return intersection_area(p->points, group[i]->points) >= least * group[i]->area;
    });
    if (!covered) parts.push_back(group[i]);
  }
  return parts;
}

// The one box for parts of one text. Parts whose rectangle would be much thicker than each of them
// lie beside each other, not one after the other: they stay as they are.
void join(const std::vector<const Item*>& parts, std::vector<Detection>* out) {
  Detection joined;
  double area = 0;
  float thickest = 0;
  bool quads = true;
  Polygon all;
  for (const Item* p : parts) {
    joined.score += p->score * p->area;
    area += p->area;
    quads = quads && p->points.size() == 4;
    thickest = std::max(thickest, min_area_rect(p->points).short_side);
    all.insert(all.end(), p->points.begin(), p->points.end());
  }
  joined.score = area > 0 ? joined.score / area : parts[0]->score;
  joined.points = parts[0]->points;
  if (parts.size() > 1 && quads) {
    const RotatedRect rect = min_area_rect_int(all);
    if (rect.short_side > 1.6f * thickest) {
      for (const Item* p : parts) out->push_back({p->points, p->score});
      return;
    }
    const Quad q = order_points_clockwise(rect.corners, CornerOrder::kSumDiff);
    joined.points.assign(q.begin(), q.end());
  }
  for (size_t i = 1; !quads && i < parts.size(); ++i) {
    joined.points = polygon_union(joined.points, parts[i]->points);
  }
  out->push_back(std::move(joined));
}

}  // namespace

std::vector<int> tile_origins(int length, int tile, int overlap) {
  if (length <= 0 || tile <= 0 || overlap < 0 || overlap >= tile) {
    throw train::ConfigError("", 0, 0,
                             train::cat("tiles of ", tile, " pixels with ", overlap,
                                        " in common cannot cover ", length, " pixels"));
  }
  if (length <= tile) return {0};
  const int64_t step = tile - overlap;
  const int64_t count = (length - overlap + step - 1) / step;
  std::vector<int> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<int>(i * (length - tile) / (count - 1)));
  }
  return out;
}

std::vector<Detection> merge_tiles(const std::vector<Tile>& tiles, int page_width, int page_height,
                                   const TileMergeOptions& options,
                                   const std::vector<Detection>& tall) {
  std::vector<Item> items = collect(tiles, page_width, page_height, options.edge_margin);
  if (!tall.empty()) take_tall(tall, tiles.size(), &items);
  drop_covered_rests(&items);
  std::vector<size_t> parent(items.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  for_neighbours(items, options.edge_margin * 4, [&](size_t i, size_t j) {
    if (!same_text(items[i], items[j], options)) return;
    const size_t a = find_root(&parent, i), b = find_root(&parent, j);
    parent[std::max(a, b)] = std::min(a, b);
  });
  std::vector<std::vector<const Item*>> groups(items.size());
  for (size_t i = 0; i < items.size(); ++i) groups[find_root(&parent, i)].push_back(&items[i]);

  std::vector<Detection> out;
  for (std::vector<const Item*>& group : groups) {
    if (!group.empty()) join(essential(std::move(group)), &out);
  }
  for (Detection& d : out) {
    for (Point2f& p : d.points) {
      p.x = std::clamp(std::nearbyint(p.x), 0.0f, static_cast<float>(page_width - 1));
      p.y = std::clamp(std::nearbyint(p.y), 0.0f, static_cast<float>(page_height - 1));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Detection& a, const Detection& b) {
    const Bounds p = bounds_of(a.points), q = bounds_of(b.points);
    return p.y0 != q.y0 ? p.y0 < q.y0 : p.x0 < q.x0;
  });
  return out;
}

}  // namespace ocr
