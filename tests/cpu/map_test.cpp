// Pooling, resizing and layout changes against plain references.
#include "libtrain/cpu/layout.h"
#include "libtrain/cpu/pool.h"
#include "libtrain/cpu/resize.h"
#include "tests/cpu/support.h"

namespace train::cpu {
namespace {

TEST(Pool, MatchesReferenceOnRandomShapes) {
  for_each_isa([] {
    for (const uint64_t seed : seeds("OCR_POOL_SEED", 150)) {
      Rng rng(seed);
      PoolDesc d;
      d.kh = static_cast<int>(rng.range(1, 4)), d.kw = static_cast<int>(rng.range(1, 4));
      d.sh = static_cast<int>(rng.range(1, 3)), d.sw = static_cast<int>(rng.range(1, 3));
      if (rng.chance(.2)) d.dh = 2, d.dw = 2;
      d.pt = static_cast<int>(rng.range(0, d.kh - 1)),
      d.pb = static_cast<int>(rng.range(0, d.kh - 1));
      d.pl = static_cast<int>(rng.range(0, d.kw - 1)),
      d.pr = static_cast<int>(rng.range(0, d.kw - 1));
      d.ceil_mode = rng.chance(.4), d.count_include_pad = rng.chance(.5);
      const int64_t n = rng.range(1, 2), h = rng.range(1, 12), w = rng.range(1, 12),
                    c = rng.range(1, 20);
      const int64_t oh = d.out_h(h), ow = d.out_w(w);
      SCOPED_TRACE(cat("OCR_POOL_SEED=", seed, ": n", n, " h", h, " w", w, " c", c, " k", d.kh, "x",
                       d.kw, " s", d.sh, "x", d.sw, " d", d.dh, " p", d.pt, ",", d.pl, ",", d.pb,
                       ",", d.pr, " ceil", d.ceil_mode, " pad", d.count_include_pad));
      if (oh <= 0 || ow <= 0) continue;
      const Strided x(n * h * w, c, c + rng.range(0, 2), rng);
      for (const bool max : {true, false}) {
        Strided y(n * oh * ow, c, c + 1);
        for_thread_counts([&](int threads) {
          Strided t(n * oh * ow, c, c + 1);
          (max ? max_pool : avg_pool)(d, x.data(), x.ld, n, h, w, c, t.data(), t.ld);
          if (threads == 1) y = t;
          EXPECT_TRUE(t.same_bits(y));
        });
        EXPECT_TRUE(y.gaps_untouched());
        for (int64_t r = 0; r < y.rows; ++r)
          for (int64_t k = 0; k < c; ++k) {
            const int64_t image = r / (oh * ow), oy = r / ow % oh, ox = r % ow;
            double most = -INFINITY, sum = 0;
            int64_t inside = 0, padded = 0;
            for (int64_t i = 0; i < d.kh; ++i)
              for (int64_t j = 0; j < d.kw; ++j) {
                const int64_t iy = oy * d.sh - d.pt + i * d.dh, ix = ox * d.sw - d.pl + j * d.dw;
                padded += iy < h + d.pb && ix < w + d.pr;
                if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
                const double v = x.at((image * h + iy) * w + ix, k);
                most = std::max(most, v), sum += v, ++inside;
              }
            if (!inside) continue;  // only padding: no value is defined
            const double count = static_cast<double>(d.count_include_pad ? padded : inside);
            const double want = max ? most : sum / count;
            ASSERT_NEAR(y.at(r, k), want, max ? 0 : 1e-6);
          }
      }
    }
  });
}

TEST(Pool, CeilModeNeverStartsInTheFarPadding) {
  PoolDesc d;
  d.kh = d.kw = 2, d.sh = d.sw = 2, d.ceil_mode = true;
  EXPECT_EQ(d.out_h(5), 3);
  d.pt = d.pb = 1;
  EXPECT_EQ(d.out_h(5), 3);  // a fourth window would lie in the bottom padding
  d.kh = 9;
  EXPECT_EQ(d.out_h(3), 0);
}

TEST(Pool, GlobalAverageAndMaximum) {
  for_each_isa([] {
    Rng rng(3);
    for (const int64_t c : {1, 8, 37, 96}) {
      const int64_t n = 2, h = 7, w = 13;
      const Strided x(n * h * w, c, c + 3, rng);
      Strided avg(n, c, c + 1), most(n, c, c);
      for_thread_counts([&](int threads) {
        Strided t(n, c, c + 1);
        const Workspace ws(global_avg_pool_workspace_bytes(n, h, w, c));
        global_avg_pool(x.data(), x.ld, n, h, w, c, t.data(), t.ld, ws.get());
        if (threads == 1) avg = t;
        EXPECT_TRUE(t.same_bits(avg));
      });
      global_max_pool(x.data(), x.ld, n, h, w, c, most.data(), most.ld);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t k = 0; k < c; ++k) {
          double sum = 0, top = -INFINITY;
          for (int64_t p = 0; p < h * w; ++p)
            sum += x.at(i * h * w + p, k), top = std::max(top, double{x.at(i * h * w + p, k)});
          EXPECT_NEAR(avg.at(i, k), sum / static_cast<double>(h * w), 2e-7);
          EXPECT_EQ(most.at(i, k), static_cast<float>(top));
        }
    }
  });
}

// The definition in ONNX's operator text, in double.
double onnx_source(const ResizeDesc& d, int64_t o, int64_t in, int64_t out) {
  const double s = static_cast<double>(out) / static_cast<double>(in), x = static_cast<double>(o);
  switch (d.coord) {
    case ResizeCoord::kAsymmetric:
      return x / s;
    case ResizeCoord::kAlignCorners:
      return out > 1 ? x * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
    case ResizeCoord::kPytorchHalfPixel:
      return out > 1 ? (x + .5) / s - .5 : 0;
    default:
      return (x + .5) / s - .5;
  }
}

TEST(Resize, LinearAndCubicMatchTheDefinition) {
  for_each_isa([] {
    for (const uint64_t seed : seeds("OCR_RESIZE_SEED", 80)) {
      Rng rng(seed);
      ResizeDesc d;
      d.mode = seed % 2 ? ResizeMode::kLinear : ResizeMode::kCubic;
      d.coord = static_cast<ResizeCoord>(rng.range(0, 3));
      d.exclude_outside = rng.chance(.3);
      const int64_t n = rng.range(1, 2), h = rng.range(1, 9), w = rng.range(1, 9),
                    c = rng.range(1, 19), oh = rng.range(1, 20), ow = rng.range(1, 20);
      const bool has_res = rng.chance(.3);
      const Strided x(n * h * w, c, c + rng.range(0, 2), rng), res(n * oh * ow, c, c + 2, rng);
      SCOPED_TRACE(cat("OCR_RESIZE_SEED=", seed, ": n", n, " ", h, "x", w, " to ", oh, "x", ow,
                       " c", c, " coord", static_cast<int>(d.coord)));
      Strided y(n * oh * ow, c, c + 1);
      for_thread_counts([&](int threads) {
        Strided t(n * oh * ow, c, c + 1);
        const Workspace ws(resize_workspace_bytes(d, oh, ow));
        resize(d, x.data(), x.ld, n, h, w, c, t.data(), t.ld, oh, ow,
               has_res ? res.data() : nullptr, res.ld, ws.get());
        if (threads == 1) y = t;
        EXPECT_TRUE(t.same_bits(y));
      });
      const auto axis = [&](int64_t o, int64_t in, int64_t out) {  // weight of every input position
        std::vector<double> weight(static_cast<size_t>(in));
        double at = onnx_source(d, o, in, out);
        const auto put = [&](int64_t i, double v) {
          weight[static_cast<size_t>(std::clamp<int64_t>(i, 0, in - 1))] += v;
        };
        if (d.mode == ResizeMode::kLinear) {
          at = std::clamp(at, 0., static_cast<double>(in - 1));
          const int64_t i = static_cast<int64_t>(at);
          put(i, 1 - (at - static_cast<double>(i))), put(i + 1, at - static_cast<double>(i));
          return weight;
        }
        const auto keys = [](double t) {
          const double a = -.75;
          t = std::fabs(t);
          return t <= 1  ? ((a + 2) * t - (a + 3)) * t * t + 1
                 : t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
                         : 0;
        };
        double sum = 0;
        const int64_t f = static_cast<int64_t>(std::floor(at));
        for (int64_t i = f - 1; i <= f + 2; ++i) {
          const double v =
              d.exclude_outside && (i < 0 || i >= in) ? 0 : keys(at - static_cast<double>(i));
          sum += v, put(i, v);
        }
        if (d.exclude_outside)
          for (double& v : weight) v /= sum;
        return weight;
      };
      for (int64_t r = 0; r < y.rows; ++r) {
        const int64_t image = r / (oh * ow), oy = r / ow % oh, ox = r % ow;
        const auto wy = axis(oy, h, oh), wx = axis(ox, w, ow);
        for (int64_t k = 0; k < c; ++k) {
          double want = has_res ? res.at(r, k) : 0;
          for (int64_t i = 0; i < h; ++i)
            for (int64_t j = 0; j < w; ++j)
              want += wy[static_cast<size_t>(i)] * wx[static_cast<size_t>(j)] *
                      double{x.at((image * h + i) * w + j, k)};
          ASSERT_NEAR(y.at(r, k), want, 2e-5);
        }
      }
    }
  });
}

TEST(Resize, NearestByFactorAndByTable) {
  for_each_isa([] {
    Rng rng(5);
    for (const int64_t factor : {1, 2, 4, 8})
      for (const int64_t c : {1, 8, 24, 30}) {
        const int64_t n = 2, h = 3, w = 5, oh = h * factor, ow = w * factor;
        const Strided x(n * h * w, c, c + 1, rng), res(n * oh * ow, c, c, rng);
        for (const bool add : {false, true}) {
          ResizeDesc d;
          d.coord = ResizeCoord::kAsymmetric, d.nearest = NearestMode::kFloor;
          Strided y(n * oh * ow, c, c + 5);
          const Workspace ws(resize_workspace_bytes(d, oh, ow));
          resize(d, x.data(), x.ld, n, h, w, c, y.data(), y.ld, oh, ow, add ? res.data() : nullptr,
                 res.ld, ws.get());
          EXPECT_TRUE(y.gaps_untouched());
          for (int64_t r = 0; r < y.rows; ++r)
            for (int64_t k = 0; k < c; ++k) {
              const int64_t from = (r / (oh * ow) * h + r / ow % oh / factor) * w + r % ow / factor;
              ASSERT_EQ(y.at(r, k), x.at(from, k) + (add ? res.at(r, k) : 0));
            }
        }
      }
    // 5 -> 3 by rounding: half pixel puts the sources at 1/3, 2, 3 2/3
    ResizeDesc d;
    const float x[5] = {10, 11, 12, 13, 14};
    float y[3];
    const Workspace ws(resize_workspace_bytes(d, 1, 3));
    resize(d, x, 1, 1, 1, 5, 1, y, 1, 1, 3, nullptr, 0, ws.get());
    EXPECT_EQ(y[0], 10);
    EXPECT_EQ(y[1], 12);
    EXPECT_EQ(y[2], 14);
  });
}

TEST(Layout, NchwNhwcRoundTrip) {
  for_each_isa([] {
    Rng rng(7);
    for (const int64_t c : {1, 3, 4, 9, 32})
      for (const int64_t hw : {1, 5, 64, 1500}) {
        const int64_t n = 2;
        const auto x = rng.values(n * c * hw);
        Strided y(n * hw, c, c + 2);
        nchw_to_nhwc(x.data(), n, c, hw, y.data(), y.ld);
        EXPECT_TRUE(y.gaps_untouched());
        for (int64_t i = 0; i < n * hw; ++i)
          for (int64_t k = 0; k < c; ++k)
            ASSERT_EQ(y.at(i, k), x[static_cast<size_t>((i / hw * c + k) * hw + i % hw)]);
        std::vector<float> back(x.size());
        nhwc_to_nchw(y.data(), y.ld, n, c, hw, back.data());
        EXPECT_EQ(back, x);
      }
  });
}

template <class T>
void check_transpose(const std::vector<int64_t>& shape, const std::vector<int>& perm) {
  int64_t count = 1;
  for (const int64_t s : shape) count *= s;
  std::vector<T> x(static_cast<size_t>(count)), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i + 1);
  transpose(x.data(), shape, perm, y.data(), sizeof(T));
  for (int64_t o = 0; o < count; ++o) {
    std::vector<int64_t> at(shape.size());
    int64_t rest = o, from = 0;
    for (size_t k = shape.size(); k-- > 0;) {
      const auto p = static_cast<size_t>(perm[k]);
      at[p] = rest % shape[p], rest /= shape[p];
    }
    for (size_t k = 0; k < shape.size(); ++k) from = from * shape[k] + at[k];
    ASSERT_EQ(y[static_cast<size_t>(o)], x[static_cast<size_t>(from)]);
  }
}

TEST(Layout, TransposeAnyPermutation) {
  std::vector<int> perm = {0, 1, 2, 3};
  do {
    check_transpose<float>({2, 5, 1, 7}, perm);
    check_transpose<float>({3, 6, 9, 4}, perm);
    check_transpose<int64_t>({3, 2, 5, 4}, perm);
    check_transpose<uint8_t>({2, 3, 4, 5}, perm);
    check_transpose<uint16_t>({2, 3, 1, 5}, perm);
  } while (std::next_permutation(perm.begin(), perm.end()));
  check_transpose<float>({}, {});
  check_transpose<float>({70, 45}, {1, 0});
  float x[2] = {}, y[2];
  const int64_t shape[] = {1, 2};
  const int bad[] = {0, 0};
  EXPECT_THROW(transpose(x, shape, bad, y, 4), ShapeError);
}

TEST(Layout, NormalizeImage) {
  for_each_isa([] {
    Rng rng(9);
    for (const int64_t w : {1, 7, 16, 61})
      for (const bool swap : {false, true})
        for (const int64_t ldy : {3, 4}) {
          const int64_t h = 3, row = w * 3 + 5;
          std::vector<uint8_t> img(static_cast<size_t>((h - 1) * row + w * 3));
          for (auto& v : img) v = static_cast<uint8_t>(rng.range(0, 255));
          const float scale[] = {.01f, .02f, .03f}, bias[] = {-1, -2, .5f};
          std::vector<float> y(static_cast<size_t>(h * (w + 2) * ldy), -7);
          normalize_image(img.data(), row, h, w, swap, scale, bias, y.data(), ldy, (w + 2) * ldy);
          for (int64_t r = 0; r < h; ++r)
            for (int64_t i = 0; i < (w + 2) * ldy; ++i) {
              const int64_t p = i / ldy, c = i % ldy;
              const float got = y[static_cast<size_t>(r * (w + 2) * ldy + i)];
              if (p >= w || c >= 3) {
                ASSERT_EQ(got, -7);
                continue;
              }
              const double v = img[static_cast<size_t>(r * row + p * 3 + (swap ? 2 - c : c))];
              ASSERT_NEAR(got, v * double{scale[c]} + double{bias[c]}, 2e-6);
            }
        }
  });
}

}  // namespace
}  // namespace train::cpu
