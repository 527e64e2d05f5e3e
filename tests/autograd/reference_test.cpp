// The f64 references pass finite differences, so that the production gradients may be held to them.
#include "tests/support/reference.h"

#include <gtest/gtest.h>

#include "tests/support/random_shapes.h"

namespace train {
namespace {

using namespace reference;
constexpr double kTolerance = 1e-8;

double masked_dot(const Vec& y, const Vec& dy) {
  double s = 0;  // a window in the padding gives -inf, which no input moves
  for (size_t i = 0; i < y.size(); ++i)
    if (std::isfinite(y[i])) s += y[i] * dy[i];
  return s;
}

TEST(Reference, ConvPassesFiniteDifferences) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Draw draw(seed, "fd conv");
    const Conv c = draw.conv(/*max_size=*/6, /*max_channels=*/6);
    const Vec x = draw.values(c.x_size()), w = draw.values(c.w_size()), b = draw.values(c.cout);
    const Vec dy = draw.values(c.y_size());
    Vec dx, dw, db;
    conv_grad(c, x, w, dy, dx, dw, db);
    const auto f = [&](const Vec& x, const Vec& w, const Vec& b) {
      return dot(conv(c, x, w, b), dy);
    };
    EXPECT_LT(finite_difference_error([&](const Vec& v) { return f(v, w, b); }, x, dx), kTolerance);
    EXPECT_LT(finite_difference_error([&](const Vec& v) { return f(x, v, b); }, w, dw), kTolerance);
    EXPECT_LT(finite_difference_error([&](const Vec& v) { return f(x, w, v); }, b, db), kTolerance);
  }
}

TEST(Reference, LinearPassesFiniteDifferences) {
  Draw draw(1, "fd linear");
  const int64_t m = 3, k = 5, n = 4;
  const Vec x = draw.values(m * k), w = draw.values(n * k), b = draw.values(n);
  const Vec dy = draw.values(m * n);
  Vec dx, dw, db;
  linear_grad(m, k, n, x, w, dy, dx, dw, db);
  const auto f = [&](const Vec& x, const Vec& w, const Vec& b) {
    return dot(linear(m, k, n, x, w, b), dy);
  };
  EXPECT_LT(finite_difference_error([&](const Vec& v) { return f(v, w, b); }, x, dx), kTolerance);
  EXPECT_LT(finite_difference_error([&](const Vec& v) { return f(x, v, b); }, w, dw), kTolerance);
  EXPECT_LT(finite_difference_error([&](const Vec& v) { return f(x, w, v); }, b, db), kTolerance);
}

TEST(Reference, PoolsAndReluPassFiniteDifferences) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Draw draw(seed, "fd pool");
    const Conv c = draw.pool(/*max_size=*/6, /*max_channels=*/3);
    const int64_t area = c.h * c.w;
    const Vec x = draw.values(c.x_size()), dy = draw.values(c.y_size());
    const Vec da = draw.values(c.n * c.cin), dr = draw.values(c.x_size());
    EXPECT_LT(finite_difference_error([&](const Vec& v) { return masked_dot(max_pool(c, v), dy); },
                                      x, max_pool_grad(c, x, dy)),
              kTolerance);
    EXPECT_LT(finite_difference_error([&](const Vec& v) { return dot(average(area, v), da); }, x,
                                      average_grad(area, da)),
              kTolerance);
    EXPECT_LT(finite_difference_error([&](const Vec& v) { return dot(relu(v), dr); }, x,
                                      relu_grad(x, dr)),
              kTolerance);
  }
}

TEST(Reference, CrossEntropyPassesFiniteDifferences) {
  for (const double smoothing : {0., .1, .5}) {
    Draw draw(3, "fd loss");
    const int64_t classes = 7;
    const std::vector<int64_t> labels{0, 6, 3, 3};
    const Vec x = draw.values(4 * classes, 3);
    Vec dx;
    cross_entropy(classes, x, labels, smoothing, &dx);
    const auto loss = [&](const Vec& v) {
      return cross_entropy(classes, v, labels, smoothing, nullptr);
    };
    EXPECT_LT(finite_difference_error(loss, x, dx), kTolerance);
  }
}

}  // namespace
}  // namespace train
