// What the tests of OCR data share: PaddleOCR's results, and the pictures that they were made from.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <string>

namespace ocr::test {

inline nlohmann::json fixture(const std::string& name) {
  std::ifstream in(std::string(OCR_TEST_DATA) + "/ocr_data/" + name);
  return nlohmann::json::parse(in);
}

/// The picture of scripts/fixtures/make_ocr_data.py.
inline cv::Mat picture(int height, int width, int seed) {
  cv::Mat m(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        m.ptr<uint8_t>(y)[3 * x + c] = static_cast<uint8_t>(
            (x * 7 + y * 13 + c * 29 + ((x * y) ^ (x >> 2)) * 5 + seed * 31) & 255);
  return m;
}

}  // namespace ocr::test
