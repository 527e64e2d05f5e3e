// Tape, eager cache, modules and SGD.
#include "libtrain/autograd/tape.h"

#include <gtest/gtest.h>

#include <cmath>

#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/sgd.h"

namespace train {
namespace {

Variable leaf(const Shape& shape, std::initializer_list<float> values) {
  Variable v = Variable::input(Tensor::from<float>(shape, values));
  v.set_requires_grad(true);
  return v;
}

std::vector<float> values(const Tensor& t) {
  return {t.data<float>(), t.data<float>() + t.numel()};
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
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
  const auto exp = std::make_shared<UnaryOp>("Exp", cpu::Activation{.kind = cpu::Act::kExp});
  EXPECT_NE(error_of([&] { tape.apply(exp, {x}); }).find("Exp has no gradient"), std::string::npos);
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
