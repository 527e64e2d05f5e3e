#include "libtrain/graph/net.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "libtrain/cpu/isa.h"
#include "libtrain/cpu/layout.h"
#include "libtrain/graph/passes.h"
#include "libtrain/ops/best.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/reduce.h"
#include "tests/support/graph_builder.h"

namespace train {
namespace {

using testing::GraphBuilder;
using testing::random_tensor;

std::vector<Tensor> run(const Net& net, std::vector<Tensor> inputs,
                        Layout layout = Layout::kLinear) {
  std::vector<Feed> feeds;
  for (auto& t : inputs) feeds.push_back({t, layout});
  Context context;
  std::vector<Tensor> outputs;
  net.run(context, feeds, outputs);
  for (Tensor& t : outputs) t = t.clone();  // they live in the context
  return outputs;
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

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// Everything the passes know in one small net: stem, depthwise, SE gate, affines, residual,
// pyramid, concat, head.
Graph small_net(unsigned seed = 3) {
  GraphBuilder b(seed);
  const ValueId x = b.input({-1, 3, -1, -1});
  ValueId c1 = b.spelled_hard_swish(b.batch_norm(b.conv(x, 3, 16, 3, 2), 16));
  ValueId dw = b.conv(c1, 16, 16, 3, 1, 16);
  dw = b.binary(BinaryKind::kAdd, b.binary(BinaryKind::kMul, dw, b.scalar(1.25f)), b.scalar(-.5f));
  dw = b.unary("Relu", {cpu::Act::kRelu, 0, 0}, dw);
  dw = b.binary(BinaryKind::kAdd, b.binary(BinaryKind::kMul, dw, b.scalar(.75f)), b.scalar(.25f));
  ValueId gate = b.add(std::make_shared<GlobalPoolOp>(PoolKind::kAverage), {dw});
  gate = b.unary("Relu", {cpu::Act::kRelu, 0, 0}, b.conv(gate, 16, 4, 1));
  gate = b.unary("HardSigmoid", cpu::hard_sigmoid(), b.conv(gate, 4, 16, 1));
  const ValueId scaled = b.binary(BinaryKind::kMul, dw, gate);
  const ValueId gated = b.binary(BinaryKind::kAdd, dw, scaled);
  const ValueId mixed = b.binary(BinaryKind::kAdd, c1, b.spelled_gelu(b.conv(gated, 16, 16, 1)));
  const ValueId deep = b.conv(mixed, 16, 24, 3, 2);
  cpu::ResizeDesc up;
  up.coord = cpu::ResizeCoord::kAsymmetric;
  up.nearest = cpu::NearestMode::kFloor;
  const ValueId scales = b.graph.add_constant("scales", Tensor::from<float>({4}, {1, 1, 2, 2}));
  const ValueId lateral = b.conv(mixed, 16, 24, 1);
  const ValueId pyramid = b.binary(
      BinaryKind::kAdd, lateral, b.add(std::make_shared<ResizeOp>(up), {deep, kNoValue, kNoValue}));
  b.graph.nodes[b.graph.nodes.size() - 2].inputs[1] = scales;
  const ValueId joined = b.add(std::make_shared<ConcatOp>(1),
                               {b.conv(pyramid, 24, 8, 3), b.conv(mixed, 16, 8, 3), pyramid});
  ValueId head =
      b.add(std::make_shared<ConvTransposeOp>(Window{{2, 2}, {2, 2}}, 1, std::array<int, 2>{0, 0}),
            {joined, b.weight({40, 6, 2, 2}, -.2f, .2f), b.weight({6})});
  head = b.batch_norm(head, 6);
  head = b.unary("Sigmoid", {cpu::Act::kSigmoid, 0, 0}, head);
  return b.finish({head, gate});
}

TEST(Net, PassesKeepTheResult) {
  const auto plain = Net::compile(small_net(), {.fuse = false});
  const auto fused = Net::compile(small_net());
  EXPECT_LT(fused->graph().nodes.size(), 18u) << "the passes should have folded most of the nodes";
  EXPECT_EQ(plain->graph().nodes.size(), 36u);
  std::mt19937 rng(5);
  for (const Shape& s :
       {Shape{1, 3, 32, 64}, Shape{2, 3, 64, 32}, Shape{1, 3, 4, 4}, Shape{3, 3, 36, 20}}) {
    const Tensor x = random_tensor(s, rng);
    const auto a = run(*plain, {x}), b = run(*fused, {x});
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_LT(worst(b[i], a[i]), 1e-5) << s.str() << " output " << i;
  }
}

void check_bytes(const NetOptions& options) {
  const auto net = Net::compile(small_net(), options);
  std::mt19937 rng(6);
  const Tensor three = random_tensor({3, 3, 32, 48}, rng);
  const auto whole = run(*net, {three});
  for (int i = 0; i < 3; ++i) {
    Tensor one({1, 3, 32, 48});
    std::copy_n(three.data<float>() + i * one.numel(), one.numel(), one.data<float>());
    const auto alone = run(*net, {one});
    for (size_t o = 0; o < alone.size(); ++o)
      EXPECT_EQ(0, std::memcmp(alone[o].raw(), whole[o].data<float>() + i * alone[o].numel(),
                               alone[o].bytes()));
  }
  for (int threads = 2; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    const PoolScope scope(&pool);
    const auto again = run(*net, {three});
    for (size_t o = 0; o < again.size(); ++o)
      EXPECT_TRUE(same_bytes(again[o], whole[o])) << threads << " threads";
  }
  Tensor nhwc(three.shape());
  cpu::nchw_to_nhwc(three.data<float>(), 3, 3, 32 * 48, nhwc.data<float>(), 3);
  const auto last = run(*net, {nhwc}, Layout::kChannelsLast);
  for (size_t o = 0; o < last.size(); ++o) EXPECT_TRUE(same_bytes(last[o], whole[o]));
}

TEST(Net, BytesDoNotDependOnBatchThreadsOrLayoutOfTheInput) {
  check_bytes({});
  if (cpu::has_bf16()) check_bytes({.precision = cpu::Precision::kBf16});
}

// The islands stay f32, everything dense else is bf16, and the result moves by bf16's rounding.
TEST(Net, Bf16KeepsIslandsAndResult) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "no bf16 instructions here";
  const auto f32 = Net::compile(small_net());
  const auto bf16 = Net::compile(small_net(), {.precision = cpu::Precision::kBf16});
  int lowered = 0, kept = 0;
  for (const Node& n : bf16->graph().nodes)
    if (n.op->type() == "Conv" || n.op->type() == "Chain")
      (n.op->describe().find("bf16") != std::string::npos ? lowered : kept)++;
  EXPECT_GE(lowered, 5);
  EXPECT_GE(kept, 3) << "stem, depthwise, gate (a chain)";
  EXPECT_FALSE(bf16->graph().nodes[0].op->describe().ends_with("bf16")) << "reads the input";
  std::mt19937 rng(5);
  const Tensor x = random_tensor({2, 3, 64, 32}, rng);
  const auto a = run(*f32, {x}), b = run(*bf16, {x});
  EXPECT_GT(worst(b[0], a[0]), 0) << "something was rounded";
  EXPECT_LT(worst(b[0], a[0]), 5e-2);
  double sum = 0;
  for (int64_t i = 0; i < a[0].numel(); ++i)
    sum += std::abs(static_cast<double>(a[0].data<float>()[i]) - b[0].data<float>()[i]);
  EXPECT_LT(sum / static_cast<double>(a[0].numel()), 4e-3) << "of probabilities: 2^-8";
}

// A chain of two bf16 steps has the bits of the two steps.
TEST(Net, Bf16Chains) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "no bf16 instructions here";
  const auto build = [] {
    GraphBuilder b(4);
    const ValueId stem = b.conv(b.input({-1, 3, -1, -1}), 3, 16, 3);
    const ValueId wide = b.unary("Relu", {cpu::Act::kRelu, 0, 0}, b.conv(stem, 16, 64, 1));
    return b.finish({b.conv(wide, 64, 19, 1)});
  };
  const auto chained = Net::compile(build(), {.precision = cpu::Precision::kBf16});
  const auto steps = Net::compile(build(), {.fuse = false, .precision = cpu::Precision::kBf16});
  const Op& chain = *chained->graph().nodes.back().op;
  ASSERT_EQ(chain.type(), "Chain");
  EXPECT_EQ(chain.describe(), "Conv 1x1 act 1 bf16 + Conv 1x1 bf16");
  std::mt19937 rng(9);
  const Tensor x = random_tensor({2, 3, 48, 44}, rng);  // 1 MB between the steps: several chunks
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    const PoolScope scope(&pool);
    EXPECT_TRUE(same_bytes(run(*chained, {x})[0], run(*steps, {x})[0])) << threads << " threads";
  }
}

TEST(Net, ManyThreadsShareOneNet) {
  const auto net = Net::compile(small_net());
  std::mt19937 rng(8);
  const std::vector<Shape> shapes{{1, 3, 32, 32}, {1, 3, 64, 32}, {2, 3, 32, 64}};
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> expected;
  for (const Shape& s : shapes) {
    inputs.push_back(random_tensor(s, rng));
    expected.push_back(run(*Net::compile(small_net()), {inputs.back()}));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Context context;
      std::vector<Tensor> out;
      for (int i = 0; i < 12; ++i) {
        const size_t k = static_cast<size_t>(t + i) % shapes.size();
        const Feed feed{inputs[k], Layout::kLinear};
        net->run(context, {&feed, 1}, out);
        for (size_t o = 0; o < out.size(); ++o) wrong += !same_bytes(out[o], expected[k][o]);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Net, PlansAndPacksOncePerShape) {
  const auto net = Net::compile(small_net(), {.instance_cache = 2});
  std::mt19937 rng(9);
  const auto go = [&](int64_t w) { run(*net, {random_tensor({1, 3, 32, w}, rng)}); };
  go(32);
  const size_t packed = net->stats().packed_objects;
  go(32);
  EXPECT_EQ(net->stats().instances_made, 1u);
  go(64);
  EXPECT_EQ(net->stats().packed_objects, packed) << "weights are packed once, not per shape";
  go(96);
  EXPECT_EQ(net->stats().instances_made, 3u);
  go(32);  // had to go: the cache holds two
  EXPECT_EQ(net->stats().instances_made, 4u);
}

TEST(Net, AnInputInTheArenaGivesItsMemoryBack) {
  const auto net = Net::compile(small_net());
  std::mt19937 rng(10);
  Context context;
  std::vector<Tensor> out;
  for (const Layout layout : {Layout::kLinear, Layout::kChannelsLast})
    for (const int64_t w : {32, 96, 48}) {
      const Tensor x = random_tensor({2, 3, 64, w}, rng);
      const auto expected = run(*net, {x}, layout);
      for (int again = 0; again < 2; ++again) {
        out.clear();
        const Feed feed = net->input(context, x.shape(), layout);
        std::copy_n(x.data<float>(), x.numel(), feed.tensor.data<float>());
        net->run(context, {&feed, 1}, out);
        for (size_t o = 0; o < out.size(); ++o) EXPECT_TRUE(same_bytes(out[o], expected[o]));
        const Feed outside{x, layout};
        EXPECT_LT(net->plan({&feed, 1}), net->plan({&outside, 1}) + x.bytes());
      }
    }
  const Feed stale = net->input(context, {1, 3, 32, 32}, Layout::kLinear);
  net->input(context, {8, 3, 256, 256}, Layout::kLinear);
  EXPECT_THROW(net->run(context, {&stale, 1}, out), ShapeError);
}

// One thread reads a batch image by image; what only a stretch of steps needs is there once.
TEST(Net, ABatchNeedsLittleMoreMemoryThanAnImage) {
  GraphBuilder b(4);
  ValueId v = b.input({-1, 3, -1, -1});
  for (int i = 0; i < 4; ++i) v = b.conv(v, i == 0 ? 3 : 32, 32, 3);
  v = b.conv(v, 32, 2, 1);
  const auto net = Net::compile(b.finish({v}));
  const Feed one{Tensor::zeros({1, 3, 32, 32})}, eight{Tensor::zeros({8, 3, 32, 32})};
  const size_t image = net->plan({&one, 1}), batch = net->plan({&eight, 1});
  const size_t output = size_t{8} * 2 * 32 * 32 * 4;
  EXPECT_LT(batch, image + 3 * output) << "and not " << 8 * image;
  ThreadPool pool(2);
  const PoolScope scope(&pool);
  EXPECT_GT(net->plan({&eight, 1}), 4 * image);  // two threads share each step's whole batch
}

// Image by image or each step's whole batch: the same bytes, also where constants have images of
// their own, parts of a concat lie in place and values outlive the stretch that uses them.
TEST(Net, ImageByImageGivesTheBytesOfTheWholeBatch) {
  GraphBuilder b(5);
  const ValueId x = b.input({-1, 3, -1, -1});
  const ValueId a = b.conv(x, 3, 8, 3), c = b.conv(a, 8, 12, 1);
  const ValueId scaled = b.binary(BinaryKind::kMul, b.weight({6, 12, 16, 16}), c);
  const ValueId joined =
      b.add(std::make_shared<ConcatOp>(1), {scaled, b.weight({6, 2, 16, 16}), b.conv(a, 8, 5, 3)});
  const ValueId gate = b.add(std::make_shared<GlobalPoolOp>(PoolKind::kAverage), {joined});
  const ValueId gated = b.conv(b.binary(BinaryKind::kMul, joined, gate), 19, 19, 3);
  const ValueId sum = b.binary(BinaryKind::kAdd, gated, b.weight({6, 19, 16, 16}));
  const auto net = Net::compile(b.finish({b.conv(sum, 19, 7, 1), joined}));
  std::mt19937 rng(12);
  const Tensor input = random_tensor({6, 3, 16, 16}, rng);
  const auto by_image = run(*net, {input});
  ThreadPool pool(2);
  const PoolScope scope(&pool);
  const auto whole = run(*net, {input});
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(same_bytes(by_image[i], whole[i])) << i;
}

TEST(Net, ProfileSumsOverRuns) {
  const auto net = Net::compile(small_net());
  const Feed feed{Tensor::zeros({1, 3, 32, 32})};
  Context context;
  std::vector<Tensor> out;
  std::vector<StepProfile> once, thrice;
  context.profile = &once;
  net->run(context, {&feed, 1}, out);
  context.profile = &thrice;
  for (int i = 0; i < 3; ++i) net->run(context, {&feed, 1}, out);
  ASSERT_EQ(once.size(), thrice.size());
  double stem = 0;
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(thrice[i].runs, 3);
    EXPECT_DOUBLE_EQ(thrice[i].flops, 3 * once[i].flops);
    EXPECT_DOUBLE_EQ(thrice[i].bytes, 3 * once[i].bytes);
    if (once[i].shape.starts_with("[1, 3,") && once[i].op.starts_with("Conv")) stem = once[i].flops;
  }
  EXPECT_EQ(stem, 2.0 * 16 * 16 * 16 * 27);  // 2 x outputs x taps
}

TEST(Net, WrongInputsAreNamed) {
  const auto net = Net::compile(small_net());
  const auto message = [&](const Tensor& t) -> std::string {
    try {
      run(*net, {t});
    } catch (const ShapeError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message(Tensor::zeros({1, 4, 32, 32})).find("input0"), std::string::npos);
  EXPECT_NE(message(Tensor::zeros({3, 32, 32})).find("[3, 32, 32]"), std::string::npos);
  EXPECT_NE(message(Tensor::zeros({1, 3, 32, 32}, DType::kI64)).find("i64"), std::string::npos);
  EXPECT_THROW(run(*net, {}), ShapeError);
  const auto tight = Net::compile(small_net(), {.max_arena_bytes = 1000});
  EXPECT_THROW(run(*tight, {Tensor::zeros({1, 3, 32, 32})}), ShapeError);
}

TEST(Net, SpelledOutLayerNormAndLinear) {
  const auto build = [] {
    GraphBuilder b(4);
    const ValueId x = b.input({-1, -1, 24});
    const ValueId axes = b.ints({-1});
    const auto mean = [&](ValueId v) {
      return b.add(std::make_shared<ReduceOp>(ReduceKind::kMean, true), {v, axes});
    };
    const ValueId d = b.binary(BinaryKind::kSub, x, mean(x));
    const ValueId var = mean(b.binary(BinaryKind::kPow, d, b.scalar(2)));
    const ValueId root =
        b.unary("Sqrt", {cpu::Act::kSqrt, 0, 0}, b.binary(BinaryKind::kAdd, var, b.scalar(1e-5f)));
    ValueId y = b.binary(BinaryKind::kDiv, d, root);
    y = b.binary(BinaryKind::kAdd, b.binary(BinaryKind::kMul, y, b.weight({24})), b.weight({24}));
    y = b.add(std::make_shared<MatMulOp>(), {y, b.weight({24, 10})});
    y = b.binary(BinaryKind::kAdd, y, b.weight({10}));
    y = b.binary(BinaryKind::kMul, y, b.unary("Sigmoid", {cpu::Act::kSigmoid, 0, 0}, y));
    const ValueId mixed = b.add(std::make_shared<MatMulOp>(), {y, b.weight({10, 10})});
    y = b.binary(BinaryKind::kAdd, y, mixed);
    return b.finish({b.add(std::make_shared<SoftmaxOp>(), {y})});
  };
  const auto plain = Net::compile(build(), {.fuse = false});
  const auto fused = Net::compile(build());
  EXPECT_EQ(fused->graph().nodes.size(),
            4u);  // LayerNormalization, MatMul + Swish, MatMul + y, Softmax
  std::mt19937 rng(2);
  const Tensor x = random_tensor({2, 7, 24}, rng);
  const Tensor wanted = run(*plain, {x})[0];
  EXPECT_LT(worst(run(*fused, {x})[0], wanted), 1e-5);

  Graph best = build();
  ASSERT_TRUE(keep_best_class(best, 0, 9));
  const Tensor got = run(*Net::compile(std::move(best)), {x})[0];
  ASSERT_EQ(got.shape(), (Shape{2, 7, 3}));
  for (int r = 0; r < 14; ++r) {
    const float* p = wanted.data<float>() + r * 10;
    const auto top = std::max_element(p, p + 10);
    EXPECT_EQ(got.data<float>()[r * 3], static_cast<float>(top - p));
    EXPECT_NEAR(got.data<float>()[r * 3 + 1], *top, 1e-5);
    EXPECT_NEAR(got.data<float>()[r * 3 + 2], p[9], 1e-5);
  }
}

}  // namespace
}  // namespace train
