// Softmax cross-entropy and its gradient.
#include <cmath>
#include <numeric>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/loss.h"
#include "libtrain/cpu/softmax.h"

namespace train {
namespace {

// Throws unless every label names one of the classes.
void check_labels(const int64_t* labels, int64_t rows, int64_t classes) {
  for (int64_t r = 0; r < rows; ++r)
    if (labels[r] < 0 || labels[r] >= classes)
      throw Error(cat("softmax cross-entropy: label ", labels[r], " of row ", r, " is outside the ",
                      classes, " classes"));
}

// Minus the target's mean log-probability of one row.
double row_loss(const float* log_p, int64_t classes, int64_t label, double smoothing) {
  double loss = -(1 - smoothing) * log_p[label];
  if (smoothing > 0)
    loss -= smoothing / static_cast<double>(classes) * std::accumulate(log_p, log_p + classes, 0.);
  return loss;
}

// dx = (p - target) / N * dloss. Inputs: log-probabilities [N, C], labels [N], dloss [].
class SoftmaxCrossEntropyGradOp final : public Op {
 public:
  explicit SoftmaxCrossEntropyGradOp(float smoothing) : smoothing_(smoothing) {}
  std::string_view type() const override { return "SoftmaxCrossEntropyGrad"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    outputs[0] = ValueInfo(inputs[0].shape, DType::kF32);
  }
  std::unique_ptr<Plan> plan(Infos inputs, Infos, PackCache&) const override {
    const int64_t rows = inputs[0].shape[0], classes = inputs[0].shape[1];
    return make_plan([rows, classes, e = smoothing_](Views in, Views out, void*) {
      const float scale = *in[2].as<float>() / static_cast<float>(rows);
      const float rest = e / static_cast<float>(classes);
      parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const float* log_p = in[0].as<float>() + r * classes;
          float* dx = out[0].as<float>() + r * classes;
          for (int64_t c = 0; c < classes; ++c) dx[c] = (std::exp(log_p[c]) - rest) * scale;
          const int64_t label = in[1].as<int64_t>()[r];
          dx[label] = (std::exp(log_p[label]) - rest - (1 - e)) * scale;
        }
      });
    });
  }

 private:
  float smoothing_;
};

class SoftmaxCrossEntropyGradient final : public Gradient {
 public:
  explicit SoftmaxCrossEntropyGradient(float smoothing)
      : Gradient({.inputs = 0b10, .outputs = 0b10}),
        grad_(std::make_shared<SoftmaxCrossEntropyGradOp>(smoothing)) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.output(1), c.input(1), c.grad(0)}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

SoftmaxCrossEntropyOp::SoftmaxCrossEntropyOp(float smoothing) : smoothing(smoothing) {
  require(smoothing >= 0 && smoothing < 1, "label smoothing must lie in [0, 1)");
}

std::string SoftmaxCrossEntropyOp::describe() const {
  return cat(type(), " smoothing ", smoothing);
}

void SoftmaxCrossEntropyOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape &x = inputs[0].shape, &labels = inputs[1].shape;
  if (x.rank() != 2 || x[0] < 1 || x[1] < 1 || labels != Shape{x[0]} ||
      inputs[1].dtype != DType::kI64)
    throw ShapeError(cat("expected logits [N, C] and i64 labels [N], got ", x.str(), " and ",
                         name_of(inputs[1].dtype), " ", labels.str()));
  require(outputs.size() == 2, "the op has two outputs");
  outputs[0] = ValueInfo(Shape{}, DType::kF32);
  outputs[1] = ValueInfo(x, DType::kF32);
}

std::unique_ptr<Plan> SoftmaxCrossEntropyOp::plan(Infos inputs, Infos, PackCache&) const {
  const int64_t rows = inputs[0].shape[0], classes = inputs[0].shape[1];
  return make_plan([rows, classes, e = double{smoothing}](Views in, Views out, void*) {
    const int64_t* labels = in[1].as<int64_t>();
    check_labels(labels, rows, classes);
    auto* log_p = out[1].as<float>();
    cpu::log_softmax(in[0].as<float>(), classes, log_p, classes, rows, classes);
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += row_loss(log_p + r * classes, classes, labels[r], e);
    *out[0].as<float>() = static_cast<float>(sum / static_cast<double>(rows));
  });
}

std::shared_ptr<const Gradient> softmax_cross_entropy_gradient(const Op& op) {
  return std::make_shared<SoftmaxCrossEntropyGradient>(
      dynamic_cast<const SoftmaxCrossEntropyOp&>(op).smoothing);
}

}  // namespace train
