// Decoding, normalisation and the choice of fields.
#include <algorithm>

#include "libocr/data/image_io.h"
#include "libocr/data/transform.h"

namespace ocr {
namespace {

using train::cat;
using train::config::Reader;

class DecodeImage : public Transform {
 public:
  explicit DecodeImage(Reader& r) {
    std::string mode = "RGB";
    bool channel_first = false;
    r.field("img_mode", mode);
    r.field("channel_first", channel_first);
    r.field("ignore_orientation", ignore_orientation_);
    if (mode != "BGR" && mode != "RGB") fail_at(r, "img_mode", cat("is BGR or RGB, not ", mode));
    if (channel_first) fail_at(r, "channel_first", "must be false: pictures are kept by pixel");
    rgb_ = mode == "RGB";
  }
  void apply(Sample& s, Random&, int) const override {
    s.image = decode_sample(s, !ignore_orientation_);
    if (rgb_) swap_red_and_blue(s.image);
    s.source_height = s.image.rows;
    s.source_width = s.image.cols;
    s.encoded = {};
  }

 private:
  bool rgb_ = true, ignore_orientation_ = false;
};

// (v * scale - mean) / std in single precision, as upstream's arrays have it; 256 values a channel.
class NormalizeImage : public Transform {
 public:
  explicit NormalizeImage(Reader& r) {
    double scale = 1.0 / 255;
    std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};
    std::string order = "chw";
    r.field("scale", scale);
    r.field("mean", mean);
    r.field("std", std);
    r.field("order", order);
    if (mean.size() != 3) fail_at(r, "mean", "takes 3 numbers");
    if (std.size() != 3 || std::count(std.begin(), std.end(), 0.0))
      fail_at(r, "std", "takes 3 numbers other than 0");
    for (size_t c = 0; c < 3; ++c)
      for (size_t v = 0; v < 256; ++v)
        table_[c][v] =
            (static_cast<float>(v) * static_cast<float>(scale) - static_cast<float>(mean[c])) /
            static_cast<float>(std[c]);
  }
  void apply(Sample& s, Random&, int) const override {
    if (s.image.type() != CV_8UC3)
      throw train::ShapeError("NormalizeImage takes a decoded picture that is not normalised yet");
    cv::Mat out(s.image.rows, s.image.cols, CV_32FC3);
    for (int y = 0; y < out.rows; ++y) {
      const uint8_t* in = s.image.ptr<uint8_t>(y);
      float* row = out.ptr<float>(y);
      for (int x = 0; x < 3 * out.cols; x += 3)
        for (int c = 0; c < 3; ++c) row[x + c] = table_[static_cast<size_t>(c)][in[x + c]];
    }
    s.image = out;
  }

 private:
  std::array<std::array<float, 256>, 3> table_;
};

// Pictures stay interleaved here; the tensor that leaves has channels first.
class ToChw : public Transform {
 public:
  void apply(Sample&, Random&, int) const override {}
};

class KeepKeys : public Transform {
 public:
  explicit KeepKeys(Reader& r) {
    std::vector<std::string> keys;
    r.required("keep_keys", keys);
    for (const std::string& k : keys)
      if (!is_sample_key(k))
        fail_at(r, "keep_keys",
                cat("names '", k, "', which no transform makes",
                    train::config::did_you_mean(k, sample_keys())));
  }
  void apply(Sample&, Random&, int) const override {}  // the dataset takes the fields
};

template <class T>
std::unique_ptr<Transform> build(Reader& r, const TransformSettings&) {
  if constexpr (std::is_constructible_v<T, Reader&>)
    return std::make_unique<T>(r);
  else
    return std::make_unique<T>();
}

}  // namespace

std::vector<TransformRow> common_transforms() {
  return {{"DecodeImage", build<DecodeImage>},
          {"NormalizeImage", build<NormalizeImage>},
          {"ToCHWImage", build<ToChw>},
          {"KeepKeys", build<KeepKeys>}};
}

}  // namespace ocr
