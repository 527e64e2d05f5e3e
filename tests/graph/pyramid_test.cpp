// Feature pyramids with and without the passes that compose them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "libtrain/graph/net.h"
#include "libtrain/graph/passes.h"
#include "libtrain/ops/move.h"
#include "tests/support/graph_builder.h"

namespace train {
namespace {

using testing::GraphBuilder;
using testing::random_tensor;

Tensor run(const Net& net, const Tensor& x) {
  const Feed feed{x};
  Context context;
  std::vector<Tensor> outputs;
  net.run(context, {&feed, 1}, outputs);
  return outputs[0].clone();
}

double worst(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double range = 1e-9, error = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    range = std::max(range, std::abs(static_cast<double>(b.data<float>()[i])));
    error = std::max(error, std::abs(static_cast<double>(a.data<float>()[i]) - b.data<float>()[i]));
  }
  return error / range;
}

int64_t count(const Net& net, std::string_view type) {
  return std::ranges::count_if(net.graph().nodes,
                               [&](const Node& n) { return n.op->type() == type; });
}

ValueId up(GraphBuilder& b, ValueId x, float factor,
           cpu::ResizeCoord coord = cpu::ResizeCoord::kAsymmetric,
           cpu::NearestMode nearest = cpu::NearestMode::kFloor) {
  cpu::ResizeDesc d;
  d.coord = coord;
  d.nearest = nearest;
  const ValueId scales =
      b.graph.add_constant("scales", Tensor::from<float>({4}, {1, 1, factor, factor}));
  return b.add(std::make_shared<ResizeOp>(d), {x, scales, kNoValue});
}

ValueId conv_without_bias(GraphBuilder& b, ValueId x, int64_t cin, int64_t cout, int k) {
  Window w;
  w.pads = {k / 2, k / 2, k / 2, k / 2};
  return b.add(std::make_shared<ConvOp>(w), {x, b.weight({cout, cin, k, k}, -.3f, .3f)});
}

// x + x * hardsigmoid(...), as the gates of RSE-FPN are written.
ValueId gated(GraphBuilder& b, ValueId x, int64_t c) {
  ValueId g = b.add(std::make_shared<GlobalPoolOp>(PoolKind::kAverage), {x});
  g = b.unary("Relu", {cpu::Act::kRelu, 0, 0}, b.conv(g, c, 4, 1));
  g = b.unary("HardSigmoid", cpu::hard_sigmoid(), b.conv(g, 4, c, 1));
  return b.binary(BinaryKind::kAdd, x, b.binary(BinaryKind::kMul, x, g));
}

// A backbone of three sizes, gated laterals, upsample-and-add, gated 3x3 convolutions, a concat and
// a head.
Graph pyramid() {
  GraphBuilder b(7);
  const ValueId x = b.input({-1, 3, -1, -1});
  const ValueId c0 = b.conv(x, 3, 6, 3, 2), c1 = b.conv(c0, 6, 9, 3, 2),
                c2 = b.conv(c1, 9, 30, 3, 2);
  const ValueId in2 = gated(b, conv_without_bias(b, c2, 30, 24, 1), 24);
  const ValueId in1 = gated(b, conv_without_bias(b, c1, 9, 24, 1), 24);
  const ValueId in0 = gated(b, conv_without_bias(b, c0, 6, 24, 1), 24);
  const ValueId out1 = b.binary(BinaryKind::kAdd, in1, up(b, in2, 2));
  const ValueId out0 = b.binary(BinaryKind::kAdd, in0, up(b, out1, 2));
  const auto level = [&](ValueId v) { return gated(b, conv_without_bias(b, v, 24, 8, 3), 8); };
  const ValueId joined = b.add(std::make_shared<ConcatOp>(1),
                               {up(b, level(in2), 4), up(b, level(out1), 2), level(out0)});
  ValueId y = b.batch_norm(b.conv(joined, 24, 8, 3), 8);
  return b.finish({b.unary("Relu", {cpu::Act::kRelu, 0, 0}, y)});
}

TEST(Pyramid, ComposesGatesLateralsAndEnlarging) {
  const auto plain = Net::compile(pyramid(), {.fuse = false});
  const auto fused = Net::compile(pyramid());
  EXPECT_EQ(count(*fused, "PyramidConv"), 3);
  EXPECT_EQ(count(*fused, "Resize"), 0);
  EXPECT_EQ(count(*fused, "Concat"), 0);
  std::mt19937 rng(5);
  for (const Shape& s : {Shape{1, 3, 32, 64}, Shape{3, 3, 8, 40}, Shape{2, 3, 72, 16}}) {
    const Tensor x = random_tensor(s, rng);
    EXPECT_LT(worst(run(*fused, x), run(*plain, x)), 1e-5) << s.str();
  }
}

// The same pyramid before depthwise convolutions, which do not compose: gates and sums move into
// the laterals.
TEST(Pyramid, LateralsTakeGatesAndSums) {
  const auto build = [] {
    GraphBuilder b(8);
    const ValueId x = b.input({-1, 6, -1, -1}), small = b.conv(x, 6, 9, 3, 2);
    const ValueId low = gated(b, conv_without_bias(b, small, 9, 20, 1), 20);
    const ValueId sum =
        b.binary(BinaryKind::kAdd, gated(b, conv_without_bias(b, x, 6, 20, 1), 20), up(b, low, 2));
    return b.finish({b.conv(sum, 20, 20, 5, 1, 20)});
  };
  const auto plain = Net::compile(build(), {.fuse = false}), fused = Net::compile(build());
  EXPECT_EQ(count(*fused, "PyramidConv"), 1);
  EXPECT_EQ(count(*fused, "Resize"), 0);
  std::mt19937 rng(5);
  for (const Shape& s : {Shape{1, 6, 32, 24}, Shape{3, 6, 4, 10}}) {
    const Tensor x = random_tensor(s, rng);
    EXPECT_LT(worst(run(*fused, x), run(*plain, x)), 1e-5) << s.str();
  }
}

TEST(Pyramid, BytesDoNotDependOnBatchOrThreads) {
  const auto net = Net::compile(pyramid());
  std::mt19937 rng(6);
  const Tensor two = random_tensor({2, 3, 32, 48}, rng);
  const Tensor whole = run(*net, two);
  for (int threads = 2; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    const PoolScope scope(&pool);
    const Tensor again = run(*net, two);
    EXPECT_EQ(0, std::memcmp(again.raw(), whole.raw(), whole.bytes())) << threads << " threads";
  }
  for (int i = 0; i < 2; ++i) {
    Tensor one({1, 3, 32, 48});
    std::copy_n(two.data<float>() + i * one.numel(), one.numel(), one.data<float>());
    const Tensor alone = run(*net, one);
    EXPECT_EQ(0, std::memcmp(alone.raw(), whole.data<float>() + i * alone.numel(), alone.bytes()));
  }
}

// What only looks like a pyramid is left alone, or at least computes the same.
TEST(Pyramid, LeavesOtherGraphsAlone) {
  const auto build = [](int kind) {
    GraphBuilder b(9);
    const ValueId x = b.input({-1, 4, -1, -1});
    const ValueId small = b.conv(x, 4, 12, 3, 2);
    ValueId y = kNoValue;
    if (kind == 0)  // a lateral with a bias reaches the zero padding
      y = b.binary(BinaryKind::kAdd, b.conv(x, 4, 12, 1), up(b, small, 2));
    if (kind == 1)  // other neighbours than a repetition
      y = b.add(std::make_shared<ConcatOp>(1),
                {x, up(b, small, 2, cpu::ResizeCoord::kAsymmetric, cpu::NearestMode::kCeil)});
    if (kind == 2) {  // a window of 32 is the whole image of a probe, not of others
      Window w{{16, 16}, {16, 16}};
      const ValueId gate = b.add(std::make_shared<PoolOp>(PoolKind::kAverage, w), {small});
      y = b.binary(BinaryKind::kMul, small, gate);
      y = b.add(std::make_shared<ConcatOp>(1), {x, up(b, y, 2)});
    }
    return b.finish({b.conv(y, kind == 0 ? 12 : 16, 5, 3)});
  };
  std::mt19937 rng(4);
  for (const int kind : {0, 1, 2}) {
    const auto plain = Net::compile(build(kind), {.fuse = false}),
               fused = Net::compile(build(kind));
    if (kind == 1) {
      EXPECT_EQ(count(*fused, "PyramidConv"), 0);
    }
    const Tensor x = random_tensor({2, 4, 32, 32}, rng);
    EXPECT_LT(worst(run(*fused, x), run(*plain, x)), 1e-5) << "kind " << kind;
  }
}

TEST(Pyramid, AveragesBeforeWidening) {
  const auto build = [] {
    GraphBuilder b(3);
    const ValueId wide = b.conv(b.input({-1, 4, -1, -1}), 4, 20, 1);
    const ValueId mean = b.add(std::make_shared<GlobalPoolOp>(PoolKind::kAverage), {wide});
    return b.finish({b.binary(BinaryKind::kMul, wide, mean)});
  };
  const auto plain = Net::compile(build(), {.fuse = false}), fused = Net::compile(build());
  std::mt19937 rng(4);
  const Tensor x = random_tensor({2, 4, 9, 14}, rng);
  EXPECT_LT(worst(run(*fused, x), run(*plain, x)), 1e-5);
  const auto pool = std::ranges::find_if(
      fused->graph().nodes, [](const Node& n) { return n.op->type() == "GlobalAveragePool"; });
  ASSERT_NE(pool, fused->graph().nodes.end());
  EXPECT_EQ(pool->inputs[0], fused->graph().inputs[0].value) << "of 4 channels, not of 20";
}

}  // namespace
}  // namespace train
