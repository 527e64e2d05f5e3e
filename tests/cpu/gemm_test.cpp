// Matrix products and attention: reference, row invariance, ISA by ISA.
#include "libtrain/cpu/gemm.h"

#include "libtrain/cpu/attention.h"
#include "tests/cpu/support.h"

namespace train::cpu {
namespace {

void check_gemms(Precision precision) {
  for (const uint64_t seed : seeds("OCR_GEMM_SEED", 150)) {
    Rng rng(seed);
    const int64_t m = rng.chance(.2) ? 1 : rng.range(1, 70), k = rng.range(1, seed % 10 ? 60 : 700),
                  n = rng.range(1, seed % 7 ? 70 : 300);
    const bool trans = rng.chance(.5), has_bias = rng.chance(.7);
    Strided a(m, k, k + rng.range(0, 5), rng),
        b(trans ? n : k, trans ? k : n, (trans ? k : n) + rng.range(0, 3), rng);
    round_to(precision, a.v), round_to(precision, b.v);
    const auto bias = rng.values(n);
    const Epilogue e = random_epilogue(rng);
    const bool has_res = e.residual != Residual::kNone;
    const Strided res(m, n, n + rng.range(0, 3), rng);
    SCOPED_TRACE(cat("OCR_GEMM_SEED=", seed, ": ", m, "x", k, "x", n, " trans", trans, " lda", a.ld,
                     " ldb", b.ld, " act", static_cast<int>(e.act.kind), " res",
                     static_cast<int>(e.residual), " bias", has_bias));
    const PackedMatrix packed(b.data(), b.ld, trans, k, n, has_bias ? bias.data() : nullptr,
                              precision);
    const Workspace ws(packed.workspace_bytes(3));
    Strided y(m, n, n + rng.range(0, 4));
    gemm(a.data(), a.ld, m, packed, e, y.data(), y.ld, has_res ? res.data() : nullptr, res.ld,
         ws.get());
    EXPECT_TRUE(y.gaps_untouched());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = has_bias ? bias[static_cast<size_t>(j)] : 0, mag = 1;
        for (int64_t t = 0; t < k; ++t) {
          const double p = double{a.at(i, t)} * double{trans ? b.at(j, t) : b.at(t, j)};
          sum += p, mag += std::fabs(p);
        }
        ASSERT_NEAR(y.at(i, j), reference_epilogue(e, sum, has_res ? res.at(i, j) : 0), 2e-6 * mag);
      }
    for_thread_counts([&](int threads) {
      Strided again(m, n, y.ld);
      gemm(a.data(), a.ld, m, packed, e, again.data(), y.ld, has_res ? res.data() : nullptr, res.ld,
           ws.get());
      EXPECT_TRUE(again.same_bits(y)) << threads << " threads";
    });
    Strided rows(m, n, y.ld);
    for (int64_t i = 0, step = 1; i < m; i += step, ++step)
      gemm(a.data() + i * a.ld, a.ld, std::min(step, m - i), packed, e, rows.data() + i * y.ld,
           y.ld, has_res ? res.data() + i * res.ld : nullptr, res.ld, ws.get());
    EXPECT_TRUE(rows.same_bits(y)) << "row subsets";
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Gemm, MatchesReferenceAndRowsDoNotDependOnEachOther) {
  for_each_isa([] { for_each_precision(check_gemms); });
}

// What bf16 is for: factors are rounded to nearest even, sums are not.
TEST(Gemm, Bf16RoundsFactorsOnly) {
  for_each_isa([] {
    if (!has_bf16()) {
      const float one = 1;
      EXPECT_THROW(PackedMatrix(&one, 1, false, 1, 1, nullptr, Precision::kBf16), Error);
      return;
    }
    Rng rng(3);
    const int64_t m = 37, k = 129, n = 45;  // odd: the last word holds one factor
    const Strided a(m, k, k + 2, rng), b(k, n, n, rng);
    Strided ra = a, rb = b;
    round_to(Precision::kBf16, ra.v), round_to(Precision::kBf16, rb.v);
    Strided y(m, n, n), rounded(m, n, n);
    const auto run = [&](const Strided& x, const Strided& w, Strided& out) {
      const PackedMatrix packed(w.data(), w.ld, false, k, n, nullptr, Precision::kBf16);
      const Workspace ws(packed.workspace_bytes(1));
      gemm(x.data(), x.ld, m, packed, {}, out.data(), out.ld, nullptr, 0, ws.get());
    };
    run(a, b, y);
    run(ra, rb, rounded);
    EXPECT_TRUE(y.same_bits(rounded));
  });
}

TEST(Matmul, MatchesReferenceInBatches) {
  for_each_isa([] {
    for (const uint64_t seed : seeds("OCR_MATMUL_SEED", 60)) {
      Rng rng(seed);
      const int64_t batch = rng.range(1, 5), m = rng.range(1, 50), n = rng.range(1, 50),
                    k = rng.range(1, 70);
      const bool trans = rng.chance(.5);
      const float alpha = rng.chance(.5) ? 1.f : .37f;
      const int64_t br = trans ? n : k, bc = trans ? k : n;
      const Strided a(batch * m, k, k + 2, rng), b(batch * br, bc, bc + 3, rng);
      SCOPED_TRACE(
          cat("OCR_MATMUL_SEED=", seed, ": ", batch, "x", m, "x", k, "x", n, " trans", trans));
      Strided first(batch * m, n, n + 1);
      for_thread_counts([&](int threads) {
        Strided y(batch * m, n, n + 1);
        const Workspace ws(matmul_workspace_bytes(k, n) * static_cast<size_t>(threads));
        batched_matmul(a.data(), a.ld, m * a.ld, b.data(), b.ld, br * b.ld, trans, batch, m, n, k,
                       y.data(), y.ld, m * y.ld, alpha, ws.get());
        if (threads == 1) first = y;
        EXPECT_TRUE(y.same_bits(first));
        EXPECT_TRUE(y.gaps_untouched());
      });
      for (int64_t i = 0; i < batch * m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, mag = 1;
          for (int64_t t = 0; t < k; ++t) {
            const int64_t base = i / m * br;
            const double p =
                double{a.at(i, t)} * double{trans ? b.at(base + j, t) : b.at(base + t, j)};
            sum += p, mag += std::fabs(p);
          }
          ASSERT_NEAR(first.at(i, j), double{alpha} * sum, 1e-6 * mag);
        }
    }
  });
}

TEST(Attention, MatchesReference) {
  for_each_isa([] {
    for (const uint64_t seed : seeds("OCR_ATTENTION_SEED", 40)) {
      Rng rng(seed);
      const int64_t batch = rng.range(1, 3), heads = rng.range(1, 4), tq = rng.range(1, 70),
                    tk = rng.chance(.5) ? tq : rng.range(1, 90), d = rng.range(1, 33),
                    dv = rng.range(1, 33);
      const float scale = 1 / std::sqrt(static_cast<float>(d));
      SCOPED_TRACE(cat("OCR_ATTENTION_SEED=", seed, ": b", batch, " h", heads, " tq", tq, " tk", tk,
                       " d", d, " dv", dv));
      // q, k: [batch, t, heads, d] as slices of wider rows
      const Strided q(batch * tq, heads * d, heads * d + 3, rng, 3),
          k(batch * tk, heads * d, heads * d, rng, 3),
          v(batch * tk, heads * dv, heads * dv + 5, rng);
      Strided first(batch * tq, heads * dv, heads * dv + 2);
      for_thread_counts([&](int threads) {
        Strided y(batch * tq, heads * dv, heads * dv + 2);
        const Workspace ws(attention_workspace_bytes(tk, d, dv, threads));
        attention({q.data(), tq * q.ld, q.ld, d}, {k.data(), tk * k.ld, k.ld, d},
                  {v.data(), tk * v.ld, v.ld, dv}, batch, heads, tq, tk, d, dv, scale,
                  {nullptr, tq * y.ld, y.ld, dv}, y.data(), ws.get());
        if (threads == 1) first = y;
        EXPECT_TRUE(y.same_bits(first));
        EXPECT_TRUE(y.gaps_untouched());
      });
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t t = 0; t < tq; ++t) {
            std::vector<double> p(static_cast<size_t>(tk));
            double most = -1e300, sum = 0;
            for (int64_t s = 0; s < tk; ++s) {
              double dot = 0;
              for (int64_t i = 0; i < d; ++i)
                dot += double{q.at(b * tq + t, h * d + i)} * double{k.at(b * tk + s, h * d + i)};
              most = std::max(most, p[static_cast<size_t>(s)] = dot * double{scale});
            }
            for (double& e : p) sum += e = std::exp(e - most);
            for (int64_t i = 0; i < dv; ++i) {
              double want = 0;
              for (int64_t s = 0; s < tk; ++s)
                want += p[static_cast<size_t>(s)] / sum * double{v.at(b * tk + s, h * dv + i)};
              ASSERT_NEAR(first.at(b * tq + t, h * dv + i), want, 1e-5);
            }
          }
    }
  });
}

}  // namespace
}  // namespace train::cpu
