// Seeded random shapes and values for tests: a failing case is told by its seed alone.
#pragma once
#include <string_view>
#include <vector>

#include "libtrain/core/philox.h"
#include "libtrain/core/tensor.h"
#include "tests/support/reference.h"

namespace train {

class Draw {
 public:
  Draw(uint64_t seed, std::string_view name) : random_(seed, stream_of(name)) {}

  /// Uniform in [lo, hi].
  int64_t in(int64_t lo, int64_t hi) {
    return lo + random_.below(next_++, static_cast<uint32_t>(hi - lo + 1));
  }
  bool chance(int one_in) { return in(1, one_in) == 1; }
  /// Uniform in [-scale, scale], exactly representable in f32.
  std::vector<double> values(int64_t n, double scale = 1) {
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v)
      x = random_.uniform(next_++, static_cast<float>(-scale), static_cast<float>(scale));
    return v;
  }

  /// Any kernel, stride, dilation, padding and grouping that fits.
  reference::Conv conv(int64_t max_size, int64_t max_channels) {
    reference::Conv c = window(max_size);
    const int64_t kind = in(0, 3);  // dense twice as often
    if (kind == 0) {                // depthwise
      c.groups = c.cin = c.cout = in(1, max_channels);
    } else if (kind == 1) {
      c.groups = in(1, std::max<int64_t>(max_channels / 2, 1));
      const int64_t each = std::max<int64_t>(max_channels / c.groups, 1);
      c.cin = c.groups * in(1, each);
      c.cout = c.groups * in(1, each);
    } else {
      c.cin = in(1, max_channels);
      c.cout = in(1, max_channels);
    }
    return c;
  }
  reference::Conv pool(int64_t max_size, int64_t max_channels) {
    reference::Conv c = window(max_size);
    c.groups = c.cin = c.cout = in(1, max_channels);
    return c;
  }

 private:
  reference::Conv window(int64_t max_size) {
    reference::Conv c;
    do {
      c.n = in(1, 3);
      c.h = in(1, max_size);
      c.w = in(1, max_size);
      for (int a = 0; a < 2; ++a) {
        c.kernel[a] = static_cast<int>(chance(4) ? 1 : in(1, 5));
        c.stride[a] = static_cast<int>(chance(2) ? 1 : in(1, 3));
        c.dilation[a] = static_cast<int>(chance(3) ? in(1, 3) : 1);
        const int reach = (c.kernel[a] - 1) * c.dilation[a];
        for (const int side : {a, a + 2})
          c.pads[side] = static_cast<int>(in(0, reach + (chance(8) ? 1 : 0)));
      }
    } while (!c.fits());
    return c;
  }
  RandomStream random_;
  uint64_t next_ = 0;
};

/// f64 values as an f32 tensor.
inline Tensor to_f32(const Shape& shape, const std::vector<double>& v) {
  Tensor t(shape);
  std::copy(v.begin(), v.end(), t.data<float>());
  return t;
}

}  // namespace train
