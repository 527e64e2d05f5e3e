// Element-wise operations, softmax, normalisations and reductions against plain references.
#include "libtrain/cpu/elementwise.h"
#include "libtrain/cpu/norm.h"
#include "libtrain/cpu/reduce.h"
#include "libtrain/cpu/softmax.h"
#include "tests/cpu/support.h"

namespace train::cpu {
namespace {

double reference_binary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kMin:
      return std::min(a, b);
    case BinaryOp::kMax:
      return std::max(a, b);
    case BinaryOp::kPow:
      return std::pow(a, b);
    default:
      return a < 0 ? a * b : a;
  }
}

TEST(Elementwise, BinaryWithEveryBroadcast) {
  for_each_isa([] {
    for (const uint64_t seed : seeds("OCR_BINARY_SEED", 200)) {
      Rng rng(seed);
      const auto op = static_cast<BinaryOp>(seed % 8);
      const int64_t images = rng.range(1, 3), rows = rng.range(1, 6),
                    cols = rng.chance(.1) ? 5000 : rng.range(1, 40);
      const Activation act = rng.chance(.7) ? Activation{} : random_activation(rng);
      const auto operand = [&](std::vector<float>& data) {
        const int64_t gap = rng.chance(.5) ? 0 : 3;
        Operand o;
        switch (rng.range(0, 5)) {
          case 0:
            o = {nullptr, 0, 0, 0};
            break;  // scalar
          case 1:
            o = {nullptr, 0, 0, 1};
            break;  // channel vector
          case 2:
            o = {nullptr, cols, 0, 1};
            break;  // gate
          case 3:
            o = {nullptr, rows, 1, 0};
            break;  // per pixel
          default:
            o = {nullptr, rows * (cols + gap), cols + gap, 1};
            break;  // tensor
        }
        data = rng.values((images - 1) * o.image_stride + (rows - 1) * o.row_stride +
                              (cols - 1) * o.col_stride + 1,
                          2);
        if (op == BinaryOp::kPow || op == BinaryOp::kDiv)
          for (float& v : data) v = std::fabs(v) + .1f;
        o.data = data.data();
        return o;
      };
      std::vector<float> da, db;
      const Operand a = operand(da), b = operand(db);
      SCOPED_TRACE(cat("OCR_BINARY_SEED=", seed, ": op", static_cast<int>(op), " ", images, "x",
                       rows, "x", cols, " a", a.image_stride, ",", a.row_stride, ",", a.col_stride,
                       " b", b.image_stride, ",", b.row_stride, ",", b.col_stride));
      Strided y(images * rows, cols, cols + (rng.chance(.5) ? 0 : 2));
      for_thread_counts([&](int threads) {
        Strided t(images * rows, cols, y.ld);
        binary(op, a, b, t.data(), t.ld, images, rows, cols, act);
        if (threads == 1) y = t;
        EXPECT_TRUE(t.same_bits(y));
      });
      EXPECT_TRUE(y.gaps_untouched());
      for (int64_t r = 0; r < y.rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          const auto at = [&](const Operand& o) {
            return double{
                o.data[r / rows * o.image_stride + r % rows * o.row_stride + c * o.col_stride]};
          };
          const double want = reference_act(act, reference_binary(op, at(a), at(b)));
          ASSERT_NEAR(y.at(r, c), want, 3e-6 * (1 + std::fabs(want)))
              << "row " << r << " col " << c;
        }
    }
  });
}

TEST(Elementwise, UnaryAndAffineOverRows) {
  for_each_isa([] {
    Rng rng(11);
    for (const int64_t cols : {1, 3, 8, 21, 64}) {
      const Strided x(9, cols, cols + 2, rng);
      const auto scale = rng.values(cols), bias = rng.values(cols);
      Strided u(9, cols, cols + 1), v(9, cols, cols);
      unary(swish(), x.data(), x.ld, u.data(), u.ld, 9, cols);
      affine(x.data(), x.ld, scale.data(), bias.data(), {Act::kRelu, 0, 0}, v.data(), v.ld, 9,
             cols);
      EXPECT_TRUE(u.gaps_untouched());
      for (int64_t r = 0; r < 9; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          const double a = x.at(r, c), s = scale[static_cast<size_t>(c)],
                       b = bias[static_cast<size_t>(c)];
          EXPECT_NEAR(u.at(r, c), a / (1 + std::exp(-a)), 1e-6);
          EXPECT_NEAR(v.at(r, c), std::max(0., a * s + b), 1e-6);
        }
    }
    std::vector<float> big = rng.values(100003), same = big, threaded(big.size());
    unary({Act::kTanh, 0, 0}, big.data(), same.data(), static_cast<int64_t>(big.size()));
    for_thread_counts([&](int) {
      unary({Act::kTanh, 0, 0}, big.data(), threaded.data(), static_cast<int64_t>(big.size()));
      EXPECT_EQ(threaded, same);
    });
  });
}

TEST(Softmax, RowsAndArgmax) {
  for_each_isa([] {
    Rng rng(13);
    for (const int64_t cols : {1, 2, 7, 8, 40, 97, 6625}) {
      const int64_t rows = 5;
      Strided x(rows, cols, cols + 1, rng, 20);
      if (cols > 2) x.at(1, cols - 1) = x.at(1, 0) = 50;  // a tie: the first wins
      if (cols > 2) x.at(2, 1) = 1e38f, x.at(2, 2) = -1e38f;
      Strided y(rows, cols, cols + 2), l(rows, cols, cols);
      std::vector<int32_t> index(5), index2(5);
      std::vector<float> prob(5), value(5);
      for_thread_counts([&](int threads) {
        Strided t(rows, cols, cols + 2);
        softmax(x.data(), x.ld, t.data(), t.ld, rows, cols);
        if (threads == 1) y = t;
        EXPECT_TRUE(t.same_bits(y));
        log_softmax(x.data(), x.ld, l.data(), l.ld, rows, cols);
        softmax_argmax(x.data(), x.ld, rows, cols, index.data(), prob.data());
        argmax(x.data(), x.ld, rows, cols, index2.data(), value.data());
      });
      EXPECT_TRUE(y.gaps_untouched());
      for (int64_t r = 0; r < rows; ++r) {
        double most = -INFINITY, sum = 0;
        int64_t at = 0;
        for (int64_t c = 0; c < cols; ++c)
          if (double{x.at(r, c)} > most) most = x.at(r, c), at = c;
        for (int64_t c = 0; c < cols; ++c) sum += std::exp(double{x.at(r, c)} - most);
        for (int64_t c = 0; c < cols; ++c) {
          const double p = std::exp(double{x.at(r, c)} - most) / sum,
                       lp = double{x.at(r, c)} - most - std::log(sum);
          ASSERT_NEAR(y.at(r, c), p, 5e-6 * p + 2e-38);
          ASSERT_NEAR(l.at(r, c), lp, 4e-6 + 3e-7 * std::fabs(lp));
        }
        const auto i = static_cast<size_t>(r);
        EXPECT_EQ(index[i], at);
        EXPECT_EQ(index2[i], at);
        EXPECT_EQ(prob[i], y.at(r, at)) << "the fused form gives softmax's own bits";
        EXPECT_EQ(value[i], x.at(r, at));
      }
      Strided in_place = x;
      softmax(in_place.data(), x.ld, in_place.data(), x.ld, rows, cols);
      for (int64_t r = 0; r < rows; ++r) EXPECT_EQ(in_place.at(r, 0), y.at(r, 0));
    }
  });
}

TEST(Norm, LayerNorm) {
  for_each_isa([] {
    Rng rng(17);
    for (const int64_t cols : {1, 5, 8, 60, 120, 257}) {
      const int64_t rows = 6;
      Strided x(rows, cols, cols + 3, rng);
      for (float& v : x.v) v += 5;  // a mean far from zero
      const auto scale = rng.values(cols), bias = rng.values(cols);
      Strided y(rows, cols, cols + 1);
      layer_norm(x.data(), x.ld, scale.data(), bias.data(), 1e-5f, y.data(), y.ld, rows, cols);
      EXPECT_TRUE(y.gaps_untouched());
      for (int64_t r = 0; r < rows; ++r) {
        double mean = 0, var = 0;
        for (int64_t c = 0; c < cols; ++c) mean += double{x.at(r, c)} / static_cast<double>(cols);
        for (int64_t c = 0; c < cols; ++c)
          var += std::pow(double{x.at(r, c)} - mean, 2) / static_cast<double>(cols);
        for (int64_t c = 0; c < cols; ++c) {
          const auto i = static_cast<size_t>(c);
          ASSERT_NEAR(y.at(r, c),
                      (double{x.at(r, c)} - mean) / std::sqrt(var + 1e-5) * double{scale[i]} +
                          double{bias[i]},
                      cols == 1 ? 1e-3 : 1e-5);
        }
      }
    }
  });
}

TEST(Norm, GroupAndInstanceNorm) {
  for_each_isa([] {
    Rng rng(19);
    for (const auto& [c, groups] :
         {std::pair<int64_t, int64_t>{8, 2}, {12, 12}, {21, 3}, {16, 1}}) {
      const int64_t n = 2, hw = 600;
      const Strided x(n * hw, c, c + 1, rng);
      const auto scale = rng.values(c), bias = rng.values(c);
      Strided y(n * hw, c, c);
      for_thread_counts([&, c = c, groups = groups](int threads) {
        Strided t(n * hw, c, c);
        const Workspace ws(group_norm_workspace_bytes(n, hw, c));
        group_norm(x.data(), x.ld, n, hw, c, groups, scale.data(), bias.data(), 1e-5f, t.data(),
                   t.ld, ws.get());
        if (threads == 1) y = t;
        EXPECT_TRUE(t.same_bits(y));
      });
      const int64_t per = c / groups;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t k = 0; k < c; ++k) {
          double mean = 0, var = 0;
          const double count = static_cast<double>(hw * per);
          for (int64_t p = 0; p < hw; ++p)
            for (int64_t j = k / per * per; j < (k / per + 1) * per; ++j)
              mean += double{x.at(i * hw + p, j)} / count;
          for (int64_t p = 0; p < hw; ++p)
            for (int64_t j = k / per * per; j < (k / per + 1) * per; ++j)
              var += std::pow(double{x.at(i * hw + p, j)} - mean, 2) / count;
          for (int64_t p = 0; p < hw; p += 97) {
            const auto q = static_cast<size_t>(k);
            ASSERT_NEAR(
                y.at(i * hw + p, k),
                (double{x.at(i * hw + p, k)} - mean) / std::sqrt(var + 1e-5) * double{scale[q]} +
                    double{bias[q]},
                1e-5);
          }
        }
    }
  });
}

double reference_reduce(ReduceOp op, const std::vector<double>& v) {
  double sum = 0, prod = 1, square = 0, magnitude = 0, most = -INFINITY, least = INFINITY;
  for (const double x : v)
    sum += x, prod *= x, square += x * x, magnitude += std::fabs(x), most = std::max(most, x),
                                                                     least = std::min(least, x);
  switch (op) {
    case ReduceOp::kSum:
      return sum;
    case ReduceOp::kMean:
      return sum / static_cast<double>(v.size());
    case ReduceOp::kMax:
      return most;
    case ReduceOp::kMin:
      return least;
    case ReduceOp::kProd:
      return prod;
    case ReduceOp::kSumSquare:
      return square;
    case ReduceOp::kL1:
      return magnitude;
    default:
      return std::sqrt(square);
  }
}

TEST(Reduce, RowsAndColumns) {
  for_each_isa([] {
    Rng rng(23);
    for (int op = 0; op < 8; ++op)
      for (const int64_t cols : {1, 3, 8, 19, 70}) {
        const auto o = static_cast<ReduceOp>(op);
        const int64_t outer = 3, rows = 11;
        const Strided x(outer * rows, cols, cols + 2, rng);
        std::vector<float> by_row(static_cast<size_t>(outer * rows));
        reduce_cols(o, x.data(), x.ld, outer * rows, cols, by_row.data());
        for (int64_t r = 0; r < outer * rows; ++r) {
          std::vector<double> v;
          for (int64_t c = 0; c < cols; ++c) v.push_back(x.at(r, c));
          ASSERT_NEAR(by_row[static_cast<size_t>(r)], reference_reduce(o, v), 1e-5);
        }
        Strided y(outer, cols, cols + 1);
        reduce_rows(o, x.data(), x.ld, outer, rows, cols, y.data(), y.ld);
        EXPECT_TRUE(y.gaps_untouched());
        for (int64_t i = 0; i < outer; ++i)
          for (int64_t c = 0; c < cols; ++c) {
            std::vector<double> v;
            for (int64_t r = 0; r < rows; ++r) v.push_back(x.at(i * rows + r, c));
            ASSERT_NEAR(y.at(i, c), reference_reduce(o, v), 1e-5);
          }
      }
  });
}

TEST(Isa, NamesAndRefusals) {
  const std::vector<Isa> all = available_isas();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), Isa::kSse4);
  EXPECT_STREQ(isa_name(Isa::kSse4), "sse4");
  EXPECT_STREQ(isa_name(Isa::kAvx2), "avx2");
  EXPECT_STREQ(isa_name(Isa::kAvx512), "avx512");
  for (const Isa i : {Isa::kSse4, Isa::kAvx2, Isa::kAvx512})
    if (std::find(all.begin(), all.end(), i) == all.end()) {
      EXPECT_THROW(set_isa(i), Error);
    }
}

}  // namespace
}  // namespace train::cpu
