// Transforms of recognition and classification configurations.
#include "libocr/data/recognition_augment.h"
#include "libocr/data/transform.h"
#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::config::Reader;

LineShape read_shape(Reader& r) {
  std::vector<int> shape;
  r.required("image_shape", shape);
  if (shape.size() != 3 || shape[0] != 3)
    fail_at(r, "image_shape", "takes [3, height, width]: colour pictures");
  if (shape[1] < 1 || shape[2] < 1 || shape[1] > 4096 || shape[2] > 1 << 17)
    fail_at(r, "image_shape", "takes a height up to 4096 and a width up to 131072");
  return {shape[1], shape[2]};
}

void read_probability(Reader& r, const char* key, double& p) {
  r.field(key, p);
  if (!(p >= 0 && p <= 1)) fail_at(r, key, "takes a number from 0 to 1");
}

BaseAugmentOptions read_base(Reader& r) {
  BaseAugmentOptions o;
  read_probability(r, "crop_prob", o.crop_prob);
  read_probability(r, "reverse_prob", o.reverse_prob);
  read_probability(r, "noise_prob", o.noise_prob);
  read_probability(r, "jitter_prob", o.jitter_prob);
  read_probability(r, "blur_prob", o.blur_prob);
  read_probability(r, "hsv_aug_prob", o.hsv_aug_prob);
  return o;
}

class BaseDataAugmentation : public Transform {
 public:
  explicit BaseDataAugmentation(Reader& r) : options_(read_base(r)) {}
  void apply(Sample& s, Random& random, int) const override {
    base_augment(s.image, options_, random);
  }

 private:
  BaseAugmentOptions options_;
};

class RecAug : public Transform {
 public:
  explicit RecAug(Reader& r) : options_(read_base(r)) {
    read_probability(r, "tia_prob", tia_prob_);
    bool use_tia = true;  // of versions before 2.5; upstream ignores it today
    r.field("use_tia", use_tia);
    if (!use_tia) tia_prob_ = 0;
  }
  void apply(Sample& s, Random& random, int) const override {
    if (random.chance(tia_prob_) && s.image.rows >= 20 && s.image.cols >= 20) {
      s.image = tia_distort(s.image, random.between(3, 6), random);
      s.image = tia_stretch(s.image, random.between(3, 6), random);
      s.image = tia_perspective(s.image, random);
    }
    base_augment(s.image, options_, random);
  }

 private:
  BaseAugmentOptions options_;
  double tia_prob_ = 0.4;
};

class RecConAug : public Transform {
 public:
  RecConAug(Reader& r, const TransformSettings& settings) {
    std::vector<int> shape{32, 320, 3};
    read_probability(r, "prob", prob_);
    r.field("image_shape", shape);
    r.field("max_text_length", max_text_length_);
    r.field("ext_data_num", extra_);
    if (shape.size() < 2 || shape[0] < 1 || shape[1] < 1)
      fail_at(r, "image_shape", "takes [height, width, 3]");
    if (extra_ < 0 || extra_ > 16) fail_at(r, "ext_data_num", "takes a number from 0 to 16");
    height_ = shape[0];
    widest_ = static_cast<double>(shape[1]) / shape[0];
    // As upstream, Global's length counts, wherever it is given; but never are lines joined to one
    // that the label encoder then refuses.
    max_text_length_ = settings.longest_text;
  }
  int extra_samples() const override { return extra_; }
  void apply(Sample& s, Random& random, int) const override {
    const bool now = random.chance(prob_);
    for (size_t i = 0; now && !s.label.empty() && i < s.extra.size(); ++i) {
      const Sample& other = s.extra[i];
      const size_t length = count_code_points(s.label) + count_code_points(other.label);
      const double ratio = static_cast<double>(s.image.cols) / s.image.rows +
                           static_cast<double>(other.image.cols) / other.image.rows;
      if (length > static_cast<size_t>(max_text_length_) || ratio > widest_) break;
      join_lines(s, other, height_);
    }
    s.extra.clear();
  }

 private:
  double prob_ = 0.5, widest_ = 10;
  int max_text_length_ = 25, extra_ = 1, height_ = 32;
};

class RandAugment : public Transform {
 public:
  explicit RandAugment(Reader& r) {
    read_probability(r, "prob", options_.prob);
    r.field("num_layers", options_.num_layers);
    r.field("magnitude", options_.magnitude);
    r.ignore("fillcolor", "has no effect here: the filling is grey (128)");
    if (options_.num_layers < 0 || options_.num_layers > 16)
      fail_at(r, "num_layers", "takes a number from 0 to 16");
    if (!(options_.magnitude >= 0 && options_.magnitude <= 10))
      fail_at(r, "magnitude", "takes a number from 0 to 10");
  }
  void apply(Sample& s, Random& random, int) const override {
    rand_augment(s.image, options_, random);
  }

 private:
  RandAugmentOptions options_;
};

class LineResize : public Transform {
 public:
  explicit LineResize(Reader& r) : shape_(read_shape(r)) {
    r.field("padding", padding_);
    for (const char* global : {"character_dict_path", "infer_mode"}) r.known(global);
    bool eval_mode = false;
    r.field("eval_mode", eval_mode);
    free_ = eval_mode;
  }
  void set_free() { free_ = true; }
  void apply(Sample& s, Random&, int) const override {
    if (free_)
      resize_line_freely(s, shape_);
    else
      resize_line(s, shape_, padding_);
  }

 private:
  LineShape shape_;
  bool padding_ = true, free_ = false;
};

template <class T>
std::unique_ptr<Transform> build(Reader& r, const TransformSettings&) {
  return std::make_unique<T>(r);
}

std::unique_ptr<Transform> build_con(Reader& r, const TransformSettings& s) {
  return std::make_unique<RecConAug>(r, s);
}

// In Global's infer_mode, with a dictionary, lines keep the width that they need.
std::unique_ptr<Transform> build_rec_resize(Reader& r, const TransformSettings& s) {
  auto t = std::make_unique<LineResize>(r);
  if (s.global.infer_mode && !s.global.character_dict_path.empty()) t->set_free();
  return t;
}

}  // namespace

std::vector<TransformRow> recognition_transforms() {
  return {{"RecConAug", build_con},
          {"RecAug", build<RecAug>},
          {"RecResizeImg", build_rec_resize},
          {"SVTRRecResizeImg", build<LineResize>},
          {"ClsResizeImg", build<LineResize>},
          {"BaseDataAugmentation", build<BaseDataAugmentation>},
          {"RandAugment", build<RandAugment>}};
}

}  // namespace ocr
