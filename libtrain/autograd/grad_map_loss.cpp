// Losses of maps: each op computes its gradient beside the loss.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "libtrain/autograd/functional.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/map_loss.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

constexpr int64_t kChunk = 16384;  // elements whose sums are added in order

struct Maps {
  const float *p, *g, *m;
  float* d;
  int64_t n;
};

// The sums of f(i), K numbers each, over all elements: chunks of fixed size, added in order.
template <size_t K, class F>
std::array<double, K> sum_of(int64_t n, F&& f) {
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<std::array<double, K>> parts(static_cast<size_t>(chunks));
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      std::array<double, K> sum{};
      for (int64_t i = c * kChunk; i < std::min(n, (c + 1) * kChunk); ++i) f(i, sum);
      parts[c] = sum;
    }
  });
  std::array<double, K> all{};
  for (const auto& p : parts)
    for (size_t k = 0; k < K; ++k) all[k] += p[k];
  return all;
}

template <class F>
void each(int64_t n, F&& f) {
  parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

double dice(const Maps& a, const MapLossOptions& o) {
  const auto s = sum_of<2>(a.n, [&](int64_t i, auto& sum) {
    sum[0] += double{a.p[i]} * a.g[i] * a.m[i];
    sum[1] += (double{a.p[i]} + a.g[i]) * a.m[i];
  });
  const double whole = s[1] + o.epsilon;
  const double both = 2 / whole, rest = 2 * s[0] / (whole * whole);
  each(a.n,
       [&](int64_t i) { a.d[i] = static_cast<float>(double{a.m[i]} * (rest - both * a.g[i])); });
  return 1 - 2 * s[0] / whole;
}

double l1(const Maps& a, const MapLossOptions& o) {
  const auto s = sum_of<2>(a.n, [&](int64_t i, auto& sum) {
    sum[0] += std::abs(double{a.p[i]} - a.g[i]) * a.m[i];
    sum[1] += a.m[i];
  });
  const double scale = 1 / (s[1] + o.epsilon);
  each(a.n, [&](int64_t i) {
    const float e = a.p[i] - a.g[i];
    a.d[i] = static_cast<float>((e > 0 ? scale : e < 0 ? -scale : 0) * a.m[i]);
  });
  return s[0] * scale;
}

double cut_log(double v) { return std::max(std::log(v), -100.); }

double bce(double p, double g) { return -(g * cut_log(p) + (1 - g) * cut_log(1 - p)); }
double bce_slope(double p, double g) { return (p - g) / std::max(p * (1 - p), 1e-12); }

// The losses of the negatives in d, where a positive or masked pixel has 0; then the smallest that
// counts among the `count` largest, and how many equal to it do.
struct HardNegatives {
  float least = 0;
  int64_t ties = 0;
  double sum = 0;

  HardNegatives(const float* loss, int64_t n, int64_t count) {
    if (count <= 0) return;
    std::vector<float> sorted(loss, loss + n);
    std::nth_element(sorted.begin(), sorted.begin() + (count - 1), sorted.end(), std::greater<>());
    least = sorted[count - 1];
    int64_t above = 0;
    for (int64_t i = 0; i < n; ++i) {
      above += loss[i] > least;
      if (loss[i] > least) sum += loss[i];
    }
    ties = count - above;
    sum += static_cast<double>(ties) * least;
  }
};

double balanced_bce(const Maps& a, const MapLossOptions& o) {
  const auto s = sum_of<3>(a.n, [&](int64_t i, auto& sum) {
    const double positive = double{a.g[i]} * a.m[i];
    sum[0] += positive;
    sum[1] += (1 - double{a.g[i]}) * a.m[i];
    if (positive != 0) sum[2] += positive * bce(a.p[i], a.g[i]);
  });
  const double positives = std::floor(s[0]);
  const auto negatives = static_cast<int64_t>(std::min(s[1], std::floor(positives * o.ratio)));
  each(a.n, [&](int64_t i) {
    const double w = (1 - double{a.g[i]}) * a.m[i];
    a.d[i] = w != 0 ? static_cast<float>(w * bce(a.p[i], a.g[i])) : 0.f;
  });
  const HardNegatives hard(a.d, a.n, negatives);
  const double scale = 1 / (positives + static_cast<double>(negatives) + o.epsilon);
  int64_t ties = hard.ties;
  for (int64_t i = 0; i < a.n; ++i) {  // in order: which of equal losses count must not vary
    const double w = (1 - double{a.g[i]}) * a.m[i];
    bool counts = negatives > 0 && w != 0 && a.d[i] >= hard.least;
    if (counts && a.d[i] == hard.least) counts = ties-- > 0;
    const double both = double{a.g[i]} * a.m[i] + (counts ? w : 0);
    a.d[i] = both != 0 ? static_cast<float>(both * scale * bce_slope(a.p[i], a.g[i])) : 0.f;
  }
  return (s[2] + hard.sum) * scale;
}

double focal(const Maps& a, const MapLossOptions& o) {
  const auto term = [&](double p, double g, double* slope) {
    const double q = g > .5 ? p : 1 - p, w = g > .5 ? o.alpha : 1 - o.alpha;
    const double rest = std::max(1 - q, 0.), log_q = cut_log(q);
    if (slope) {
      const double inner = o.gamma == 0 ? 0 : o.gamma * std::pow(rest, o.gamma - 1) * log_q;
      const double d = w * (inner - std::pow(rest, o.gamma) / std::max(q, 1e-12));
      *slope = g > .5 ? d : -d;
    }
    return -w * std::pow(rest, o.gamma) * log_q;
  };
  const auto s = sum_of<2>(a.n, [&](int64_t i, auto& sum) {
    if (a.m[i] != 0) sum[0] += a.m[i] * term(a.p[i], a.g[i], nullptr);
    sum[1] += a.m[i];
  });
  const double scale = 1 / (s[1] + o.epsilon);
  each(a.n, [&](int64_t i) {
    double slope = 0;
    if (a.m[i] != 0) term(a.p[i], a.g[i], &slope);
    a.d[i] = static_cast<float>(slope * scale * a.m[i]);
  });
  return s[0] * scale;
}

class MapLossGradient final : public Gradient {
 public:
  MapLossGradient()
      : Gradient({.outputs = 0b10}), mul_(std::make_shared<BinaryOp>(BinaryKind::kMul)) {}
  void run(GradContext& c) const override {
    if (c.needs(0)) c.set(0, c.eager().run(mul_, {c.output(1), c.grad(0)}));
  }

 private:
  std::shared_ptr<const Op> mul_;
};

}  // namespace

void MapLossOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  for (size_t i = 0; i < 3; ++i) {
    require_f32(inputs[i]);
    if (inputs[i].shape != inputs[0].shape)
      throw ShapeError(cat("a loss of maps needs three of one shape, got ", inputs[0].shape.str(),
                           " and ", inputs[i].shape.str()));
  }
  require(outputs.size() == 2, "the op has two outputs");
  outputs[0] = ValueInfo(Shape{}, DType::kF32);
  outputs[1] = ValueInfo(inputs[0].shape, DType::kF32);
}

std::unique_ptr<Plan> MapLossOp::plan(Infos inputs, Infos, PackCache&) const {
  return make_plan([n = inputs[0].shape.numel(), kind = kind, o = options](Views in, Views out,
                                                                           void*) {
    const Maps maps{in[0].as<float>(), in[1].as<float>(), in[2].as<float>(), out[1].as<float>(), n};
    constexpr double (*losses[])(const Maps&, const MapLossOptions&) = {dice, balanced_bce, l1,
                                                                        focal};
    *out[0].as<float>() = static_cast<float>(losses[static_cast<int>(kind)](maps, o));
  });
}

Variable map_loss(Tape& tape, MapLoss kind, const Variable& p, const Variable& truth,
                  const Variable& mask, const MapLossOptions& o) {
  const auto op = tape.eager().shared<Op>(cat("map loss ", static_cast<int>(kind), ' ', o.epsilon,
                                              ' ', o.ratio, ' ', o.alpha, ' ', o.gamma),
                                          [&] { return std::make_shared<MapLossOp>(kind, o); });
  return tape.apply(op, std::array{p, truth, mask}, 2)[0];
}

namespace {

MapLossOptions map_options(const DbLossOptions& o) {
  return {.epsilon = o.epsilon, .ratio = o.ratio, .alpha = o.focal_alpha, .gamma = o.focal_gamma};
}

Variable as_maps(Tape& tape, const Variable& v, const Shape& one) {
  return v.shape() == one ? v : reshape(tape, v, one);
}

// The loss of a map of text or none: `kind`, and the focal loss where the options want it.
Variable area_loss(Tape& tape, const Variable& p, MapLoss kind, const Variable& text,
                   const Variable& mask, const DbLossOptions& o) {
  const MapLossOptions options = map_options(o);
  const Variable loss = map_loss(tape, kind, p, text, mask, options);
  if (!o.focal) return loss;
  const auto least = static_cast<float>(o.epsilon);
  const Variable cut = activate(tape, p, {cpu::Act::kClip, least, 1 - least});
  const Variable focal = map_loss(tape, MapLoss::kFocal, cut, text, mask, options);
  return add(tape, scale(tape, loss, static_cast<float>(o.dice_weight)),
             scale(tape, focal, static_cast<float>(o.focal_weight)));
}

}  // namespace

Variable db_shrink_loss(Tape& tape, const Variable& map, const Variable& shrink_map,
                        const Variable& shrink_mask, const DbLossOptions& o) {
  return area_loss(tape, map, o.dice ? MapLoss::kDice : MapLoss::kBalancedBce,
                   as_maps(tape, shrink_map, map.shape()), as_maps(tape, shrink_mask, map.shape()),
                   o);
}

DbLossResult db_loss(Tape& tape, const Variable& maps, const Variable& threshold_map,
                     const Variable& threshold_mask, const Variable& shrink_map,
                     const Variable& shrink_mask, const DbLossOptions& o) {
  const Shape& s = maps.shape();
  if (s.rank() != 4 || s[1] != 3)
    throw ShapeError(cat("DB's loss needs maps [N, 3, H, W], got ", s.str()));
  const Shape one{s[0], 1, s[2], s[3]};
  const auto map = [&](int64_t i) { return slice(tape, maps, 1, i, i + 1); };
  const Variable text = as_maps(tape, shrink_map, one), mask = as_maps(tape, shrink_mask, one);
  DbLossResult r;
  r.shrink = scale(tape, db_shrink_loss(tape, map(0), text, mask, o), static_cast<float>(o.alpha));
  r.threshold = scale(tape,
                      map_loss(tape, MapLoss::kL1, map(1), as_maps(tape, threshold_map, one),
                               as_maps(tape, threshold_mask, one), map_options(o)),
                      static_cast<float>(o.beta));
  r.binary = area_loss(tape, map(2), MapLoss::kDice, text, mask, o);
  r.total = add(tape, add(tape, r.shrink, r.threshold), r.binary);
  return r;
}

std::shared_ptr<const Gradient> map_loss_gradient(const Op&) {
  return std::make_shared<MapLossGradient>();
}

}  // namespace train
