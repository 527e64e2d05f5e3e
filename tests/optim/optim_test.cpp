// Optimisers, gradients' clipping and EMA against formulas in f64 and against PaddlePaddle.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include "libtrain/autograd/functional.h"
#include "libtrain/core/philox.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/optim/adam.h"
#include "libtrain/optim/ema.h"
#include "libtrain/optim/gradients.h"
#include "libtrain/optim/schedule.h"
#include "libtrain/optim/sgd.h"
#include "tests/support/error_of.h"

namespace train::optim {
namespace {

using test::error_of;
// A model of parameters whose gradients the test sets.
struct Bare : nn::Module {
  explicit Bare(const std::vector<std::pair<std::string, Shape>>& shapes) {
    for (const auto& [name, shape] : shapes) add_parameter(name, shape, {});
    initialize(1);
  }
};

void set_grad(Variable v, std::span<const float> g) {
  Eager eager;
  Tape tape(eager);
  v.clear_grad();
  const Variable zero = Variable::input(Tensor::zeros(v.shape()));
  tape.backward(add(tape, v, zero), Tensor::from<float>(v.shape(), g));
}

void set_value(Variable v, std::span<const float> x) {
  std::ranges::copy(x, v.writable().data<float>());
}

std::vector<float> random_floats(std::string_view name, int64_t n, float scale = 1) {
  const RandomStream random(3, stream_of(name));
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = scale * static_cast<float>(random.normal(i));
  return x;
}

std::vector<float> floats(const Tensor& t) {
  return {t.data<float>(), t.data<float>() + t.numel()};
}

std::map<std::string, std::vector<double>> paddle_results() {
  std::map<std::string, std::vector<double>> all;
  std::ifstream in(OCR_TEST_DATA "/optim/paddle.txt");
  for (std::string line, name; std::getline(in, line);) {
    std::istringstream fields(line);
    fields >> name;
    for (double v; fields >> v;) all[name].push_back(v);
  }
  return all;
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<nn::Parameter>)>;
using Clip = std::function<void(std::span<nn::Parameter>)>;

struct PaddleCase {
  const char* name;
  MakeOptimizer make;
  Clip clip = {};
};

template <class O, class Options>
MakeOptimizer maker(const Options& options, std::vector<ParameterRule> rules = {}) {
  return [=](std::vector<nn::Parameter> p) {
    return std::make_unique<O>(std::move(p), options, rules);
  };
}

TEST(Optimizers, StepLikePaddle) {
  const auto expected = paddle_results();
  const SgdOptions plain{.learning_rate = .05};
  const PaddleCase cases[] = {
      {"sgd", maker<Sgd>(SgdOptions{.learning_rate = .05, .weight_decay = .01})},
      {"momentum",
       maker<Sgd>(SgdOptions{.learning_rate = .05, .momentum = .9, .weight_decay = .01})},
      {"nesterov",
       maker<Sgd>(SgdOptions{
           .learning_rate = .05, .momentum = .9, .weight_decay = .01, .nesterov = true})},
      {"adam", maker<Adam>(AdamOptions{.learning_rate = .01})},
      {"adam_l2", maker<Adam>(AdamOptions{.learning_rate = .01, .beta2 = .99, .weight_decay = .1})},
      {"adamw", maker<Adam>(AdamOptions{
                    .learning_rate = .01, .beta2 = .99, .weight_decay = .05, .decoupled = true})},
      {"adam_half_rate", maker<Adam>(AdamOptions{.learning_rate = .01, .beta2 = .99},
                                     {{.pattern = "w", .lr_multiplier = .5}})},
      {"clip_global", maker<Sgd>(plain), [](auto p) { clip_by_global_norm(p, 1); }},
      {"clip_norm", maker<Sgd>(plain), [](auto p) { clip_by_norm(p, 2); }},
      {"clip_value", maker<Sgd>(plain), [](auto p) { clip_by_value(p, .5); }},
  };
  const std::vector<double>& w0 = expected.at("weights");
  const std::vector<float> start(w0.begin(), w0.end());
  const std::vector<float> g(expected.at("gradients").begin(), expected.at("gradients").end());
  const size_t n = start.size();
  for (const PaddleCase& c : cases) {
    Bare model({{"w", {static_cast<int64_t>(n)}}});
    const auto optimizer = c.make(model.parameters());
    Variable w = model.parameters()[0].variable;
    set_value(w, start);
    const std::vector<double>& after = expected.at(c.name);
    ASSERT_EQ(after.size(), g.size()) << c.name;
    for (size_t step = 0; step < g.size() / n; ++step) {
      set_grad(w, std::span(g).subspan(step * n, n));
      if (c.clip) c.clip(optimizer->parameters());
      optimizer->step();
      for (size_t i = 0; i < n; ++i)
        EXPECT_NEAR(floats(w.value())[i], after[step * n + i], 2e-6) << c.name << " step " << step;
    }
  }
}

TEST(Schedules, FollowPaddle) {
  using K = ScheduleOptions::Kind;
  const auto expected = paddle_results();
  const std::pair<const char*, ScheduleOptions> cases[] = {
      {"const_warmup", {.learning_rate = .001, .warmup_steps = 5}},
      {"cosine", {.kind = K::kCosine, .learning_rate = .001, .total_steps = 30}},
      {"cosine_warmup",
       {.kind = K::kCosine, .learning_rate = .001, .total_steps = 40, .warmup_steps = 7}},
      {"piecewise", {.kind = K::kPiecewise, .boundaries = {10, 20}, .values = {.1, .01, .001}}},
      {"piecewise_warmup",
       {.kind = K::kPiecewise,
        .boundaries = {10, 20},
        .values = {.1, .01, .001},
        .warmup_steps = 6}},
      {"linear", {.kind = K::kLinear, .learning_rate = .01, .total_steps = 30, .end_lr = .001}},
      {"linear_warmup",
       {.kind = K::kLinear, .learning_rate = .01, .total_steps = 40, .warmup_steps = 8}},
      {"polynomial",
       {.kind = K::kPolynomial, .learning_rate = .007, .total_steps = 40, .power = .9}},
      {"one_cycle", {.kind = K::kOneCycle, .learning_rate = .1, .total_steps = 40}},
      {"one_cycle_linear_three",
       {.kind = K::kOneCycle,
        .learning_rate = .1,
        .total_steps = 40,
        .pct_start = .4,
        .div_factor = 10,
        .final_div_factor = 100,
        .three_phase = true,
        .linear_anneal = true}},
  };
  for (const auto& [name, options] : cases) {
    const Schedule schedule(options);
    const std::vector<double>& rates = expected.at(name);
    ASSERT_EQ(rates.size(), 40u);
    // Paddle's cosine turns up again after T_max; ours stays at the end, so compare until there.
    const size_t last = std::string(name) == "cosine" ? 30 : rates.size() - 1;
    for (size_t step = 0; step <= last; ++step)
      EXPECT_NEAR(schedule.at(static_cast<int64_t>(step)), rates[step], 1e-12 + 1e-9 * rates[step])
          << name << " step " << step;
  }
}

TEST(Schedules, StayAtTheirEndAndRefuseContradictions) {
  using K = ScheduleOptions::Kind;
  const Schedule cosine({.kind = K::kCosine, .learning_rate = 1, .total_steps = 10, .end_lr = .25});
  EXPECT_EQ(cosine.at(10), .25);
  EXPECT_EQ(cosine.at(1000), .25);
  const Schedule cycle({.kind = K::kOneCycle, .learning_rate = 1, .total_steps = 10});
  EXPECT_NEAR(cycle.at(1000), 1. / 25 / 1e4, 1e-12);
  EXPECT_NE(error_of([] { Schedule({.total_steps = 0}); }).find("total_steps"), std::string::npos);
  EXPECT_NE(error_of([] {
              Schedule({.kind = K::kPiecewise, .boundaries = {1}, .values = {1}});
            }).find("one value more"),
            std::string::npos);
  EXPECT_NE(error_of([] { Schedule({.learning_rate = std::nan("")}); }), "");
}

// Formulas of the papers in f64, over many steps and sizes that do not divide into vectors.
TEST(Optimizers, AdamFollowsTheFormulaInF64) {
  for (const bool decoupled : {false, true}) {
    const int64_t n = 1003;
    Bare model({{"w", {n}}});
    Variable w = model.parameters()[0].variable;
    const std::vector<float> start = random_floats("start", n);
    set_value(w, start);
    Adam adam(model.parameters(), {.learning_rate = .003,
                                   .beta1 = .8,
                                   .beta2 = .95,
                                   .epsilon = 1e-6,
                                   .weight_decay = .2,
                                   .decoupled = decoupled});
    std::vector<double> x(start.begin(), start.end()), m(x.size()), v(x.size());
    for (int t = 1; t <= 50; ++t) {
      const std::vector<float> g = random_floats(cat("g", t), n, t % 7 == 0 ? 30.f : .1f);
      adam.learning_rate = .003 / t;
      set_grad(w, g);
      adam.step();
      for (size_t i = 0; i < x.size(); ++i) {
        const double d = g[i] + (decoupled ? 0 : .2 * x[i]);
        m[i] = .8 * m[i] + .2 * d;
        v[i] = .95 * v[i] + .05 * d * d;
        if (decoupled) x[i] -= adam.learning_rate * .2 * x[i];
        x[i] -= adam.learning_rate * (m[i] / (1 - std::pow(.8, t))) /
                (std::sqrt(v[i] / (1 - std::pow(.95, t))) + 1e-6);
      }
    }
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(floats(w.value())[i], x[i], 3e-6) << decoupled;
  }
}

TEST(Optimizers, SameBitsForAnyThreadCount) {
  const int64_t n = 100003;
  const MakeOptimizer makers[] = {
      maker<Sgd>(SgdOptions{.learning_rate = .1, .weight_decay = .01}),
      maker<Sgd>(
          SgdOptions{.learning_rate = .1, .momentum = .9, .weight_decay = .01, .nesterov = true}),
      maker<Adam>(AdamOptions{.weight_decay = .01, .decoupled = true})};
  for (const MakeOptimizer& make : makers) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      const PoolScope scope(&pool);
      Bare model({{"w", {n}}, {"b", {7}}});
      const auto optimizer = make(model.parameters());
      Ema ema(model, {.decay = .9});
      Variable w = model.parameters()[0].variable;
      set_value(w, random_floats("w", n));
      for (int t = 0; t < 3; ++t) {
        set_grad(w, random_floats(cat("g", t), n));
        clip_by_global_norm(optimizer->parameters(), 10);
        optimizer->step();
        ema.update();
      }
      ema.swap();
      if (first.empty()) first = floats(w.value());
      EXPECT_EQ(floats(w.value()), first) << threads;
    }
  }
}

TEST(Optimizers, RulesExclusionsAndFreezing) {
  Bare model({{"backbone.conv.weight", {2, 2}},
              {"backbone.norm.weight", {2}},
              {"head.fc.weight", {2, 2}},
              {"head.fc.bias", {2}}});
  const AdamOptions options{.learning_rate = .1,
                            .weight_decay = 1,
                            .decoupled = true,
                            .no_weight_decay_name = {"norm", "pos_embed"},
                            .one_dim_param_no_weight_decay = true};
  const ParameterRule rules[] = {{.pattern = "head", .lr_multiplier = .5},
                                 {.pattern = "head.*.bias", .weight_decay = .5}};
  Adam adam(model.parameters(), options, rules);
  auto parameters = model.parameters();
  const std::vector<float> zero(4), one(4, 1.f);
  for (auto& p : parameters) {
    const auto count = static_cast<size_t>(p.variable.value().numel());
    set_value(p.variable, std::span(one).first(count));
    set_grad(p.variable, std::span(zero).first(count));  // what moves is the decay alone
  }
  adam.step();
  const auto at = [&](size_t i) { return parameters[i].variable.value().data<float>()[0]; };
  EXPECT_FLOAT_EQ(at(0), .9f);
  EXPECT_FLOAT_EQ(at(1), 1);
  EXPECT_FLOAT_EQ(at(2), .95f);
  EXPECT_FLOAT_EQ(at(3), .975f);

  const std::string patterns[] = {"backbone", "*.bias"};
  EXPECT_EQ(freeze(parameters, patterns), 3);
  adam.step();
  EXPECT_FLOAT_EQ(at(0), .9f);
  EXPECT_FLOAT_EQ(at(3), .975f);
  EXPECT_FLOAT_EQ(at(2), .95f * .95f);
  const std::string wrong[] = {"bakbone"};
  EXPECT_NE(error_of([&] { freeze(parameters, wrong); }).find("'bakbone'"), std::string::npos);
  const ParameterRule bad[] = {{.pattern = "neck", .lr_multiplier = 2}};
  EXPECT_NE(error_of([&] { Adam(model.parameters(), options, bad); }).find("'neck'"),
            std::string::npos);
}

TEST(Optimizers, PatternsMatchWholeNames) {
  EXPECT_TRUE(matches("backbone", "backbone.conv.weight"));
  EXPECT_TRUE(matches("head.fc", "head.fc"));
  EXPECT_FALSE(matches("back", "backbone.conv"));
  EXPECT_FALSE(matches("", "x"));
  EXPECT_TRUE(matches("*", "x.y"));
  EXPECT_TRUE(matches("*.bias", "a.b.bias"));
  EXPECT_FALSE(matches("*.bias", "a.bias.b"));
  EXPECT_TRUE(matches("a*b*c", "a1b2b3c"));
  EXPECT_FALSE(matches("a*b*c", "a1b2"));
}

TEST(Gradients, NormsAndNonFiniteValues) {
  Bare model({{"a", {20011}}, {"b", {5}}, {"none", {3}}});
  auto p = model.parameters();
  const auto a = random_floats("a", 20011), b = random_floats("b", 5, 100);
  set_grad(p[0].variable, a);
  set_grad(p[1].variable, b);
  double sum = 0;
  for (const auto& values : {a, b})
    for (const float v : values) sum += double{v} * v;
  const GradientNorm norm = gradient_norm(p, .5);
  EXPECT_NEAR(norm.norm, .5 * std::sqrt(sum), 1e-9 * std::sqrt(sum));
  EXPECT_EQ(norm.non_finite, 0);
  EXPECT_NEAR(clip_by_global_norm(p, 1), std::sqrt(sum), 1e-9 * std::sqrt(sum));
  EXPECT_NEAR(gradient_norm(p).norm, 1, 1e-6);
  p[0].variable.writable_grad().data<float>()[9000] = std::numeric_limits<float>::infinity();
  p[1].variable.writable_grad().data<float>()[1] = std::nanf("");
  EXPECT_EQ(gradient_norm(p).non_finite, 2);
}

TEST(Gradients, SharedMemoryIsNotScaledTwice) {
  Bare model({{"a", {2}}, {"b", {2}}});
  auto p = model.parameters();
  Eager eager;
  Tape tape(eager);
  tape.backward(add(tape, p[0].variable, p[1].variable), Tensor::from<float>({2}, {4, 8}));
  scale_gradients(p, .5);
  for (const auto& q : p) EXPECT_EQ(floats(q.variable.grad()), (std::vector<float>{2, 4}));
}

TEST(Ema, IsTheNormalisedWeightedMeanInF64) {
  using T = EmaOptions::Type;
  for (const T type : {T::kThreshold, T::kExponential, T::kNormal}) {
    Bare model({{"w", {5}}});
    Variable w = model.parameters()[0].variable;
    Ema ema(model, {.decay = .95, .type = type});
    std::vector<double> sum(5);
    double weights = 0;
    for (int n = 0; n < 40; ++n) {
      const auto x = random_floats(cat("x", n), 5);
      set_value(w, x);
      ema.update();
      const double decay = type == T::kThreshold     ? std::min(.95, (1. + n) / (10. + n))
                           : type == T::kExponential ? .95 * (1 - std::exp(-(n + 1) / 2000.))
                                                     : .95;
      weights = decay * weights + 1 - decay;
      for (size_t i = 0; i < 5; ++i) sum[i] = decay * sum[i] + (1 - decay) * x[i];
    }
    const auto last = floats(w.value());
    const uint64_t version = w.value().storage()->version;
    {
      const EmaScope scope(&ema);
      EXPECT_GT(w.value().storage()->version, version);
      for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(floats(w.value())[i], sum[i] / weights, 2e-6);
    }
    EXPECT_EQ(floats(w.value()), last);
  }
}

}  // namespace
}  // namespace train::optim
