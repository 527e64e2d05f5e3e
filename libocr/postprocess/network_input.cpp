#include "libocr/postprocess/network_input.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr std::array<double, 3> kImagenetMean = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kImagenetStd = {0.229, 0.224, 0.225};

void check_image(const cv::Mat& image) {
  if (image.empty() || image.type() != CV_8UC3) {
    throw train::ShapeError("a network's input is made from a non-empty 8-bit BGR image");
  }
}

}  // namespace

Normalizer::Normalizer(const std::array<double, 3>& mean, const std::array<double, 3>& std,
                       bool rgb)
    : rgb_(rgb) {
  for (size_t in = 0; in < 3; ++in) {
    const size_t out = rgb ? 2 - in : in;
    for (size_t v = 0; v < 256; ++v) {
      const double scaled = static_cast<float>(v) * static_cast<float>(1.0 / 255.0);
      table_[in][v] = static_cast<float>((scaled - mean[out]) / std[out]);
    }
  }
}

const Normalizer& Normalizer::half() {
  static const Normalizer n({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5});
  return n;
}
const Normalizer& Normalizer::imagenet() {
  static const Normalizer n(kImagenetMean, kImagenetStd);
  return n;
}
const Normalizer& Normalizer::imagenet_rgb() {
  static const Normalizer n(kImagenetMean, kImagenetStd, true);
  return n;
}

void Normalizer::write_row(const uint8_t* bgr, int64_t pixels, float* out, int64_t ld) const {
  const float* __restrict first = table_[rgb_ ? 2 : 0].data();
  const float* __restrict second = table_[1].data();
  const float* __restrict third = table_[rgb_ ? 0 : 2].data();
  const int64_t first_byte = rgb_ ? 2 : 0, third_byte = rgb_ ? 0 : 2;
  const auto write = [&](float* __restrict to, int64_t stride) {
    for (int64_t i = 0; i < pixels; ++i) {
      const uint8_t* __restrict from = bgr + 3 * i;
      to[0] = first[from[first_byte]];
      to[1] = second[from[1]];
      to[2] = third[from[third_byte]];
      for (int64_t c = 3; c < stride; ++c) to[c] = 0;
      to += stride;
    }
  };
  // Constant strides let the compiler drop or unroll the loop over the padding.
  if (ld == 3) {
    write(out, 3);
  } else if (ld == 4) {
    write(out, 4);
  } else if (ld == 8) {
    write(out, 8);
  } else {
    write(out, ld);
  }
}

void write_resized(const cv::Mat& image, int height, int width, const Normalizer& normalizer,
                   float* out, int64_t row_stride, int64_t ld) {
  check_image(image);
  cv::Mat resized;
  if (image.rows == height && image.cols == width) {
    resized = image;
  } else {
    cv::resize(image, resized, cv::Size(width, height), 0, 0, cv::INTER_LINEAR);
  }
  for (int y = 0; y < height; ++y) {
    normalizer.write_row(resized.ptr<uint8_t>(y), width, out + y * row_stride, ld);
  }
}

void write_detection_input(const cv::Mat& page, const DetectionSize& size,
                           const Normalizer& normalizer, float* out, int64_t ld) {
  check_image(page);
  cv::Mat padded = page;
  if (page.rows < size.padded_height || page.cols < size.padded_width) {
    cv::copyMakeBorder(page, padded, 0, std::max(0, size.padded_height - page.rows), 0,
                       std::max(0, size.padded_width - page.cols), cv::BORDER_CONSTANT);
  }
  write_resized(padded, size.height, size.width, normalizer, out, size.width * ld, ld);
}

cv::Mat rapidocr_copy(const cv::Mat& page, const RapidPage& prepared) {
  check_image(page);
  cv::Mat out = page;
  if (page.rows != prepared.height || page.cols != prepared.width) {
    cv::resize(page, out, cv::Size(prepared.width, prepared.height), 0, 0, cv::INTER_LINEAR);
  }
  if (prepared.pad > 0) {
    cv::copyMakeBorder(out, out, prepared.pad, prepared.pad, 0, 0, cv::BORDER_CONSTANT);
  }
  return out;
}

}  // namespace ocr
