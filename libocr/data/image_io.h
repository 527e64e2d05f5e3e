// Pictures of samples: read, decoded as `ocr infer` decodes them, encoded.
#pragma once
#include <opencv2/core.hpp>
#include <string>

#include "libocr/data/sample.h"

namespace ocr {

/// Reads a file whole. Throws SkippedSample(kImageMissing or kImageUnreadable).
std::string read_image_bytes(const std::string& path, const std::string& file = "", long line = 0);

/// Decodes sample.encoded to 8UC3 BGR; the orientation in the file counts unless `orient` is off.
/// Throws SkippedSample(kImageUnreadable).
cv::Mat decode_sample(const Sample& sample, bool orient);

void swap_red_and_blue(cv::Mat& image);

/// Writes 8UC3 BGR as PNG or JPEG, by the ending of the path.
void write_picture(const std::string& path, const cv::Mat& image, int jpeg_quality = 92);

}  // namespace ocr
