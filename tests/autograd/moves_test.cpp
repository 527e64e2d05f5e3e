// The ops that move, repeat or leave out data, dropout, and resizing, against f64 references.
#include <gtest/gtest.h>

#include "libtrain/autograd/functional.h"
#include "libtrain/core/philox.h"
#include "libtrain/nn/layers.h"
#include "tests/support/gradient_check.h"
#include "tests/support/reference_nn.h"

namespace train {
namespace {

constexpr uint64_t kSeeds = 40;

Shape image(Draw& d, int64_t channels = 24) {
  return {d.in(1, 4), d.in(1, channels), d.in(1, 8), d.in(1, 8)};
}

// Linear indices of `from` for each element of a result: the reference of any move.
template <class F>
auto moved(const Shape& to, F&& index) {
  return [to, index](const auto& x) {
    auto y = x[0];
    y.resize(static_cast<size_t>(to.numel()));
    for (int64_t i = 0; i < to.numel(); ++i) {
      std::array<int64_t, Shape::kMaxRank> at{};
      int64_t rest = i;
      for (int d = to.rank() - 1; d >= 0; --d) {
        at[d] = rest % to[d];
        rest /= to[d];
      }
      const int64_t from = index(at);
      y[i] = from < 0 ? decltype(x[0][0] + 0.)(0.) : x[0][from];
    }
    return y;
  };
}

int64_t index_in(const Shape& s, const std::array<int64_t, Shape::kMaxRank>& at) {
  int64_t i = 0;
  for (int d = 0; d < s.rank(); ++d) i = i * s[d] + at[d];
  return i;
}

TEST(Moves, Transpose) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    Draw d(seed, "transpose");
    const Shape s = image(d);
    std::vector<int64_t> perm{0, 1, 2, 3};
    for (size_t i = 3; i > 0; --i)
      std::swap(perm[i], perm[static_cast<size_t>(d.in(0, static_cast<int64_t>(i)))]);
    const Shape to{s[static_cast<int>(perm[0])], s[static_cast<int>(perm[1])],
                   s[static_cast<int>(perm[2])], s[static_cast<int>(perm[3])]};
    check_gradient(
        seed, {{s, d.values(s.numel())}},
        [&](Tape& t, auto& v) { return transpose(t, v[0], perm); }, moved(to, [&](const auto& at) {
          std::array<int64_t, Shape::kMaxRank> from{};
          for (size_t i = 0; i < 4; ++i) from[perm[i]] = at[i];
          return index_in(s, from);
        }));
    if (HasFatalFailure()) return;
  }
}

TEST(Moves, SliceAndPad) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    Draw d(seed, "slice");
    const Shape s = image(d);
    const int64_t axis = d.in(0, 3), n = s[static_cast<int>(axis)];
    const int64_t begin = d.in(0, n - 1), end = d.in(begin + 1, n);
    Shape part = s;
    part[static_cast<int>(axis)] = end - begin;
    check_gradient(
        seed, {{s, d.values(s.numel())}},
        [&](Tape& t, auto& v) {
          return slice(t, v[0], axis - (seed % 3 ? 0 : 4), seed % 2 ? begin : begin - n, end);
        },
        moved(part, [&](auto at) {
          at[axis] += begin;
          return index_in(s, at);
        }));
    const std::array<int, 4> pads{static_cast<int>(d.in(0, 3)), static_cast<int>(d.in(0, 3)),
                                  static_cast<int>(d.in(0, 3)), static_cast<int>(d.in(0, 3))};
    const Shape padded{s[0], s[1], s[2] + pads[0] + pads[2], s[3] + pads[1] + pads[3]};
    check_gradient(
        seed, {{s, d.values(s.numel())}}, [&](Tape& t, auto& v) { return pad(t, v[0], pads); },
        moved(padded, [&](auto at) {
          at[2] -= pads[0];
          at[3] -= pads[1];
          const bool inside = at[2] >= 0 && at[2] < s[2] && at[3] >= 0 && at[3] < s[3];
          return inside ? index_in(s, at) : -1;
        }));
    if (HasFatalFailure()) return;
  }
}

TEST(Moves, Concat) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    Draw d(seed, "concat");
    const int axis = static_cast<int>(d.in(0, 3));
    const Shape s = image(d);
    std::vector<CheckInput> in;
    std::vector<int64_t> sizes;
    Shape all = s;
    all[axis] = 0;
    for (int64_t k = d.in(1, 4); k > 0; --k) {
      Shape part = s;
      part[axis] = d.in(1, 20);
      all[axis] += part[axis];
      sizes.push_back(part[axis]);
      in.push_back({part, d.values(part.numel())});
    }
    check_gradient(
        seed, in, [&](Tape& t, auto& v) { return concat(t, v, axis); },
        [&](const auto& x) {
          auto y = x[0];
          y.clear();
          const int64_t outer = all.count(0, axis), inner = all.count(axis + 1, 4);
          for (int64_t o = 0; o < outer; ++o)
            for (size_t k = 0; k < x.size(); ++k)
              for (int64_t i = 0; i < sizes[k] * inner; ++i)
                y.push_back(x[k][o * sizes[k] * inner + i]);
          return y;
        });
    if (HasFatalFailure()) return;
  }
}

TEST(Moves, ViewsAndTokens) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw d(seed, "views");
    const Shape s = image(d);
    const auto same = [](const auto& x) { return x[0]; };
    check_gradient(
        seed, {{s, d.values(s.numel())}},
        [&](Tape& t, auto& v) {
          const Variable a = unsqueeze(t, reshape(t, v[0], {s[0], -1}), {0, 2});
          return squeeze(t, a, {0, 2});
        },
        same);
    check_gradient(
        seed, {{s, d.values(s.numel())}},
        [&](Tape& t, auto& v) {
          return sequence_to_image(t, image_to_sequence(t, v[0]), s[2], s[3]);
        },
        same);
    if (HasFatalFailure()) return;
  }
}

TEST(Moves, Embedding) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw d(seed, "embedding");
    const int64_t count = d.in(1, 30), size = d.in(1, 40), n = d.in(1, 50);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(d.in(0, count - 1));
    const std::optional<int64_t> padding = seed % 2 ? std::optional<int64_t>(0) : std::nullopt;
    check_gradient(
        seed, {{{count, size}, d.values(count * size), true}},
        [&](Tape& t, auto& v) {
          return embed(t, v[0], Variable::input(Tensor::from<int64_t>({n}, ids)), padding);
        },
        [&](const auto& x) {
          auto y = x[0];
          y.assign(static_cast<size_t>(n * size), 0.);
          for (int64_t i = 0; i < n; ++i)
            for (int64_t k = 0; k < size && ids[i] != padding; ++k)
              y[i * size + k] = x[0][ids[i] * size + k];
          return y;
        });
    if (HasFatalFailure()) return;
  }
}

// Weights of torch's interpolate for one axis: output o = sum of weight[o][i] x[i].
std::vector<reference::Vec> weights(int64_t in, int64_t out, bool bilinear, bool align) {
  std::vector<reference::Vec> w(static_cast<size_t>(out),
                                reference::Vec(static_cast<size_t>(in), 0.));
  for (int64_t o = 0; o < out; ++o) {
    if (!bilinear) {
      w[o][o * in / out] = 1;
      continue;
    }
    const auto i = static_cast<double>(in), n = static_cast<double>(out);
    double at = align ? (out > 1 ? static_cast<double>(o) * (i - 1) / (n - 1) : 0)
                      : (static_cast<double>(o) + .5) * i / n - .5;
    at = std::clamp(at, 0., i - 1);
    const auto low = static_cast<int64_t>(at);
    const double t = at - static_cast<double>(low);
    w[o][low] += 1 - t;
    w[o][std::min(low + 1, in - 1)] += t;
  }
  return w;
}

TEST(Moves, Resize) {
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed)
    for (int mode = 0; mode < 4; ++mode) {
      SCOPED_TRACE(mode);
      Draw d(seed, "resize");
      const Shape s = image(d);
      const int factor = static_cast<int>(d.in(1, 4));
      const int64_t oh = mode == 3 ? s[2] * factor : d.in(1, 16),
                    ow = mode == 3 ? s[3] * factor : d.in(1, 16);
      const bool bilinear = mode == 1 || mode == 2, align = mode == 2;
      const auto wy = weights(s[2], oh, bilinear, align), wx = weights(s[3], ow, bilinear, align);
      const auto ref = [&](const auto& x) {
        auto y = x[0];
        y.assign(static_cast<size_t>(s[0] * s[1] * oh * ow), 0.);
        for (int64_t p = 0; p < s[0] * s[1]; ++p)
          for (int64_t oy = 0; oy < oh; ++oy)
            for (int64_t ox = 0; ox < ow; ++ox)
              for (int64_t iy = 0; iy < s[2]; ++iy)
                for (int64_t ix = 0; ix < s[3]; ++ix)
                  if (const double w = wy[oy][iy] * wx[ox][ix]; w != 0)
                    y[(p * oh + oy) * ow + ox] += x[0][(p * s[2] + iy) * s[3] + ix] * w;
        return y;
      };
      check_gradient(seed, {{s, d.values(s.numel())}},
                     [&](Tape& t, auto& v) {
                       return mode == 3   ? upsample_nearest(t, v[0], factor)
                              : mode == 0 ? resize_nearest(t, v[0], oh, ow)
                                          : resize_bilinear(t, v[0], oh, ow, align);
                     },
                     ref, {.factor = 100, .absolute = 5e-6});
      if (seed < 2) check_finite_differences(seed, {{s, d.values(s.numel())}}, ref);
      if (HasFatalFailure()) return;
    }
}

TEST(Moves, DropoutIsAFunctionOfTheSeed) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const bool path : {false, true}) {
      Draw d(seed, "dropout");
      const Shape s = image(d);
      const float p = d.chance(2) ? .1f : .6f;
      // The tape of check_gradient has this seed, and this is its first draw. Images lie
      // channels-last for odd seeds: then the elements are drawn in that order.
      const RandomStream random(seed, 0);
      const auto kept = [&](int64_t i) {
        const int64_t hw = s[2] * s[3], n = i / (s[1] * hw), c = i / hw % s[1], q = i % hw;
        const int64_t draw = path ? n : seed % 2 ? (n * hw + q) * s[1] + c : i;
        return random.uniform(static_cast<uint64_t>(draw)) >= p;
      };
      check_gradient(
          seed, {{s, d.values(s.numel())}},
          [&](Tape& t, auto& v) { return path ? drop_path(t, v[0], p) : dropout(t, v[0], p); },
          [&](const auto& x) {
            auto y = x[0];
            for (size_t i = 0; i < y.size(); ++i)
              y[i] = kept(static_cast<int64_t>(i)) ? y[i] / (1. - double{p}) : y[i] * 0.;
            return y;
          });
      if (HasFatalFailure()) return;
    }
}

TEST(Moves, DropoutDrawsAnewForEveryCallAndSeed) {
  Eager eager;
  const Tensor ones = to_f32({1000}, std::vector<double>(1000, 1.));
  const auto zeros = [](const Variable& v) {
    return std::count(v.value().data<float>(), v.value().data<float>() + 1000, 0.f);
  };
  Tape a(eager, false, 1), b(eager, false, 1), c(eager, false, 2);
  const Variable x = Variable::input(ones);
  const Variable a1 = dropout(a, x, .3f), a2 = dropout(a, x, .3f), b1 = dropout(b, x, .3f),
                 c1 = dropout(c, x, .3f);
  const auto same = [](const Variable& p, const Variable& q) {
    return std::equal(p.value().data<float>(), p.value().data<float>() + 1000,
                      q.value().data<float>());
  };
  EXPECT_TRUE(same(a1, b1));
  EXPECT_FALSE(same(a1, a2));
  EXPECT_FALSE(same(a1, c1));
  EXPECT_NEAR(static_cast<double>(zeros(a1)), 300, 60);
}

}  // namespace
}  // namespace train
