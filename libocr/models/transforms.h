// What may stand before a recogniser's backbone: networks that straighten the line first.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "libocr/models/layers.h"

namespace ocr::models {

/// SVTR's rectification (PaddleOCR's STN_ON): a small net finds control points along the upper and
/// the lower edge of the text, and the image is read along the thin-plate spline through them (Shi
/// et al. 2016; Jaderberg et al. 2015). Images [N, 3, H, W] of any size become [N, 3,
/// tps_outputsize].
struct StnOptions {
  std::vector<int> tps_inputsize;   // [height, width] that the small net sees: 32, 64
  std::vector<int> tps_outputsize;  // [height, width] of the result
  int num_control_points = 20;      // half above, half below
  std::vector<double> tps_margins;  // [x, y] of the points' places in the result, as parts of it
  std::string stn_activation = "none";  // or "sigmoid", of the points
  template <class V>
  void describe(V& v) {
    v.field("tps_inputsize", tps_inputsize);
    v.field("tps_outputsize", tps_outputsize);
    v.field("num_control_points", num_control_points);
    v.field("tps_margins", tps_margins);
    v.field("stn_activation", stn_activation);
  }
};
/// Throws Error naming the key for sizes that the net cannot have.
std::unique_ptr<Layer> make_stn(const StnOptions& options);

}  // namespace ocr::models
