// LSTM, attention and group norm against f64 references.
#include <gtest/gtest.h>

#include "libtrain/autograd/attention.h"
#include "libtrain/autograd/attention_blocks.h"
#include "libtrain/autograd/lstm.h"
#include "libtrain/core/philox.h"
#include "libtrain/nn/sequence.h"
#include "libtrain/ops/move.h"
#include "tests/support/gradient_check.h"
#include "tests/support/reference_nn.h"

namespace train {
namespace {

// One direction; p: w_ih, w_hh, b_ih, b_hh. Writes h of every time to y[n, t, offset...].
template <class T>
void lstm(const std::vector<T>& x, const std::vector<T>* p, int64_t n, int64_t t, int64_t in,
          int64_t h, bool reverse, int64_t wide, int64_t offset, std::vector<T>& y) {
  using std::exp, std::tanh;
  const auto sigmoid = [](const T& v) { return T(1.) / (T(1.) + exp(-v)); };
  for (int64_t b = 0; b < n; ++b) {
    std::vector<T> state(static_cast<size_t>(h), T(0.)), cell(static_cast<size_t>(h), T(0.));
    for (int64_t s = 0; s < t; ++s) {
      const int64_t at = b * t + (reverse ? t - 1 - s : s);
      std::vector<T> z(static_cast<size_t>(4 * h));
      for (int64_t g = 0; g < 4 * h; ++g) {
        z[g] = p[2][g] + p[3][g];
        for (int64_t i = 0; i < in; ++i) z[g] += p[0][g * in + i] * x[at * in + i];
        for (int64_t i = 0; i < h; ++i) z[g] += p[1][g * h + i] * state[i];
      }
      for (int64_t i = 0; i < h; ++i) {
        cell[i] = sigmoid(z[h + i]) * cell[i] + sigmoid(z[i]) * tanh(z[2 * h + i]);
        state[i] = sigmoid(z[3 * h + i]) * tanh(cell[i]);
        y[at * wide + offset + i] = state[i];
      }
    }
  }
}

TEST(Sequence, Lstm) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draw d(seed, "lstm");
    const int64_t n = d.in(1, 5), t = d.in(1, 7), in = d.in(1, 9), h = d.in(1, 11);
    const bool both = d.chance(2);
    const int64_t dirs = both ? 2 : 1;
    std::vector<CheckInput> inputs{{{n, t, in}, d.values(n * t * in)}};
    for (int64_t k = 0; k < dirs; ++k) {
      inputs.push_back({{4 * h, in}, d.values(4 * h * in), true});
      inputs.push_back({{4 * h, h}, d.values(4 * h * h), true});
      inputs.push_back({{4 * h}, d.values(4 * h), true});
      inputs.push_back({{4 * h}, d.values(4 * h), true});
    }
    const auto op = std::make_shared<LstmOp>(both);
    const auto ref = [&](const auto& x) {
      auto y = x[0];
      y.assign(static_cast<size_t>(n * t * dirs * h), 0.);
      for (int64_t k = 0; k < dirs; ++k)
        lstm(x[0], &x[static_cast<size_t>(1 + 4 * k)], n, t, in, h, k == 1, dirs * h, k * h, y);
      return y;
    };
    check_gradient(seed, inputs, [&](Tape& tape, auto& v) { return tape.apply(op, v, 3)[0]; }, ref,
                   {.factor = 64, .absolute = 1e-6});
    if (seed < 3) check_finite_differences(seed, inputs, ref);
    if (HasFatalFailure()) return;
  }
}

TEST(Sequence, LstmLayersHaveTorchsNames) {
  nn::Lstm m(5, 3, 2, true);
  std::vector<std::string> names;
  for (const auto& p : m.parameters()) names.push_back(p.name);
  ASSERT_EQ(names.size(), 16u);
  EXPECT_EQ(names[0], "weight_ih_l0");
  EXPECT_EQ(names[7], "bias_hh_l0_reverse");
  EXPECT_EQ(names[9], "weight_hh_l1");
  EXPECT_EQ(m.parameters()[8].variable.shape(), (Shape{12, 6}));
  m.initialize(1);
  Eager eager;
  Tape tape(eager);
  EXPECT_EQ(m(tape, Variable::input(Tensor::zeros({2, 4, 5}))).shape(), (Shape{2, 4, 6}));
}

struct Attention {
  int64_t n, tq, tk, heads, d;
  const reference::Vec* mask = nullptr;  // [tq, tk] or [n, tq, tk]
  bool mask_per_sample = false;
  float dropout = 0;
  uint64_t seed = 0;
};

// q, k, v(b, token, channel) give numbers.
template <class T, class Q, class K, class V>
std::vector<T> attention(const Attention& a, Q&& q, K&& k, V&& v) {
  using std::exp;
  const int64_t c = a.heads * a.d;
  std::vector<T> y(static_cast<size_t>(a.n * a.tq * c), T(0.));
  const RandomStream random(a.seed, 0);
  for (int64_t b = 0; b < a.n; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.tq; ++i) {
        std::vector<T> w;
        T sum(0.);
        for (int64_t j = 0; j < a.tk; ++j) {
          T s(0.);
          for (int64_t e = 0; e < a.d; ++e) s += q(b, i, h * a.d + e) * k(b, j, h * a.d + e);
          const double hidden =
              a.mask ? (*a.mask)[((a.mask_per_sample ? b : 0) * a.tq + i) * a.tk + j] : 0;
          w.push_back(std::isinf(hidden)
                          ? T(0.)
                          : exp(s * (1 / std::sqrt(static_cast<double>(a.d))) + hidden));
          sum += w.back();
        }
        if (reference::value_of(sum) == 0) continue;
        for (int64_t j = 0; j < a.tk; ++j) {
          T p = w[j] / sum;
          const int64_t at = ((b * a.heads + h) * a.tq + i) * a.tk + j;
          if (a.dropout > 0)
            p = random.uniform(static_cast<uint64_t>(at)) < a.dropout
                    ? T(0.)
                    : p / (1. - double{a.dropout});
          for (int64_t e = 0; e < a.d; ++e)
            y[(b * a.tq + i) * c + h * a.d + e] += p * v(b, j, h * a.d + e);
        }
      }
  return y;
}

TEST(Sequence, Attention) {
  for (uint64_t seed = 0; seed < 90; ++seed) {
    Draw d(seed, "attention");
    Attention a{.n = d.in(1, 3),
                .tq = d.in(1, 18),
                .tk = d.in(1, 18),
                .heads = d.in(1, 3),
                .d = d.in(1, 17)};
    const int sources = static_cast<int>(1 + seed % 3);
    if (sources == 1) a.tk = a.tq;
    if (d.chance(3)) a.dropout = .3f;
    a.seed = seed;
    a.mask_per_sample = d.chance(2);
    const bool masked = d.chance(2);
    auto mask = d.values((a.mask_per_sample ? a.n : 1) * a.tq * a.tk);
    for (double& m : mask)
      if (d.chance(3)) m = -INFINITY;
    if (d.chance(4)) std::fill_n(mask.begin(), a.tk, -INFINITY);  // a row that sees nothing
    if (masked) a.mask = &mask;
    const int64_t c = a.heads * a.d;
    std::vector<CheckInput> in;
    const auto source = [&](int64_t t, int64_t width) {
      in.push_back({{a.n, t, width}, d.values(a.n * t * width, 2)});
    };
    source(a.tq, sources == 1 ? 3 * c : c);
    if (sources == 2) source(a.tk, 2 * c);
    if (sources == 3) source(a.tk, c), source(a.tk, c);
    const auto op = std::make_shared<AttentionOp>(a.heads, sources, a.dropout);
    const Shape mask_shape = a.mask_per_sample ? Shape{a.n, a.tq, a.tk} : Shape{a.tq, a.tk};
    const auto ref = [&](const auto& x) {
      using T = std::decay_t<decltype(x[0][0])>;
      const auto part = [&](size_t from, int64_t t, int64_t offset) {
        const int64_t width = static_cast<int64_t>(x[from].size()) / (a.n * t);
        return [&x, from, t, offset, width](int64_t b, int64_t i, int64_t e) {
          return x[from][(b * t + i) * width + offset + e];
        };
      };
      if (sources == 1)
        return attention<T>(a, part(0, a.tq, 0), part(0, a.tq, c), part(0, a.tq, 2 * c));
      if (sources == 2)
        return attention<T>(a, part(0, a.tq, 0), part(1, a.tk, 0), part(1, a.tk, c));
      return attention<T>(a, part(0, a.tq, 0), part(1, a.tk, 0), part(2, a.tk, 0));
    };
    check_gradient(seed, in,
                   [&](Tape& tape, auto v) {
                     v.push_back(masked ? Variable::input(to_f32(mask_shape, mask)) : Variable());
                     if (a.dropout > 0) v.push_back(tape.random_key());
                     return tape.apply(op, v, 1)[0];
                   },
                   ref, {.factor = 200, .absolute = 3e-6});
    if (seed < 6 && a.tq * a.tk < 60) check_finite_differences(seed, in, ref, 1e-6);
    if (HasFatalFailure()) return;
  }
}

// More queries than a block has; windows of a grid, whose keys are taken column by column.
TEST(Sequence, AttentionInBlocks) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Draw d(seed, "attention in blocks");
    const int64_t h = d.in(1, 6), w = d.in(10, 16), t = h * w;
    Attention a{.n = d.in(1, 2), .tq = t, .tk = t, .heads = 1, .d = d.in(1, 9)};
    if (seed % 6 == 5) a.dropout = .2f;
    a.seed = seed;
    const Tensor window =
        seed % 5 == 4 ? causal_mask(t) : local_window_mask(h, w, 2 * d.in(0, 2) + 1, 5);
    const float* m = window.data<float>();
    const reference::Vec mask(m, m + t * t);
    const bool masked = seed % 4 != 3;
    if (masked) a.mask = &mask;
    const std::vector<CheckInput> in{{{a.n, t, 3 * a.d}, d.values(a.n * t * 3 * a.d, 2)}};
    const auto op = std::make_shared<AttentionOp>(1, 1, a.dropout);
    const auto ref = [&](const auto& x) {
      using T = std::decay_t<decltype(x[0][0])>;
      const auto part = [&](int64_t offset) {
        return [&x, &a, offset](int64_t b, int64_t i, int64_t e) {
          return x[0][(b * a.tq + i) * 3 * a.d + offset + e];
        };
      };
      return attention<T>(a, part(0), part(a.d), part(2 * a.d));
    };
    check_gradient(seed, in,
                   [&](Tape& tape, auto v) {
                     v.push_back(masked ? Variable::input(window) : Variable());
                     if (a.dropout > 0) v.push_back(tape.random_key());
                     return tape.apply(op, v, 1)[0];
                   },
                   ref, {.factor = 200, .absolute = 3e-6});
    if (HasFatalFailure()) return;
  }
}

TEST(Sequence, BlocksOfAWindowSeeFewKeys) {
  const int64_t t = 8 * 80;
  const Tensor mask = local_window_mask(8, 80, 7, 11);
  const AttentionBlocks blocks(t, t, mask.data<float>());
  int64_t scores = 0;
  for (const auto& b : blocks.blocks) {
    scores += (b.q1 - b.q0) * (b.k1 - b.k0);
    for (int64_t q = b.q0; q < b.q1; ++q)
      for (int64_t k = 0; k < t; ++k)
        if (k < b.k0 || k >= b.k1) {
          ASSERT_NE(mask.data<float>()[blocks.token(q) * t + blocks.token(k)], 0);
        }
  }
  EXPECT_LT(scores, t * t / 6);
  EXPECT_TRUE(AttentionBlocks(30, 40, nullptr).order.empty());
}

TEST(Sequence, Masks) {
  const Tensor local = local_window_mask(2, 3, 1, 3), causal = causal_mask(3);
  const auto seen = [](const Tensor& m, int64_t row) {
    std::string s;
    for (int64_t j = 0; j < m.shape()[1]; ++j)
      s += m.data<float>()[row * m.shape()[1] + j] == 0 ? '1' : '0';
    return s;
  };
  EXPECT_EQ(seen(local, 0), "110000");
  EXPECT_EQ(seen(local, 1), "111000");
  EXPECT_EQ(seen(local, 5), "000011");
  EXPECT_EQ(seen(causal, 0), "100");
  EXPECT_EQ(seen(causal, 2), "111");
}

TEST(Sequence, SelfAttentionLayer) {
  nn::SelfAttention m({.channels = 8, .heads = 2});
  m.initialize(1);
  EXPECT_EQ(m.parameters()[0].name, "qkv.weight");
  Eager eager;
  Tape tape(eager);
  const Variable x = Variable::input(Tensor::zeros({2, 6, 8}));
  EXPECT_EQ(m(tape, x, Variable::input(local_window_mask(2, 3, 3, 3))).shape(), (Shape{2, 6, 8}));
}

TEST(Sequence, GroupNorm) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draw d(seed, "group norm");
    const int64_t groups = d.in(1, 4), each = d.in(1, 5), c = groups * each;
    const Shape s{d.in(1, 3), c, d.in(1, 5), d.in(2, 6)};
    const bool instance = d.chance(3);
    const int64_t g = instance ? c : groups;
    const auto op = std::make_shared<GroupNormOp>(instance ? 0 : groups, 1e-5f);
    const std::vector<CheckInput> in{
        {s, d.values(s.numel(), 2)}, {{c}, d.values(c), true}, {{c}, d.values(c), true}};
    const auto ref = [&](const auto& x) {
      auto y = x[0];
      const int64_t inner = s[2] * s[3], count = c / g * inner;
      std::vector<std::decay_t<decltype(y[0])>> ones(static_cast<size_t>(count), 1.),
          zeros(ones.size(), 0.);
      y = reference::layer_norm(x[0], ones, zeros, count, 1e-5f);
      for (size_t i = 0; i < y.size(); ++i) {
        const int64_t k = static_cast<int64_t>(i) / inner % c;
        y[i] = y[i] * x[1][k] + x[2][k];
      }
      return y;
    };
    check_gradient(seed, in, [&](Tape& t, auto& v) { return t.apply(op, v, 1)[0]; }, ref,
                   {.factor = 100, .absolute = 1e-6});
    if (seed < 2) check_finite_differences(seed, in, ref, 1e-5);
    if (HasFatalFailure()) return;
  }
}

TEST(Sequence, SplitOfWhichSomePartsAreUsed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Draw d(seed, "split");
    const int64_t rest = d.in(1, 20), parts = 3;
    const auto op = std::make_shared<SplitOp>(0);
    check_gradient(
        seed, {{{parts * 2, rest}, d.values(parts * 2 * rest)}},
        [&](Tape& t, auto& v) {
          const auto all = t.apply(op, v, 3);
          return add(t, all[0], all[2]);
        },
        [&](const auto& x) {
          auto y = x[0];
          y.resize(static_cast<size_t>(2 * rest));
          for (size_t i = 0; i < y.size(); ++i)
            y[i] = x[0][i] + x[0][i + static_cast<size_t>(4 * rest)];
          return y;
        });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace train
