// Transforms of detection configurations.
#include "libocr/data/detection_augment.h"
#include "libocr/data/detection_targets.h"
#include "libocr/data/transform.h"
#include "libocr/postprocess/detection_resize.h"
#include "libtrain/core/error.h"

#include <opencv2/imgproc.hpp>

namespace ocr {
namespace {

using train::cat;
using train::config::NamedNode;
using train::config::Node;
using train::config::Reader;

struct Range {
  double lo = 0, hi = 0;
};
// A number or [lo, hi].
void read_range(Reader& r, const char* key, Range& range, bool symmetric = false) {
  std::vector<double> v;
  r.field(key, v);
  if (v.empty()) return;
  if (v.size() > 2 || (v.size() == 2 && v[0] > v[1]))
    fail_at(r, key, "takes a number or [least, most]");
  range = {v.size() == 1 && symmetric ? -v[0] : v[0], v.back()};
}

// One entry of IaaAugment's list: {type, args}. The names are imgaug's.
class Augmenter {
 public:
  enum class Kind { kFliplr, kFlipud, kAffine, kResize };
  Augmenter() = default;
  void describe(Reader& r) {
    std::string type;
    Node arguments;
    r.required("type", type);
    r.field("args", arguments);
    const std::vector<std::string> names{"Fliplr", "Flipud", "Affine", "Resize"};
    const auto it = std::find(names.begin(), names.end(), type);
    if (it == names.end())
      fail_at(r, "type",
              cat("is Fliplr, Flipud, Affine or Resize, not ", type,
                  train::config::did_you_mean(type, names)));
    kind_ = static_cast<Kind>(it - names.begin());
    Reader a(arguments, r.path_of("args"), r.context());
    a.field("p", p_);
    if (kind_ == Kind::kAffine) {
      read_range(a, "rotate", rotate_);
      scale_ = {1, 1};
      read_range(a, "scale", scale_);
      a.field("fit_output", fit_);
    } else if (kind_ == Kind::kResize) {
      scale_ = {1, 1};
      read_range(a, "size", scale_);
    }
    if (kind_ >= Kind::kAffine && !(scale_.lo > 0))
      fail_at(a, kind_ == Kind::kResize ? "size" : "scale", "takes numbers above 0");
    a.finish();
  }
  void apply(Sample& s, Random& random) const {
    // The draws are made in any case: what follows does not depend on whether this one came up.
    const bool now = random.chance(p_);
    const double angle = random.uniform(rotate_.lo, rotate_.hi);
    const double factor = random.uniform(scale_.lo, scale_.hi);
    if (!now) return;
    switch (kind_) {
      case Kind::kFliplr:
        return flip_horizontally(s);
      case Kind::kFlipud:
        return flip_vertically(s);
      case Kind::kAffine:
        return turn(s, angle, factor, fit_);
      case Kind::kResize:
        return scale(s, factor);
    }
  }

 private:
  Kind kind_ = Kind::kFliplr;
  double p_ = 1;
  Range rotate_, scale_;
  bool fit_ = false;
};

class IaaAugment : public Transform {
 public:
  explicit IaaAugment(Reader& r) {
    if (r.known("augmenter_args")) {
      r.field("augmenter_args", steps_);
      return;
    }
    const Node defaults = [] {
      const auto step = [](const char* type, const char* key, Node value) {
        Node args = Node::map(), entry = Node::map();
        args.set(key, std::move(value));
        entry.set("type", Node::scalar(type));
        entry.set("args", std::move(args));
        return entry;
      };
      const auto pair = [](const char* a, const char* b) {
        return Node::list({Node::scalar(a), Node::scalar(b)});
      };
      Node map = Node::map();
      map.set("augmenter_args", Node::list({step("Fliplr", "p", Node::scalar("0.5")),
                                            step("Affine", "rotate", pair("-10", "10")),
                                            step("Resize", "size", pair("0.5", "3"))}));
      return map;
    }();
    Reader d(defaults, "IaaAugment", r.context());
    d.field("augmenter_args", steps_);
  }
  void apply(Sample& s, Random& random, int) const override {
    for (const Augmenter& a : steps_) a.apply(s, random);
  }

 private:
  std::vector<Augmenter> steps_;
};

// RandomPerspective of PP-OCRv6: with `prob`, a shear of up to `shear` degrees in x and y and a
// perspective of up to `perspective` per pixel; `fit_output` grows the picture to hold all of it.
class RandomPerspective : public Transform {
 public:
  explicit RandomPerspective(Reader& r) {
    r.field("prob", prob_);
    r.field("p", prob_);
    r.field("shear", shear_);
    r.field("perspective", perspective_);
    r.field("fit_output", fit_);
    if (!(shear_ >= 0 && shear_ < 80)) fail_at(r, "shear", "takes degrees from 0 to 80");
  }
  void apply(Sample& s, Random& random, int) const override {
    const bool now = random.chance(prob_);
    const double kx = random.uniform(-shear_, shear_), ky = random.uniform(-shear_, shear_);
    const double px = random.uniform(-perspective_, perspective_);
    const double py = random.uniform(-perspective_, perspective_);
    if (!now) return;
    const double degree = 3.14159265358979323846 / 180, w = s.image.cols, h = s.image.rows;
    // Larger pages take less per pixel, so that the horizon stays out of the picture.
    const double least = 0.5 / std::max(w, h);
    const cv::Matx33d centre(1, 0, -w / 2, 0, 1, -h / 2, 0, 0, 1);
    const cv::Matx33d bend(1, std::tan(kx * degree), 0, std::tan(ky * degree), 1, 0,
                           std::clamp(px, -least, least), std::clamp(py, -least, least), 1);
    cv::Matx33d map = cv::Matx33d(1, 0, w / 2, 0, 1, h / 2, 0, 0, 1) * bend * centre;
    cv::Size size = s.image.size();
    if (fit_) fit(map, w, h, size);
    warp(s, map, size);
  }

 private:
  static cv::Point2d moved(const cv::Matx33d& m, cv::Point2d p) {
    const cv::Vec3d q = m * cv::Vec3d(p.x, p.y, 1);
    return {q[0] / q[2], q[1] / q[2]};
  }
  static void fit(cv::Matx33d& map, double w, double h, cv::Size& size) {
    double x0 = 1e9, y0 = 1e9, x1 = -1e9, y1 = -1e9;
    for (const cv::Point2d c : {cv::Point2d(0, 0), {w, 0}, {w, h}, {0, h}}) {
      const cv::Point2d p = moved(map, c);
      x0 = std::min(x0, p.x), x1 = std::max(x1, p.x);
      y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
    }
    const double factor = std::min(1.0, 4 * std::max(w, h) / std::max(x1 - x0, y1 - y0));
    size = {std::max(1, static_cast<int>(std::ceil((x1 - x0) * factor))),
            std::max(1, static_cast<int>(std::ceil((y1 - y0) * factor)))};
    map = cv::Matx33d(factor, 0, -x0 * factor, 0, factor, -y0 * factor, 0, 0, 1) * map;
  }
  static void warp(Sample& s, const cv::Matx33d& map, cv::Size size) {
    cv::Mat out;
    cv::warpPerspective(s.image, out, map, size, cv::INTER_LINEAR, cv::BORDER_CONSTANT);
    s.image = out;
    for (PolygonD& poly : s.polys)
      for (cv::Point2d& p : poly) p = moved(map, p);
  }
  double prob_ = 0.5, shear_ = 0, perspective_ = 0;
  bool fit_ = false;
};

class ColorJitter : public Transform {
 public:
  explicit ColorJitter(Reader& r) {
    r.field("brightness", options_.brightness);
    r.field("contrast", options_.contrast);
    r.field("saturation", options_.saturation);
    r.field("hue", options_.hue);
    if (options_.hue < 0 || options_.hue > 0.5) fail_at(r, "hue", "takes a number from 0 to 0.5");
  }
  void apply(Sample& s, Random& random, int) const override {
    color_jitter(s.image, options_, random);
  }

 private:
  ColorJitterOptions options_;
};

class CopyPaste : public Transform {
 public:
  explicit CopyPaste(Reader& r) {
    r.field("objects_paste_ratio", ratio_);
    r.field("limit_paste", limit_);
  }
  int extra_samples() const override { return 1; }
  void apply(Sample& s, Random& random, int) const override {
    copy_paste(s, ratio_, limit_, random);
    s.extra.clear();
  }

 private:
  double ratio_ = 0.2;
  bool limit_ = true;
};

// EastRandomCropData, called RandomCrop by PP-OCRv6.
class RandomCrop : public Transform {
 public:
  explicit RandomCrop(Reader& r) {
    std::vector<int> size{640, 640};
    r.field("size", size);
    r.field("max_tries", options_.max_tries);
    r.field("min_crop_side_ratio", options_.min_crop_side_ratio);
    r.field("keep_ratio", options_.keep_ratio);
    if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > 8192 || size[1] > 8192)
      fail_at(r, "size", "takes [width, height], each at most 8192");
    options_.size = {size[0], size[1]};
  }
  void apply(Sample& s, Random& random, int) const override { random_crop(s, options_, random); }

 private:
  CropOptions options_;
};

class MakeMap : public Transform {
 protected:
  explicit MakeMap(Reader& r) {
    r.field("shrink_ratio", ratio_);
    r.field("total_epoch", total_);
    r.known("epoch");  // upstream passes it in; ours is the true one
    if (!(ratio_ > 0 && ratio_ < 1)) fail_at(r, "shrink_ratio", "takes a number between 0 and 1");
  }
  double ratio(int epoch) const { return ramped_shrink_ratio(ratio_, epoch, total_); }

 private:
  double ratio_ = 0.4, total_ = 0;
};

class MakeBorderMap : public MakeMap {
 public:
  explicit MakeBorderMap(Reader& r) : MakeMap(r) {
    r.field("thresh_min", min_);
    r.field("thresh_max", max_);
  }
  void apply(Sample& s, Random&, int epoch) const override {
    TargetMap t = make_border_map(s.polys, s.ignore, s.image.size(), ratio(epoch), min_, max_);
    s.threshold_map = t.map;
    s.threshold_mask = t.mask;
  }

 private:
  double min_ = 0.3, max_ = 0.7;
};

class MakeShrinkMap : public MakeMap {
 public:
  explicit MakeShrinkMap(Reader& r) : MakeMap(r) { r.field("min_text_size", min_text_size_); }
  void apply(Sample& s, Random&, int epoch) const override {
    TargetMap t = make_shrink_map(s.polys, s.ignore, s.image.size(), ratio(epoch), min_text_size_);
    s.shrink_map = t.map;
    s.shrink_mask = t.mask;
  }

 private:
  double min_text_size_ = 8;
};

class DetResizeForTest : public Transform {
 public:
  explicit DetResizeForTest(Reader& r) {
    std::vector<int> shape;
    std::string type = "min";
    r.field("image_shape", shape);
    r.field("keep_ratio", options_.keep_ratio);
    r.field("limit_side_len", options_.limit_side_len);
    r.field("limit_type", type);
    r.field("resize_long", options_.resize_long);
    r.field("max_side_limit", options_.max_side_limit);
    if (!shape.empty()) {
      if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] > 16384 || shape[1] > 16384)
        fail_at(r, "image_shape", "takes [height, width]");
      options_.kind = DetectionResizeKind::kImageShape;
      options_.image_height = shape[0];
      options_.image_width = shape[1];
    } else if (!r.known("limit_side_len") && r.known("resize_long")) {
      options_.kind = DetectionResizeKind::kResizeLong128;
    }
    const std::vector<std::string> types{"min", "max", "resize_long"};
    const auto it = std::find(types.begin(), types.end(), type);
    if (it == types.end()) fail_at(r, "limit_type", cat("is min, max or resize_long, not ", type));
    options_.limit_type = static_cast<LimitType>(it - types.begin());
    if (options_.limit_side_len < 1) fail_at(r, "limit_side_len", "takes a number above 0");
  }
  void apply(Sample& s, Random&, int) const override {
    const DetectionSize size = detection_size(s.image.rows, s.image.cols, options_);
    cv::Mat page = s.image;
    if (page.rows < size.padded_height || page.cols < size.padded_width)
      cv::copyMakeBorder(s.image, page, 0, size.padded_height - s.image.rows, 0,
                         size.padded_width - s.image.cols, cv::BORDER_CONSTANT);
    cv::Mat out;
    cv::resize(page, out, cv::Size(size.width, size.height), 0, 0, cv::INTER_LINEAR);
    s.image = out;
    s.ratio_h = size.ratio_h;
    s.ratio_w = size.ratio_w;
  }

 private:
  DetectionResizeOptions options_;
};

template <class T>
std::unique_ptr<Transform> build(Reader& r, const TransformSettings&) {
  return std::make_unique<T>(r);
}

}  // namespace

std::vector<TransformRow> detection_transforms() {
  return {{"CopyPaste", build<CopyPaste>},
          {"ColorJitter", build<ColorJitter>},
          {"IaaAugment", build<IaaAugment>},
          {"RandomPerspective", build<RandomPerspective>},
          {"EastRandomCropData", build<RandomCrop>},
          {"RandomCrop", build<RandomCrop>},
          {"MakeBorderMap", build<MakeBorderMap>},
          {"MakeShrinkMap", build<MakeShrinkMap>},
          {"DetResizeForTest", build<DetResizeForTest>}};
}

}  // namespace ocr
