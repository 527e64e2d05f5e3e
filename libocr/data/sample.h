// What the transforms pass on: a picture, its label, and the targets made of them.
#pragma once
#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <utility>
#include <vector>

#include "libocr/data/detection_label.h"
#include "libtrain/core/tensor.h"

namespace ocr {

struct Sample {
  std::string image_name;  // path, or the key in an LMDB set
  std::string file;        // label file and line, for messages
  long line = 0;
  std::string encoded;  // the image file's bytes, until they are decoded
  std::string label;    // as written

  cv::Mat image;  // 8UC3 BGR; 32FC3 once normalised
  int source_height = 0, source_width = 0;
  double ratio_h = 1, ratio_w = 1;  // of a resize for evaluation

  // Detection.
  std::vector<PolygonD> polys;  // all with the same number of points
  std::vector<std::string> texts;
  std::vector<uint8_t> ignore;
  cv::Mat shrink_map, shrink_mask, threshold_map, threshold_mask;  // 32F [height, width]

  // Recognition and classification.
  std::vector<int64_t> ids;        // padded; a classifier's class is ids[0]
  std::vector<int64_t> guide_ids;  // of the attention head
  int64_t length = 0;
  int64_t steps_needed = 0;          // by CTC
  std::vector<std::string> unknown;  // characters that the dictionary does not have
  float valid_ratio = 1;

  std::vector<Sample> extra;  // others that an augmentation mixes in
};

/// The tensor of a key: image [3, H, W], maps [H, W], ids [n] i64, length [1] i64, valid_ratio [1],
/// shape [4] (height, width, ratios), polys [n, points, 2], ignore_tags [n] bool. Throws
/// train::ShapeError for a key that this sample has not.
train::Tensor field_of(const Sample& sample, const std::string& key);
/// Whether field_of knows the key.
bool is_sample_key(const std::string& key);
/// All keys that it knows.
std::vector<std::string> sample_keys();

}  // namespace ocr
