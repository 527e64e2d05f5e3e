// 2-D convolution, channels-last f32, weights packed once, any image size at run time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "libtrain/cpu/activation.h"

namespace train::cpu {

/// Attributes of a convolution; pads are top, left, bottom, right, in pixels.
struct ConvDesc {
  int64_t cin = 0, cout = 0, groups = 1;
  int kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1;
  int pt = 0, pl = 0, pb = 0, pr = 0;
  Epilogue epilogue;
  Precision precision = Precision::kF32;  // a depthwise convolution is f32 whatever this says
};

/// An immutable, thread-safe convolution. Every output element is one chain of multiply-adds in a
/// fixed order, so its bits do not depend on the batch, the thread count or the elements beside it.
class Conv {
 public:
  /// `weights`: [cout, cin / groups, kh, kw]; `bias`: [cout] or null. Throws ShapeError on
  /// impossible attributes, Error for bf16 where has_bf16() is false.
  static std::unique_ptr<Conv> create(const ConvDesc& desc, const float* weights,
                                      const float* bias);
  virtual ~Conv() = default;

  const ConvDesc& desc() const { return desc_; }
  /// Output size for an input of h (w) pixels; <= 0 when the kernel does not fit.
  int64_t out_h(int64_t h) const;
  int64_t out_w(int64_t w) const;
  /// Bytes run() needs at `workspace` (64-byte aligned) with at most `threads` threads.
  virtual size_t workspace_bytes(int64_t n, int64_t h, int64_t w, int threads) const = 0;
  virtual size_t packed_bytes() const = 0;
  /// x: [n, h, w, cin] with pixel stride ldx >= cin; y: [n, out_h, out_w, cout] with pixel stride
  /// ldy >= cout, whose floats beyond cout are not touched; res: like y with pixel stride ldr, or
  /// null. y must not overlap x; y == res is allowed.
  virtual void run(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y,
                   int64_t ldy, const float* res, int64_t ldr, void* workspace) const = 0;

 protected:
  explicit Conv(const ConvDesc& desc) : desc_(desc) {}
  ConvDesc desc_;
};

}  // namespace train::cpu
