// Writes what the stages of the pipeline made, as .npy and text files, to compare with other
// programs.
#pragma once
#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "libocr/postprocess/db.h"

namespace ocr {

/// Files are FOLDER/NAME.STAGE.npy: `decode` and `resize` u8 [h, w, 3], `map` f32 [h, w], `crop0`
/// u8, `logits0` f32 [steps, classes], and FOLDER/NAME.boxes.txt. Numbers count the boxes in the
/// order of detection. Throws train::DataError when a file cannot be written.
class StageDump {
 public:
  StageDump(std::string folder, std::string name);
  void image(const std::string& stage, const cv::Mat& image) const;
  void floats(const std::string& stage, const float* data, std::vector<int64_t> shape) const;
  void boxes(const std::vector<Detection>& boxes) const;

 private:
  void write(const std::string& stage, const char* type, const void* data, size_t bytes,
             const std::vector<int64_t>& shape) const;
  std::string prefix_;
};

}  // namespace ocr
