// Fuzzer: any probability map gives boxes inside the page, which can be merged, ordered, cut out
// and decoded.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "libocr/geometry/crop.h"
#include "libocr/postprocess/ctc.h"
#include "libocr/postprocess/db.h"
#include "libocr/postprocess/reading_order.h"
#include "libocr/postprocess/tiles.h"
#include "libtrain/core/error.h"

namespace {

// Two pages side by side of what was found, as if it came from two tiles.
void use(const std::vector<ocr::Detection>& found, int width, int height) {
  std::vector<ocr::Polygon> boxes;
  const cv::Mat page(height, width, CV_8UC3, cv::Scalar(1, 2, 3));
  for (const ocr::Detection& d : found) {
    for (ocr::Point2f p : d.points) {
      const bool inside = p.x >= 0 && p.y >= 0 && p.x < static_cast<float>(width) &&
                          p.y < static_cast<float>(height);
      if (!inside) std::abort();
    }
    boxes.push_back(d.points);
    const ocr::CropShape shape = ocr::crop_shape(d.points);
    const cv::Mat crop = ocr::cut_crop(page, shape);
    if (crop.cols != shape.out_width() || crop.rows != shape.out_height()) std::abort();
  }
  std::vector<int> order = ocr::reading_order(boxes);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (order[i] != static_cast<int>(i)) std::abort();
  }
  const std::vector<ocr::Tile> tiles = {{0, 0, width, height, found},
                                        {width / 2, 0, width, height, found}};
  ocr::merge_tiles(tiles, width + width / 2, height);
}

void decode(const uint8_t* data, size_t size) {
  static const ocr::Dictionary dictionary =
      ocr::Dictionary::from_list({"a", "中", "", "b"}, ocr::SpaceClass::kAppend, "fuzz");
  std::vector<ocr::CtcStep> steps;
  for (size_t i = 0; i < std::min<size_t>(size, 500); ++i) {
    steps.push_back({data[i] % 7, static_cast<float>(data[i]) / 255.0f,
                     static_cast<float>(data[size - 1 - i]) / 255.0f});
  }
  try {
    const ocr::CtcLine line = ocr::ctc_decode(steps, dictionary, {true, 0.1f, 1.6f});
    const ocr::Quad quad{{{3, 4}, {90, 6}, {88, 30}, {2, 28}}};
    const ocr::StepScale scale{line.steps, 320, 200, 87};
    ocr::word_boxes(line, scale, 24, ocr::CropMapper(ocr::crop_shape(quad)));
  } catch (const train::Error&) {  // class 6 is not in the dictionary
  }
}

}  // namespace

// data: width, height, options, page scale, then the map's pixels, repeated to fill it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 5) return 0;
  const int width = 1 + data[0] % 96, height = 1 + data[1] % 96;
  ocr::DbOptions options;
  options.box_type = data[2] & 1 ? ocr::BoxType::kPoly : ocr::BoxType::kQuad;
  options.score_mode = data[2] & 2 ? ocr::ScoreMode::kSlow : ocr::ScoreMode::kFast;
  options.use_dilation = data[2] & 4;
  options.corner_order = data[2] & 8 ? ocr::CornerOrder::kSortX : ocr::CornerOrder::kSumDiff;
  options.unclip_ratio = (data[2] >> 4) / 4.0;
  options.box_thresh = 0.3;
  const int src_width = 1 + width * data[3] / 60, src_height = 1 + height * data[3] / 60;
  std::vector<float> map(static_cast<size_t>(width * height));
  for (size_t i = 0; i < map.size(); ++i) {
    const uint8_t v = data[4 + i % (size - 4)];
    map[i] = v == 255 ? NAN : static_cast<float>(v) / 200.0f;
  }
  use(ocr::db_postprocess(map.data(), width, height, width, src_height, src_width, options),
      src_width, src_height);
  decode(data + 4, size - 4);
  return 0;
}
