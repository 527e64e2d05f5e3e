#include "libocr/postprocess/recognition_resize.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "libocr/postprocess/network_input.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr double kMaxColumns = 1 << 17;
constexpr int kDocShortSide = 256, kDocSide = 224;

// Resized crop on the left, zeros on the right.
void write_padded(const cv::Mat& crop, int height, int width, int text_width, float* out,
                  int64_t ld) {
  const int64_t row_stride = width * ld;
  write_resized(crop, height, text_width, Normalizer::half(), out, row_stride, ld);
  for (int y = 0; y < height; ++y) {
    float* row = out + y * row_stride;
    std::fill(row + text_width * ld, row + row_stride, 0.0f);
  }
}

// Short side to 256, then the centre square. Of a very long image only the middle is resized.
void write_centre(const cv::Mat& image, float* out, int64_t ld) {
  const int shorter = std::min(image.rows, image.cols);
  const int reach = 16 * shorter;  // far more than the square needs
  const int w = std::min(image.cols, reach), h = std::min(image.rows, reach);
  const cv::Mat middle = image(cv::Rect((image.cols - w) / 2, (image.rows - h) / 2, w, h));
  const double scale = static_cast<double>(kDocShortSide) / shorter;
  cv::Mat resized;
  cv::resize(middle, resized,
             cv::Size(std::max(kDocSide, static_cast<int>(std::nearbyint(w * scale))),
                      std::max(kDocSide, static_cast<int>(std::nearbyint(h * scale)))),
             0, 0, cv::INTER_LINEAR);
  const cv::Rect square((resized.cols - kDocSide) / 2, (resized.rows - kDocSide) / 2, kDocSide,
                        kDocSide);
  write_resized(resized(square), kDocSide, kDocSide, Normalizer::imagenet_rgb(), out, kDocSide * ld,
                ld);
}

}  // namespace

RecognitionResizeOptions RecognitionResizeOptions::parity() {
  RecognitionResizeOptions o;
  o.min_width = 320;
  return o;
}

RecognitionResizeOptions RecognitionResizeOptions::paddlex() {
  RecognitionResizeOptions o = parity();
  o.max_width = 3200;
  return o;
}

RecognitionSize recognition_size(int crop_width, int crop_height,
                                 const RecognitionResizeOptions& o) {
  if (crop_width <= 0 || crop_height <= 0 || o.height <= 0) {
    throw train::ShapeError(
        train::cat("a text line of ", crop_width, " x ", crop_height, " pixels cannot be read"));
  }
  // The operations and their order are upstream's: int() of the last product decides.
  if (o.stretch) return {o.max_width, o.max_width};
  const double ratio = crop_width * 1.0 / crop_height;
  const double widest = std::max(static_cast<double>(o.min_width) / o.height, ratio);
  double columns = std::max<double>(std::trunc(o.height * widest), o.min_width);
  if (o.max_width > 0) columns = std::min(columns, static_cast<double>(o.max_width));
  if (columns > kMaxColumns) {
    throw train::ShapeError(train::cat("a text line of ", crop_width, " x ", crop_height,
                                       " pixels is too long to be read at once"));
  }
  RecognitionSize size;
  size.width = std::max(1, static_cast<int>(columns));
  size.text_width = std::max(
      1, static_cast<int>(std::min(std::ceil(o.height * ratio), static_cast<double>(size.width))));
  const int multiple = std::max(1, o.multiple);
  size.width = (size.width + multiple - 1) / multiple * multiple;
  return size;
}

void write_recognition_input(const cv::Mat& crop, const RecognitionSize& size, int height,
                             float* out, int64_t ld) {
  write_padded(crop, height, size.width, size.text_width, out, ld);
}

void write_classifier_input(const cv::Mat& image, const ClassifierInput& input, float* out,
                            int64_t ld) {
  if (image.empty() || image.type() != CV_8UC3) {
    throw train::ShapeError("a classifier's input is made from a non-empty 8-bit BGR image");
  }
  switch (input.kind) {
    case ClassifierInput::Kind::kPadded: {
      const double columns =
          std::ceil(input.height * (image.cols / static_cast<double>(image.rows)));
      const int text_width =
          std::max(1, static_cast<int>(std::min(columns, static_cast<double>(input.width))));
      write_padded(image, input.height, input.width, text_width, out, ld);
      return;
    }
    case ClassifierInput::Kind::kResized:
      write_resized(image, input.height, input.width, Normalizer::imagenet_rgb(), out,
                    input.width * ld, ld);
      return;
    case ClassifierInput::Kind::kCentre:
      write_centre(image, out, ld);
      return;
  }
}

}  // namespace ocr
