// Pairs of steps that run over a few rows at a time, against the two steps by themselves: the same
// bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "libtrain/graph/net.h"
#include "libtrain/ops/chain.h"
#include "tests/support/graph_builder.h"

namespace train {
namespace {

using testing::GraphBuilder;
using testing::random_tensor;

std::vector<Tensor> run(const Net& net, const Tensor& x) {
  const Feed feed{x};
  Context context;
  std::vector<Tensor> outputs;
  net.run(context, {&feed, 1}, outputs);
  for (Tensor& t : outputs) t = t.clone();
  return outputs;
}

std::shared_ptr<ConvTransposeOp> doubling(cpu::Activation act) {
  cpu::Epilogue e;
  e.act = act;
  return std::make_shared<ConvTransposeOp>(Window{{2, 2}, {2, 2}}, 1, std::array<int, 2>{0, 0},
                                           std::nullopt, e);
}

// Two chains: 1x1 with GELU and 1x1 with a residual; two transposed convolutions. `watched`: what
// lies between is an output too, which keeps the steps apart.
Graph graph(bool watched) {
  GraphBuilder b(5);
  const ValueId x = b.input({-1, 24, -1, -1});
  const ValueId wide = b.spelled_gelu(b.conv(x, 24, 40, 1));
  const ValueId narrow = b.binary(BinaryKind::kAdd, b.conv(wide, 40, 24, 1), x);
  const ValueId smooth = b.conv(narrow, 24, 24, 3, 1, 24);
  const ValueId up = b.add(doubling({cpu::Act::kRelu, 0, 0}),
                           {smooth, b.weight({24, 9, 2, 2}, -.2f, .2f), b.weight({9})});
  const ValueId last = b.add(doubling({cpu::Act::kSigmoid, 0, 0}),
                             {up, b.weight({9, 1, 2, 2}, -.2f, .2f), b.weight({1})});
  std::vector<ValueId> outputs{last, narrow};
  if (watched) outputs.insert(outputs.end(), {wide, up});
  return b.finish(outputs);
}

int64_t chains(const Net& net) {
  return std::ranges::count_if(net.graph().nodes,
                               [](const Node& n) { return n.op->type() == "Chain"; });
}

TEST(Chain, TheSameBytesAsTheTwoSteps) {
  const auto apart = Net::compile(graph(true)), chained = Net::compile(graph(false));
  EXPECT_EQ(chains(*apart), 0);
  EXPECT_EQ(chains(*chained), 2);
  std::mt19937 rng(5);
  // Small enough to run whole; in chunks of rows; a row longer than a chunk; a batch.
  for (const Shape& s :
       {Shape{1, 24, 3, 5}, Shape{1, 24, 67, 83}, Shape{1, 24, 3, 3001}, Shape{3, 24, 41, 64}}) {
    const Tensor x = random_tensor(s, rng);
    const auto want = run(*apart, x);
    for (int threads = 1; threads <= 3; ++threads) {
      ThreadPool pool(threads);
      const PoolScope scope(&pool);
      const auto got = run(*chained, x);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].shape(), want[i].shape());
        EXPECT_EQ(0, std::memcmp(got[i].raw(), want[i].raw(), want[i].bytes()))
            << s.str() << " output " << i << ", " << threads << " threads";
      }
    }
  }
}

TEST(Chain, StepsThatNeedNeighboursStayApart) {
  const Shape one{8, 8, 1, 1}, two{8, 8, 2, 2}, three{8, 8, 3, 3};
  EXPECT_TRUE(ChainOp::rowwise(ConvOp(Window{}), one));
  EXPECT_TRUE(ChainOp::rowwise(*doubling({}), two));
  EXPECT_FALSE(ChainOp::rowwise(ConvOp(Window{}), three));
  EXPECT_FALSE(ChainOp::rowwise(ConvOp(Window{{1, 1}, {2, 2}}), one)) << "skips rows";
  EXPECT_FALSE(ChainOp::rowwise(ConvOp(Window{{1, 1}, {1, 1}, {1, 1}, {1, 0, 0, 0}}), one));
  EXPECT_FALSE(ChainOp::rowwise(ConvOp(Window{}, 2), one));
  EXPECT_FALSE(ChainOp::rowwise(*doubling({}), three));
  EXPECT_FALSE(
      ChainOp::rowwise(ConvTransposeOp(Window{{2, 2}, {2, 2}}, 1, std::array<int, 2>{1, 0}), two));
}

}  // namespace
}  // namespace train
