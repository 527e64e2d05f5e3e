// DigitsCnn: the small net that learns rendered digits in several tests.
#pragma once
#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"

namespace train::test {

/// images [N, 1, 16, 16] -> logits [N, 10]
struct DigitsCnn : nn::Module {
  nn::Conv2d conv1{1, 8, 3}, conv2{8, 16, 3};
  nn::MaxPool2d pool{2};
  nn::Linear fc{16 * 4 * 4, 10};

  DigitsCnn() {
    add_module("conv1", conv1);
    add_module("conv2", conv2);
    add_module("fc", fc);
  }
  Variable operator()(Tape& tape, const Variable& images) const {
    Variable x = pool(tape, relu(tape, conv1(tape, images)));
    x = pool(tape, relu(tape, conv2(tape, x)));
    return fc(tape, flatten(tape, x));
  }
};

}  // namespace train::test
