#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "libocr/geometry/quad.h"
#include "libocr/pipeline/stages.h"
#include "libocr/postprocess/detection_scale.h"
#include "libocr/postprocess/tiles.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int kTileOverlap = 192;    // pixels of the net's input; about six lines of small print
constexpr int kMinTileSide = 128;    // a strip gets margins up to this, or its text is not found
constexpr double kLeastScale = 0.5;  // a page scaled below this by the cap is searched in tiles
constexpr int kMostEnlarged = 8;     // the default rule's: a line 11 pixels high is not made 736
constexpr int kShrink = 4;  // of the copies in which lines too tall for a tile are looked for
constexpr int kLeastTall =
    12;  // pixels of the net's input: lower lines of a copy are not looked at
constexpr double kLeastInk = 0.06;   // of such a line's box
constexpr int kProbe = 640;          // side of the plan that tells memory per pixel
constexpr int kLeastLook = 1 << 19;  // pixels of an input from which on a look can save something
// A page of one piece is searched in its content alone where it is at least so many pixels of the
// net's input, and the content at most this share.
constexpr double kLargePage = 2048. * 2048, kSparse = 0.25;
constexpr int kContentMargin = 64;  // of ground around the content, in pixels of the net's input

std::array<double, 3> triple(const std::vector<double>& v) { return {v[0], v[1], v[2]}; }

DbOptions db_options(const Options& o) {
  DbOptions d;
  d.thresh = static_cast<float>(o.det_db_thresh);
  d.box_thresh = o.det_db_box_thresh;
  d.max_candidates = o.det_max_candidates;
  d.unclip_ratio = o.det_db_unclip_ratio;
  d.use_dilation = o.use_dilation;
  d.score_mode = o.det_db_score_mode.value == "slow" ? ScoreMode::kSlow : ScoreMode::kFast;
  d.box_type = o.det_box_type.value == "poly" ? BoxType::kPoly : BoxType::kQuad;
  if (o.det_rescale.value == "rapidocr") d.corner_order = CornerOrder::kSortX;
  return d;
}

// Of the ways to say at which size a page is searched the one from the strongest source is
// followed; of equals, as upstream: image_shape, then limit_side_len, then resize_long.
DetectionResizeKind resize_kind(const Options& o) {
  const Source limit = std::max(o.det_limit_side_len.source, o.det_limit_type.source);
  const bool shape = !o.det_image_shape.value.empty() && o.det_image_shape.source >= limit;
  if (o.det_resize_long > 0 && o.det_resize_long.source > limit &&
      (!shape || o.det_resize_long.source > o.det_image_shape.source))
    return DetectionResizeKind::kResizeLong128;
  return shape ? DetectionResizeKind::kImageShape : DetectionResizeKind::kLimit;
}

DetectionResizeOptions resize_options(const Options& o) {
  DetectionResizeOptions r;
  r.kind = resize_kind(o);
  if (r.kind == DetectionResizeKind::kResizeLong128) r.resize_long = o.det_resize_long;
  if (r.kind == DetectionResizeKind::kImageShape) {
    const std::vector<int>& shape = o.det_image_shape;
    if (shape.size() < 2 || shape.size() > 3)
      throw train::ConfigError("", 0, 0, "det_image_shape is H,W or C,H,W");
    r.image_height = shape[shape.size() - 2];
    r.image_width = shape.back();
    r.keep_ratio = o.det_keep_ratio;
  }
  const std::string& type = o.det_limit_type;
  r.limit_type = type == "max"   ? LimitType::kMax
                 : type == "min" ? LimitType::kMin
                                 : LimitType::kResizeLong;
  r.limit_side_len = o.det_limit_side_len;
  r.max_side_limit = o.det_max_side_limit;
  if (o.det_rescale.value == "rapidocr") r.pad_small = false;
  return r;
}

bool chosen(Source s) {
  return s == Source::kPreset || s == Source::kPinned || s == Source::kConfig || s == Source::kFlag;
}

// Large scans are mostly paper: a tile of one colour holds no text and needs no net.
bool one_colour(const cv::Mat& tile) {
  const size_t row = static_cast<size_t>(tile.cols) * tile.elemSize();
  const uchar* first = tile.ptr(0);
  if (std::memcmp(first, first + tile.elemSize(), row - tile.elemSize()) != 0) return false;
  for (int y = 1; y < tile.rows; ++y)
    if (std::memcmp(first, tile.ptr(y), row) != 0) return false;
  return true;
}

// The share of pixels in a box that stand out from its ground (the median): a fifth or so for large
// letters, next to nothing where a small copy shows one where there are but a few thin lines.
double ink_share(const cv::Mat& page, const Polygon& box) {
  const Bounds b = bounds_of(box);
  const cv::Rect area =
      cv::Rect(cv::Point(static_cast<int>(b.x0), static_cast<int>(b.y0)),
               cv::Point(static_cast<int>(b.x1) + 1, static_cast<int>(b.y1) + 1)) &
      cv::Rect(0, 0, page.cols, page.rows);
  std::array<int64_t, 256> count{};
  for (int y = area.y; y < area.y + area.height; ++y) {
    const uchar* p = page.ptr(y) + 3 * area.x;
    for (int x = 0; x < area.width; ++x, p += 3) ++count[(p[0] + 2 * p[1] + p[2]) / 4];
  }
  const auto below = [&](double share) {  // the brightness that so many pixels do not exceed
    int64_t left = static_cast<int64_t>(share * area.area());
    int v = 0;
    for (; v < 255 && (left -= count[v]) >= 0; ++v) {
    }
    return v;
  };
  const int ground = below(0.5), range = std::max(ground - below(0.01), below(0.99) - ground);
  int64_t ink = 0;
  for (int v = 0; v < 256; ++v)
    if (2 * std::abs(v - ground) > std::max(range, 32)) ink += count[v];
  return area.area() > 0 ? static_cast<double>(ink) / area.area() : 0;
}

}  // namespace

Detector::Detector(Model model, const Options& options, int64_t memory)
    : model_(std::move(model)),
      db_(db_options(options)),
      resize_(resize_options(options)),
      normalizer_(triple(options.det_mean), triple(options.det_std)),
      scale_(options.det_scale),
      tile_mode_(options.det_tile),
      tile_size_((options.det_tile_size + 31) / 32 * 32),
      explicit_limit_(
          chosen(options.det_limit_side_len.source) || chosen(options.det_limit_type.source) ||
          chosen(options.det_max_side_limit.source) || resize_.kind != DetectionResizeKind::kLimit),
      memory_(memory) {
  model_.compile();
  const train::Feed feed{train::Tensor(train::Shape{1, 3, kProbe, kProbe}),
                         train::Layout::kChannelsLast, true};
  const size_t bytes = model_.net->plan(std::span(&feed, 1));
  bytes_per_pixel_ = static_cast<int64_t>(bytes / (kProbe * kProbe)) + 1;
}

Detector::Search Detector::plan(int height, int width) const {
  Search search;
  DetectionResizeOptions resize = resize_;
  if (!explicit_limit_ && resize.limit_type == LimitType::kMin)
    resize.limit_side_len =
        std::min(resize.limit_side_len, kMostEnlarged * std::min(height, width));
  search.size = detection_size(height, width, resize);
  const double ratio = std::min(search.size.ratio_h, search.size.ratio_w);
  search.scale = ratio;
  if (tile_mode_ == "on")
    search.tiled = std::max(search.size.width, search.size.height) > tile_size_;
  if (tile_mode_ != "auto") return search;
  const int long_side = std::max(height, width);
  const bool capped =
      resize_.max_side_limit > 0 && resize_.limit_type == LimitType::kMin &&
      std::max(search.size.height, search.size.width) >= resize_.max_side_limit / 32 * 32 &&
      long_side > resize_.max_side_limit;
  if (capped && !explicit_limit_ && ratio < kLeastScale) {
    // The cap would make letters illegible: search at full size instead.
    search.tiled = true;
    search.scale = 1;
  } else if (static_cast<double>(search.size.width) * search.size.height *
                 static_cast<double>(bytes_per_pixel_) >
             static_cast<double>(memory_)) {
    // The same scale, in pieces that fit.
    search.tiled = std::max(search.size.width, search.size.height) > tile_size_;
  }
  return search;
}

Detections Detector::detect(const cv::Mat& page, Scratch& scratch) const {
  const Search search = plan(page.rows, page.cols);
  const bool large = tile_mode_ == "auto" && !explicit_limit_ &&
                     static_cast<double>(search.size.width) * search.size.height >= kLargePage;
  if (search.tiled || large) {
    // From the content on, not from the page's corner: else the text would change with the place of
    // the content on the page.
    const auto margin = static_cast<int>(std::ceil(kContentMargin / search.scale));
    const auto window = ContentWindow::of_content(page, margin, kShrink);
    const double share =
        static_cast<double>(window.area().width) / page.cols * window.area().height / page.rows;
    if (search.tiled || share <= kSparse) return content(page, window, search.scale, scratch);
  }
  Detections out;
  DetectionSize size = search.size;
  if (scale_ == "auto" && !explicit_limit_ && int64_t{size.height} * size.width >= kLeastLook) {
    StageDump* dump = std::exchange(scratch.dump, nullptr);
    out.boxes = whole(page, scaled_size(size, kLookScale), scratch, out.cut_candidates);
    scratch.dump = dump;
    const double scale = sufficient_scale(out.boxes, size);
    if (scale <= kLookScale && !dump) return out;
    size = scaled_size(size, scale);
    out = {};
  }
  out.boxes = whole(page, size, scratch, out.cut_candidates);
  return out;
}

std::vector<Detection> Detector::whole(const cv::Mat& page, const DetectionSize& size,
                                       Scratch& scratch, int64_t& cut) const {
  const train::Feed feed = scratch.input(*model_.net, 1, size.height, size.width);
  write_detection_input(page, size, normalizer_, feed.tensor.data<float>(), 3);
  if (scratch.dump)
    scratch.dump->floats("resize", feed.tensor.data<float>(), {size.height, size.width, 3});
  const train::Tensor& map = scratch.run(*model_.net, feed);  // [1, 1, h, w]
  if (map.shape().rank() != 4 || map.shape()[0] != 1)
    throw train::ShapeError(train::cat(
        model_.files.onnx, ": a detector gives a map [1, 1, h, w], not ", map.shape().str()));
  const int h = static_cast<int>(map.shape()[2]), w = static_cast<int>(map.shape()[3]);
  if (scratch.dump) scratch.dump->floats("map", map.data<float>(), {h, w});
  DbReport report;
  auto boxes = db_postprocess(map.data<float>(), w, h, w, size.padded_height, size.padded_width,
                              db_, &report);
  cut += report.cut_candidates;
  for (Detection& d : boxes)  // a box may not lie on the padding of a tiny page
    for (Point2f& p : d.points) {
      p.x = std::min(p.x, static_cast<float>(page.cols - 1));
      p.y = std::min(p.y, static_cast<float>(page.rows - 1));
    }
  return boxes;
}

// What is in a window, on the page.
Detections Detector::content(const cv::Mat& page, const ContentWindow& window, double scale,
                             Scratch& scratch) const {
  if (window.empty()) return {};
  Detections out = tiles(window, scale, scratch);
  const cv::Point2f origin = window.area().tl();
  const auto right = static_cast<float>(page.cols - 1), bottom = static_cast<float>(page.rows - 1);
  for (Detection& d : out.boxes)
    for (Point2f& p : d.points)
      p = {std::clamp(p.x + origin.x, 0.f, right), std::clamp(p.y + origin.y, 0.f, bottom)};
  // What was found in the margin beyond the page.
  std::erase_if(out.boxes, [](const Detection& d) { return polygon_area(d.points) < 1; });
  return out;
}

Detections Detector::tiles(const ContentWindow& window, double scale, Scratch& scratch) const {
  // A tile small enough for the memory, large enough to hold context.
  const double affordable =
      std::sqrt(static_cast<double>(memory_) / 2 / static_cast<double>(bytes_per_pixel_));
  const int tile = std::clamp(static_cast<int>(affordable) / 32 * 32, 256, tile_size_);
  const int overlap = std::min(kTileOverlap, tile / 4);
  const int side = std::max(1, static_cast<int>(std::floor(tile / scale)));
  const int shared = static_cast<int>(std::ceil(overlap / scale));
  Detections out;
  out.tiles = 0;
  std::vector<Tile> tiles;
  const cv::Size area = window.area().size();
  for (const int y : tile_origins(area.height, side, shared))
    for (const int x : tile_origins(area.width, side, shared)) {
      Tile t{x, y, std::min(side, area.width - x), std::min(side, area.height - y), {}};
      const cv::Mat part = window.part({t.x, t.y, t.width, t.height});
      ++out.tiles;
      if (one_colour(part)) continue;
      const int h = std::max(kMinTileSide, static_cast<int>(std::lround(t.height * scale)));
      const int w = std::max(kMinTileSide, static_cast<int>(std::lround(t.width * scale)));
      DetectionSize size;
      // Sides below the least are padded, others rounded to the net's grid.
      size.padded_height = std::max(t.height, static_cast<int>(std::lround(kMinTileSide / scale)));
      size.padded_width = std::max(t.width, static_cast<int>(std::lround(kMinTileSide / scale)));
      size.height = std::max(32, (h + 16) / 32 * 32);
      size.width = std::max(32, (w + 16) / 32 * 32);
      size.ratio_h = static_cast<double>(size.height) / size.padded_height;
      size.ratio_w = static_cast<double>(size.width) / size.padded_width;
      t.detections = whole(part, size, scratch, out.cut_candidates);
      tiles.push_back(std::move(t));
    }
  std::vector<Detection> tall;
  if (out.tiles > 1) {
    const double least = std::max<double>(kLeastTall, overlap / 2.0 / kShrink) / scale;
    tall = tall_lines(window, scale, static_cast<float>(least), scratch, out);
  }
  TileMergeOptions merge;
  merge.edge_margin = std::max(4.f, static_cast<float>(4 / scale));
  out.boxes = merge_tiles(tiles, area.width, area.height, merge, tall);
  return out;
}

// Lines at least `least` pixels high in a copy of the window of a quarter of its sides.
std::vector<Detection> Detector::tall_lines(const ContentWindow& window, double scale, float least,
                                            Scratch& scratch, Detections& totals) const {
  const cv::Mat copy = window.shrunk(kShrink);
  // Which looks at a copy of the copy, if need be.
  Detections found = tiles(ContentWindow(copy), scale, scratch);
  totals.tiles += found.tiles;
  totals.cut_candidates += found.cut_candidates;
  const float x = static_cast<float>(window.area().width) / static_cast<float>(copy.cols);
  const float y = static_cast<float>(window.area().height) / static_cast<float>(copy.rows);
  std::vector<Detection> out;
  for (Detection& d : found.boxes) {
    if (min_area_rect(d.points).short_side < least || ink_share(copy, d.points) < kLeastInk)
      continue;
    for (Point2f& p : d.points) p = {p.x * x, p.y * y};
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace ocr
