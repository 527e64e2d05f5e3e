// A recorded net as a graph: the same numbers at sizes that were never recorded.
#include "libtrain/autograd/record.h"

#include <gtest/gtest.h>

#include "libtrain/autograd/functional.h"
#include "libtrain/core/philox.h"
#include "libtrain/graph/net.h"
#include "libtrain/nn/sequence.h"
#include "tests/support/error_of.h"

namespace train {
namespace {

using Forward = std::function<Variable(Tape&, const Variable&)>;

Tensor noise(const Shape& shape, uint64_t stream = 1) {
  const RandomStream random(9, stream);
  Tensor t(shape);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = random.uniform(static_cast<uint64_t>(i), -1.f, 1.f);
  return t;
}

Graph record(const Forward& forward, std::initializer_list<Shape> shapes,
             const nn::Module* module = nullptr) {
  Eager eager;
  std::vector<Tensor> examples;
  for (const Shape& s : shapes) examples.push_back(Tensor::zeros(s));
  std::vector<NamedVariable> names;
  if (module)
    for (const nn::StateEntry& e : module->state_dict()) names.push_back({e.name, e.variable});
  return record_graph(eager, forward, examples, names);
}

void expect_equal(const Graph& graph, const Forward& forward, std::initializer_list<Shape> shapes) {
  const auto net = Net::compile(graph);
  for (const Shape& s : shapes) {
    Eager eager;
    Tape tape(eager, false);
    const Tensor x = noise(s);
    const Tensor wanted =
        eager.to_layout(forward(tape, Variable::input(x)).array(), Layout::kLinear).tensor;
    Context context;
    std::vector<Tensor> got;
    const Feed feed{x};
    net->run(context, {&feed, 1}, got);
    ASSERT_EQ(got[0].shape(), wanted.shape());
    for (int64_t i = 0; i < wanted.numel(); ++i)
      ASSERT_NEAR(got[0].data<float>()[i], wanted.data<float>()[i], 2e-5) << "at " << i;
  }
}

TEST(RecordGraph, KeepsWhatReshapesMean) {
  const Forward tokens = [](Tape& tape, const Variable& x) {
    const Variable t = image_to_sequence(tape, x);  // [N, H W, C]
    return sequence_to_image(tape, t, 4, t.shape()[1] / 4);
  };
  const Graph g = record(tokens, {{1, 3, 4, 6}, {2, 3, 4, 10}, {3, 3, 4, 5}});
  EXPECT_EQ(g.inputs[0].dims, (std::vector<int64_t>{-1, 3, 4, -1}));
  std::vector<std::vector<int64_t>> targets;
  for (const Node& n : g.nodes)
    if (n.op->type() == "Reshape") targets.push_back(g.constant(n.inputs[1])->to_ints());
  EXPECT_EQ(targets, (std::vector<std::vector<int64_t>>{{0, -1, 3}, {0, 4, -1, 3}}));
  expect_equal(g, tokens, {{5, 3, 4, 7}, {1, 3, 4, 32}});
}

TEST(RecordGraph, KeepsTheFactorOfAResize) {
  const Forward twice = [](Tape& tape, const Variable& x) { return upsample_nearest(tape, x, 2); };
  const Graph g = record(twice, {{1, 2, 4, 6}, {2, 2, 8, 10}});
  expect_equal(g, twice, {{1, 2, 3, 3}, {4, 2, 5, 9}});
}

TEST(RecordGraph, RecurrentLayersAndAttentionAreInferences) {
  nn::Lstm lstm(6, 5, 2, true);
  nn::SelfAttention attention({.channels = 10, .heads = 2});
  lstm.initialize(3);
  attention.initialize(4);
  lstm.train(false);
  attention.train(false);
  const Forward net = [&](Tape& tape, const Variable& x) { return attention(tape, lstm(tape, x)); };
  const Graph g = record(net, {{1, 7, 6}, {2, 9, 6}, {3, 4, 6}}, &lstm);
  for (const Node& n : g.nodes) {
    EXPECT_NE(n.op->type(), "LstmTrain");
    EXPECT_NE(n.op->type(), "Attention");
  }
  expect_equal(g, net, {{1, 3, 6}, {4, 12, 6}});
}

TEST(RecordGraph, MasksAndOtherSourcesOfAttention) {
  const Variable mask = Variable::input(causal_mask(5));
  const Forward masked = [&](Tape& tape, const Variable& x) {
    return self_attention(tape, x, 2, mask);
  };
  expect_equal(record(masked, {{1, 5, 12}, {2, 5, 12}}), masked, {{3, 5, 12}});
  const Variable kv = Variable::input(noise({1, 6, 8}, 2));
  const Forward crossed = [&](Tape& tape, const Variable& x) {
    return cross_attention(tape, x, kv, 2);
  };
  expect_equal(record(crossed, {{1, 5, 4}, {1, 7, 4}}), crossed, {{1, 3, 4}});
}

TEST(RecordGraph, NodesAreCalledAfterTheirParameters) {
  nn::Linear linear(4, 3);
  linear.initialize(1);
  const Forward net = [&](Tape& tape, const Variable& x) { return relu(tape, linear(tape, x)); };
  Eager eager;
  const Tensor examples[] = {noise({1, 4}), noise({2, 4})};
  const std::vector<NamedVariable> names{{"head.fc.weight", linear.weight()},
                                         {"head.fc.bias", linear.bias()}};
  const Graph g = record_graph(eager, net, examples, names);
  EXPECT_EQ(g.nodes[0].name, "head.fc");
  EXPECT_EQ(g.values[static_cast<size_t>(g.nodes[0].inputs[1])].name, "head.fc.weight");
}

TEST(RecordGraph, RefusesWhatIsNotOneGraph) {
  const auto why = [](const Forward& f, std::initializer_list<Shape> shapes) {
    return test::error_of([&] { record(f, shapes); });
  };
  // Another way for wide images.
  const std::string other = why(
      [](Tape& tape, const Variable& x) {
        return x.shape()[3] > 8 ? relu(tape, sigmoid(tape, x)) : relu(tape, x);
      },
      {{1, 1, 4, 4}, {2, 1, 4, 12}});
  EXPECT_NE(other.find("it is not one graph"), std::string::npos) << other;
  // A window as large as the image.
  const std::string window =
      why([](Tape& tape, const Variable& x) { return adaptive_average_pool(tape, x, 2, 2); },
          {{1, 1, 4, 4}, {2, 1, 4, 12}});
  EXPECT_NE(window.find("depends on the size"), std::string::npos) << window;
  // Weights made for a size.
  const std::string weights = why(
      [](Tape& tape, const Variable& x) {
        return matmul(tape, x, Variable::input(Tensor::zeros({x.shape()[3], 3})));
      },
      {{1, 1, 4, 4}, {2, 1, 4, 12}});
  EXPECT_NE(weights.find("a constant as input 1 that depends on the size"), std::string::npos)
      << weights;
  // Two dimensions that follow from the size.
  const std::string shape = why(
      [](Tape& tape, const Variable& x) {
        return reshape(tape, x, {x.shape()[0], x.shape()[3] / 2, x.shape()[2] / 2, 4});
      },
      {{1, 1, 4, 8}, {2, 1, 6, 12}});
  EXPECT_NE(shape.find("several dimensions"), std::string::npos) << shape;
  // One size whatever the image has.
  const std::string factor =
      why([](Tape& tape, const Variable& x) { return resize_nearest(tape, x, 8, 8); },
          {{1, 1, 4, 4}, {2, 1, 4, 12}});
  EXPECT_NE(factor.find("another factor"), std::string::npos) << factor;
}

}  // namespace
}  // namespace train
