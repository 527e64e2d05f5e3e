// Convolution and transposed convolution against a double-precision reference on seeded random
// shapes.
#include "libtrain/cpu/conv.h"

#include "libtrain/cpu/conv_transpose.h"
#include "tests/cpu/support.h"

namespace train::cpu {
namespace {

struct Case {
  ConvDesc d;
  int oph = 0, opw = 0;  // transposed only
  int64_t n, h, w, pad_x, pad_y, pad_r;
  bool bias;
  std::string str(const char* variable, uint64_t seed) const {
    return cat(variable, "=", seed, ": n", n, " h", h, " w", w, " c", d.cin, "->", d.cout, " g",
               d.groups, " k", d.kh, "x", d.kw, " s", d.sh, "x", d.sw, " d", d.dh, "x", d.dw, " p",
               d.pt, ",", d.pl, ",", d.pb, ",", d.pr, " op", oph, ",", opw, " ld+", pad_x, ",",
               pad_y, ",", pad_r, " act", static_cast<int>(d.epilogue.act.kind), " post",
               d.epilogue.post_scale, " res", static_cast<int>(d.epilogue.residual), " bias", bias);
  }
};

int pick(Rng& r, std::initializer_list<int> v) {
  return *(v.begin() + r.range(0, static_cast<int64_t>(v.size()) - 1));
}

Case random_case(uint64_t seed) {
  Rng r(seed);
  Case c;
  ConvDesc& d = c.d;
  const int kind = static_cast<int>(seed % 5);
  d.cin = pick(r, {1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 33});
  d.cout = pick(r, {1, 2, 3, 7, 8, 9, 16, 18, 24, 31, 40, 41});
  d.kh = pick(r, {1, 2, 3, 3, 5}), d.kw = pick(r, {1, 2, 3, 3, 5, 7, 9});
  d.sh = pick(r, {1, 1, 2, 3}), d.sw = pick(r, {1, 1, 2, 2, 3});
  if (r.chance(.15)) d.dh = 2;
  if (r.chance(.15)) d.dw = 3;
  if (kind == 0) d.kh = d.kw = d.sh = d.sw = d.dh = d.dw = 1;  // 1x1
  if (kind == 1 || kind == 2)
    d.cin = d.cout = d.groups = pick(r, {2, 5, 8, 16, 24, 29, 40});      // depthwise
  if (kind == 3 && r.chance(.5)) d.groups = 2, d.cin *= 2, d.cout *= 2;  // grouped
  if (kind != 0) {
    d.pt = static_cast<int>(r.range(0, d.kh)), d.pb = static_cast<int>(r.range(0, d.kh));
    d.pl = static_cast<int>(r.range(0, d.kw)), d.pr = static_cast<int>(r.range(0, d.kw));
  }
  d.epilogue = random_epilogue(r);
  c.n = r.range(1, 3);
  c.h = r.chance(.2) ? 1 : r.range(1, 14);
  c.w = r.chance(.2) ? 1 : r.range(1, 34);
  c.pad_x = r.chance(.3) ? r.range(1, 9) : 0;
  c.pad_y = r.chance(.3) ? r.range(1, 9) : 0;
  c.pad_r = r.chance(.3) ? r.range(1, 9) : 0;
  c.bias = r.chance(.8);
  return c;
}

struct Sums {
  std::vector<double> value,
      magnitude;  // per output element: the sum and the sum of absolute terms
};

// Adds x[n, iy, ix] * w to y[n, oy, ox] for every tap: `transposed` swaps which of the two strides
// the window.
Sums reference_sums(const Case& c, bool transposed, int64_t oh, int64_t ow, const Strided& x,
                    const std::vector<float>& w, const std::vector<float>& bias) {
  const ConvDesc& d = c.d;
  const int64_t ci = d.cin / d.groups, co = d.cout / d.groups, small_h = transposed ? c.h : oh,
                small_w = transposed ? c.w : ow, big_h = transposed ? oh : c.h,
                big_w = transposed ? ow : c.w;
  Sums s;
  s.value.resize(static_cast<size_t>(c.n * oh * ow * d.cout));
  for (size_t i = 0; i < s.value.size(); ++i)
    s.value[i] = c.bias ? double{bias[i % static_cast<size_t>(d.cout)]} : 0;
  s.magnitude.assign(s.value.size(), 0);
  for (size_t i = 0; i < s.value.size(); ++i) s.magnitude[i] = std::fabs(s.value[i]);
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t sy = 0; sy < small_h; ++sy)
      for (int64_t sx = 0; sx < small_w; ++sx)
        for (int64_t ky = 0; ky < d.kh; ++ky)
          for (int64_t kx = 0; kx < d.kw; ++kx) {
            const int64_t by = sy * d.sh - d.pt + ky * d.dh, bx = sx * d.sw - d.pl + kx * d.dw;
            if (by < 0 || by >= big_h || bx < 0 || bx >= big_w) continue;
            const int64_t in = (n * c.h + (transposed ? sy : by)) * c.w + (transposed ? sx : bx);
            const int64_t out = (n * oh + (transposed ? by : sy)) * ow + (transposed ? bx : sx);
            for (int64_t g = 0; g < d.groups; ++g)
              for (int64_t o = 0; o < co; ++o)
                for (int64_t i = 0; i < ci; ++i) {
                  const int64_t pair = transposed ? (g * ci + i) * co + o : (g * co + o) * ci + i;
                  const double t = double{x.at(in, g * ci + i)} *
                                   double{w[static_cast<size_t>((pair * d.kh + ky) * d.kw + kx)]};
                  const size_t at = static_cast<size_t>(out * d.cout + g * co + o);
                  s.value[at] += t;
                  s.magnitude[at] += std::fabs(t);
                }
          }
  return s;
}

template <class Op>
void check_case(const Case& c, bool transposed, const Op& op, const std::vector<float>& w,
                const std::vector<float>& bias, Rng& rng) {
  const ConvDesc& d = c.d;
  const int64_t oh = op.out_h(c.h), ow = op.out_w(c.w);
  if (oh <= 0 || ow <= 0) return;
  Strided x(c.n * c.h * c.w, d.cin, d.cin + c.pad_x, rng);
  round_to(d.precision, x.v);
  const bool has_res = d.epilogue.residual != Residual::kNone;
  const Strided res(c.n * oh * ow, d.cout, d.cout + c.pad_r, rng);
  const auto run = [&](Strided& y, int threads, int64_t n0, int64_t n) {
    const Workspace ws(op.workspace_bytes(n, c.h, c.w, threads));
    op.run(x.data() + n0 * c.h * c.w * x.ld, x.ld, n, c.h, c.w, y.data() + n0 * oh * ow * y.ld,
           y.ld, has_res ? res.data() + n0 * oh * ow * res.ld : nullptr, res.ld, ws.get());
  };
  Strided y(c.n * oh * ow, d.cout, d.cout + c.pad_y);
  run(y, 1, 0, c.n);
  EXPECT_TRUE(y.gaps_untouched());
  const Sums s = reference_sums(c, transposed, oh, ow, x, w, bias);
  double worst = 0;
  for (int64_t r = 0; r < y.rows; ++r)
    for (int64_t k = 0; k < d.cout; ++k) {
      const size_t i = static_cast<size_t>(r * d.cout + k);
      const double want =
          reference_epilogue(d.epilogue, s.value[i], has_res ? double{res.at(r, k)} : 0);
      const double bound = 2e-6 * (s.magnitude[i] + 1) + 1e-6;
      const double error = std::fabs(want - double{y.at(r, k)}) / bound;
      worst = std::max(worst, error == error ? error : 1e30);
    }
  EXPECT_LE(worst, 1);
  for_thread_counts([&](int threads) {  // same bits for any split of the rows
    Strided again(y.rows, y.cols, y.ld);
    run(again, threads, 0, c.n);
    EXPECT_TRUE(again.same_bits(y)) << threads << " threads";
  });
  Strided single(y.rows, y.cols, y.ld);  // and for any batch
  for (int64_t n = 0; n < c.n; ++n) run(single, 1, n, 1);
  EXPECT_TRUE(single.same_bits(y)) << "one image at a time";
  if (has_res && c.pad_r == c.pad_y) {  // the residual may be the output
    Strided in_place = res;
    const Workspace ws(op.workspace_bytes(c.n, c.h, c.w, 1));
    op.run(x.data(), x.ld, c.n, c.h, c.w, in_place.data(), y.ld, in_place.data(), y.ld, ws.get());
    EXPECT_TRUE(in_place.same_bits(y)) << "in place";
  }
}

void check_convs(Precision precision) {
  for (const uint64_t seed : seeds("OCR_CONV_SEED", 400)) {
    Case c = random_case(seed);
    SCOPED_TRACE(c.str("OCR_CONV_SEED", seed));
    Rng rng(seed + 1000000);
    ConvDesc& d = c.d;
    const bool depthwise = d.groups == d.cin && d.groups == d.cout && d.groups > 1;
    d.precision = depthwise ? Precision::kF32 : precision;
    const int64_t k = d.cin / d.groups * d.kh * d.kw;
    auto w = rng.values(d.cout * k, 2 / std::sqrt(static_cast<float>(k)));
    round_to(d.precision, w);
    const auto bias = rng.values(d.cout);
    const auto conv = Conv::create(d, w.data(), c.bias ? bias.data() : nullptr);
    check_case(c, false, *conv, w, bias, rng);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Conv, MatchesReferenceOnRandomShapes) {
  for_each_isa([] { for_each_precision(check_convs); });
}

TEST(ConvTranspose, MatchesReferenceOnRandomShapes) {
  for_each_isa([] {
    for (const uint64_t seed : seeds("OCR_DECONV_SEED", 250)) {
      Case c = random_case(seed);
      Rng rng(seed + 2000000);
      ConvDesc& d = c.d;
      c.h = std::min<int64_t>(c.h, 6), c.w = std::min<int64_t>(c.w, 15);
      if (seed % 5 == 0) {  // the fast form
        d.kh = d.kw = d.sh = d.sw = 2;
        d.dh = d.dw = 1;
        d.pt = d.pl = d.pb = d.pr = 0;
      } else if (rng.chance(.3)) {
        c.oph = static_cast<int>(rng.range(0, d.sh - 1)),
        c.opw = static_cast<int>(rng.range(0, d.sw - 1));
      }
      if (d.groups > 2) d.groups = 1;
      SCOPED_TRACE(c.str("OCR_DECONV_SEED", seed));
      const int64_t k = d.cin / d.groups * d.kh * d.kw;
      const auto w = rng.values(d.cout * k, 2 / std::sqrt(static_cast<float>(k)));
      const auto bias = rng.values(d.cout);
      const ConvTransposeDesc t{d.cin, d.cout, d.groups, d.kh, d.kw, d.sh,  d.sw,  d.dh,
                                d.dw,  d.pt,   d.pl,     d.pb, d.pr, c.oph, c.opw, d.epilogue};
      const auto op = ConvTranspose::create(t, w.data(), c.bias ? bias.data() : nullptr);
      check_case(c, true, *op, w, bias, rng);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST(Conv, RefusesImpossibleAttributes) {
  const float w[64] = {};
  ConvDesc d;
  d.cin = 4, d.cout = 6, d.groups = 4;
  EXPECT_THROW(Conv::create(d, w, nullptr), ShapeError);
  d.groups = 1, d.sh = 0;
  EXPECT_THROW(Conv::create(d, w, nullptr), ShapeError);
  d.sh = 1, d.pt = -1;
  EXPECT_THROW(Conv::create(d, w, nullptr), ShapeError);
  d.pt = 0, d.epilogue.residual = Residual::kAfterAct;
  const auto conv = Conv::create(d, w, nullptr);
  float x[4] = {}, y[6];
  EXPECT_THROW(conv->run(x, 4, 1, 1, 1, y, 6, nullptr, 0, nullptr), ShapeError);
  EXPECT_EQ(conv->out_h(7), 7);
}

}  // namespace
}  // namespace train::cpu
