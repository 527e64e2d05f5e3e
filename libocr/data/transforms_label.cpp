// Labels to what a network learns: boxes, classes of characters, a class.
#include <algorithm>

#include "libocr/data/transform.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::config::Reader;

class DetLabelEncode : public Transform {
 public:
  void apply(Sample& s, Random&, int) const override {
    std::vector<TextBoxLabel> boxes;
    try {
      boxes = parse_detection_label(s.label);
    } catch (const train::FormatError& e) {
      throw SkippedSample(Skip::kBadLabel, s.file, s.line, e.what());
    }
    if (boxes.empty()) throw SkippedSample(Skip::kNoBoxes, s.file, s.line, "the page has no box");
    size_t points = 0;
    for (const TextBoxLabel& b : boxes) points = std::max(points, b.points.size());
    s.polys.clear();
    s.texts.clear();
    s.ignore.clear();
    for (TextBoxLabel& b : boxes) {
      s.ignore.push_back(b.ignore());
      s.texts.push_back(std::move(b.text));
      b.points.resize(points, b.points.back());
      // Upstream's points are single precision from here on.
      for (cv::Point2d& p : b.points) p = {static_cast<float>(p.x), static_cast<float>(p.y)};
      s.polys.push_back(std::move(b.points));
    }
  }
};

// CTCLabelEncode, NRTRLabelEncode, SARLabelEncode and MultiLabelEncode, which joins two of them.
class TextLabel : public Transform {
 public:
  TextLabel(Reader& r, const TransformSettings& settings, bool ctc, GuideHead guide)
      : encoder_(settings.encoder), ctc_(ctc), guide_(guide) {
    if (!encoder_) r.node().fail("this label encoder needs Global.character_dict_path");
    for (const char* global : {"max_text_length", "character_dict_path", "use_space_char"})
      r.known(global);  // Global's count
    r.ignore("lower", "has no effect here: case is folded where no dictionary is given");
  }
  void apply(Sample& s, Random&, int) const override {
    EncodedText text = encoder_->encode(s.label, s.file, s.line);
    s.length = static_cast<int64_t>(text.ids.size());
    s.steps_needed = ctc_steps_needed(text.ids);
    if (guide_ != GuideHead::kNone) s.guide_ids = encoder_->guide(text, guide_, s.file, s.line);
    s.ids = ctc_ ? encoder_->ctc(text) : s.guide_ids;
    s.unknown = std::move(text.unknown);
  }

 private:
  std::shared_ptr<const TextEncoder> encoder_;
  bool ctc_;
  GuideHead guide_;
};

class ClsLabelEncode : public Transform {
 public:
  explicit ClsLabelEncode(Reader& r, const TransformSettings& settings)
      : classes_(settings.global.label_list) {
    r.field("label_list", classes_);
    if (classes_.empty()) r.node().fail("ClsLabelEncode needs Global.label_list");
  }
  void apply(Sample& s, Random&, int) const override {
    const int c = class_of(s.label, classes_);
    if (c < 0)
      throw SkippedSample(Skip::kBadLabel, s.file, s.line,
                          cat("'", s.label, "' is not in label_list"));
    s.ids = {c};
  }

 private:
  std::vector<std::string> classes_;
};

std::unique_ptr<Transform> build_det(Reader&, const TransformSettings&) {
  return std::make_unique<DetLabelEncode>();
}
std::unique_ptr<Transform> build_ctc(Reader& r, const TransformSettings& s) {
  return std::make_unique<TextLabel>(r, s, true, GuideHead::kNone);
}
std::unique_ptr<Transform> build_nrtr(Reader& r, const TransformSettings& s) {
  return std::make_unique<TextLabel>(r, s, false, GuideHead::kNrtr);
}
std::unique_ptr<Transform> build_sar(Reader& r, const TransformSettings& s) {
  return std::make_unique<TextLabel>(r, s, false, GuideHead::kSar);
}
std::unique_ptr<Transform> build_multi(Reader& r, const TransformSettings& s) {
  std::string guide = "SARLabelEncode";
  r.field("gtc_encode", guide);
  if (guide != "SARLabelEncode" && guide != "NRTRLabelEncode")
    fail_at(r, "gtc_encode", cat("is NRTRLabelEncode or SARLabelEncode, not ", guide));
  return std::make_unique<TextLabel>(
      r, s, true, guide == "NRTRLabelEncode" ? GuideHead::kNrtr : GuideHead::kSar);
}
std::unique_ptr<Transform> build_cls(Reader& r, const TransformSettings& s) {
  return std::make_unique<ClsLabelEncode>(r, s);
}

}  // namespace

std::vector<TransformRow> label_transforms() {
  return {{"DetLabelEncode", build_det},     {"CTCLabelEncode", build_ctc},
          {"NRTRLabelEncode", build_nrtr},   {"SARLabelEncode", build_sar},
          {"MultiLabelEncode", build_multi}, {"ClsLabelEncode", build_cls}};
}

}  // namespace ocr
