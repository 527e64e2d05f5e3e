// CTC loss and gradient.
//
// Per sample: forward and backward variables over the label with blanks around its characters, in
// double; then d loss / d logits = softmax - (probability of being in a state of that class). The
// variables are probabilities, brought to a largest of 1 at every step. Where that could lose what
// counts (no path over the likely states), the recursion runs again on logarithms.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "libtrain/autograd/ctc.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/weight_gemm.h"
#include "libtrain/cpu/elementwise.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/cpu/packed.h"
#include "libtrain/cpu/softmax.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double top = std::max(a, b), low = std::min(a, b);
  return low == kNever ? top : top + std::log1p(std::exp(low - top));
}

// What one sample asks: its label with blanks between, and space for the recursion.
class Sample {
 public:
  Sample(int64_t steps, int64_t classes, const CtcOptions& options)
      : steps_(steps), classes_(classes), options_(options) {}

  // logits [steps, classes] -> `grad` (which may be `logits`): their gradient times `weight` (of
  // the mean over the batch); returns -log p(label).
  double run(const int64_t* label, int64_t length, float weight, const float* logits, float* grad) {
    states_.assign(static_cast<size_t>(2 * length + 1), options_.blank);
    for (int64_t i = 0; i < length; ++i) states_[2 * i + 1] = label[i];
    softmax(weight, logits, grad);
    double loss = -kNever;
    if (fits(label, length) && !recur(loss)) loss = recur_in_logarithms();
    if (!std::isfinite(loss)) {
      std::fill_n(grad, steps_ * classes_, options_.zero_infinity ? 0.f : NAN);
      return loss;
    }
    const float factor = slope(loss);
    if (factor != 1)
      for (int64_t i = 0; i < steps_ * classes_; ++i) grad[i] *= factor;
    for (int64_t t = 0; t < steps_; ++t)
      for (int64_t s = 0; s < count(); ++s)
        grad[t * classes_ + states_[s]] -=
            weight * factor * static_cast<float>(inside_[t * count() + s]);
    return loss;
  }

  // The sample's part of the batch's loss, and the slope of that.
  double share(double loss) const {
    if (!std::isfinite(loss)) return options_.zero_infinity ? 0 : loss;
    const double rest = 1 - std::exp(-loss);
    return options_.focal ? loss * rest * rest : loss;
  }
  float slope(double loss) const {
    if (!options_.focal || !std::isfinite(loss)) return 1;
    const double e = std::exp(-loss), rest = 1 - e;
    return static_cast<float>(rest * rest + 2 * loss * rest * e);
  }

 private:
  int64_t count() const { return static_cast<int64_t>(states_.size()); }
  bool fits(const int64_t* label, int64_t length) const {
    int64_t need = length;
    for (int64_t i = 1; i < length; ++i) need += label[i] == label[i - 1];
    return need <= steps_;
  }
  // State s may be entered from s - 2: another character than the one before.
  bool skips(int64_t s) const { return s >= 2 && s % 2 == 1 && states_[s] != states_[s - 2]; }

  // States at step t that the start reaches and that reach the end: [first, last).
  int64_t first(int64_t t) const { return std::max<int64_t>(0, count() - 2 * (steps_ - t)); }
  int64_t last(int64_t t) const { return std::min(count(), 2 * (t + 1)); }

  // Rows become probabilities times `weight`; the log-probabilities of the states are kept.
  void softmax(float weight, const float* logits, float* grad) {
    const int64_t n = count();
    log_p_.resize(static_cast<size_t>(steps_ * n));
    for (int64_t t = 0; t < steps_; ++t) {
      const float* row = logits + t * classes_;
      double* log_p = log_p_.data() + t * n;
      for (int64_t s = 0; s < n; ++s) log_p[s] = row[states_[s]];
      float top = 0, sum = 0;
      grad_kernels().scaled_softmax(row, weight, classes_, grad + t * classes_, &top, &sum);
      const double shift = top + std::log(double{sum});
      for (int64_t s = 0; s < n; ++s) log_p[s] -= shift;
    }
  }

  // q_ = the states' probabilities at step t over the largest of those within reach; returns the
  // logarithm of that one.
  double scaled_probabilities(int64_t t) {
    const double* log_p = log_p_.data() + t * count();
    const int64_t begin = first(t), end = last(t);
    const double top = *std::max_element(log_p + begin, log_p + end);
    const double blank = std::exp(log_p[0] - top);
    for (int64_t s = begin; s < end; ++s)
      q_[t * count() + s] = s % 2 ? std::exp(log_p[s] - top) : blank;
    return top;
  }

  // The loss, and inside_[t, s], the probability of being in state s at step t given the label.
  // False where a sum fell so low beside the largest term that underflow may have taken part of it.
  bool recur(double& loss) {
    constexpr double kLeastStep = 1e-250, kLeastSum = 1e-40;
    const int64_t n = count(), ld = n + 4;  // two zeros on either side
    skips_.assign(static_cast<size_t>(ld), 0);
    for (int64_t s = 2; s < n; ++s) skips_[s] = skips(s);
    q_.assign(static_cast<size_t>(steps_ * n), 0);
    inside_.assign(q_.size(), 0);
    line_.assign(static_cast<size_t>(2 * ld), 0);
    double *now = line_.data() + 2, *next = now + ld, log_scale = 0;
    now[0] = 1;  // before the first step: as if in the first blank, one state early
    for (int64_t t = 0; t < steps_; ++t) {
      log_scale += scaled_probabilities(t);
      const double* q = q_.data() + t * n;
      const int64_t begin = first(t), end = last(t);
      double top = 0;
      for (int64_t s = begin; s < end; ++s) {
        next[s] = (now[s] + now[s - 1] + (t ? skips_[s] * now[s - 2] : 0)) * q[s];
        top = std::max(top, next[s]);
      }
      if (!(top >= kLeastStep)) return false;
      std::fill(next - 2, next + begin, 0.);
      for (int64_t s = begin; s < end; ++s) inside_[t * n + s] = next[s] /= top;
      log_scale += std::log(top);
      std::swap(now, next);
    }
    loss = -(log_scale + std::log(now[n - 1] + (n > 1 ? now[n - 2] : 0)));
    return join_with_backward(kLeastStep, kLeastSum, ld) && std::isfinite(loss);
  }

  // Multiplies inside_, the forward variables, by those of the way to the end.
  bool join_with_backward(double least_step, double least_sum, int64_t ld) {
    const int64_t n = count();
    line_.assign(static_cast<size_t>(2 * ld), 0);
    double *after = line_.data() + 2, *now = after + ld;  // with and without the step's own q
    for (int64_t t = steps_; t-- > 0;) {
      const int64_t begin = first(t), end = last(t);
      double top = 0, sum = 0;
      for (int64_t s = begin; s < end; ++s) {
        now[s] = t + 1 == steps_ ? 1 : after[s] + after[s + 1] + skips_[s + 2] * after[s + 2];
        top = std::max(top, now[s]);
      }
      if (!(top >= least_step)) return false;
      double* inside = inside_.data() + t * n;
      for (int64_t s = begin; s < end; ++s) sum += inside[s] *= now[s] / top;
      if (!(sum >= least_sum)) return false;
      for (int64_t s = begin; s < end; ++s) inside[s] /= sum;
      std::fill(after - 2, after + n + 2, 0.);
      for (int64_t s = begin; s < end; ++s) after[s] = now[s] / top * q_[t * n + s];
    }
    return true;
  }

  // The same in logarithms, which lose nothing: alpha and beta, both with their step's own
  // probability. Returns the loss.
  double recur_in_logarithms() {
    const int64_t n = count();
    alpha_.assign(static_cast<size_t>(steps_ * n), kNever);
    beta_.assign(alpha_.size(), kNever);
    for (int64_t t = 0; t < steps_; ++t) {
      double* a = alpha_.data() + t * n;
      const double *before = a - n, *log_p = log_p_.data() + t * n;
      for (int64_t s = first(t); s < last(t); ++s) {
        double v = t ? before[s] : s < 2 ? 0 : kNever;
        if (t && s >= 1) v = log_add(v, before[s - 1]);
        if (t && skips(s)) v = log_add(v, before[s - 2]);
        a[s] = v + log_p[s];
      }
    }
    for (int64_t t = steps_; t-- > 0;) {
      double* b = beta_.data() + t * n;
      const double *after = b + n, *log_p = log_p_.data() + t * n;
      for (int64_t s = first(t); s < last(t); ++s) {
        double v = t + 1 < steps_ ? after[s] : s >= n - 2 ? 0 : kNever;
        if (t + 1 < steps_ && s + 1 < n) v = log_add(v, after[s + 1]);
        if (t + 1 < steps_ && s + 2 < n && skips(s + 2)) v = log_add(v, after[s + 2]);
        b[s] = v + log_p[s];
      }
    }
    const double* end = alpha_.data() + (steps_ - 1) * n;
    const double loss = -(n > 1 ? log_add(end[n - 1], end[n - 2]) : end[0]);
    inside_.assign(alpha_.size(), 0);
    for (size_t i = 0; i < alpha_.size(); ++i)
      if (alpha_[i] != kNever && beta_[i] != kNever)
        inside_[i] = std::exp(alpha_[i] + beta_[i] - log_p_[i] + loss);
    return loss;
  }

  int64_t steps_, classes_;
  CtcOptions options_;
  std::vector<int64_t> states_;
  std::vector<double> log_p_, q_, inside_, alpha_, beta_;  // [steps, states]
  std::vector<double> skips_, line_;
};

struct Labels {
  const int64_t *labels, *lengths;
  int64_t width;

  Labels(Views in, size_t first)
      : labels(in[first].as<int64_t>()),
        lengths(in[first + 1].as<int64_t>()),
        width(in[first].shape()[1]) {}
  void check(int64_t n, int64_t classes, int64_t blank) const {
    for (int64_t i = 0; i < n; ++i) {
      if (lengths[i] < 0 || lengths[i] > width)
        throw Error(cat("CTC: the label of sample ", i, " has length ", lengths[i],
                        ", outside [0, ", width, "]"));
      for (int64_t k = 0; k < lengths[i]; ++k)
        if (const int64_t c = labels[i * width + k]; c < 0 || c >= classes || c == blank)
          throw Error(cat("CTC: label ", c, " of sample ", i, " is blank or outside the ", classes,
                          " classes"));
    }
  }
};

void check_labels(Infos in, size_t first, int64_t n) {
  const ValueInfo &labels = in[first], &lengths = in[first + 1];
  if (labels.dtype != DType::kI64 || lengths.dtype != DType::kI64 || labels.shape.rank() != 2 ||
      labels.shape[0] != n || lengths.shape != Shape{n})
    throw ShapeError(cat("expected i64 labels [N, L] and lengths [N] for N = ", n, ", got ",
                         labels.shape.str(), " and ", lengths.shape.str()));
}

// Runs the samples [0, n) whose logits lie at `logits`, gradients to `grad`; losses in order.
void run_samples(const CtcOptions& o, const Labels& labels, int64_t first, int64_t n, int64_t steps,
                 int64_t classes, float weight, const float* logits, float* grad, double* shares,
                 float* losses) {
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    Sample sample(steps, classes, o);
    for (int64_t i = begin; i < end; ++i) {
      const double loss =
          sample.run(labels.labels + (first + i) * labels.width, labels.lengths[first + i], weight,
                     logits + i * steps * classes, grad + i * steps * classes);
      shares[first + i] = sample.share(loss);
      losses[first + i] = static_cast<float>(loss);
    }
  });
}

float mean_of(const std::vector<double>& shares) {
  double sum = 0;
  for (const double s : shares) sum += s;
  return static_cast<float>(sum / static_cast<double>(std::max<size_t>(shares.size(), 1)));
}

// d loss / d input i is output i + 2 of the op, times the gradient that reaches the loss.
class ReadyGradient final : public Gradient {
 public:
  explicit ReadyGradient(size_t inputs)
      : Gradient({.outputs = ((1u << inputs) - 1) << 2}),
        inputs_(inputs),
        mul_(std::make_shared<BinaryOp>(BinaryKind::kMul)) {}
  void run(GradContext& c) const override {
    if (c.has_grad(1)) throw Error("the per-sample losses of CTC have no gradient");
    const bool ready = *c.grad(0).tensor.data<float>() == 1;  // the loss is what backward began at
    for (size_t i = 0; i < inputs_; ++i)
      if (c.needs(i))
        c.set(i, ready ? c.output(i + 2) : c.eager().run(mul_, {c.output(i + 2), c.grad(0)}));
  }

 private:
  size_t inputs_;
  std::shared_ptr<const Op> mul_;
};

// Samples whose logits stay in the last cache between the product, the loss and the gradients'
// products, as long as there are enough of them for the threads.
int64_t chunk_of(int64_t n, int64_t steps, int64_t classes) {
  constexpr int64_t kFloats = int64_t{4} << 20;
  return std::clamp<int64_t>(kFloats / std::max<int64_t>(steps * classes, 1),
                             std::min<int64_t>(n, 4), std::max<int64_t>(n, 1));
}

}  // namespace

void CtcLossOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  require_rank(inputs[0], 3);
  const Shape& x = inputs[0].shape;
  check_labels(inputs, 1, x[0]);
  require(x[0] > 0 && x[1] > 0 && options.blank >= 0 && options.blank < x[2],
          "CTC needs samples, steps, and the blank among the classes");
  require(outputs.size() == 3, "the op has three outputs");
  outputs[0] = ValueInfo(Shape{}, DType::kF32);
  outputs[1] = ValueInfo(Shape{x[0]}, DType::kF32);
  outputs[2] = ValueInfo(x, DType::kF32);
}

std::unique_ptr<Plan> CtcLossOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape x = inputs[0].shape;
  return make_plan([x, o = options](Views in, Views out, void*) {
    const Labels labels(in, 1);
    labels.check(x[0], x[2], o.blank);
    std::vector<double> shares(static_cast<size_t>(x[0]));
    run_samples(o, labels, 0, x[0], x[1], x[2], 1 / static_cast<float>(x[0]), in[0].as<float>(),
                out[2].as<float>(), shares.data(), out[1].as<float>());
    *out[0].as<float>() = mean_of(shares);
  });
}

void LinearCtcLossOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  for (size_t i = 0; i < 3; ++i) require_f32(inputs[i]);
  require_rank(inputs[0], 3);
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  if (w.rank() != 2 || w[1] != x[2] || inputs[2].shape != Shape{w[0]})
    throw ShapeError(cat("a weight of shape ", w.str(), " and a bias of shape ",
                         inputs[2].shape.str(), " for ", x[2], " features"));
  check_labels(inputs, 3, x[0]);
  require(x[0] > 0 && x[1] > 0 && options.blank >= 0 && options.blank < w[0],
          "CTC needs samples, steps, and the blank among the classes");
  require(outputs.size() == 5, "the op has five outputs");
  outputs[0] = ValueInfo(Shape{}, DType::kF32);
  outputs[1] = ValueInfo(Shape{x[0]}, DType::kF32);
  for (int i = 0; i < 3; ++i) outputs[2 + i] = ValueInfo(inputs[i].shape, DType::kF32);
}

double LinearCtcLossOp::flops(Infos inputs, Infos) const {
  return 6.0 * static_cast<double>(inputs[0].shape.numel()) *
         static_cast<double>(inputs[1].shape[0]);
}

std::unique_ptr<Plan> LinearCtcLossOp::plan(Infos inputs, Infos, PackCache&) const {
  const int64_t n = inputs[0].shape[0], steps = inputs[0].shape[1], d = inputs[0].shape[2];
  const int64_t classes = inputs[1].shape[0], chunk = chunk_of(n, steps, classes);
  const int64_t rows = chunk * steps, blocks = row_blocks(rows);
  return make_plan(
      [=, o = options](Views in, Views out, void* workspace) {
        const Labels labels(in, 3);
        labels.check(n, classes, o.blank);
        auto *logits = static_cast<float*>(workspace), *transposed = logits + rows * classes,
             *sums = transposed + rows * classes;
        const cpu::PackedMatrix forward(in[1].as<float>(), d, true, d, classes, in[2].as<float>());
        const cpu::PackedMatrix back(in[1].as<float>(), d, false, classes, d, nullptr);
        std::vector<double> shares(static_cast<size_t>(n)), bias(static_cast<size_t>(classes), 0.);
        for (int64_t i = 0; i < n; i += chunk) {
          const int64_t count = std::min(chunk, n - i), m = count * steps;
          const float* x = in[0].as<float>() + i * steps * d;
          cpu::gemm(x, d, m, forward, {}, logits, classes);
          run_samples(o, labels, i, count, steps, classes, 1 / static_cast<float>(n), logits,
                      logits, shares.data(), out[1].as<float>());
          cpu::gemm(logits, classes, m, back, {}, out[2].as<float>() + i * steps * d, d);
          transpose_rows(logits, classes, m, classes, transposed, m);
          const RowGroup group{transposed, m, classes};
          weight_gemm({&group, 1}, x, d, m, d, out[3].as<float>(), i > 0);
          for_row_blocks(m, classes, [&](int64_t b, int64_t r0, int64_t r1) {
            cpu::kernels().reduce_rows(cpu::ReduceOp::kSum, logits + r0 * classes, classes, r1 - r0,
                                       classes, sums + b * classes);
          });
          for (int64_t b = 0; b < row_blocks(m); ++b)
            for (int64_t c = 0; c < classes; ++c) bias[c] += sums[b * classes + c];
        }
        for (int64_t c = 0; c < classes; ++c) out[4].as<float>()[c] = static_cast<float>(bias[c]);
        *out[0].as<float>() = mean_of(shares);
      },
      static_cast<size_t>((2 * rows + blocks) * classes) * sizeof(float));
}

CtcResult ctc_loss(Tape& tape, const Variable& logits, const Variable& labels,
                   const Variable& lengths, const CtcOptions& options) {
  const auto op = tape.eager().shared<Op>(
      cat("ctc ", options.blank, ' ', options.focal, ' ', options.zero_infinity),
      [&] { return std::make_shared<CtcLossOp>(options); });
  const auto out = tape.apply(op, std::array{logits, labels, lengths}, 3);
  return {out[0], out[1]};
}

CtcResult linear_ctc_loss(Tape& tape, const Variable& x, const Variable& weight,
                          const Variable& bias, const Variable& labels, const Variable& lengths,
                          const CtcOptions& options) {
  const auto op = tape.eager().shared<Op>(
      cat("linear ctc ", options.blank, ' ', options.focal, ' ', options.zero_infinity),
      [&] { return std::make_shared<LinearCtcLossOp>(options); });
  const auto out = tape.apply(op, std::array{x, weight, bias, labels, lengths}, 5);
  return {out[0], out[1]};
}

std::shared_ptr<const Gradient> ctc_gradient(const Op&) {
  return std::make_shared<ReadyGradient>(1);
}
std::shared_ptr<const Gradient> linear_ctc_gradient(const Op&) {
  return std::make_shared<ReadyGradient>(3);
}

}  // namespace train
