// The layers: modules that own their op, and with it the op's plans and packed weights.
#pragma once
#include <memory>
#include <optional>

#include "libtrain/autograd/loss.h"
#include "libtrain/nn/module.h"
#include "libtrain/ops/nn.h"

namespace train::nn {

/// y = x w^T + bias over the last axis; weight [out, in], bias [out]. Starts as PyTorch's.
class Linear final : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  Variable operator()(Tape& tape, const Variable& x) const;

 private:
  std::shared_ptr<const Op> op_;
  Variable weight_, bias_;
};

/// 2-D convolution; weight [out, in / groups, kh, kw], bias [out]. Starts with Kaiming's gain for
/// ReLU, bias 0. `window.kernel` gives the kernel.
class Conv2d final : public Module {
 public:
  Conv2d(int64_t in, int64_t out, const Window& window, int64_t groups = 1, bool bias = true);
  /// A square kernel with "same" padding (k / 2 on each side).
  Conv2d(int64_t in, int64_t out, int kernel, int stride = 1);
  Variable operator()(Tape& tape, const Variable& x) const;

 private:
  std::shared_ptr<const Op> op_;
  Variable weight_, bias_;
};

class MaxPool2d final : public Module {
 public:
  explicit MaxPool2d(const Window& window);
  /// A square window that steps by its own size.
  explicit MaxPool2d(int kernel);
  Variable operator()(Tape& tape, const Variable& x) const { return tape.apply(op_, {x}); }

 private:
  std::shared_ptr<const Op> op_;
};

/// The mean softmax cross-entropy of logits [N, C] against labels i64 [N].
class SoftmaxCrossEntropy final : public Module {
 public:
  explicit SoftmaxCrossEntropy(float smoothing = 0)
      : op_(std::make_shared<SoftmaxCrossEntropyOp>(smoothing)) {}
  Variable operator()(Tape& tape, const Variable& logits, const Variable& labels) const {
    return tape.apply(op_, std::array{logits, labels}, 2)[0];
  }

 private:
  std::shared_ptr<const Op> op_;
};

}  // namespace train::nn
