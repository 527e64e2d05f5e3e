// The ops of nets beside convolutions and products: their f64 references pass finite differences,
// and the f32 outputs and gradients agree with them on seeded shapes, with the same bits for any
// thread count.
#include <gtest/gtest.h>

#include "libtrain/autograd/affine_act.h"
#include "libtrain/autograd/batch_norm.h"
#include "libtrain/autograd/functional.h"
#include "tests/support/gradient_check.h"
#include "tests/support/reference_nn.h"

namespace train {
namespace {

using cpu::Act;
using reference::Conv;
constexpr uint64_t kSeeds = 40;

Shape image(Draw& d, int64_t channels = 40, int64_t size = 9) {
  return {d.in(1, 4), d.in(1, channels), d.in(1, size), d.in(1, size)};
}

const std::vector<cpu::Activation>& activations() {
  static const std::vector<cpu::Activation> all{{Act::kNone},      {Act::kRelu},
                                                cpu::clip(0, 6),   {Act::kLeakyRelu, .1f},
                                                {Act::kSigmoid},   cpu::hard_sigmoid(.2f),
                                                cpu::hard_swish(), cpu::swish(),
                                                {Act::kTanh},      {Act::kGelu},
                                                {Act::kGeluTanh},  {Act::kExp},
                                                {Act::kAbs},       {Act::kNeg},
                                                {Act::kSquare}};
  return all;
}

TEST(Ops, Activations) {
  uint64_t seed = 0;
  for (const cpu::Activation& act : activations())
    for (int i = 0; i < 14 && act.kind != Act::kNone; ++i, ++seed) {
      SCOPED_TRACE(cat("activation ", static_cast<int>(act.kind)));
      Draw d(seed, "activation");
      const Shape s = i % 3 ? image(d) : Shape{d.in(1, 30), d.in(1, 70)};
      const std::vector<CheckInput> in{{s, d.values(s.numel(), i % 4 ? 4 : 9)}};
      const auto ref = [&](const auto& x) {
        auto y = x[0];
        for (auto& v : y) v = reference::activate(act, v);
        return y;
      };
      check_gradient(seed, in, [&](Tape& t, auto& v) { return activate(t, v[0], act); }, ref,
                     {.factor = 64, .absolute = 5e-6});  // 1 - tanh^2 loses digits near 1
      if (i == 0) check_finite_differences(seed, {{{1, 9}, d.values(9, 3)}}, ref, 1e-6);
      if (HasFatalFailure()) return;
    }
}

// Both affines around an activation, and one alone.
TEST(Ops, AffinesAroundAnActivation) {
  uint64_t seed = 0;
  for (const cpu::Activation& act : activations())
    for (int i = 0; i < 6; ++i, ++seed) {
      SCOPED_TRACE(cat("activation ", static_cast<int>(act.kind)));
      Draw d(seed, "affines");
      const Shape s = i % 3 ? image(d) : Shape{d.in(1, 90), d.in(1, 90)};
      std::vector<CheckInput> in{{s, d.values(s.numel(), 3)}};
      for (int k = 0; k < (i == 5 ? 2 : 4); ++k) in.push_back({{1}, d.values(1), true});
      const auto op = std::make_shared<AffineActOp>(act);
      const auto ref = [&](const auto& x) {
        auto y = x[0];
        for (auto& v : y) {
          v = reference::activate(act, x[1][0] * v + x[2][0]);
          if (x.size() > 3) v = x[3][0] * v + x[4][0];
        }
        return y;
      };
      check_gradient(seed, in, [&](Tape& t, auto& v) { return t.apply(op, v, 1)[0]; }, ref,
                     {.factor = 64, .absolute = 5e-6});
      if (HasFatalFailure()) return;
    }
}

TEST(Ops, LogAndSqrt) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const Act kind : {Act::kLog, Act::kSqrt}) {
      Draw d(seed, "log");
      const Shape s{d.in(1, 30), d.in(1, 40)};
      auto values = d.values(s.numel(), 2);
      for (double& v : values) v = static_cast<float>(std::abs(v) + .1);
      const auto ref = [&](const auto& x) {
        auto y = x[0];
        for (auto& v : y) v = reference::activate({kind}, v);
        return y;
      };
      check_gradient(
          seed, {{s, values}}, [&](Tape& t, auto& v) { return activate(t, v[0], {kind}); }, ref);
      if (seed < 3) check_finite_differences(seed, {{s, values}}, ref);
      if (HasFatalFailure()) return;
    }
}

// Shapes that broadcast: some axes repeated, leading ones perhaps missing.
Shape part_of(Draw& d, const Shape& full) {
  Shape part = full;
  const int64_t kind = d.in(0, 3);
  if (full.rank() == 4 && kind == 0) return {full[0], full[1], 1, 1};  // a channel gate
  if (full.rank() == 4 && kind == 1) return {full[1], 1, 1};
  for (int i = 0; i < full.rank(); ++i)
    if (d.chance(3)) part[i] = 1;
  while (part.rank() > 0 && part[0] == 1 && d.chance(2)) part.erase(0);
  return part;
}

TEST(Ops, ArithmeticWithBroadcasting) {
  using Fn = Variable (*)(Tape&, const Variable&, const Variable&);
  constexpr Fn fns[] = {add, sub, mul, div};
  for (uint64_t seed = 0; seed < 3 * kSeeds; ++seed)
    for (int kind = 0; kind < 4; ++kind) {
      SCOPED_TRACE(kind);
      Draw d(seed, "arithmetic");
      const Shape full = seed % 3 ? image(d) : Shape{d.in(1, 300), d.in(1, 5), d.in(1, 20)};
      Shape part = part_of(d, full);
      Shape a = full, b = part;
      if (d.chance(4)) std::swap(a, b);
      auto vb = d.values(b.numel(), 2);
      if (kind == 3)
        for (double& v : vb) v = static_cast<float>(v + (v < 0 ? -1 : 1));
      const std::vector<CheckInput> in{{a, d.values(a.numel(), 2), d.chance(4)},
                                       {b, vb, d.chance(2)}};
      const auto ref = [&](const auto& x) {
        return reference::binary(a, x[0], b, x[1], [&](const auto& p, const auto& q) {
          return kind == 0 ? p + q : kind == 1 ? p - q : kind == 2 ? p * q : p / q;
        });
      };
      check_gradient(
          seed, in, [&](Tape& t, auto& v) { return fns[kind](t, v[0], v[1]); }, ref);
      if (seed < 4 && full.numel() < 500) check_finite_differences(seed, in, ref);
      if (HasFatalFailure()) return;
    }
}

TEST(Ops, SameOperandTwice) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Draw d(seed, "twice");
    const Shape s = image(d);
    check_gradient(
        seed, {{s, d.values(s.numel())}},
        [](Tape& t, auto& v) { return offset(t, scale(t, mul(t, v[0], v[0]), 3), -2); },
        [](const auto& x) {
          auto y = x[0];
          for (auto& v : y) v = v * v * 3. - 2.;
          return y;
        });
    if (HasFatalFailure()) return;
  }
}

TEST(Ops, BatchNormWithActivation) {
  uint64_t seed = 0;
  for (const cpu::Activation& act : activations())
    for (int i = 0; i < 14; ++i, ++seed) {
      SCOPED_TRACE(cat("activation ", static_cast<int>(act.kind)));
      Draw d(seed, "batch norm");
      Shape s = image(d, 40, 7);
      if (i == 1) s = {3, 17, 20, 31};  // several blocks of rows
      if (s[0] * s[2] * s[3] < 4) s[0] = 4;
      auto values = d.values(s.numel(), 2);
      if (i % 3 == 0)
        for (double& v : values) v = static_cast<float>(v + 3);  // far from 0
      const std::vector<CheckInput> in{
          {s, values}, {{s[1]}, d.values(s[1]), true}, {{s[1]}, d.values(s[1]), true}};
      const auto op = std::make_shared<BatchNormTrainOp>(1e-5f, act);
      const auto ref = [&](const auto& x) {
        return reference::batch_norm(x[0], x[1], x[2], s[0], s[1], s[2] * s[3], 1e-5f, act);
      };
      check_gradient(seed, in, [&](Tape& t, auto& v) { return t.apply(op, v, 4)[0]; }, ref,
                     {.factor = 200, .absolute = 2e-6});
      if (i == 0 && s.numel() < 600) check_finite_differences(seed, in, ref, 3e-5);
      if (HasFatalFailure()) return;
    }
}

TEST(Ops, BatchNormWithFixedStatistics) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw d(seed, "fixed batch norm");
    const Shape s = image(d);
    const Shape c{s[1]};
    auto var = d.values(s[1]);
    for (double& v : var) v = static_cast<float>(std::abs(v) + .1);
    const std::vector<CheckInput> in{{s, d.values(s.numel(), 2)},
                                     {c, d.values(s[1]), true},
                                     {c, d.values(s[1]), true},
                                     {c, d.values(s[1]), false, true},
                                     {c, var, false, true}};
    const auto op = std::make_shared<BatchNormOp>(1e-5f);
    const auto ref = [&](const auto& x) {
      using std::sqrt;
      auto y = x[0];
      for (size_t i = 0; i < y.size(); ++i) {
        const auto k = static_cast<int64_t>(i) / (s[2] * s[3]) % s[1];
        y[i] = (x[0][i] - x[3][k]) / sqrt(x[4][k] + 1e-5) * x[1][k] + x[2][k];
      }
      return y;
    };
    check_gradient(
        seed, in, [&](Tape& t, auto& v) { return t.apply(op, v, 1)[0]; }, ref);
    if (seed < 2) check_finite_differences(seed, in, ref);
    if (HasFatalFailure()) return;
  }
}

TEST(Ops, LayerNorm) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    Draw d(seed, "layer norm");
    const int64_t rows = d.chance(8) ? d.in(250, 600) : d.in(1, 30), cols = d.in(2, 90);
    const std::vector<CheckInput> in{{{rows, cols}, d.values(rows * cols, 2)},
                                     {{cols}, d.values(cols), true},
                                     {{cols}, d.values(cols), true}};
    const auto op = std::make_shared<LayerNormOp>(-1, 1e-5f);
    const auto ref = [&](const auto& x) {
      return reference::layer_norm(x[0], x[1], x[2], cols, 1e-5f);
    };
    check_gradient(seed, in, [&](Tape& t, auto& v) { return t.apply(op, v, 1)[0]; }, ref,
                   {.factor = 200, .absolute = 1e-6});
    if (seed < 3) check_finite_differences(seed, in, ref, 1e-5);
    if (HasFatalFailure()) return;
  }
}

TEST(Ops, SoftmaxAndLogSoftmax) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed)
    for (const bool log : {false, true}) {
      Draw d(seed, "softmax");
      const int64_t outer = d.in(1, 20), n = d.in(1, 60);
      const int64_t inner = d.chance(2) ? 1 : d.in(1, 9);
      const Shape s = inner == 1 ? Shape{outer, n} : Shape{outer, n, inner};
      const std::vector<CheckInput> in{{s, d.values(s.numel(), d.chance(4) ? 30 : 3)}};
      const auto ref = [&](const auto& x) {
        return reference::softmax(x[0], outer, n, inner, log);
      };
      check_gradient(
          seed, in,
          [&](Tape& t, auto& v) { return log ? log_softmax(t, v[0], 1) : softmax(t, v[0], 1); },
          ref, {.factor = 100, .absolute = 1e-6});
      if (seed < 3) check_finite_differences(seed, in, ref);
      if (HasFatalFailure()) return;
    }
}

TEST(Ops, SumsAndMeans) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const bool average : {false, true}) {
      Draw d(seed, "reduce");
      const Shape s = image(d, 9);
      std::vector<int64_t> axes;
      for (int i = 0; i < 4; ++i)
        if (d.chance(2)) axes.push_back(d.chance(2) ? i : i - 4);
      const bool keep = d.chance(2);
      Shape kept = s;
      for (int i = 0; i < 4; ++i)
        if (axes.empty() || std::ranges::count(axes, i) || std::ranges::count(axes, i - 4))
          kept[i] = 1;
      const double n = average ? static_cast<double>(s.numel() / kept.numel()) : 1;
      const auto ref = [&](const auto& x) {
        auto y = x[0];
        y.assign(static_cast<size_t>(kept.numel()), 0.);
        reference::each_broadcast(s, kept, s,
                                  [&](int64_t i, int64_t, int64_t k) { y[k] += x[0][i] / n; });
        return y;
      };
      check_gradient(seed, {{s, d.values(s.numel())}},
                     [&](Tape& t, auto& v) { return (average ? mean : sum)(t, v[0], axes, keep); },
                     ref, {.absolute = 1e-5});
      if (seed < 2) check_finite_differences(seed, {{s, d.values(s.numel())}}, ref);
      if (HasFatalFailure()) return;
    }
}

TEST(Ops, AverageAndGlobalPools) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    Draw d(seed, "average pool");
    const Conv c = d.pool(/*max_size=*/10, /*max_channels=*/40);
    Window w;
    w.kernel = c.kernel, w.strides = c.stride, w.dilations = c.dilation, w.pads = c.pads;
    const bool count = seed % 3 == 0;
    const Shape s{c.n, c.cin, c.h, c.w};
    const auto ref = [&](const auto& x) { return reference::average_pool(c, x[0], count); };
    SCOPED_TRACE(w.str());
    check_gradient(
        seed, {{s, d.values(s.numel())}},
        [&](Tape& t, auto& v) { return average_pool(t, v[0], w, count); }, ref);
    if (seed < 3) check_finite_differences(seed, {{s, d.values(s.numel())}}, ref);
    check_gradient(
        seed, {{s, d.values(s.numel())}},
        [&](Tape& t, auto& v) { return global_max_pool(t, v[0]); },
        [&](const auto& x) {
          auto y = x[0];
          y.resize(static_cast<size_t>(c.n * c.cin));
          for (size_t i = 0; i < y.size(); ++i) {
            const auto first = x[0].begin() + static_cast<int64_t>(i) * c.h * c.w;
            y[i] = *std::max_element(first, first + c.h * c.w);
          }
          return y;
        });
    if (HasFatalFailure()) return;
  }
}

TEST(Ops, ConvTranspose) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    Draw d(seed, "transposed conv");
    const Conv c = d.conv(/*max_size=*/9, /*max_channels=*/16);  // the convolution it transposes
    const int64_t oh = c.oh(), ow = c.ow();
    Window w;
    w.kernel = c.kernel, w.strides = c.stride, w.dilations = c.dilation, w.pads = c.pads;
    const std::array<int, 2> extra{static_cast<int>(c.room(0) % c.stride[0]),
                                   static_cast<int>(c.room(1) % c.stride[1])};
    const auto op = std::make_shared<ConvTransposeOp>(w, c.groups, extra);
    const std::vector<CheckInput> in{
        {{c.n, c.cout, oh, ow}, d.values(c.y_size())},
        {{c.cout, c.cin / c.groups, c.kernel[0], c.kernel[1]}, d.values(c.w_size()), true},
        {{c.cin}, d.values(c.cin), true}};
    const auto ref = [&](const auto& x) { return reference::conv_transpose(c, x[0], x[1], x[2]); };
    SCOPED_TRACE(cat(w.str(), " groups ", c.groups));
    check_gradient(seed, in, [&](Tape& t, auto& v) { return t.apply(op, v, 1)[0]; }, ref,
                   {.factor = 64, .absolute = 1e-6});
    if (seed < 2) check_finite_differences(seed, in, ref);
    if (HasFatalFailure()) return;
  }
}

TEST(Ops, BatchedMatmul) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const bool transposed : {false, true}) {
      Draw d(seed, "matmul");
      const int64_t b = d.in(1, 5), h = d.in(1, 4), m = d.in(1, 30), k = d.in(1, 20),
                    n = d.in(1, 30);
      const bool shared = d.chance(3);  // b's heads repeat
      const Shape sa{b, h, m, k},
          sb = transposed ? Shape{b, shared ? 1 : h, n, k} : Shape{b, shared ? 1 : h, k, n};
      const auto ref = [&](const auto& x) {
        auto y = x[0];
        y.assign(static_cast<size_t>(b * h * m * n), 0.);
        for (int64_t i = 0; i < b * h; ++i)
          for (int64_t r = 0; r < m; ++r)
            for (int64_t c = 0; c < n; ++c)
              for (int64_t j = 0; j < k; ++j) {
                const int64_t base = (shared ? i / h : i) * k * n;
                y[(i * m + r) * n + c] += x[0][(i * m + r) * k + j] *
                                          x[1][base + (transposed ? c * k + j : j * n + c)] * .5;
              }
        return y;
      };
      const std::vector<CheckInput> in{{sa, d.values(sa.numel())}, {sb, d.values(sb.numel())}};
      check_gradient(seed & ~uint64_t{1}, in,
                     [&](Tape& t, auto& v) { return matmul(t, v[0], v[1], transposed, .5f); }, ref,
                     {.factor = 64});
      if (seed == 0) check_finite_differences(seed, in, ref);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace train
