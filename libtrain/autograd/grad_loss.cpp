// Softmax cross-entropy and its gradient.
#include <cmath>
#include <numeric>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/loss.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/cpu/elementwise.h"
#include "libtrain/cpu/softmax.h"

namespace train {
namespace {

struct Targets {
  CrossEntropyOptions options;
  const int64_t* labels;
  int64_t rows, classes;

  bool counts(int64_t r) const { return labels[r] != options.ignore_index; }
  int64_t count() const {
    int64_t n = 0;
    for (int64_t r = 0; r < rows; ++r) n += counts(r);
    return n;
  }
  /// Throws unless every label that counts names one of the classes.
  void check() const {
    for (int64_t r = 0; r < rows; ++r)
      if (counts(r) && (labels[r] < 0 || labels[r] >= classes))
        throw Error(cat("softmax cross-entropy: label ", labels[r], " of row ", r,
                        " is outside the ", classes, " classes"));
  }
  double others() const {  // the target of a class that is not the label
    const int64_t n = options.smooth_others ? std::max<int64_t>(classes - 1, 1) : classes;
    return double{options.smoothing} / static_cast<double>(n);
  }
  double label() const {
    return 1 - double{options.smoothing} + (options.smooth_others ? 0 : others());
  }
  // Minus the target's mean log-probability of one row.
  double loss(const float* log_p, int64_t label_at) const {
    double loss = -(label() - others()) * log_p[label_at];
    if (options.smoothing > 0) loss -= others() * std::accumulate(log_p, log_p + classes, 0.);
    return loss;
  }
};

// dx = (p - target) / N * dloss. Inputs: log-probabilities [N, C], labels [N], dloss [].
std::shared_ptr<const Op> cross_entropy_grad_op(const CrossEntropyOptions& options) {
  return make_op("SoftmaxCrossEntropyGrad", OpLayout::kLinear, shape_of_input(0),
                 [options](Infos in, Infos) {
                   const int64_t rows = in[0].shape[0], classes = in[0].shape[1];
                   return make_plan([=](Views in, Views out, void*) {
                     const Targets t{options, in[1].as<int64_t>(), rows, classes};
                     const float scale =
                         *in[2].as<float>() / static_cast<float>(std::max<int64_t>(t.count(), 1));
                     const auto rest = static_cast<float>(t.others());
                     parallel_for(rows, row_grain(4 * classes), [&](int64_t begin, int64_t end) {
                       for (int64_t r = begin; r < end; ++r) {
                         const float* log_p = in[0].as<float>() + r * classes;
                         float* dx = out[0].as<float>() + r * classes;
                         if (!t.counts(r)) {
                           std::fill_n(dx, classes, 0.f);
                           continue;
                         }
                         cpu::unary({cpu::Act::kExp}, log_p, dx, classes);
                         const int64_t label = t.labels[r];
                         const float at_label = dx[label];
                         for (int64_t c = 0; c < classes; ++c) dx[c] = (dx[c] - rest) * scale;
                         dx[label] = static_cast<float>(at_label - t.label()) * scale;
                       }
                     });
                   });
                 });
}

class SoftmaxCrossEntropyGradient final : public Gradient {
 public:
  explicit SoftmaxCrossEntropyGradient(const CrossEntropyOptions& options)
      : Gradient({.inputs = 0b10, .outputs = 0b10}), grad_(cross_entropy_grad_op(options)) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.output(1), c.input(1), c.grad(0)}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

SoftmaxCrossEntropyOp::SoftmaxCrossEntropyOp(const CrossEntropyOptions& options)
    : options(options) {
  require(options.smoothing >= 0 && options.smoothing < 1, "label smoothing must lie in [0, 1)");
}

std::string SoftmaxCrossEntropyOp::describe() const {
  return cat(type(), " smoothing ", options.smoothing);
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
  return make_plan([rows, classes, o = options](Views in, Views out, void*) {
    const Targets t{o, in[1].as<int64_t>(), rows, classes};
    t.check();
    auto* log_p = out[1].as<float>();
    cpu::log_softmax(in[0].as<float>(), classes, log_p, classes, rows, classes);
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r)
      if (t.counts(r)) sum += t.loss(log_p + r * classes, t.labels[r]);
    *out[0].as<float>() =
        static_cast<float>(sum / static_cast<double>(std::max<int64_t>(t.count(), 1)));
  });
}

std::shared_ptr<const Gradient> softmax_cross_entropy_gradient(const Op& op) {
  return std::make_shared<SoftmaxCrossEntropyGradient>(
      dynamic_cast<const SoftmaxCrossEntropyOp&>(op).options);
}

}  // namespace train
