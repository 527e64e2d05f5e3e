// Convolutions over enlarged maps against enlarging, gating and convolving one after the other in
// double.
#include "libtrain/cpu/pyramid_conv.h"

#include "tests/cpu/support.h"

namespace train::cpu {
namespace {

struct Source {
  PyramidSource s;
  std::vector<float> weights, lateral, gate;
  Strided x{0, 1, 1};
};

struct Case {
  PyramidDesc d;
  int64_t n, h, w, ldy;
  std::vector<Source> sources;
  std::vector<float> bias;

  std::vector<PyramidSource> descs() const {
    std::vector<PyramidSource> r;
    for (const Source& s : sources) {
      r.push_back(s.s);
      r.back().weights = s.weights.empty() ? nullptr : s.weights.data();
      r.back().lateral = s.lateral.empty() ? nullptr : s.lateral.data();
    }
    return r;
  }
};

Case random_case(uint64_t seed) {
  Rng r(seed);
  Case c;
  c.d.cout = r.range(1, 26);
  c.d.k = static_cast<int>(r.range(0, 2)) * 2 + 1;
  c.d.act = random_activation(r);
  c.n = r.range(1, 3);
  c.ldy = c.d.cout + (r.chance(.3) ? r.range(1, 9) : 0);
  int multiple = 1;
  for (int64_t i = 0, count = r.range(1, 4); i < count; ++i) {
    Source s;
    const int factors[] = {1, 2, 4, 8, 3};
    s.s.factor = i == 0 ? 1 : factors[r.range(0, multiple == 3 ? 0 : multiple > 1 ? 3 : 4)];
    if (multiple % s.s.factor) multiple = std::max(multiple, s.s.factor);
    s.s.channels = r.range(1, 20);
    s.s.mid = s.s.channels;
    s.s.gated = r.chance(.5);
    if (r.chance(.5)) {
      s.s.mid = r.range(1, 30);
      s.lateral = r.values(s.s.mid * s.s.channels);
    }
    if (c.d.k == 1 && r.chance(.5)) {  // the identity: a lateral or an addition
      s.s.mid = c.d.cout;
      if (s.s.factor == 1 || s.s.gated || !s.lateral.empty())
        s.lateral = r.values(s.s.mid * s.s.channels);
      else
        s.s.channels = c.d.cout;
    } else {
      s.weights = r.values(c.d.cout * s.s.mid * c.d.k * c.d.k, .3f);
    }
    if (s.s.gated) s.gate = r.values(c.n * s.s.mid);
    c.sources.insert(c.sources.begin() + r.range(0, i), s);
  }
  c.h = multiple * r.range(1, 3);
  c.w = multiple * r.range(1, 5);
  for (Source& s : c.sources)
    s.x = Strided(c.n * (c.h / s.s.factor) * (c.w / s.s.factor), s.s.channels,
                  s.s.channels + (r.chance(.3) ? 3 : 0), r);
  if (r.chance(.7)) c.bias = r.values(c.d.cout);
  return c;
}

// The enlarged, gated map of a source at a pixel; 0 outside.
double map_at(const Case& c, const Source& s, int64_t n, int64_t y, int64_t x, int64_t m) {
  if (y < 0 || x < 0 || y >= c.h || x >= c.w) return 0;
  const int64_t f = s.s.factor, row = (n * (c.h / f) + y / f) * (c.w / f) + x / f;
  double v = 0;
  if (s.lateral.empty())
    v = double{s.x.at(row, m)};
  else
    for (int64_t i = 0; i < s.s.channels; ++i)
      v += double{s.lateral[static_cast<size_t>(m * s.s.channels + i)]} * double{s.x.at(row, i)};
  return s.gate.empty() ? v : v * double{s.gate[static_cast<size_t>(n * s.s.mid + m)]};
}

Strided run(const Case& c, const PyramidConv& op, int threads, int64_t n0, int64_t n) {
  Strided y(n * c.h * c.w, c.d.cout, c.ldy);
  const Workspace ws(op.workspace_bytes(c.h, c.w, threads));
  std::vector<PyramidConv::Input> in;
  for (const Source& s : c.sources)
    in.push_back({s.x.data() + n0 * (c.h / s.s.factor) * (c.w / s.s.factor) * s.x.ld, s.x.ld,
                  s.gate.empty() ? nullptr : s.gate.data() + n0 * s.s.mid});
  op.run(in.data(), n, c.h, c.w, y.data(), c.ldy, ws.get());
  return y;
}

void check(const Case& c) {
  const PyramidConv op(c.d, c.descs(), c.bias.empty() ? nullptr : c.bias.data());
  const Strided y = run(c, op, 1, 0, c.n);
  EXPECT_TRUE(y.gaps_untouched());
  const int64_t k = c.d.k, pad = k / 2;
  double worst = 0;
  for (int64_t i = 0; i < c.n * c.h * c.w; ++i) {
    const int64_t n = i / (c.h * c.w), oy = i / c.w % c.h, ox = i % c.w;
    for (int64_t o = 0; o < c.d.cout; ++o) {
      double sum = c.bias.empty() ? 0 : double{c.bias[static_cast<size_t>(o)]}, magnitude = 1;
      for (const Source& s : c.sources)
        for (int64_t m = 0; m < s.s.mid; ++m)
          for (int64_t t = 0; t < k * k; ++t) {
            const double v =
                map_at(c, s, n, oy + t / k - pad, ox + t % k - pad, m) *
                (s.weights.empty()
                     ? (o == m ? 1. : 0.)
                     : double{s.weights[static_cast<size_t>((o * s.s.mid + m) * k * k + t)]});
            sum += v;
            magnitude += std::fabs(v);
          }
      const double error = std::fabs(reference_act(c.d.act, sum) - double{y.at(i, o)});
      worst = std::max(worst, error == error ? error / (4e-6 * magnitude) : 1e30);
    }
  }
  EXPECT_LE(worst, 1);
  for_thread_counts([&](int threads) {
    EXPECT_TRUE(run(c, op, threads, 0, c.n).same_bits(y)) << threads << " threads";
  });
  for (int64_t n = 0; n < c.n; ++n) {
    const Strided one = run(c, op, 1, n, 1);
    EXPECT_EQ(
        0, std::memcmp(one.data(), y.data() + n * c.h * c.w * c.ldy, one.v.size() * sizeof(float)))
        << "image " << n << " alone";
  }
}

TEST(PyramidConv, MatchesEnlargingFirst) {
  for_each_isa([] {
    for (const uint64_t seed : seeds("PYRAMID_SEED", 60)) {
      SCOPED_TRACE("PYRAMID_SEED=" + std::to_string(seed));
      check(random_case(seed));
    }
  });
}

TEST(PyramidConv, TapsPerOutput) {
  EXPECT_DOUBLE_EQ(PyramidConv::taps(3, 1), 9);
  EXPECT_DOUBLE_EQ(PyramidConv::taps(3, 2), 4);
  EXPECT_DOUBLE_EQ(PyramidConv::taps(3, 4), 25. / 16);
  EXPECT_DOUBLE_EQ(PyramidConv::taps(3, 8), 25. / 64);
}

TEST(PyramidConv, ImpossibleOnesAreRefused) {
  const std::vector<float> w(64);
  PyramidSource s{2, 2, 2, w.data(), nullptr, false};
  EXPECT_THROW(PyramidConv({2, 3, {}}, {s}, nullptr), ShapeError) << "no map of full size";
  s.factor = 1;
  EXPECT_THROW(PyramidConv({2, 2, {}}, {s}, nullptr), ShapeError) << "an even kernel";
  s.weights = nullptr;
  EXPECT_THROW(PyramidConv({2, 3, {}}, {s}, nullptr), ShapeError) << "no weights for a 3x3 kernel";
  s.weights = w.data();
  s.mid = 3;
  EXPECT_THROW(PyramidConv({2, 1, {}}, {s}, nullptr), ShapeError) << "channels do not fit";
}

}  // namespace
}  // namespace train::cpu
