// Timing of ops: what is counted under which name, and what touches no bytes.
#include <gtest/gtest.h>

#include "libtrain/autograd/tape.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

struct Sums {
  size_t calls = 0;
  double flops = 0, bytes = 0;
};

Sums sums_of(const Eager& eager, const std::string& type) {
  Sums sums;
  for (const auto& [name, time] : eager.profile())
    if (time.type == type) {
      sums.calls += time.calls;
      sums.flops += time.flops;
      sums.bytes += time.bytes;
    }
  return sums;
}

TEST(OpTimes, CountWhileTheyAreOnAndForgetOnceSetAgain) {
  Eager eager;
  const auto op = std::make_shared<MatMulOp>();
  const Array a(Tensor::zeros({3, 4})), b(Tensor::zeros({4, 5}));
  eager.run(op, {a, b});
  EXPECT_TRUE(eager.profile().empty());
  eager.set_profiling(true);
  for (int i = 0; i < 2; ++i) eager.run(op, {a, b});
  ASSERT_EQ(eager.profile().size(), 1u);
  const Eager::OpTime& time = eager.profile().at(op->describe());
  EXPECT_EQ(time.type, "MatMul");
  EXPECT_EQ(time.calls, 2u);
  EXPECT_EQ(time.flops, 2 * 2. * 3 * 4 * 5);
  EXPECT_EQ(time.bytes, 2 * 4. * (3 * 4 + 4 * 5 + 3 * 5));
  EXPECT_TRUE(eager.events().empty());  // none were asked for
  EXPECT_THROW(eager.run(op, {a, a}), ShapeError);
  EXPECT_EQ(time.calls, 2u);  // what failed does not count
  eager.set_profiling(true, 10);
  EXPECT_TRUE(eager.profile().empty());
  eager.set_profiling(false);
  eager.run(op, {a, b});
  EXPECT_TRUE(eager.profile().empty());
}

TEST(OpTimes, EventsAreTheFirstRunsOneByOne) {
  Eager eager;
  eager.set_profiling(true, 3);
  // Ops that are gone when the events are read.
  for (int64_t n = 1; n <= 4; ++n)
    eager.run(std::make_shared<FlattenOp>(n % 2), {Array(Tensor::zeros({n, 2}))});
  ASSERT_EQ(eager.events().size(), 3u);
  double end = 0;
  for (const Eager::OpEvent& e : eager.events()) {
    EXPECT_EQ(*e.type, "Flatten");
    EXPECT_TRUE(eager.profile().contains(*e.op)) << *e.op;
    EXPECT_GE(e.begin, end);
    end = e.begin + e.seconds;
  }
  EXPECT_EQ(eager.events()[0].shape, (Shape{1, 2}));
  EXPECT_EQ(eager.events()[1].shape, (Shape{1, 4}));
  EXPECT_EQ(sums_of(eager, "Flatten").calls, 4u);
  EXPECT_EQ(sums_of(eager, "Flatten").bytes, 0);  // views move nothing
}

TEST(OpTimes, GradientsCountTheirOwnArithmetic) {
  Eager eager;
  Window window;
  window.kernel = {3, 3};
  window.pads = {1, 1, 1, 1};
  const auto conv = std::make_shared<ConvOp>(window, 1);
  const auto product = std::make_shared<MatMulOp>();
  const auto leaf = [](const Shape& shape) {
    Variable v = Variable::input(Tensor::zeros(shape));
    v.set_requires_grad(true);
    return v;
  };
  const Variable x = leaf({2, 3, 8, 6}), a = leaf({7, 4});
  const Variable w = Variable::parameter(Tensor::zeros({5, 3, 3, 3}));
  const Variable b = Variable::parameter(Tensor::zeros({4, 9}));
  eager.set_profiling(true);
  {
    Tape tape(eager);
    const Variable y = tape.apply(conv, {x, w});
    tape.backward(y, Tensor::zeros(y.shape()));
  }
  {
    Tape tape(eager);
    const Variable y = tape.apply(product, {a, b});
    tape.backward(y, Tensor::zeros(y.shape()));
  }
  const double image = 2. * 3 * 8 * 6, weights = 5. * 3 * 9, result = 2. * 5 * 8 * 6;
  const double flops = 2 * result * 3 * 9;
  EXPECT_EQ(sums_of(eager, "Conv").flops, flops);
  EXPECT_EQ(sums_of(eager, "ConvInputGrad").flops, flops);
  EXPECT_EQ(sums_of(eager, "ConvWeightGrad").flops, flops);
  // Of the third operand only the shape is read.
  EXPECT_EQ(sums_of(eager, "ConvInputGrad").bytes, 4 * (result + weights + image));
  EXPECT_EQ(sums_of(eager, "ConvWeightGrad").bytes, 4 * (image + result + weights));
  EXPECT_EQ(sums_of(eager, "MatMulWeightGrad").flops, 2. * 7 * 4 * 9);
  EXPECT_EQ(sums_of(eager, "MatMul").flops, 2 * 2. * 7 * 4 * 9);  // forward and the input's
}

}  // namespace
}  // namespace train
