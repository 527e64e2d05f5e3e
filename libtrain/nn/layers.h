// The layers: modules that own their op, and with it the op's plans and packed weights.
#pragma once
#include <memory>
#include <optional>

#include "libtrain/autograd/batch_norm.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/autograd/loss.h"
#include "libtrain/nn/module.h"
#include "libtrain/ops/nn.h"

namespace train::nn {

/// y = x w^T + bias over the last axis; weight [out, in], bias [out]. Starts as PyTorch's.
class Linear final : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  Variable operator()(Tape& tape, const Variable& x) const;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }  // undefined without one

 private:
  std::shared_ptr<const Op> op_;
  Variable weight_, bias_;
};

struct ConvOptions {
  std::array<int, 2> kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;
  bool bias = true;
  std::array<int, 2> output_padding{0, 0};  // transposed convolution only
};

/// 2-D convolution; weight [out, in / groups, kh, kw], bias [out]. Starts with Kaiming's gain for
/// ReLU, bias 0. `window.kernel` gives the kernel.
class Conv2d final : public Module {
 public:
  Conv2d(int64_t in, int64_t out, const ConvOptions& options);
  Conv2d(int64_t in, int64_t out, const Window& window, int64_t groups = 1, bool bias = true);
  /// A square kernel with "same" padding (k / 2 on each side).
  Conv2d(int64_t in, int64_t out, int kernel, int stride = 1);
  Variable operator()(Tape& tape, const Variable& x) const;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }  // undefined without one

 private:
  std::shared_ptr<const Op> op_;
  Variable weight_, bias_;
};

/// 2-D transposed convolution; weight [in, out / groups, kh, kw], bias [out].
class ConvTranspose2d final : public Module {
 public:
  ConvTranspose2d(int64_t in, int64_t out, const ConvOptions& options);
  Variable operator()(Tape& tape, const Variable& x) const;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }

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

struct BatchNormOptions {
  float epsilon = 1e-5f;
  float keep = .9f;  // running = keep running + (1 - keep) batch; PyTorch calls 1 - keep momentum
  bool unbiased = false;  // the running variance over n - 1, as PyTorch; Paddle on the CPU: n
};

/// Batch normalisation of images, fused with the activation that follows. Parameters weight, bias;
/// buffers running_mean, running_var (Paddle: _mean, _variance). In training by the batch's
/// statistics, which the buffers follow; in evaluation by the buffers.
class BatchNorm2d final : public Module {
 public:
  explicit BatchNorm2d(int64_t channels, const BatchNormOptions& options = {});
  Variable operator()(Tape& tape, const Variable& x, const cpu::Activation& act = {}) const;
  /// Statistics over all ranks from now on; null ends it.
  void synchronize(std::shared_ptr<BatchSync> sync);
  bool is_synchronized() const { return sync_ != nullptr; }
  /// Moves the buffers towards a batch's mean and biased variance over `count` values each, as a
  /// call in training does: for ops that compute the statistics of several layers at once.
  void follow_batch(std::span<const float> mean, std::span<const float> var, int64_t count) const;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }
  const Variable& running_mean() const { return mean_; }
  const Variable& running_var() const { return var_; }
  const BatchNormOptions& options() const { return options_; }

 private:
  std::shared_ptr<const Op> train_op(const cpu::Activation& act) const;
  BatchNormOptions options_;
  std::shared_ptr<BatchSync> sync_;
  std::shared_ptr<const Op> eval_op_;
  mutable std::shared_ptr<const BatchNormTrainOp> train_op_;  // for the activation last asked for
  Variable weight_, bias_, mean_, var_;
};

/// Over the last axis; parameters weight, bias [size].
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(int64_t size, float epsilon = 1e-5f);
  Variable operator()(Tape& tape, const Variable& x) const;

 private:
  std::shared_ptr<const Op> op_;
  Variable weight_, bias_;
};

/// Rows of weight [count, size] by i64 indices of any shape. Where an index is `padding` the result
/// is 0 and no gradient flows, as in Paddle.
class Embedding final : public Module {
 public:
  Embedding(int64_t count, int64_t size, std::optional<int64_t> padding = std::nullopt);
  Variable operator()(Tape& tape, const Variable& indices) const;

  const Variable& weight() const { return weight_; }

 private:
  Variable weight_;
  std::optional<int64_t> padding_;
};

/// dropout() while training, else nothing.
class Dropout final : public Module {
 public:
  explicit Dropout(float p) : p_(p) {}
  Variable operator()(Tape& tape, const Variable& x) const {
    return training() ? dropout(tape, x, p_) : x;
  }

 private:
  float p_;
};

/// drop_path() while training, else nothing.
class DropPath final : public Module {
 public:
  explicit DropPath(float p) : p_(p) {}
  Variable operator()(Tape& tape, const Variable& x) const {
    return training() ? drop_path(tape, x, p_) : x;
  }

 private:
  float p_;
};

/// The mean softmax cross-entropy of logits [N, C] against labels i64 [N].
class SoftmaxCrossEntropy final : public Module {
 public:
  explicit SoftmaxCrossEntropy(float smoothing = 0)
      : op_(std::make_shared<SoftmaxCrossEntropyOp>(smoothing)) {}
  explicit SoftmaxCrossEntropy(const CrossEntropyOptions& options)
      : op_(std::make_shared<SoftmaxCrossEntropyOp>(options)) {}
  Variable operator()(Tape& tape, const Variable& logits, const Variable& labels) const {
    return tape.apply(op_, std::array{logits, labels}, 2)[0];
  }

 private:
  std::shared_ptr<const Op> op_;
};

}  // namespace train::nn
