// CTC, cross-entropy, DB's losses of maps against f64 references.
#include <gtest/gtest.h>

#include <numeric>

#include "libtrain/autograd/ctc.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/autograd/loss.h"
#include "libtrain/autograd/map_loss.h"
#include "tests/support/gradient_check.h"
#include "tests/support/reference_nn.h"

namespace train {
namespace {

using reference::value_of;

struct CtcCase {
  int64_t n, t, c, width;
  std::vector<int64_t> labels, lengths;

  CtcCase(Draw& d, bool feasible)
      : n(d.in(1, 5)), t(d.in(1, 12)), c(d.in(2, 9)), width(d.in(1, 6)) {
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> label;
      for (int64_t k = d.in(0, width); k > 0; --k) {
        label.push_back(d.in(1, c - 1));
        if (feasible && need(label) > t) label.pop_back();
      }
      lengths.push_back(static_cast<int64_t>(label.size()));
      label.resize(static_cast<size_t>(width), -7);  // what is beyond the length is never read
      labels.insert(labels.end(), label.begin(), label.end());
    }
  }
  static int64_t need(const std::vector<int64_t>& label) {
    auto steps = static_cast<int64_t>(label.size());
    for (size_t i = 1; i < label.size(); ++i) steps += label[i] == label[i - 1];
    return steps;
  }
  std::vector<int64_t> label(int64_t i) const {
    return {labels.begin() + i * width, labels.begin() + i * width + lengths[i]};
  }
  Variable label_input() const {
    return Variable::input(Tensor::from<int64_t>({n, width}, labels));
  }
  Variable length_input() const { return Variable::input(Tensor::from<int64_t>({n}, lengths)); }

  // The mean of -log p(label): the sum over all paths through the states, in probabilities.
  template <class T>
  std::vector<T> loss(const std::vector<T>& logits, bool focal) const {
    using std::exp, std::log;
    const auto p = reference::softmax(logits, n * t, c, 1, false);
    T total(0.);
    for (int64_t i = 0; i < n; ++i) {
      const auto l = label(i);
      if (need(l) > t) continue;
      const auto states = static_cast<int64_t>(2 * l.size() + 1);
      const auto cls = [&](int64_t s) { return s % 2 ? l[static_cast<size_t>(s / 2)] : 0; };
      std::vector<T> a(static_cast<size_t>(states), T(0.));
      for (int64_t k = 0; k < t; ++k) {
        std::vector<T> next(a.size(), T(0.));
        for (int64_t s = 0; s < states; ++s) {
          T in = k ? a[s] : s < 2 ? T(1.) : T(0.);
          if (k && s >= 1) in += a[s - 1];
          if (k && s >= 2 && s % 2 && cls(s) != cls(s - 2)) in += a[s - 2];
          next[s] = in * p[(i * t + k) * c + cls(s)];
        }
        a = next;
      }
      T loss = -log(states > 1 ? a[states - 1] + a[states - 2] : a[0]);
      if (focal) loss = loss * (1. - exp(-loss)) * (1. - exp(-loss));
      total += loss / static_cast<double>(n);
    }
    return {total};
  }
};

TEST(Losses, Ctc) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Draw d(seed, "ctc");
    const CtcCase k(d, seed % 4 != 0);
    const bool focal = seed % 3 == 0;
    // Some logits so far apart that the recursion has to run on logarithms.
    const double range = seed % 5 ? 3 : 25;
    const std::vector<CheckInput> in{{{k.n, k.t, k.c}, d.values(k.n * k.t * k.c, range)}};
    const auto ref = [&](const auto& x) { return k.loss(x[0], focal); };
    check_gradient(
        seed, in,
        [&](Tape& t, auto& v) {
          return ctc_loss(t, v[0], k.label_input(), k.length_input(), {.focal = focal}).loss;
        },
        ref, {.factor = 100, .absolute = 1e-6});
    if (seed < 8) check_finite_differences(seed, in, ref);
    if (HasFatalFailure()) return;
  }
}

TEST(Losses, LinearCtc) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draw d(seed, "linear ctc");
    const CtcCase k(d, seed % 4 != 0);
    const int64_t width = d.in(1, 20);
    const std::vector<CheckInput> in{{{k.n, k.t, width}, d.values(k.n * k.t * width)},
                                     {{k.c, width}, d.values(k.c * width), true},
                                     {{k.c}, d.values(k.c), true}};
    const auto ref = [&](const auto& x) {
      auto logits = x[0];
      logits.assign(static_cast<size_t>(k.n * k.t * k.c), 0.);
      for (int64_t r = 0; r < k.n * k.t; ++r)
        for (int64_t c = 0; c < k.c; ++c) {
          logits[r * k.c + c] = x[2][c];
          for (int64_t i = 0; i < width; ++i)
            logits[r * k.c + c] += x[0][r * width + i] * x[1][c * width + i];
        }
      return k.loss(logits, seed % 3 == 0);
    };
    check_gradient(seed, in,
                   [&](Tape& t, auto& v) {
                     return linear_ctc_loss(t, v[0], v[1], v[2], k.label_input(), k.length_input(),
                                            {.focal = seed % 3 == 0})
                         .loss;
                   },
                   ref, {.factor = 100, .absolute = 1e-6});
    if (HasFatalFailure()) return;
  }
}

// Chunks of samples: many classes make several of them.
TEST(Losses, LinearCtcInChunksEqualsTheWhole) {
  Draw d(1, "chunks");
  const int64_t n = 9, t = 12, c = 60000, width = 5;
  const auto x = to_f32({n, t, width}, d.values(n * t * width));
  const auto w = to_f32({c, width}, d.values(c * width)), b = to_f32({c}, d.values(c));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n * 3; ++i) labels.push_back(d.in(1, c - 1));
  const Variable l = Variable::input(Tensor::from<int64_t>({n, 3}, labels));
  const Variable len = Variable::input(Tensor::from<int64_t>({n}, std::vector<int64_t>(n, 3)));
  std::vector<Tensor> results[2];
  for (int fused = 0; fused < 2; ++fused) {
    ThreadPool pool(2);
    const PoolScope scope(&pool);
    Eager eager;
    Tape tape(eager);
    Variable vx = Variable::parameter(x), vw = Variable::parameter(w), vb = Variable::parameter(b);
    const auto linear = std::make_shared<MatMulOp>(true);
    const Variable loss = fused ? linear_ctc_loss(tape, vx, vw, vb, l, len).loss
                                : ctc_loss(tape, tape.apply(linear, {vx, vw, vb}), l, len).loss;
    tape.backward(loss);
    results[fused] = {loss.value(), vx.grad(), vw.grad(), vb.grad()};
  }
  for (size_t i = 0; i < 4; ++i) {
    float largest = 0;
    for (const float v : results[0][i].span<float>()) largest = std::max(largest, std::abs(v));
    for (int64_t k = 0; k < results[0][i].numel(); ++k)
      ASSERT_NEAR(results[1][i].data<float>()[k], results[0][i].data<float>()[k], 1e-5 * largest)
          << i << ' ' << k;
  }
}

TEST(Losses, CtcTellsWhatDoesNotFit) {
  Eager eager;
  Tape tape(eager, false);
  const Variable x = Variable::input(Tensor::zeros({2, 3, 4}));
  const auto labels = [](std::initializer_list<int64_t> v) {
    return Variable::input(Tensor::from<int64_t>({2, 3}, v));
  };
  const auto lengths = [](std::initializer_list<int64_t> v) {
    return Variable::input(Tensor::from<int64_t>({2}, v));
  };
  // 1 1 2 needs four steps; 1 2 3 three.
  const auto r = ctc_loss(tape, x, labels({1, 1, 2, 1, 2, 3}), lengths({3, 3}));
  EXPECT_TRUE(std::isinf(r.per_sample.value().data<float>()[0]));
  EXPECT_NEAR(r.per_sample.value().data<float>()[1], 3 * std::log(4.), 1e-6);
  EXPECT_NEAR(*r.loss.value().data<float>(), 1.5 * std::log(4.), 1e-6);
  const auto inf =
      ctc_loss(tape, x, labels({1, 1, 2, 1, 2, 3}), lengths({3, 3}), {.zero_infinity = false});
  EXPECT_TRUE(std::isinf(*inf.loss.value().data<float>()));
  for (const auto& bad : {labels({1, 2, 3, 1, 0, 3}), labels({1, 2, 3, 1, 4, 3})}) try {
      ctc_loss(tape, x, bad, lengths({3, 3}));
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("sample 1"), std::string::npos) << e.what();
    }
  EXPECT_THROW(ctc_loss(tape, x, labels({1, 2, 3, 1, 2, 3}), lengths({3, 4})), Error);
}

// Long and unlikely: probabilities whose product leaves the range of double.
TEST(Losses, CtcSurvivesUnlikelyLabels) {
  const int64_t t = 80, c = 50;
  std::vector<double> logits(static_cast<size_t>(t * c), 0.);
  for (int64_t i = 0; i < t; ++i) logits[i * c] = 60;  // all but sure of blanks
  Eager eager;
  Tape tape(eager);
  Variable x = Variable::input(to_f32({1, t, c}, logits));
  x.set_requires_grad(true);
  std::vector<int64_t> label(30);
  std::iota(label.begin(), label.end(), 1);
  const Variable loss = ctc_loss(tape, x, Variable::input(Tensor::from<int64_t>({1, 30}, label)),
                                 Variable::input(Tensor::from<int64_t>({1}, {30})))
                            .loss;
  // Any 30 of the 80 steps may carry the characters: -log(C(80, 30) e^(-60 * 30)), about.
  EXPECT_NEAR(*loss.value().data<float>(),
              1800 - std::lgamma(81.) + std::lgamma(31.) + std::lgamma(51.), .01);
  tape.backward(loss);
  double sum = 0;
  for (const float g : x.grad().span<float>()) {
    ASSERT_TRUE(std::isfinite(g));
    sum += g;
  }
  EXPECT_NEAR(sum, 0, 1e-3);
}

TEST(Losses, CrossEntropyOptions) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Draw d(seed, "cross entropy");
    const int64_t rows = d.in(1, 40), classes = d.in(2, 50);
    const CrossEntropyOptions o{
        .smoothing = d.chance(2) ? .1f : 0.f,
        .smooth_others = d.chance(2),
        .ignore_index = d.chance(2) ? std::optional<int64_t>(0) : std::nullopt};
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < rows; ++i) labels.push_back(d.in(0, std::min<int64_t>(classes - 1, 3)));
    const auto op = std::make_shared<SoftmaxCrossEntropyOp>(o);
    const auto ref = [&](const auto& x) {
      const auto log_p = reference::softmax(x[0], rows, classes, 1, true);
      auto total = log_p[0] * 0.;
      double count = 0;
      for (int64_t r = 0; r < rows; ++r) {
        if (o.ignore_index == labels[r]) continue;
        ++count;
        for (int64_t c = 0; c < classes; ++c) {
          const double e = o.smoothing;
          const double target =
              o.smooth_others ? (c == labels[r] ? 1 - e : e / static_cast<double>(classes - 1))
                              : (c == labels[r] ? 1 - e : 0) + e / static_cast<double>(classes);
          total = total - log_p[r * classes + c] * target;
        }
      }
      return std::vector{total / std::max(count, 1.)};
    };
    const std::vector<CheckInput> in{{{rows, classes}, d.values(rows * classes, 4)}};
    check_gradient(seed, in,
                   [&](Tape& t, auto& v) {
                     const Variable l = Variable::input(Tensor::from<int64_t>({rows}, labels));
                     return t.apply(op, std::array{v[0], l}, 2)[0];
                   },
                   ref, {.factor = 100, .absolute = 2e-6});
    if (seed < 4) check_finite_differences(seed, in, ref);
    if (HasFatalFailure()) return;
  }
}

// The loss of maps on T; `pick` says which negatives count (as the values choose).
template <class T>
std::vector<T> map_reference(MapLoss kind, const MapLossOptions& o, const std::vector<T>& p,
                             const reference::Vec& g, const reference::Vec& m) {
  using std::abs, std::exp, std::log;
  T a(0.), b(0.);
  const auto bce = [&](size_t i) { return -(g[i] > .5 ? log(p[i]) : log(1. - p[i])); };
  switch (kind) {
    case MapLoss::kDice:
      for (size_t i = 0; i < p.size(); ++i) {
        a += p[i] * g[i] * m[i];
        b += (p[i] + g[i]) * m[i];
      }
      return {1. - 2. * a / (b + o.epsilon)};
    case MapLoss::kL1:
      for (size_t i = 0; i < p.size(); ++i) {
        a += abs(p[i] - g[i]) * m[i];
        b += m[i];
      }
      return {a / (b + o.epsilon)};
    case MapLoss::kFocal:
      for (size_t i = 0; i < p.size(); ++i) {
        const T q = g[i] > .5 ? p[i] : 1. - p[i];
        const double w = g[i] > .5 ? o.alpha : 1 - o.alpha;
        a += -w * m[i] * exp(log(1. - q) * o.gamma) * log(q);
        b += m[i];
      }
      return {a / (b + o.epsilon)};
    default:
      break;
  }
  std::vector<size_t> negatives;
  double positives = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (m[i] == 0) continue;
    if (g[i] > .5) {
      ++positives;
      a += bce(i);
    } else {
      negatives.push_back(i);
    }
  }
  std::stable_sort(negatives.begin(), negatives.end(),
                   [&](size_t i, size_t j) { return value_of(bce(i)) > value_of(bce(j)); });
  negatives.resize(std::min(negatives.size(), static_cast<size_t>(positives * o.ratio)));
  for (const size_t i : negatives) a += bce(i);
  return {a / (positives + static_cast<double>(negatives.size()) + o.epsilon)};
}

TEST(Losses, Maps) {
  for (uint64_t seed = 0; seed < 80; ++seed)
    for (const MapLoss kind :
         {MapLoss::kDice, MapLoss::kBalancedBce, MapLoss::kL1, MapLoss::kFocal}) {
      SCOPED_TRACE(static_cast<int>(kind));
      Draw d(seed, "maps");
      const bool large = seed == 7;
      const Shape s{d.in(1, 3), d.in(1, large ? 200 : 12), d.in(1, large ? 200 : 12)};
      auto p = d.values(s.numel());
      for (double& v : p) v = static_cast<float>(.5 + .49 * v);
      auto g = d.values(s.numel()), m = d.values(s.numel());
      const double share = d.chance(4) ? 2 : .6;  // sometimes no positive at all
      for (double& v : g) v = v > share ? 1 : 0;
      for (double& v : m) v = v > -.5 ? 1 : 0;
      const MapLossOptions o{.ratio = 1.5, .gamma = 2.5};
      const std::vector<CheckInput> in{{s, p}, {s, g, false, true}, {s, m, false, true}};
      const auto ref = [&](const auto& x) { return map_reference(kind, o, x[0], g, m); };
      check_gradient(seed, in,
                     [&](Tape& t, auto& v) { return map_loss(t, kind, v[0], v[1], v[2], o); }, ref,
                     {.factor = 32, .absolute = 1e-6});
      if (seed < 4) check_finite_differences(seed, in, ref, 1e-6);
      if (HasFatalFailure()) return;
    }
}

TEST(Losses, Db) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Draw d(seed, "db");
    const int64_t n = d.in(1, 3), h = d.in(2, 9), w = d.in(2, 9), hw = h * w;
    auto maps = d.values(n * 3 * hw);
    for (double& v : maps) v = static_cast<float>(.5 + .45 * v);
    const auto bits = [&](double above) {
      auto v = d.values(n * hw);
      for (double& x : v) x = x > above ? 1 : 0;
      return v;
    };
    const auto shrink = bits(.2), shrink_mask = bits(-.8), threshold_mask = bits(0);
    const auto threshold = d.values(n * hw);
    const bool dice = seed % 2;
    const auto ref = [&](const auto& x) {
      const auto map = [&](int64_t k) {
        auto v = x[0];
        v.clear();
        for (int64_t i = 0; i < n; ++i)
          v.insert(v.end(), x[0].begin() + (i * 3 + k) * hw, x[0].begin() + (i * 3 + k + 1) * hw);
        return v;
      };
      const MapLossOptions o;
      const auto a = map_reference(dice ? MapLoss::kDice : MapLoss::kBalancedBce, o, map(0), shrink,
                                   shrink_mask)[0];
      const auto b = map_reference(MapLoss::kL1, o, map(1), threshold, threshold_mask)[0];
      const auto c = map_reference(MapLoss::kDice, o, map(2), shrink, shrink_mask)[0];
      return std::vector{a * 5. + b * 10. + c};
    };
    const auto target = [&](const reference::Vec& v) {
      return Variable::input(to_f32({n, h, w}, v));
    };
    check_gradient(seed, {{{n, 3, h, w}, maps}},
                   [&](Tape& t, auto& v) {
                     return db_loss(t, v[0], target(threshold), target(threshold_mask),
                                    target(shrink), target(shrink_mask), {.dice = dice})
                         .total;
                   },
                   ref, {.factor = 64, .absolute = 2e-6});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace train
