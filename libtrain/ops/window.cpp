#include <algorithm>

#include "libtrain/ops/nn.h"

namespace train {
namespace {

// One axis of Window::output_size; ONNX's rule, with PyTorch's amendment that with ceil_mode no
// window starts in the far padding.
int64_t out_extent(int64_t size, int kernel, int stride, int dilation, int before, int after,
                   bool ceil_mode) {
  const int64_t span = int64_t{dilation} * (kernel - 1) + 1;
  const int64_t room = size + before + after - span;
  if (room < 0) return 0;
  int64_t out = (ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
  if (ceil_mode && (out - 1) * stride >= size + before) --out;
  return out;
}

}  // namespace

std::array<int, 4> Window::resolved_pads(int64_t h, int64_t w) const {
  if (auto_pad == AutoPad::kNotSet) return pads;
  if (auto_pad == AutoPad::kValid) return {0, 0, 0, 0};
  std::array<int, 4> p{};
  for (int a = 0; a < 2; ++a) {
    const int64_t size = a == 0 ? h : w, out = (size + strides[a] - 1) / strides[a];
    const int64_t total = std::max<int64_t>(
        0, (out - 1) * strides[a] + int64_t{dilations[a]} * (kernel[a] - 1) + 1 - size);
    const int less = static_cast<int>(total / 2), more = static_cast<int>(total - total / 2);
    p[a] = auto_pad == AutoPad::kSameUpper ? less : more;
    p[a + 2] = auto_pad == AutoPad::kSameUpper ? more : less;
  }
  return p;
}

std::array<int64_t, 2> Window::output_size(int64_t h, int64_t w) const {
  require(strides[0] > 0 && strides[1] > 0 && dilations[0] > 0 && dilations[1] > 0 &&
              kernel[0] > 0 && kernel[1] > 0,
          "kernel, strides and dilations must be positive");
  const auto p = resolved_pads(h, w);
  std::array<int64_t, 2> out{};
  for (int a = 0; a < 2; ++a)
    out[a] =
        out_extent(a == 0 ? h : w, kernel[a], strides[a], dilations[a], p[a], p[a + 2], ceil_mode);
  if (out[0] <= 0 || out[1] <= 0)
    throw ShapeError(
        cat("a window of ", kernel[0], "x", kernel[1], " does not fit an image of ", h, "x", w));
  return out;
}

std::string Window::str() const {
  std::string s = cat(kernel[0], "x", kernel[1]);
  if (strides[0] != 1 || strides[1] != 1) s += cat(" stride ", strides[0], "x", strides[1]);
  if (dilations[0] != 1 || dilations[1] != 1)
    s += cat(" dilation ", dilations[0], "x", dilations[1]);
  if (auto_pad != AutoPad::kNotSet) return s + " auto_pad";
  if (pads != std::array<int, 4>{})
    s += cat(" pads ", pads[0], ",", pads[1], ",", pads[2], ",", pads[3]);
  return s;
}

}  // namespace train
