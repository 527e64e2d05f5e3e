// Branches, norms and affines that become one convolution.
#include "libtrain/graph/merge_branches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "libtrain/graph/net.h"
#include "tests/support/graph_builder.h"

namespace train {
namespace {

using testing::GraphBuilder;
using testing::random_tensor;

Window window_of(std::array<int, 2> kernel, std::array<int, 2> strides, std::array<int, 4> pads,
                 std::array<int, 2> dilations = {1, 1}) {
  Window w;
  w.kernel = kernel, w.strides = strides, w.pads = pads, w.dilations = dilations;
  return w;
}

int64_t count(const Graph& g, std::string_view type) {
  return std::ranges::count_if(g.nodes, [&](const Node& n) { return n.op->type() == type; });
}

// Both graphs without the optimiser's passes, on two sizes and batches.
void expect_equal(const Graph& before, const Graph& after) {
  const auto a = Net::compile(before, {.fuse = false}), b = Net::compile(after, {.fuse = false});
  std::mt19937 rng(5);
  for (const auto& [n, h, w] : {std::array{1, 9, 14}, std::array{3, 16, 11}}) {
    const Feed feed{random_tensor({n, before.inputs[0].dims[1], h, w}, rng)};
    Context ca, cb;
    std::vector<Tensor> ra, rb;
    a->run(ca, {&feed, 1}, ra);
    b->run(cb, {&feed, 1}, rb);
    ASSERT_EQ(ra[0].shape(), rb[0].shape());
    for (int64_t i = 0; i < ra[0].numel(); ++i)
      ASSERT_NEAR(ra[0].data<float>()[i], rb[0].data<float>()[i], 3e-5) << "at " << i;
  }
}

ValueId conv(GraphBuilder& b, ValueId x, int64_t in, int64_t out, const Window& w, int64_t groups,
             bool bias = true) {
  std::vector<ValueId> inputs{x, b.weight({out, in / groups, w.kernel[0], w.kernel[1]}, -.5f, .5f)};
  if (bias) inputs.push_back(b.weight({out}));
  return b.add(std::make_shared<ConvOp>(w, groups), inputs);
}

TEST(MergeBranches, ReparameterisedBlockIsOneConvolution) {
  // Stride, kernels and pads that are not square; depthwise, grouped and dense.
  for (const int64_t groups : {1, 2, 8}) {
    GraphBuilder b;
    const ValueId x = b.input({-1, 8, -1, -1});
    const auto branch = [&](const Window& w) {
      return b.batch_norm(conv(b, x, 8, 8, w, groups, false), 8);
    };
    ValueId y = branch(window_of({5, 3}, {1, 1}, {2, 1, 2, 1}));
    y = b.binary(BinaryKind::kAdd, y, branch(window_of({3, 3}, {1, 1}, {2, 1, 2, 1}, {2, 1})));
    y = b.binary(BinaryKind::kAdd, y, branch(window_of({1, 1}, {1, 1}, {0, 0, 0, 0})));
    y = b.binary(BinaryKind::kAdd, b.batch_norm(x, 8), y);  // the identity's norm
    y = b.binary(BinaryKind::kAdd, y, x);                   // and x itself
    y = b.binary(BinaryKind::kAdd, b.binary(BinaryKind::kMul, y, b.scalar(.7f)), b.scalar(-.2f));
    const Graph before = b.finish({y});
    Graph after = before;
    merge_branches(after);
    after.validate();
    EXPECT_EQ(after.nodes.size(), 1u) << groups;
    expect_equal(before, after);
  }
}

TEST(MergeBranches, StridesAndLookingAhead) {
  GraphBuilder b;
  const ValueId x = b.input({-1, 6, -1, -1});
  const ValueId wide = conv(b, x, 6, 4, window_of({3, 3}, {2, 1}, {1, 1, 1, 1}), 1);
  const ValueId point = conv(b, x, 6, 4, window_of({1, 1}, {2, 1}, {0, 0, 0, 0}), 1);
  const ValueId ahead = conv(b, x, 6, 4, window_of({2, 2}, {2, 1}, {0, 0, 1, 1}), 1);
  const Graph before =
      b.finish({b.binary(BinaryKind::kAdd, b.binary(BinaryKind::kAdd, wide, point), ahead)});
  Graph after = before;
  merge_branches(after);
  EXPECT_EQ(after.nodes.size(), 1u);
  expect_equal(before, after);
}

TEST(MergeBranches, AffineBehindAnActivationGoesIntoAPointwiseConvolution) {
  for (const int pad : {0, 1}) {  // a border of zeros would see the shift
    GraphBuilder b;
    const ValueId x = b.input({-1, 4, -1, -1});
    const ValueId act = b.unary("Relu", {cpu::Act::kRelu, 0, 0}, x);
    ValueId y = b.binary(BinaryKind::kMul, act, b.weight({4, 1, 1}));
    y = b.binary(BinaryKind::kAdd, y, b.scalar(.3f));
    const int k = 1 + 2 * pad;
    y = conv(b, y, 4, 6, window_of({k, k}, {1, 1}, {pad, pad, pad, pad}), 2);
    const Graph before = b.finish({y});
    Graph after = before;
    merge_branches(after);
    EXPECT_EQ(after.nodes.size(), pad ? 4u : 2u);
    expect_equal(before, after);
  }
}

TEST(MergeBranches, NormGoesIntoATransposedConvolution) {
  GraphBuilder b;
  const ValueId x = b.input({-1, 6, -1, -1});
  ValueId y = b.add(std::make_shared<ConvTransposeOp>(window_of({2, 2}, {2, 2}, {0, 0, 0, 0}), 2,
                                                      std::array{0, 0}),
                    {x, b.weight({6, 2, 2, 2}), b.weight({4})});
  const Graph before = b.finish({b.batch_norm(y, 4)});
  Graph after = before;
  merge_branches(after);
  EXPECT_EQ(after.nodes.size(), 1u);
  expect_equal(before, after);
}

TEST(MergeBranches, KeepsWhatOthersRead) {
  GraphBuilder b;
  const ValueId x = b.input({-1, 8, -1, -1});
  const ValueId y = b.conv(x, 8, 8, 3);
  const ValueId normed = b.batch_norm(y, 8);
  const Graph before = b.finish({b.binary(BinaryKind::kMul, normed, y)});  // y is read twice
  Graph after = before;
  merge_branches(after);
  EXPECT_EQ(count(after, "Conv"), 1);
  EXPECT_EQ(count(after, "BatchNormalization"), 1);
  expect_equal(before, after);
}

TEST(MergeBranches, DoesNotMakeMoreWork) {
  GraphBuilder b;  // a depthwise 5 x 5 and a dense 1 x 1 would be a dense 5 x 5
  const ValueId x = b.input({-1, 8, -1, -1});
  const Graph before =
      b.finish({b.binary(BinaryKind::kAdd, b.conv(x, 8, 8, 5, 1, 8), b.conv(x, 8, 8, 1))});
  Graph after = before;
  merge_branches(after);
  EXPECT_EQ(count(after, "Conv"), 2);
  expect_equal(before, after);
}

TEST(MergeBranches, RoundsOnce) {
  // Weights that cancel: in f32, step by step, most of their digits would be lost.
  GraphBuilder b;
  const ValueId x = b.input({-1, 1, -1, -1});
  const auto number = [&](float v) {
    return b.graph.add_constant("c", Tensor::from<float>({1}, {v}));
  };
  const ValueId w = b.graph.add_constant("w", Tensor::from<float>({1, 1, 1, 1}, {1.f}));
  const ValueId y = b.add(std::make_shared<ConvOp>(Window()), {x, w});
  // scale 1e4, bias -1e4 * mean: the sum is 1 exactly in f64.
  const ValueId normed =
      b.add(std::make_shared<BatchNormOp>(0.f),
            {y, number(1e4f), number(12345678.f), number(1234.5677f), number(1)});
  Graph g = b.finish({normed});
  merge_branches(g);
  ASSERT_EQ(g.nodes.size(), 1u);
  const double exact = 12345678. - double{1234.5677f} * 1e4;
  EXPECT_EQ(g.constant(g.nodes[0].inputs[2])->data<float>()[0], static_cast<float>(exact));
}

}  // namespace
}  // namespace train
