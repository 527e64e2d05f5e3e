// Tape, eager cache, modules and SGD.
#include "libtrain/autograd/tape.h"

#include <gtest/gtest.h>

#include <cmath>

#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/sgd.h"
#include "tests/support/error_of.h"
#include "tests/support/random_shapes.h"

namespace train {
namespace {

using test::error_of;
Variable leaf(const Shape& shape, std::initializer_list<float> values) {
  Variable v = Variable::input(Tensor::from<float>(shape, values));
  v.set_requires_grad(true);
  return v;
}

std::vector<float> values(const Tensor& t) {
  return {t.data<float>(), t.data<float>() + t.numel()};
}

TEST(Tape, AddsWhatFlowsBackOnSeveralPaths) {
  Eager eager;
  const Variable x = leaf({2}, {1, -2});
  for (int pass = 1; pass <= 2; ++pass) {  // leaves keep adding until cleared
    Tape tape(eager);
    const Variable twice = add(tape, x, x);
    const Variable y = add(tape, relu(tape, twice), x);  // relu(2x) + x
    tape.backward(y, Tensor::from<float>({2}, {1, 10}));
    EXPECT_EQ(values(x.grad()), (std::vector<float>{3.f * pass, 10.f * pass}));
    EXPECT_EQ(tape.size(), 0u);
  }
  EXPECT_EQ(values(x.value()), (std::vector<float>{1, -2}));
}

TEST(Tape, SharedGradientsAreNotAddedInPlace) {
  Eager eager;
  Tape tape(eager);
  const Variable a = leaf({1}, {1}), b = leaf({1}, {1});
  const Variable s = add(tape, a, b);  // both get the same gradient tensor
  const Variable y = add(tape, add(tape, s, a), a);
  tape.backward(y, Tensor::from<float>({1}, {1}));
  EXPECT_EQ(values(a.grad()), std::vector<float>{3});
  EXPECT_EQ(values(b.grad()), std::vector<float>{1});
}

TEST(Tape, RefusesAChangedSavedTensorAndNamesTheOp) {
  Eager eager;
  nn::Linear fc(3, 2);
  fc.initialize(1);
  Variable x = leaf({1, 3}, {1, 2, 3});
  const Tensor seed = Tensor::from<float>({1, 2}, {1, 1});
  {
    Tape tape(eager);
    const Variable y = fc(tape, x);
    x.writable().data<float>()[0] = 5;
    const std::string message = error_of([&] { tape.backward(y, seed); });
    EXPECT_NE(message.find("MatMul"), std::string::npos) << message;
    EXPECT_NE(message.find("input 0 was changed in place"), std::string::npos) << message;
  }
  {  // what no gradient reads may change
    Tape tape(eager);
    Variable bias = leaf({2}, {0, 0});
    const Variable y = add(tape, fc(tape, x), bias);
    bias.writable().data<float>()[0] = 7;
    EXPECT_EQ(error_of([&] { tape.backward(y, seed); }), "");
  }
}

TEST(Tape, RecordsOnlyWhatNeedsAGradient) {
  Eager eager;
  nn::Linear fc(2, 2);
  fc.initialize(1);
  const Variable x = Variable::input(Tensor::zeros({4, 2}));
  Tape off(eager, /*record=*/false);
  fc(off, x);
  EXPECT_EQ(off.size(), 0u);
  auto parameters = fc.parameters();
  for (auto& p : parameters) p.variable.set_requires_grad(false);  // frozen
  Tape tape(eager);
  const Variable y = fc(tape, x);
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_NE(error_of([&] { tape.backward(y, Tensor::zeros({4, 2})); }), "");
  parameters[1].variable.set_requires_grad(true);
  tape.backward(fc(tape, x), Tensor::zeros({4, 2}));
  EXPECT_FALSE(parameters[0].variable.grad().defined());
  EXPECT_TRUE(parameters[1].variable.grad().defined());
}

TEST(Tape, TellsWhatIsWrong) {
  Eager eager;
  Tape tape(eager);
  const Variable x = leaf({2, 2}, {1, 2, 3, 4});
  EXPECT_NE(error_of([&] { tape.backward(x); }).find("one f32 element"), std::string::npos);
  const auto floor = std::make_shared<UnaryOp>("Floor", cpu::Activation{.kind = cpu::Act::kFloor});
  EXPECT_NE(error_of([&] { tape.apply(floor, {x}); }).find("Floor has no gradient"),
            std::string::npos);
  const nn::Linear fc(3, 1);
  EXPECT_NE(error_of([&] { fc(tape, x); }).find("MatMul"), std::string::npos);
  const nn::SoftmaxCrossEntropy loss;
  const Variable labels = Variable::input(Tensor::from<int64_t>({2}, {0, 2}));
  const std::string message = error_of([&] { loss(tape, x, labels); });
  EXPECT_NE(message.find("label 2 of row 1"), std::string::npos) << message;
  EXPECT_EQ(tape.size(), 0u);
}

TEST(Eager, PacksAgainOnlyWhenAWeightChanged) {
  Eager eager;
  nn::Linear fc(8, 8);
  fc.initialize(1);
  auto weight = fc.parameters()[0].variable;
  const auto run = [&](int64_t rows) {
    Tape tape(eager, false);
    return values(fc(tape, Variable::input(Tensor::zeros({rows, 8}))).value());
  };
  run(1), run(1), run(2), run(1);
  EXPECT_EQ(eager.stats().packs_made, 1u);
  EXPECT_EQ(eager.stats().plans_made, 2u);
  auto bias = fc.parameters()[1].variable;
  bias.writable().data<float>()[0] = 42;
  EXPECT_EQ(run(1)[0], 42);
  EXPECT_EQ(eager.stats().packs_made, 2u);
  weight.writable();
  run(1), run(1);
  EXPECT_EQ(eager.stats().packs_made, 3u);
}

TEST(Eager, ForgetsTheLeastRecentlyUsed) {
  constexpr size_t kLimit = 40000;
  Eager eager(kLimit);
  std::vector<std::unique_ptr<nn::Linear>> layers;
  for (int i = 0; i < 30; ++i) {
    layers.push_back(std::make_unique<nn::Linear>(32, 32));  // 4 KiB packed
    Tape tape(eager, false);
    for (int64_t rows = 1; rows <= 4; ++rows)
      (*layers.back())(tape, Variable::input(Tensor::zeros({rows, 32})));
    EXPECT_LE(eager.stats().bytes_cached, kLimit);
  }
  const auto full = eager.stats();
  EXPECT_LT(full.ops_cached, 8u);
  EXPECT_GT(full.ops_cached, 2u);
  Tape tape(eager, false);
  (*layers.back())(tape, Variable::input(Tensor::zeros({4, 32})));
  EXPECT_EQ(eager.stats().plans_made, full.plans_made);
  (*layers.front())(tape, Variable::input(Tensor::zeros({4, 32})));
  EXPECT_EQ(eager.stats().plans_made, full.plans_made + 1);
  for (int64_t rows = 1; rows < 200; ++rows)  // many shapes of one op
    (*layers.front())(tape, Variable::input(Tensor::zeros({rows, 32})));
  EXPECT_LE(eager.stats().bytes_cached, kLimit);
}

TEST(Module, InitialisationDependsOnNameAndSeedAlone) {
  struct Two : nn::Module {
    nn::Linear a{4, 3}, b{4, 3};
    explicit Two(bool swapped) {
      add_module(swapped ? "b" : "a", swapped ? b : a);
      add_module(swapped ? "a" : "b", swapped ? a : b);
    }
  };
  Two first(false), second(true);
  first.initialize(9);
  second.initialize(9);
  const auto p = first.parameters(), q = second.parameters();
  ASSERT_EQ(p.size(), 4u);
  EXPECT_EQ(p[0].name, "a.weight");
  EXPECT_EQ(p[3].name, "b.bias");
  EXPECT_EQ(values(p[0].variable.value()), values(q[2].variable.value()));
  EXPECT_NE(values(p[0].variable.value()), values(p[2].variable.value()));
}

TEST(Module, KaimingHasItsDeviation) {
  for (const auto kind : {nn::Init::Kind::kKaimingUniform, nn::Init::Kind::kKaimingNormal}) {
    Tensor t({10000});
    nn::fill(t, {kind, std::sqrt(2.), 50}, 3, "w");
    double sum = 0;
    for (const float v : values(t)) sum += double{v} * v;
    EXPECT_NEAR(sum / 10000, 2. / 50, .002);
  }
}

struct Block : nn::Module {
  nn::BatchNorm2d norm{2, {.keep = .75f, .unbiased = true}};
  nn::Linear fc{2, 3};
  Block() {
    add_module("norm", norm);
    add_module("fc", fc);
  }
};

TEST(Module, StateDictNamesParametersAndBuffers) {
  Block m;
  std::vector<std::string> torch, paddle, transposed;
  for (const auto& e : m.state_dict()) torch.push_back(e.name);
  for (const auto& e : m.state_dict(nn::Naming::kPaddle)) {
    paddle.push_back(e.name);
    if (e.transposed) transposed.push_back(e.name);
  }
  EXPECT_EQ(torch, (std::vector<std::string>{"norm.weight", "norm.bias", "norm.running_mean",
                                             "norm.running_var", "fc.weight", "fc.bias"}));
  EXPECT_EQ(paddle, (std::vector<std::string>{"norm.weight", "norm.bias", "norm._mean",
                                              "norm._variance", "fc.weight", "fc.bias"}));
  EXPECT_EQ(transposed, std::vector<std::string>{"fc.weight"});
  EXPECT_EQ(m.buffers()[1].name, "norm.running_var");
}

TEST(Module, BatchNormFollowsTheBatchInTrainingOnly) {
  Block m;
  m.initialize(1);
  Eager eager;
  const Variable x =
      Variable::input(Tensor::from<float>({2, 2, 1, 2}, {1, 2, 10, 10, 3, 6, 10, 10}));
  const auto run = [&] {
    Tape tape(eager, false);
    return m.norm(tape, x).value().clone();
  };
  run();  // channel 0: mean 3, unbiased variance 14/3; channel 1: 10, 0
  const auto mean = values(m.norm.running_mean().value()),
             var = values(m.norm.running_var().value());
  EXPECT_FLOAT_EQ(mean[0], .25f * 3);
  EXPECT_FLOAT_EQ(mean[1], 2.5f);
  EXPECT_FLOAT_EQ(var[0], .75f + .25f * 14 / 3);
  EXPECT_FLOAT_EQ(var[1], .75f);
  m.train(false);
  EXPECT_FALSE(m.norm.training());
  const Tensor y = run();
  EXPECT_EQ(values(m.norm.running_mean().value()), mean);
  EXPECT_NEAR(y.data<float>()[0], (1 - mean[0]) / std::sqrt(var[0] + 1e-5f), 1e-6);
  m.initialize(2);
  EXPECT_EQ(values(m.norm.running_var().value()), (std::vector<float>{1, 1}));
}

// Two ranks that run in turn: the first adds, the second sees the sum of both.
TEST(Module, SynchronisedBatchNormEqualsTheWholeBatch) {
  struct Pair : BatchSync {
    std::vector<double> other;
    void sum(std::span<double> v) override {
      for (size_t i = 0; i < v.size(); ++i) v[i] += other.empty() ? 0 : other[i];
    }
  };
  Draw draw(1, "sync");
  const Shape half{2, 3, 4, 5}, whole{4, 3, 4, 5};
  const auto all = draw.values(whole.numel());
  const Variable x = Variable::input(to_f32(whole, all));
  const auto part = [&](int64_t i) {
    return Variable::input(
        to_f32(half, {all.begin() + i * half.numel(), all.begin() + (i + 1) * half.numel()}));
  };
  nn::BatchNorm2d one(3), ranks(3);
  one.initialize(1);
  ranks.initialize(1);
  Eager eager;
  Tape tape(eager, false);
  const Variable expected = one(tape, x);
  struct Listen : Pair {
    void sum(std::span<double> v) override { other.assign(v.begin(), v.end()); }
  };
  const auto listener = std::make_shared<Listen>();
  ranks.synchronize(listener);
  ranks(tape, part(1));  // what the other rank brings
  const auto pair = std::make_shared<Pair>();
  pair->other = listener->other;
  ranks.synchronize(pair);
  const Variable got = ranks(tape, part(0));
  const Tensor a = eager.to_layout(got.array(), Layout::kLinear).tensor,
               b = eager.to_layout(expected.array(), Layout::kLinear).tensor;
  for (int64_t i = 0; i < half.numel(); ++i)
    EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-6);
}

TEST(Module, SettingsReachEveryParameterBelow) {
  Block m;
  m.fc.set_weight_decay(.5f);
  m.scale_learning_rate(.25f);
  m.norm.set_requires_grad(false);
  const auto p = m.parameters();
  EXPECT_EQ(p[3].lr_multiplier, .25f);
  EXPECT_FALSE(p[0].weight_decay.has_value());
  EXPECT_EQ(p[2].weight_decay, .5f);
  EXPECT_FALSE(p[0].variable.requires_grad());
  EXPECT_TRUE(p[2].variable.requires_grad());
}

TEST(Sgd, HeedsTheSettingsOfALayer) {
  Block m;
  m.fc.scale_learning_rate(.25f);
  m.fc.set_weight_decay(2);
  optim::Sgd sgd(m.fc.parameters(), {.learning_rate = .5f});
  Eager eager;
  Tape tape(eager);
  auto weight = m.fc.parameters()[0].variable;
  std::fill_n(weight.writable().data<float>(), 6, 1.f);
  tape.backward(m.fc(tape, Variable::input(Tensor::zeros({1, 2}))), Tensor::zeros({1, 3}));
  sgd.step();
  EXPECT_FLOAT_EQ(weight.value().data<float>()[0], 1 - .5f * .25f * 2);
}

TEST(Sgd, FollowsItsFormula) {
  struct One : nn::Module {
    Variable w = add_parameter("w", {2}, {});
  } m;
  m.w.writable().data<float>()[0] = 1;
  m.w.writable().data<float>()[1] = -2;
  optim::Sgd sgd(m.parameters(), {.learning_rate = .5f, .momentum = .5f, .weight_decay = .25f});
  Eager eager;
  double w[2] = {1, -2}, v[2] = {0, 0};
  const double g[2] = {1, 4};
  for (int step = 0; step < 4; ++step) {
    sgd.clear_grad();
    Tape tape(eager);
    tape.backward(add(tape, m.w, m.w), Tensor::from<float>({2}, {.5f, 2}));
    const uint64_t version = m.w.value().storage()->version;
    sgd.step();
    EXPECT_GT(m.w.value().storage()->version, version);
    for (int i = 0; i < 2; ++i) {
      v[i] = .5 * v[i] + g[i] + .25 * w[i];
      w[i] -= .5 * v[i];
      EXPECT_NEAR(m.w.value().data<float>()[i], w[i], 1e-5);
    }
  }
  const auto before = values(m.w.value());
  sgd.clear_grad();
  sgd.step();  // nothing flowed: nothing moves
  EXPECT_EQ(values(m.w.value()), before);
}

}  // namespace
}  // namespace train
