// Resizing of feature maps, channels-last f32, in ONNX's coordinate conventions.
#pragma once
#include <cstddef>
#include <cstdint>

namespace train::cpu {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class ResizeCoord : uint8_t {
  kHalfPixel,
  kAsymmetric,
  kAlignCorners,
  kPytorchHalfPixel,
  kHalfPixelSymmetric
};
enum class NearestMode : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct ResizeDesc {
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoord coord = ResizeCoord::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  float cubic_a = -.75f;
  bool exclude_outside = false;  // cubic: drop taps outside the image and renormalise
  /// Output / input as the model states it (its `scales`); 0 = the quotient of the sizes.
  double scale_h = 0, scale_w = 0;
};

/// Input samples behind one output sample of an axis.
int resize_taps(ResizeMode mode);
/// index[o * taps + t], weight[o * taps + t]: which inputs of an axis of `in` samples make output o
/// < out, and how much of each (nearest leaves the weights alone: they are 1). `scale` as in
/// ResizeDesc.
void resize_tables(const ResizeDesc& desc, int64_t in, int64_t out, double scale, int32_t* index,
                   float* weight);

size_t resize_workspace_bytes(const ResizeDesc& desc, int64_t oh, int64_t ow);
/// x: [n, h, w, c], pixel stride ldx -> y: [n, oh, ow, c], pixel stride ldy, plus `res` (like y,
/// pixel stride ldr) unless null: the upsample-and-add of a feature pyramid in one pass. y == res
/// is allowed.
void resize(const ResizeDesc& desc, const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w,
            int64_t c, float* y, int64_t ldy, int64_t oh, int64_t ow, const float* res, int64_t ldr,
            void* workspace);

}  // namespace train::cpu
