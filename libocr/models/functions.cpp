#include "libocr/models/functions.h"

#include "libtrain/core/error.h"

namespace ocr::models {

using train::Tensor;
using train::Window;
namespace cpu = train::cpu;

cpu::Activation activation(Act act) {
  switch (act) {
    case Act::kNone:
      return {};
    case Act::kRelu:
      return {.kind = cpu::Act::kRelu};
    case Act::kHardSwish:
      return cpu::hard_swish();
    case Act::kSwish:
      return cpu::swish();
    case Act::kGelu:
      return {.kind = cpu::Act::kGelu};
  }
  return {};
}

Variable activate(Tape& tape, const Variable& x, Act act) {
  return train::activate(tape, x, activation(act));
}

Variable to_image(Tape& tape, const Variable& tokens, int64_t height) {
  return train::sequence_to_image(tape, tokens, height, tokens.shape()[1] / height);
}

namespace {

// [W, width]: column o holds the weights of window o.
Tensor pooling_matrix(int64_t w, int64_t width) {
  Tensor m = Tensor::zeros({w, width});
  for (int64_t o = 0; o < width; ++o) {
    const int64_t begin = o * w / width, end = ((o + 1) * w + width - 1) / width;
    for (int64_t i = begin; i < end; ++i)
      m.data<float>()[i * width + o] = 1.f / static_cast<float>(end - begin);
  }
  return m;
}

}  // namespace

Variable adaptive_row_pool(Tape& tape, const Variable& x, int64_t width) {
  const int64_t h = x.shape()[2], w = x.shape()[3];
  if (w % width == 0) {
    const Size cell(static_cast<int>(h), static_cast<int>(w / width));
    return train::average_pool(tape, x, padded_window(cell, cell, 0));
  }
  // Windows overlap: the mean of the rows, then a product with the matrix of the windows' weights.
  const Size column(static_cast<int>(h), 1);
  const Variable row = train::average_pool(tape, x, padded_window(column, column, 0));
  return train::matmul(tape, row, Variable::input(pooling_matrix(w, width)));
}

Window window(Size kernel, Size stride, int dilation) {
  Window w =
      padded_window(kernel, stride, {(kernel.h - 1) * dilation / 2, (kernel.w - 1) * dilation / 2});
  w.dilations = {dilation, dilation};
  return w;
}

Window padded_window(Size kernel, Size stride, Size pad) {
  Window w;
  w.kernel = {kernel.h, kernel.w};
  w.strides = {stride.h, stride.w};
  w.pads = {pad.h, pad.w, pad.h, pad.w};
  return w;
}

}  // namespace ocr::models
