// The f32 gradients, computed through the tape, against the f64 references on seeded random shapes;
// and their bits over thread counts.
#include <gtest/gtest.h>

#include <cstring>

#include "libtrain/autograd/functional.h"
#include "libtrain/autograd/loss.h"
#include "libtrain/ops/nn.h"
#include "tests/support/random_shapes.h"

namespace train {
namespace {

using reference::Conv;
using reference::Vec;
constexpr uint64_t kSeeds = 60;

Vec abs_of(Vec v) {
  for (double& x : v) x = std::abs(x);
  return v;
}

// A sum of K products rounds by about sqrt(K) half-ulps of its terms' magnitude; `magnitude` is the
// same sum over absolute values.
void expect_close(const Tensor& got, const Vec& want, const Vec& magnitude, double terms) {
  ASSERT_TRUE(got.defined());
  ASSERT_EQ(static_cast<size_t>(got.numel()), want.size());
  const double unit = 0x1p-24 * (6 + 3 * std::sqrt(terms));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.data<float>()[i], want[i], unit * magnitude[i] + 1e-30) << "element " << i;
}

void expect_equal(const Tensor& got, const Vec& want) {
  ASSERT_TRUE(got.defined());
  ASSERT_EQ(static_cast<size_t>(got.numel()), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got.data<float>()[i], static_cast<float>(want[i])) << "element " << i;
}

// An input to differentiate by; odd seeds give images channels-last.
Variable leaf(Eager& eager, const Shape& shape, const Vec& values, uint64_t seed) {
  Array a(to_f32(shape, values));
  if (shape.rank() == 4 && seed % 2) a = eager.to_layout(a, Layout::kChannelsLast);
  Variable v = Variable::input(a.tensor, a.layout);
  v.set_requires_grad(true);
  return v;
}

Tensor linear_of(Eager& eager, const Variable& v, const Tensor& t) {
  return eager.to_layout(Array(t, v.layout()), Layout::kLinear).tensor;
}

// Calls run() with 1, 2 and 3 threads; each returns tensors that must have the same bits.
template <class F>
std::vector<Tensor> over_threads(F&& run) {
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const PoolScope scope(&pool);
    const std::vector<Tensor> now = run();
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i)
      EXPECT_EQ(std::memcmp(now[i].raw(), first[i].raw(), now[i].bytes()), 0)
          << "bits of gradient " << i << " with " << threads << " threads";
  }
  return first;
}

Window window_of(const Conv& c) {
  Window w;
  w.kernel = c.kernel, w.strides = c.stride, w.dilations = c.dilation, w.pads = c.pads;
  return w;
}

void check_conv(const Conv& c, Draw draw, uint64_t seed) {
  SCOPED_TRACE(cat("seed ", seed, ": ", window_of(c).str(), " groups ", c.groups, " [", c.n, ", ",
                   c.cin, ", ", c.h, ", ", c.w, "] -> ", c.cout));
  const Vec x = draw.values(c.x_size()), w = draw.values(c.w_size()), b = draw.values(c.cout);
  const Vec dy = draw.values(c.y_size());
  const auto op = std::make_shared<ConvOp>(window_of(c), c.groups);
  const auto grads = over_threads([&] {
    Eager eager;
    Tape tape(eager);
    const Variable vx = leaf(eager, {c.n, c.cin, c.h, c.w}, x, seed);
    const Variable vw =
        Variable::parameter(to_f32({c.cout, c.cin / c.groups, c.kernel[0], c.kernel[1]}, w));
    const Variable vb = Variable::parameter(to_f32({c.cout}, b));
    const Variable y = tape.apply(op, {vx, vw, vb});
    tape.backward(y, to_f32({c.n, c.cout, c.oh(), c.ow()}, dy));
    return std::vector{linear_of(eager, vx, vx.grad()), vw.grad(), vb.grad(),
                       linear_of(eager, y, y.value())};
  });
  Vec dx, dw, db, sx, sw, sb;
  reference::conv_grad(c, x, w, dy, dx, dw, db);
  reference::conv_grad(c, abs_of(x), abs_of(w), abs_of(dy), sx, sw, sb);
  const double taps = c.kernel[0] * c.kernel[1];
  const auto pixels = static_cast<double>(c.n * c.oh() * c.ow());
  expect_close(grads[0], dx, sx, taps * static_cast<double>(c.cout / c.groups));
  expect_close(grads[1], dw, sw, pixels);
  expect_close(grads[2], db, sb, pixels);
  expect_close(grads[3], reference::conv(c, x, w, b),
               reference::conv(c, abs_of(x), abs_of(w), abs_of(b)),
               taps * static_cast<double>(c.cin / c.groups));
}

TEST(Gradients, Conv) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    Draw draw(seed, "conv");
    const Conv c = draw.conv(/*max_size=*/13, /*max_channels=*/20);
    check_conv(c, draw, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Long sums and several batch slices, which small shapes do not reach.
TEST(Gradients, LargeConvs) {
  uint64_t seed = 0;
  for (const Conv& c : {Conv{.n = 3, .cin = 24, .h = 60, .w = 90, .cout = 40, .kernel = {1, 1}},
                        Conv{.n = 12,
                        .cin = 3,
                        .h = 160,
                        .w = 161,
                        .cout = 17,
                        .kernel = {3, 3},
                        .stride = {2, 2},
                        .pads = {1, 1, 1, 1}},
                        Conv{.n = 2,
                        .cin = 40,
                        .h = 50,
                        .w = 70,
                        .cout = 40,
                        .groups = 40,
                        .kernel = {5, 5},
                        .stride = {2, 1},
                        .pads = {2, 2, 2, 2}},
                        Conv{.n = 2,
                        .cin = 16,
                        .h = 33,
                        .w = 47,
                        .cout = 32,
                        .kernel = {3, 3},
                        .pads = {1, 1, 1, 1}}})
    check_conv(c, Draw(seed, "large conv"), seed), ++seed;
}

TEST(Gradients, Linear) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Draw draw(seed, "linear");
    const int64_t m = draw.chance(8) ? draw.in(500, 1500) : draw.in(1, 40);
    const int64_t k = draw.in(1, 70), n = draw.in(1, 70);
    const bool transposed = draw.chance(2), matrix = m % 2 || draw.chance(2);
    const Vec x = draw.values(m * k), w = draw.values(n * k), b = draw.values(n);
    const Vec dy = draw.values(m * n);
    Vec stored = w;  // [n, k], or [k, n]
    if (!transposed)
      for (int64_t i = 0; i < n * k; ++i) stored[i % k * n + i / k] = w[i];
    const auto op = std::make_shared<MatMulOp>(transposed);
    const auto grads = over_threads([&] {
      Eager eager;
      Tape tape(eager);
      const Variable vx = leaf(eager, matrix ? Shape{m, k} : Shape{2, m / 2, k}, x, seed);
      const Variable vw =
          Variable::parameter(to_f32(transposed ? Shape{n, k} : Shape{k, n}, stored));
      const Variable vb = Variable::parameter(to_f32({n}, b));
      const Variable y = tape.apply(op, {vx, vw, vb});
      tape.backward(y, to_f32(y.shape(), dy));
      return std::vector{vx.grad(), vw.grad(), vb.grad()};
    });
    Vec dx, dw, db, sx, sw, sb;
    reference::linear_grad(m, k, n, x, w, dy, dx, dw, db);
    reference::linear_grad(m, k, n, abs_of(x), abs_of(w), abs_of(dy), sx, sw, sb);
    if (!transposed)
      for (Vec* v : {&dw, &sw}) {
        const Vec old = *v;
        for (int64_t i = 0; i < n * k; ++i) (*v)[i % k * n + i / k] = old[i];
      }
    expect_close(grads[0], dx, sx, static_cast<double>(n));
    expect_close(grads[1], dw, sw, static_cast<double>(m));
    expect_close(grads[2], db, sb, static_cast<double>(m));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Gradients, MaxPool) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Draw draw(seed, "max pool");
    const Conv c = draw.pool(/*max_size=*/12, /*max_channels=*/40);
    Vec x = draw.values(c.x_size(), 2);
    if (draw.chance(2))
      for (double& v : x) v = std::round(v);  // ties
    Vec dy = draw.values(c.y_size());
    for (double& v : dy) v = std::round(v * 64) / 64;  // sums are exact in f32
    const auto op = std::make_shared<PoolOp>(PoolKind::kMax, window_of(c));
    const auto grads = over_threads([&] {
      Eager eager;
      Tape tape(eager);
      const Variable vx = leaf(eager, {c.n, c.cin, c.h, c.w}, x, seed);
      tape.backward(tape.apply(op, {vx}), to_f32({c.n, c.cin, c.oh(), c.ow()}, dy));
      return std::vector{linear_of(eager, vx, vx.grad())};
    });
    expect_equal(grads[0], reference::max_pool_grad(c, x, dy));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Gradients, GlobalAveragePoolAndRelu) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Draw draw(seed, "average");
    const Shape shape{draw.in(1, 4), draw.in(1, 33), draw.in(1, 20), draw.in(1, 20)};
    const int64_t area = shape[2] * shape[3];
    const Vec x = draw.values(shape.numel()), da = draw.values(shape[0] * shape[1]);
    const Vec dr = draw.values(shape.numel());
    const auto grads = over_threads([&] {
      Eager eager;
      Tape tape(eager);
      const Variable a = leaf(eager, shape, x, seed), r = leaf(eager, shape, x, seed);
      tape.backward(global_average_pool(tape, a), to_f32({shape[0], shape[1], 1, 1}, da));
      tape.backward(relu(tape, r), to_f32(shape, dr));
      return std::vector{linear_of(eager, a, a.grad()), linear_of(eager, r, r.grad())};
    });
    const Vec want = reference::average_grad(area, da);
    expect_close(grads[0], want, abs_of(want), 1);
    expect_equal(grads[1], reference::relu_grad(x, dr));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Gradients, AddWithBroadcastAndReshape) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Draw draw(seed, "add");
    const Shape full{draw.in(1, 4), draw.in(1, 9), draw.in(1, 7), draw.in(1, 7)};
    Shape part = full;  // some axes repeated, leading ones perhaps missing
    for (int i = 0; i < 4; ++i)
      if (draw.chance(3)) part[i] = 1;
    while (part.rank() > 0 && part[0] == 1 && draw.chance(2)) part.erase(0);
    const Vec x = draw.values(full.numel()), b = draw.values(part.numel());
    const Vec dy = draw.values(full.numel());
    Vec db(b.size()), sb(b.size());
    for (int64_t i = 0; i < full.numel(); ++i) {
      int64_t rest = i, at = 0, step = 1;
      for (int a = 3; a >= 0; --a) {
        const int64_t coordinate = rest % full[a];
        rest /= full[a];
        const int p = a - (4 - part.rank());
        if (p < 0) continue;
        if (part[p] != 1) at += coordinate * step;
        step *= part[p];
      }
      db[at] += dy[i];
      sb[at] += std::abs(dy[i]);
    }
    Eager eager;
    Tape tape(eager);
    const Variable vx = leaf(eager, full, x, seed), vb = leaf(eager, part, b, seed / 2);
    const Variable y = reshape(tape, add(tape, vx, vb), {full.count(0, 2), full.count(2, 4)});
    tape.backward(y, to_f32(y.shape(), dy));
    expect_equal(linear_of(eager, vx, vx.grad()), dy);
    expect_close(linear_of(eager, vb, vb.grad()), db, sb, 1);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Gradients, SoftmaxCrossEntropy) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Draw draw(seed, "loss");
    const int64_t rows = draw.in(1, 80), classes = draw.in(1, 100);
    const float smoothing = draw.chance(2) ? 0.f : .125f;
    const Vec x = draw.values(rows * classes, draw.chance(4) ? 40 : 3);
    std::vector<int64_t> labels;
    for (int64_t r = 0; r < rows; ++r) labels.push_back(draw.in(0, classes - 1));
    const auto op = std::make_shared<SoftmaxCrossEntropyOp>(smoothing);
    const auto got = over_threads([&] {
      Eager eager;
      Tape tape(eager);
      const Variable vx = leaf(eager, {rows, classes}, x, seed);
      const std::array inputs{vx, Variable::input(Tensor::from<int64_t>({rows}, labels))};
      const Variable loss = tape.apply(op, inputs, 2)[0];
      tape.backward(loss);
      return std::vector{vx.grad(), loss.value()};
    });
    Vec dx;
    const double loss = reference::cross_entropy(classes, x, labels, smoothing, &dx);
    EXPECT_NEAR(got[1].data<float>()[0], loss, 2e-6 * (1 + loss));
    for (size_t i = 0; i < dx.size(); ++i)
      ASSERT_NEAR(got[0].data<float>()[i], dx[i], 3e-6 / static_cast<double>(rows));
  }
}

}  // namespace
}  // namespace train
