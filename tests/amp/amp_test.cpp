// Mixed precision: the rounding, what autocast lowers, and loss scaling with f16's overflow and
// underflow.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "apps/examples/digits.h"
#include "libtrain/amp/autocast.h"
#include "libtrain/amp/grad_scaler.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/isa.h"
#include "libtrain/nn/layers.h"
#include "libtrain/nn/sequence.h"
#include "libtrain/optim/sgd.h"
#include "tests/support/digits_cnn.h"
#include "tests/support/error_of.h"

namespace train::amp {
namespace {

using test::error_of;
constexpr float kInf = std::numeric_limits<float>::infinity();

float low(DType dtype, float v) {
  return dtype == DType::kF16 ? f16_to_f32(f32_to_f16(v)) : bf16_to_f32(f32_to_bf16(v));
}

std::vector<float> floats(const Tensor& t) {
  return {t.data<float>(), t.data<float>() + t.numel()};
}

// One parameter and y = w + 0, so that a test can give any gradient.
struct One : nn::Module {
  Variable w = add_parameter("w", {4}, {});
  std::vector<nn::Parameter> list = parameters();
  void backward(std::initializer_list<float> grad) {
    w.clear_grad();
    Eager eager;
    Tape tape(eager);
    tape.backward(add(tape, w, Variable::input(Tensor::zeros({4}))), Tensor::from({4}, grad));
  }
};

TEST(Round16, EqualsTheConversionThereAndBack) {
  std::vector<float> x{0.f,           -0.f,         1.f,          65504.f,     65519.996f,
                       65520.f,       -65520.f,     kInf,         -kInf,       0x1p-14f,
                       0x1p-24f,      0x1p-25f,     0x1.8p-25f,   1e-9f,       3.4e38f,
                       std::nanf(""), 0x1.ffcp-15f, 0x1.ffep-15f, 0x1.fffp-15f};
  const RandomStream random(4, 0);
  for (uint64_t i = 0; i < 200000; ++i) x.push_back(std::bit_cast<float>(random.bits(i)));
  for (uint64_t i = 0; i < 100000; ++i)  // where f16 lies
    x.push_back(
        std::ldexp(random.uniform(i, -2, 2), static_cast<int>(random.below(i + 500000, 44)) - 26));
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Eager eager;
    const auto n = static_cast<int64_t>(x.size());
    const Array y =
        eager.run(std::make_shared<Round16Op>(dtype), {Array(Tensor::from<float>({n}, x))});
    for (size_t i = 0; i < x.size(); ++i) {
      const float got = y.tensor.data<float>()[i], want = low(dtype, x[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << x[i];
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << x[i];
      }
    }
  }
}

TEST(Autocast, RoundsOperandsResultsAndGradients) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const int64_t rows = 5, in = 7, out = 3;
    nn::Linear fc(in, out);
    fc.initialize(1);
    const RandomStream random(2, 0);
    Tensor x({rows, in}), seed({rows, out});
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<float>()[i] = static_cast<float>(random.normal(static_cast<uint64_t>(i)));
    for (int64_t i = 0; i < seed.numel(); ++i)
      seed.data<float>()[i] = static_cast<float>(random.normal(static_cast<uint64_t>(i) + 1000));
    const Autocast autocast({.dtype = dtype, .round_only = true});
    Eager eager;
    Tape tape(eager);
    tape.set_autocast(&autocast);
    const Variable y = fc(tape, Variable::input(x));
    tape.backward(y, seed);

    // The same in f64, with the roundings where 16-bit training has them.
    const auto p = fc.parameters();
    const auto w = floats(p[0].variable.value()), b = floats(p[1].variable.value());
    const double step = dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;  // half a unit in the last place
    std::vector<double> dw(static_cast<size_t>(out * in)), db(static_cast<size_t>(out));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        double sum = low(dtype, b[static_cast<size_t>(o)]);
        const double dy = low(dtype, seed.data<float>()[r * out + o]);
        for (int64_t i = 0; i < in; ++i) {
          const double a = low(dtype, x.data<float>()[r * in + i]);
          sum += a * low(dtype, w[static_cast<size_t>(o * in + i)]);
          dw[static_cast<size_t>(o * in + i)] += dy * a;
        }
        db[static_cast<size_t>(o)] += dy;
        const float got = y.value().data<float>()[r * out + o];
        EXPECT_EQ(got, low(dtype, got));
        EXPECT_NEAR(got, sum, 1.01 * step * std::abs(sum) + 1e-6);
      }
    const auto check = [&](const Tensor& grad, const std::vector<double>& want) {
      for (size_t i = 0; i < want.size(); ++i) {
        const float got = grad.data<float>()[i];
        EXPECT_EQ(got, low(dtype, got));
        EXPECT_NEAR(got, want[i], 1.01 * step * std::abs(want[i]) + 1e-6);
      }
    };
    check(p[0].variable.grad(), dw);
    check(p[1].variable.grad(), db);
    EXPECT_EQ(w, floats(p[0].variable.value()));  // the weights themselves stay in f32
  }
}

// Output and gradients of layers whose kernels multiply bf16 against the same with operands rounded
// around f32 ops: they differ by the rounding of results, which the kernels leave out.
template <class Layer>
std::vector<std::vector<float>> trained_once(const Layer& layer, const Tensor& x,
                                             const AutocastOptions& options) {
  Eager eager;
  Tape tape(eager);
  const Autocast autocast(options);
  tape.set_autocast(&autocast);
  const Variable in = Variable::parameter(x.clone());
  const Variable y = layer(tape, in);
  Tensor seed(y.shape());
  const RandomStream random(5, 0);
  for (int64_t i = 0; i < seed.numel(); ++i)
    seed.data<float>()[i] = static_cast<float>(random.normal(static_cast<uint64_t>(i)));
  for (const nn::Parameter& p : layer.parameters()) Variable(p.variable).clear_grad();
  tape.backward(y, seed);
  std::vector<std::vector<float>> all{floats(reshape(tape, y, {y.shape().numel()}).value()),
                                      floats(in.grad())};
  for (const nn::Parameter& p : layer.parameters()) all.push_back(floats(p.variable.grad()));
  return all;
}
template <class Layer>
void expect_rounding_alone(Layer&& layer, const Shape& shape, const std::string& what,
                           double tolerance = 4e-3) {
  layer.initialize(3);
  Tensor x(shape);
  const RandomStream random(6, 0);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(random.normal(static_cast<uint64_t>(i)));
  ThreadPool three(3);
  const auto got = trained_once(layer, x, {});
  {
    const PoolScope scope(&three);
    EXPECT_EQ(got, trained_once(layer, x, {})) << what << ": with three threads";
  }
  const auto want = trained_once(layer, x, {.round_only = true});
  for (size_t k = 0; k < want.size(); ++k) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < want[k].size(); ++i) {
      error += std::pow(got[k][i] - want[k][i], 2);
      norm += std::pow(want[k][i], 2);
    }
    // A bias' gradient is a sum of the output's gradients, which are normal numbers: its rounding
    // is theirs, however much of the sum cancels.
    if (k == 3) norm = std::max(norm, 4. * static_cast<double>(got[0].size()));
    EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm)) << what << ", tensor " << k;
  }
  EXPECT_NE(got[0], want[0]) << what << ": results are not rounded, so the kernels did not run";
}

TEST(Autocast, KernelsThatMultiplyBf16GiveWhatRoundingGives) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "no AVX512-BF16";
  const RandomStream random(7, 0);
  uint64_t at = 0;
  const auto pick = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random.below(at++, static_cast<uint64_t>(to - from + 1)));
  };
  for (int round = 0; round < 60; ++round) {
    const int64_t in = pick(1, 40), out = pick(1, 50), n = pick(1, 3), h = pick(3, 12),
                  w = pick(3, 20);
    const int kernel = static_cast<int>(pick(1, 3)), stride = static_cast<int>(pick(1, 2));
    const std::string what = cat("round ", round, ": ", in, " to ", out, ", ", n, "x", h, "x", w,
                                 ", kernel ", kernel, ", stride ", stride);
    expect_rounding_alone(nn::Linear(in, out), {n * h, in}, "linear, " + what);
    expect_rounding_alone(nn::Conv2d(in, out, kernel, stride), {n, in, h, w}, "conv, " + what);
    expect_rounding_alone(
        nn::ConvTranspose2d(in, out, {.kernel = {kernel, kernel}, .stride = {stride, stride}}),
        {n, in, h, w}, "transposed, " + what);
    // Its steps are f32 where the reference rounds the weights of a step as well.
    expect_rounding_alone(nn::Lstm(in, out + 4, 1, round % 2), {n, w, in}, "lstm, " + what, 1.5e-2);
  }
}

TEST(Autocast, LeavesOtherOpsAloneAndFollowsItsLists) {
  const float x = 1 + 0x1p-20f;  // no 16-bit value
  const auto run = [&](const AutocastOptions& options) {
    const Autocast autocast(options);
    Eager eager;
    Tape tape(eager);
    tape.set_autocast(&autocast);
    return relu(tape, Variable::input(Tensor::from<float>({1}, {x}))).value().data<float>()[0];
  };
  EXPECT_EQ(run({}), x);
  EXPECT_EQ(run({.white_list = {"Relu"}}), 1);
  EXPECT_TRUE(Autocast({}).lowers("Conv"));
  EXPECT_FALSE(Autocast({}).lowers("SoftmaxCrossEntropy"));
  EXPECT_FALSE(Autocast({.black_list = {"Conv"}}).lowers("Conv"));
  EXPECT_NE(error_of([] { Autocast({.black_list = {"Add"}, .white_list = {"Add"}}); }).find("Add"),
            std::string::npos);
  EXPECT_NE(error_of([] { Autocast({.dtype = DType::kF32}); }).find("f32"), std::string::npos);
}

TEST(Autocast, RoundsAWeightOncePerTapeAndComesBackAfterAnError) {
  nn::Linear fc(3, 3);
  fc.initialize(1);
  const Autocast autocast({.round_only = true});
  Eager eager;
  Tape tape(eager);
  tape.set_autocast(&autocast);
  const Variable x = Variable::input(Tensor::zeros({1, 3}));
  EXPECT_NE(error_of([&] { fc(tape, Variable::input(Tensor::zeros({1, 2}))); }), "");
  const size_t before = tape.size();
  const Variable y = fc(tape, fc(tape, x));
  // Two products and the rounding of both results and of the first one again; the weights' rounding
  // was recorded with the failed call.
  EXPECT_EQ(tape.size() - before, 5u);
  tape.backward(y, Tensor::from<float>({1, 3}, {1, 1, 1}));
  EXPECT_TRUE(fc.parameters()[0].variable.grad().defined());
}

TEST(Autocast, MasterWeightsKeepUpdatesBelowASixteenBitStep) {
  nn::Linear fc(1, 1, /*bias=*/false);
  Variable w = fc.parameters()[0].variable;
  w.writable().data<float>()[0] = 1;
  optim::Sgd sgd(fc.parameters(), {.learning_rate = 1e-4});
  const Autocast autocast({.dtype = DType::kBF16});
  Eager eager;
  float last = 1;
  for (int i = 0; i < 100; ++i) {  // each update is a fortieth of a bf16 step below 1
    Tape tape(eager);
    tape.set_autocast(&autocast);
    sgd.clear_grad();
    const Variable y = fc(tape, Variable::input(Tensor::from<float>({1, 1}, {1})));
    last = y.value().data<float>()[0];
    tape.backward(y, Tensor::from<float>({1, 1}, {1}));
    sgd.step();
  }
  EXPECT_NEAR(w.value().data<float>()[0], .99, 1e-5);
  EXPECT_LT(last, 1);  // and the rounded weight followed
}

TEST(GradScaler, FollowsItsRules) {
  GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
  const auto updates = [&](std::initializer_list<bool> finite) {
    for (const bool f : finite) scaler.update(f);
    return scaler.scale();
  };
  EXPECT_EQ(updates({true, true}), 1024);
  EXPECT_EQ(updates({true}), 2048);
  EXPECT_EQ(updates({true, true, false}), 1024);  // overflow starts the count again
  EXPECT_EQ(updates({true, true}), 1024);
  EXPECT_EQ(updates({true}), 2048);
  for (int i = 0; i < 40; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1);
  GradScaler patient({.init_scale = 8, .growth_interval = 1, .backoff_interval = 2});
  patient.update(false);
  EXPECT_EQ(patient.scale(), 8);
  patient.update(false);
  EXPECT_EQ(patient.scale(), 4);
  for (int i = 0; i < 300; ++i) patient.update(true);
  EXPECT_TRUE(std::isfinite(static_cast<float>(patient.scale())));
  GradScaler fixed({.init_scale = 8, .dynamic = false}), off({.enabled = false});
  fixed.update(false), off.update(false);
  EXPECT_EQ(fixed.scale(), 8);
  EXPECT_EQ(off.scale(), 1);
  EXPECT_NE(error_of([] { GradScaler({.init_scale = 0}); }), "");
}

TEST(GradScaler, SkipsInjectedInfAndNan) {
  One model;
  optim::Sgd sgd(model.parameters(), {.learning_rate = 1});
  GradScaler scaler({.init_scale = 4});
  const auto step = [&](std::initializer_list<float> grad) {
    model.backward(grad);
    const bool finite = scaler.unscale(sgd.parameters());
    if (finite) sgd.step();
    scaler.update(finite);
    return finite;
  };
  EXPECT_TRUE(step({4, 8, 0, -4}));
  const std::vector<float> after{-1, -2, 0, 1};
  EXPECT_EQ(floats(model.w.value()), after);
  EXPECT_FALSE(step({1, kInf, 0, 0}));
  EXPECT_FALSE(step({1, 1, std::nanf(""), 0}));
  EXPECT_FALSE(step({-kInf, kInf, 0, 0}));  // their sum is NaN, not Inf
  EXPECT_EQ(floats(model.w.value()), after);
  EXPECT_EQ(scaler.scale(), 1);  // never below 1
}

// A linear layer whose gradient is below f16's smallest number, and one where it overflows.
TEST(GradScaler, BringsGradientsIntoTheRangeOfF16) {
  nn::Linear fc(1, 1, false);
  fc.initialize(1);
  auto parameters = fc.parameters();
  const Autocast autocast({.dtype = DType::kF16});
  Eager eager;
  const auto gradient = [&](float dy, double scale) {
    parameters[0].variable.clear_grad();
    Tape tape(eager);
    tape.set_autocast(&autocast);
    const Variable y = fc(tape, Variable::input(Tensor::from<float>({1, 1}, {1})));
    const float seed = dy * static_cast<float>(scale);
    tape.backward(y, Tensor::from<float>({1, 1}, {seed}));
    return parameters[0].variable.grad().data<float>()[0];
  };
  constexpr float kTiny = 1e-9f;
  EXPECT_EQ(gradient(kTiny, 1), 0);
  GradScaler scaler({});
  gradient(kTiny, scaler.scale());
  ASSERT_TRUE(scaler.unscale(parameters));
  EXPECT_NEAR(parameters[0].variable.grad().data<float>()[0], kTiny, 2e-11);

  int skipped = 0;
  for (;; ++skipped) {  // 3 * 65536 overflows; 3 * 16384 does not
    gradient(3, scaler.scale());
    const bool finite = scaler.unscale(parameters);
    scaler.update(finite);
    if (finite) break;
    ASSERT_LT(skipped, 10);
  }
  EXPECT_EQ(skipped, 2);
  EXPECT_EQ(scaler.scale(), 16384);
  EXPECT_EQ(parameters[0].variable.grad().data<float>()[0], 3);
}

struct Curve {
  std::vector<float> losses;
  double accuracy;
  int skipped = 0;
};

Curve train_digits(DType dtype, int steps, int threads) {
  ThreadPool pool(threads);
  const PoolScope scope(&pool);
  test::DigitsCnn model;
  model.initialize(1);
  const nn::SoftmaxCrossEntropy loss_of;
  optim::Sgd sgd(model.parameters(), {.learning_rate = .05, .momentum = .9});
  const Autocast autocast({.dtype = dtype});
  GradScaler scaler({.init_scale = 0x1p24, .growth_interval = 50, .enabled = dtype == DType::kF16});
  Eager eager;
  Curve run;
  for (int step = 0; step < steps; ++step) {
    const auto batch = examples::render_digits("train", static_cast<uint64_t>(step) * 64, 64);
    Tape tape(eager);
    tape.set_autocast(&autocast);
    const Variable loss =
        loss_of(tape, model(tape, Variable::input(batch.images)), Variable::input(batch.labels));
    sgd.clear_grad();
    tape.backward(loss, Tensor::from<float>({}, {static_cast<float>(scaler.scale())}));
    const bool finite = scaler.unscale(sgd.parameters());
    if (finite) sgd.step();
    scaler.update(finite);
    run.skipped += !finite;
    run.losses.push_back(loss.value().data<float>()[0]);
  }
  const auto test = examples::render_digits("test", 0, 500);
  Tape tape(eager, /*record=*/false);
  tape.set_autocast(&autocast);
  run.accuracy = examples::accuracy(model(tape, Variable::input(test.images)).value(), test.labels);
  return run;
}

TEST(MixedPrecision, LearnsDigitsInBothFormats) {
  const Curve bf16 = train_digits(DType::kBF16, 200, 2), f16 = train_digits(DType::kF16, 200, 2);
  EXPECT_GE(bf16.accuracy, .95);
  EXPECT_GE(f16.accuracy, .95);
  EXPECT_EQ(bf16.skipped, 0);
  EXPECT_GT(f16.skipped, 0);  // a scale of 2^24 overflows
  EXPECT_LT(f16.skipped, 40);
}

TEST(MixedPrecision, SameBitsForAnyThreadCount) {
  const Curve once = train_digits(DType::kF16, 15, 1);
  EXPECT_EQ(train_digits(DType::kF16, 15, 3).losses, once.losses);
}

}  // namespace
}  // namespace train::amp
