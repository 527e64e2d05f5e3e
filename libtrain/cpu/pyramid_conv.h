// The sum of convolutions over feature maps of several sizes, each enlarged by a whole factor:
// what a feature pyramid computes, without ever enlarging a map.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libtrain/cpu/activation.h"

namespace train::cpu {

constexpr size_t kMaxPyramidSources = 8;

/// One term conv(up(factor, gate * (lateral x)), weights).
struct PyramidSource {
  int factor = 1;                  // of nearest-neighbour enlargement, both axes
  int64_t channels = 0;            // of x
  int64_t mid = 0;                 // of what the weights read; == channels without `lateral`
  const float* weights = nullptr;  // [cout, mid, k, k]; null with k == 1: the identity
  const float* lateral = nullptr;  // [mid, channels]: a 1x1 convolution without bias, or null
  bool gated = false;              // a factor per image and mid channel comes with run()
};

struct PyramidDesc {
  int64_t cout = 0;
  int k = 3;  // odd; stride 1, k / 2 pixels of padding
  Activation act;
};

/// y = act(bias + sum over the sources). A k x k kernel over a map enlarged by f is f * f small
/// kernels over the map itself, most of them equal: 9 taps per output become 4, 1.6 and 0.4 for
/// f = 2, 4 and 8, zero padding included. Lateral convolutions and gates are linear, so they
/// compose with the kernel: weights of gated sources are made per image. Immutable, thread-safe;
/// bits do not depend on batch or threads.
class PyramidConv {
 public:
  struct Input {
    const float* x;  // [n, h / factor, w / factor, channels], pixel stride ldx
    int64_t ldx;
    const float* gate;  // [n, mid], or null
  };

  /// Throws ShapeError on impossible attributes; at least one source must have factor 1.
  PyramidConv(const PyramidDesc& desc, const std::vector<PyramidSource>& sources,
              const float* bias);
  ~PyramidConv();

  size_t workspace_bytes(int64_t h, int64_t w, int threads) const;
  size_t packed_bytes() const;
  /// y: [n, h, w, cout], pixel stride ldy; h and w are multiples of every factor.
  void run(const Input* inputs, int64_t n, int64_t h, int64_t w, float* y, int64_t ldy,
           void* workspace) const;

  /// Multiply-adds per output pixel and output channel of a source.
  static double taps(int k, int factor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace train::cpu
