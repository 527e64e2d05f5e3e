// The functions without parameters that PaddleOCR's nets need beyond libtrain's, and their windows.
#pragma once
#include "libtrain/autograd/functional.h"
#include "libtrain/ops/nn.h"

namespace ocr::models {

using train::Tape;
using train::Variable;

/// A height and a width: one number stands for both.
struct Size {
  int h, w;
  Size(int both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  Size(int h, int w) : h(h), w(w) {}
  bool operator==(const Size&) const = default;
};

/// The activations that the nets use.
enum class Act : uint8_t { kNone, kRelu, kHardSwish, kSwish, kGelu };

train::cpu::Activation activation(Act act);
Variable activate(Tape& tape, const Variable& x, Act act);

/// [N, H W, C] -> [N, C, H, W], for a known height.
Variable to_image(Tape& tape, const Variable& tokens, int64_t height);
/// [N, C, H, W] -> [N, C, 1, width], each window as adaptive pooling defines it: from
/// floor(o W / width) to ceil((o + 1) W / width).
Variable adaptive_row_pool(Tape& tape, const Variable& x, int64_t width);

/// A window with "same" padding for odd kernels.
train::Window window(Size kernel, Size stride = 1, int dilation = 1);
/// The same with explicit padding.
train::Window padded_window(Size kernel, Size stride, Size pad);

}  // namespace ocr::models
