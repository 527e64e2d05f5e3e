// How crops enter the recogniser and the classifiers: sizes, padding, normalisation.
#pragma once
#include <cstdint>
#include <opencv2/core.hpp>

namespace ocr {

struct RecognitionResizeOptions {
  int height = 48;
  int min_width = 160;   // 320 in parity presets
  int max_width = 0;     // wider lines are squashed to it; 0: never (PaddleX: 3200)
  bool stretch = false;  // every line fills max_width: its proportions are not kept
  int multiple = 1;      // width of the tensor rounded up to it, e.g. 8 = one time step

  static RecognitionResizeOptions parity();   // 320: what upstream computes at batch 1
  static RecognitionResizeOptions paddlex();  // 320..3200
};

struct RecognitionSize {
  int width = 0;       // of the network's input
  int text_width = 0;  // columns that hold the resized crop; zeros follow
};

/// The width depends on the crop alone, never on a batch: max(min_width, int(height * w / h)), the
/// crop itself takes ceil(height * w / h) of it. Throws train::ShapeError when a side is not
/// positive or the line would have more than 2^17 columns.
RecognitionSize recognition_size(int crop_width, int crop_height,
                                 const RecognitionResizeOptions& options);

/// Writes a crop (8UC3) as [height, size.width, 3] with pixel stride `ld` >= 3: bilinear resize,
/// (v / 255 - 0.5) / 0.5, then zero padding on the right (zero after normalisation: mid-grey).
/// Channels beyond 3 are set to 0.
void write_recognition_input(const cv::Mat& crop, const RecognitionSize& size, int height,
                             float* out, int64_t ld);

/// What a classifier sees of an image.
struct ClassifierInput {
  enum class Kind {
    kPadded,   // aspect kept, zeros on the right, mean = std = 0.5, BGR
    kResized,  // plain resize, ImageNet's numbers in RGB
    kCentre,   // short side 256, the centre of it, ImageNet's numbers in RGB
  };
  Kind kind = Kind::kPadded;
  int height = 48, width = 192;

  /// PaddleOCR's ClsResizeImg (ppocr_mobile_v2.0_cls: 48 x 192).
  static ClassifierInput padded(int height = 48, int width = 192) {
    return {Kind::kPadded, height, width};
  }
  /// PP-LCNet textline_ori.
  static ClassifierInput textline_pplcnet() { return {Kind::kResized, 80, 160}; }
  /// PP-LCNet doc_ori.
  static ClassifierInput doc_orientation() { return {Kind::kCentre, 224, 224}; }
};
/// Writes an image (8UC3) as [height, width, 3] of `input`, pixel stride `ld` >= 3.
void write_classifier_input(const cv::Mat& image, const ClassifierInput& input, float* out,
                            int64_t ld);

}  // namespace ocr
