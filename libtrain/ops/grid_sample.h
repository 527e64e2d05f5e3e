// GridSample: an image read, bilinearly, at places that a second input names.
#pragma once
#include <cmath>

#include "libtrain/ops/op.h"

namespace train {

/// What a place outside the image reads: nothing, or the pixel at the border next to it.
enum class SamplePadding : uint8_t { kZeros, kBorder };

struct GridSampleOptions {
  SamplePadding padding = SamplePadding::kZeros;
  /// Whether -1 and 1 are the centres of the outermost pixels, or their outer edges.
  bool align_corners = true;
  bool operator==(const GridSampleOptions&) const = default;
};

/// Spatial transformers' sampling (Jaderberg et al. 2015). Inputs: x f32 [N, C, H, W], grid f32
/// [N, OH, OW, 2] of places (x, y), -1 to 1 across the image. Output [N, C, OH, OW]. A place that
/// is no number reads as one outside the image.
class GridSampleOp final : public Op {
 public:
  explicit GridSampleOp(const GridSampleOptions& options = {}) : options(options) {}
  std::string_view type() const override { return "GridSample"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return true; }
  bool strided_input() const override { return true; }
  bool by_image(Infos inputs) const override { return shares_constants(inputs); }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  GridSampleOptions options;
};

/// The two pixels next to a place along one axis: low and low + 1, with their weights. Those
/// outside the image are marked, and count as 0.
struct SampleAxis {
  int64_t low = 0;
  float weight[2] = {0, 0};
  bool inside[2] = {false, false};
  float slope = 0;  // pixels per unit of the grid; 0 where the border is read whatever the place

  SampleAxis(float place, int64_t size, const GridSampleOptions& o) {
    const auto n = static_cast<float>(size);
    slope = .5f * (o.align_corners ? n - 1 : n);
    float at = (place + 1) * slope - (o.align_corners ? 0.f : .5f);
    if (o.padding == SamplePadding::kBorder) {
      if (!(at > 0 && at < n - 1)) {
        at = at > 0 ? n - 1 : 0;
        slope = 0;
      }
    } else if (!(at > -1 && at < n)) {
      return;
    }
    const float down = std::floor(at);
    low = static_cast<int64_t>(down);
    weight[1] = at - down;
    weight[0] = 1 - weight[1];
    inside[0] = low >= 0;
    inside[1] = low + 1 < size;
  }
};

}  // namespace train
