// Data movement and reductions on seeded random shapes: channels-last images with a pixel stride
// wider than their channels give the bytes that the linear layout gives, on any number of threads.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "libtrain/ops/move.h"
#include "libtrain/ops/reduce.h"
#include "libtrain/ops/rnn.h"
#include "libtrain/ops/shape_ops.h"
#include "libtrain/ops/strided.h"

namespace train {
namespace {

class NoCache final : public PackCache {
 protected:
  std::shared_ptr<const void> get_any(int,
                                      FunctionRef<std::shared_ptr<const void>()> make) override {
    return make();
  }
};

struct Random {
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t integer(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(engine);
  }
  Tensor tensor(const Shape& shape) {
    Tensor t(shape);
    for (float& v : t.span<float>()) v = std::uniform_real_distribution<float>(-2, 2)(engine);
    return t;
  }
  std::mt19937 engine;
};

Tensor ints(std::initializer_list<int64_t> values) {
  return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// One value in memory: where it lies and what it is.
struct Held {
  std::vector<char> bytes;
  ValueInfo info;
};

// `t` in a layout; channels-last with `gap` unused elements behind each pixel.
Held hold(const Tensor& t, Layout layout, int64_t gap) {
  Held h;
  h.info = ValueInfo(t.shape(), t.dtype());
  ValueInfo linear = h.info;
  if (layout == Layout::kChannelsLast) {
    h.info.layout = layout;
    h.info.ld = t.shape()[1] + gap;
    const Shape& s = t.shape();
    h.bytes.assign(static_cast<size_t>(s[0] * s[2] * s[3] * h.info.ld) * size_of(t.dtype()) + 64,
                   '\x7f');
  } else {
    h.bytes.assign(t.bytes() + 64, '\x7f');
  }
  copy_between(linear, h.info).run(t.raw(), h.bytes.data());
  return h;
}

// Runs the op with its rank-4 data inputs in `layout`; the outputs in linear order. `strided` gives
// channels-last outputs a wider pixel stride too, where the op can write one.
std::vector<Tensor> run(const Op& op, const std::vector<Tensor>& inputs, size_t outputs,
                        Layout layout, bool strided) {
  std::vector<ValueInfo> in, out(outputs);
  for (const Tensor& t : inputs) {
    in.emplace_back(t.shape(), t.dtype());
    in.back().constant = &t;
    if (layout == Layout::kChannelsLast && t.shape().rank() == 4) {
      in.back().layout = layout;
      in.back().ld = t.shape()[1];
    }
  }
  op.infer(in, out);
  const LayoutChoice choice = op.layouts(in, out);
  std::vector<Held> held, results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    held.push_back(hold(inputs[i], choice.inputs[i], 3));
    held.back().info.constant = &inputs[i];
  }
  for (size_t i = 0; i < outputs; ++i)
    results.push_back(hold(Tensor::zeros(out[i].shape, out[i].dtype), choice.outputs[i],
                           strided && op.strided_output() ? 5 : 0));
  in.clear(), out.clear();
  for (const Held& h : held) in.push_back(h.info);
  for (const Held& h : results) out.push_back(h.info);
  NoCache packs;
  const auto plan = op.plan(in, out, packs);
  std::vector<View> views_in, views_out;
  for (size_t i = 0; i < in.size(); ++i) views_in.push_back({held[i].bytes.data(), &in[i]});
  for (size_t i = 0; i < out.size(); ++i) views_out.push_back({results[i].bytes.data(), &out[i]});
  std::vector<char> workspace(plan->workspace_bytes + 64, '\x7f');
  plan->run(views_in, views_out, workspace.data());
  std::vector<Tensor> tensors;
  for (const Held& h : results) {
    tensors.emplace_back(h.info.shape, h.info.dtype);
    copy_between(h.info, ValueInfo(h.info.shape, h.info.dtype))
        .run(h.bytes.data(), tensors.back().raw());
  }
  return tensors;
}

void expect_same(const Op& op, const std::vector<Tensor>& inputs, size_t outputs = 1,
                 bool exact = true) {
  const auto want = run(op, inputs, outputs, Layout::kLinear, false);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const PoolScope scope(&pool);
    for (const bool strided : {false, true}) {
      const auto got = run(op, inputs, outputs, Layout::kChannelsLast, strided);
      for (size_t i = 0; i < outputs; ++i) {
        ASSERT_EQ(got[i].shape(), want[i].shape());
        if (exact || got[i].dtype() != DType::kF32) {
          ASSERT_EQ(std::memcmp(got[i].raw(), want[i].raw(), got[i].bytes()), 0)
              << op.describe() << " of " << inputs[0].shape().str() << ", " << threads
              << " threads";
        } else {
          for (int64_t k = 0; k < got[i].numel(); ++k)
            ASSERT_NEAR(got[i].data<float>()[k], want[i].data<float>()[k],
                        1e-5f * (1 + std::abs(want[i].data<float>()[k])))
                << op.describe() << " of " << inputs[0].shape().str();
        }
      }
    }
  }
}

class Movement : public testing::TestWithParam<unsigned> {
 protected:
  Random rng{GetParam()};
  // Mostly small; sometimes large enough that threads share the work.
  Shape image() {
    const bool large = rng.integer(0, 4) == 0;
    return {rng.integer(1, 3), rng.integer(1, large ? 70 : 9), rng.integer(1, large ? 60 : 6),
            rng.integer(1, large ? 60 : 6)};
  }
};

TEST_P(Movement, Transposes) {
  std::vector<int64_t> perm{0, 1, 2, 3};
  std::ranges::shuffle(perm, rng.engine);
  expect_same(TransposeOp(perm), {rng.tensor(image())});
  expect_same(TransposeOp({0, 3, 1, 2}), {rng.tensor(image())});
}

TEST_P(Movement, ConcatsAndSplits) {
  const Shape s = image();
  for (int axis = 0; axis < 4; ++axis) {
    std::vector<Tensor> parts;
    for (int k = 0; k < 3; ++k) {
      Shape p = s;
      p[axis] = rng.integer(1, 5);
      parts.push_back(rng.tensor(p));
    }
    expect_same(ConcatOp(axis), parts);
    expect_same(SplitOp(axis), {rng.tensor(s)}, 2);
  }
}

TEST_P(Movement, SlicesPadsTiles) {
  const Shape s = image();
  const Tensor x = rng.tensor(s);
  std::vector<int64_t> starts, ends, steps, pads, repeats;
  for (int i = 0; i < 4; ++i) {
    const bool back = rng.integer(0, 1) == 0;
    starts.push_back(back ? s[i] : rng.integer(0, s[i]));
    ends.push_back(back ? -s[i] - 1 : s[i]);
    steps.push_back((back ? -1 : 1) * rng.integer(1, 3));
    repeats.push_back(rng.integer(1, 2));
  }
  const auto tensor = [](const std::vector<int64_t>& v) {
    return Tensor::from<int64_t>({static_cast<int64_t>(v.size())}, v);
  };
  expect_same(SliceOp(), {x, tensor(starts), tensor(ends), ints({0, 1, 2, 3}), tensor(steps)});
  for (int i = 0; i < 8; ++i) pads.push_back(rng.integer(0, 2));
  for (const PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kEdge, PadMode::kWrap})
    expect_same(PadOp(mode), {x, tensor(pads), Tensor::scalar(1.5f)});
  expect_same(TileOp(), {x, tensor(repeats)});
}

TEST_P(Movement, BlocksAndChannels) {
  const int64_t b = rng.integer(1, 3);
  Shape s = image();
  s[1] *= b * b;
  expect_same(DepthSpaceOp(true, b, rng.integer(0, 1) == 0), {rng.tensor(s)});
  Shape t = image();
  t[2] *= b;
  t[3] *= b;
  expect_same(DepthSpaceOp(false, b), {rng.tensor(t)});
}

TEST_P(Movement, Reductions) {
  const Tensor x = rng.tensor(image());
  for (int set = 1; set < 16; ++set) {
    std::vector<int64_t> axes;
    for (int i = 0; i < 4; ++i)
      if (set >> i & 1) axes.push_back(i);
    const Tensor a = Tensor::from<int64_t>({static_cast<int64_t>(axes.size())}, axes);
    for (const ReduceKind kind :
         {ReduceKind::kMean, ReduceKind::kMax, ReduceKind::kSumSquare, ReduceKind::kLogSumExp})
      for (const bool keep : {false, true})
        expect_same(ReduceOp(kind, keep), {x, a}, 1, kind == ReduceKind::kMax);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Movement, testing::Range(0u, 12u));

TEST(Views, ReshapeRules) {
  const Tensor x = Tensor::zeros({2, 3, 4});
  const auto shape_of = [&](const Tensor& t, std::initializer_list<int64_t> wanted, bool zero) {
    return run(ReshapeOp(zero), {t, ints(wanted)}, 1, Layout::kLinear, false)[0].shape();
  };
  EXPECT_EQ(shape_of(x, {0, -1}, false), (Shape{2, 12}));
  EXPECT_EQ(shape_of(Tensor::zeros({0, 3}), {3, 0}, true), (Shape{3, 0}));
  EXPECT_THROW(shape_of(x, {-1, -1}, false), ShapeError);
  EXPECT_THROW(shape_of(x, {5, -1}, false), ShapeError);
  EXPECT_THROW(shape_of(x, {2, 3, 4, 0}, false), ShapeError);
  EXPECT_THROW(shape_of(x, {-2, 12}, false), ShapeError);
}

TEST(Gathers, IndicesOutOfRangeThrow) {
  const Tensor x = Tensor::zeros({4, 3});
  for (const int64_t bad : {int64_t{4}, int64_t{-5}, INT64_MAX, INT64_MIN})
    EXPECT_THROW(run(GatherOp(0), {x, ints({bad})}, 1, Layout::kLinear, false), ShapeError);
  EXPECT_THROW(
      run(GatherNDOp(), {x, Tensor::from<int64_t>({1, 1}, {7})}, 1, Layout::kLinear, false),
      ShapeError);
}

// A sequence's states do not depend on which sequences are beside it, nor on padding behind it.
TEST(Rnn, RowsAreIndependent) {
  Random rng(3);
  const int64_t steps = 7, hidden = 9, input = 5;
  for (const RnnCell cell : {RnnCell::kRnn, RnnCell::kGru, RnnCell::kLstm}) {
    RnnOp op(cell, RnnDirection::kBidirectional, hidden);
    for (auto& a : op.activations)
      a = {cpu::Activation{cell == RnnCell::kRnn ? cpu::Act::kTanh : cpu::Act::kSigmoid},
           cpu::Activation{cpu::Act::kTanh}, cpu::Activation{cpu::Act::kTanh}};
    const int64_t width = op.gates() * hidden;
    const Tensor w = rng.tensor({2, width, input}), r = rng.tensor({2, width, hidden});
    const Tensor b = rng.tensor({2, 2 * width}), x = rng.tensor({steps, 3, input});
    const Tensor lengths = Tensor::from<int32_t>({3}, {7, 4, 2});
    const auto all = run(op, {x, w, r, b, lengths}, 2, Layout::kLinear, false);
    for (int64_t n = 0; n < 3; ++n) {
      const int64_t length = lengths.data<int32_t>()[n];
      Tensor alone({length, 1, input});
      for (int64_t t = 0; t < length; ++t)
        std::copy_n(x.data<float>() + (t * 3 + n) * input, input, alone.data<float>() + t * input);
      const auto one = run(op, {alone, w, r, b}, 2, Layout::kLinear, false);
      for (int64_t t = 0; t < steps; ++t)
        for (int64_t d = 0; d < 2; ++d)
          for (int64_t h = 0; h < hidden; ++h) {
            const float got = all[0].data<float>()[((t * 2 + d) * 3 + n) * hidden + h];
            const float want = t < length ? one[0].data<float>()[(t * 2 + d) * hidden + h] : 0.f;
            ASSERT_EQ(got, want) << op.describe() << " row " << n << " step " << t;
          }
    }
  }
}

}  // namespace
}  // namespace train
