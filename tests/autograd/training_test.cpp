// The structure carries training: a small CNN learns rendered digits, its gradient agrees with f64,
// and its loss curve has the same bits for any thread count.
#include <gtest/gtest.h>

#include "apps/examples/digits.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/sgd.h"
#include "tests/support/digits_cnn.h"
#include "tests/support/random_shapes.h"

namespace train {
namespace {

using examples::kDigitSize;
using examples::render_digits;
using reference::Vec;

struct Curve {
  std::vector<float> losses;
  double accuracy;
};

Curve train_digits(int steps, int threads) {
  ThreadPool pool(threads);
  const PoolScope scope(&pool);
  test::DigitsCnn model;
  model.initialize(/*seed=*/1);
  const nn::SoftmaxCrossEntropy loss_of;
  optim::Sgd sgd(model.parameters(),
                 {.learning_rate = .05f, .momentum = .9f, .weight_decay = 1e-4f});
  Eager eager;
  Curve run;
  for (int step = 0; step < steps; ++step) {
    const auto batch = render_digits("train", static_cast<uint64_t>(step) * 64, 64);
    Tape tape(eager);
    const Variable logits = model(tape, Variable::input(batch.images));
    const Variable loss = loss_of(tape, logits, Variable::input(batch.labels));
    sgd.clear_grad();
    tape.backward(loss);
    sgd.step();
    run.losses.push_back(loss.value().data<float>()[0]);
  }
  const auto test = render_digits("test", 0, 500);
  Tape tape(eager, /*record=*/false);
  run.accuracy = examples::accuracy(model(tape, Variable::input(test.images)).value(), test.labels);
  return run;
}

TEST(Training, SmallCnnLearnsDigits) {
  const Curve run = train_digits(/*steps=*/300, /*threads=*/2);
  EXPECT_GE(run.accuracy, .97);
  EXPECT_GT(run.losses.front(), 1.5f);  // it started without knowledge
}

TEST(Training, LossCurveHasTheSameBitsForAnyThreadCount) {
  const Curve once = train_digits(40, 1);
  for (const int threads : {1, 2, 3}) EXPECT_EQ(train_digits(40, threads).losses, once.losses);
  EXPECT_LT(once.losses.back(), once.losses.front());
}

Vec values_of(const Tensor& t) { return t.to_doubles(); }

// Forward and backward of test::DigitsCnn in f64; gradients in the order of Module::parameters().
double reference_gradients(const std::vector<Vec>& p, const Vec& images,
                           const std::vector<int64_t>& labels, std::vector<Vec>& grads) {
  using namespace reference;
  const auto n = static_cast<int64_t>(labels.size());
  const Conv c1{
      .n = n, .cin = 1, .h = 16, .w = 16, .cout = 8, .kernel = {3, 3}, .pads = {1, 1, 1, 1}};
  const Conv c2{
      .n = n, .cin = 8, .h = 8, .w = 8, .cout = 16, .kernel = {3, 3}, .pads = {1, 1, 1, 1}};
  const auto pool = [&](int64_t channels, int64_t size) {
    return Conv{.n = n,
                .cin = channels,
                .h = size,
                .w = size,
                .cout = channels,
                .groups = channels,
                .kernel = {2, 2},
                .stride = {2, 2}};
  };
  const Vec a1 = conv(c1, images, p[0], p[1]), r1 = relu(a1), m1 = max_pool(pool(8, 16), r1);
  const Vec a2 = conv(c2, m1, p[2], p[3]), r2 = relu(a2), m2 = max_pool(pool(16, 8), r2);
  Vec dlogits, dx, ignored;
  const double loss = cross_entropy(10, linear(n, 256, 10, m2, p[4], p[5]), labels, 0, &dlogits);
  grads.resize(6);
  linear_grad(n, 256, 10, m2, p[4], dlogits, dx, grads[4], grads[5]);
  dx = relu_grad(a2, max_pool_grad(pool(16, 8), r2, dx));
  Vec dm1;
  conv_grad(c2, m1, p[2], dx, dm1, grads[2], grads[3]);
  dx = relu_grad(a1, max_pool_grad(pool(8, 16), r1, dm1));
  conv_grad(c1, images, p[0], dx, ignored, grads[0], grads[1]);
  return loss;
}

TEST(Training, GradientOfTheWholeModelAgreesWithF64) {
  test::DigitsCnn model;
  model.initialize(/*seed=*/5);
  const auto batch = render_digits("gradient check", 0, 8);
  Eager eager;
  Tape tape(eager);
  const nn::SoftmaxCrossEntropy loss_of;
  const Variable loss =
      loss_of(tape, model(tape, Variable::input(batch.images)), Variable::input(batch.labels));
  tape.backward(loss);

  const auto parameters = model.parameters();
  std::vector<Vec> p, grads;
  for (const auto& q : parameters) p.push_back(values_of(q.variable.value()));
  EXPECT_EQ(parameters[2].name, "conv2.weight");
  const double expected =
      reference_gradients(p, values_of(batch.images), batch.labels.to_ints(), grads);
  EXPECT_NEAR(loss.value().data<float>()[0], expected, 1e-6 * expected);
  for (size_t i = 0; i < grads.size(); ++i) {
    const Vec got = values_of(parameters[i].variable.grad());
    double largest = 0, worst = 0;
    for (size_t j = 0; j < got.size(); ++j) {
      largest = std::max(largest, std::abs(grads[i][j]));
      worst = std::max(worst, std::abs(got[j] - grads[i][j]));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LT(worst, 3e-6 * largest) << parameters[i].name;
  }
}

}  // namespace
}  // namespace train
