#include "libocr/data/sample.h"

#include <algorithm>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::DType;
using train::Shape;
using train::Tensor;

Tensor planes(const cv::Mat& image) {
  if (image.type() != CV_32FC3)
    throw train::ShapeError("the image is not normalised: a NormalizeImage or a resize is missing");
  const int64_t h = image.rows, w = image.cols;
  Tensor t(Shape{3, h, w});
  float* out = t.data<float>();
  for (int64_t y = 0; y < h; ++y) {
    const float* row = image.ptr<float>(static_cast<int>(y));
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t x = 0; x < w; ++x) out[(c * h + y) * w + x] = row[3 * x + c];
  }
  return t;
}

Tensor map_tensor(const cv::Mat& map, const char* key) {
  if (map.empty())
    throw train::ShapeError(train::cat("KeepKeys asks for ", key, ", which no transform made"));
  Tensor t(Shape{map.rows, map.cols});
  for (int y = 0; y < map.rows; ++y)
    std::copy_n(map.ptr<float>(y), map.cols, t.data<float>() + int64_t{y} * map.cols);
  return t;
}

Tensor ids_tensor(const std::vector<int64_t>& ids) {
  return Tensor::from<int64_t>(Shape{static_cast<int64_t>(ids.size())},
                               std::span<const int64_t>(ids));
}

Tensor polygons(const Sample& s) {
  const size_t points = s.polys.empty() ? 4 : s.polys[0].size();
  Tensor t(Shape{static_cast<int64_t>(s.polys.size()), static_cast<int64_t>(points), 2});
  float* out = t.data<float>();
  for (const PolygonD& p : s.polys)
    for (size_t i = 0; i < points; ++i) {
      const cv::Point2d& q = p[std::min(i, p.size() - 1)];
      *out++ = static_cast<float>(q.x);
      *out++ = static_cast<float>(q.y);
    }
  return t;
}

Tensor ignore_tensor(const Sample& s) {
  Tensor t(Shape{static_cast<int64_t>(s.ignore.size())}, DType::kBool);
  for (size_t i = 0; i < s.ignore.size(); ++i) t.data<bool>()[i] = s.ignore[i] != 0;
  return t;
}

struct Key {
  const char* name;
  Tensor (*make)(const Sample&);
};
const Key kKeys[] = {
    {"image", [](const Sample& s) { return planes(s.image); }},
    {"label", [](const Sample& s) { return ids_tensor(s.ids); }},
    {"label_ctc", [](const Sample& s) { return ids_tensor(s.ids); }},
    {"label_gtc", [](const Sample& s) { return ids_tensor(s.guide_ids); }},
    {"label_sar", [](const Sample& s) { return ids_tensor(s.guide_ids); }},
    {"length", [](const Sample& s) { return Tensor::from<int64_t>({1}, {s.length}); }},
    {"valid_ratio", [](const Sample& s) { return Tensor::from<float>({1}, {s.valid_ratio}); }},
    {"shape",
     [](const Sample& s) {
       return Tensor::from<float>(
           {4}, {static_cast<float>(s.source_height), static_cast<float>(s.source_width),
                 static_cast<float>(s.ratio_h), static_cast<float>(s.ratio_w)});
     }},
    {"threshold_map", [](const Sample& s) { return map_tensor(s.threshold_map, "threshold_map"); }},
    {"threshold_mask",
     [](const Sample& s) { return map_tensor(s.threshold_mask, "threshold_mask"); }},
    {"shrink_map", [](const Sample& s) { return map_tensor(s.shrink_map, "shrink_map"); }},
    {"shrink_mask", [](const Sample& s) { return map_tensor(s.shrink_mask, "shrink_mask"); }},
    {"polys", polygons},
    {"ignore_tags", ignore_tensor},
};

}  // namespace

Tensor field_of(const Sample& sample, const std::string& key) {
  for (const Key& k : kKeys)
    if (key == k.name) return k.make(sample);
  throw train::ShapeError(train::cat("a sample has no '", key, "'"));
}

bool is_sample_key(const std::string& key) {
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const Key& k) { return key == k.name; });
}

std::vector<std::string> sample_keys() {
  std::vector<std::string> names;
  for (const Key& k : kKeys) names.emplace_back(k.name);
  return names;
}

}  // namespace ocr
