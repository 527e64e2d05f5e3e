// GridSample and its gradients against an f64 reference, and the reference against differences.
#include <gtest/gtest.h>

#include <limits>

#include "libtrain/autograd/grid_sample.h"
#include "tests/support/gradient_check.h"

namespace train {
namespace {

constexpr uint64_t kSeeds = 60;

// Written from the definition: every pixel of the image by its hat function around the place.
auto reference_sample(const Shape& s, int64_t pixels, const GridSampleOptions& o) {
  return [s, pixels, o](const auto& in) {
    auto y = in[0];
    using T = std::decay_t<decltype(y[0])>;
    y.assign(static_cast<size_t>(s[0] * s[1] * pixels), T(0.));
    for (int64_t p = 0; p < s[0] * pixels; ++p) {
      T at[2];
      for (int a = 0; a < 2; ++a) {
        const auto size = static_cast<double>(s[3 - a]);
        at[a] = o.align_corners ? (in[1][2 * p + a] + T(1.)) * T(.5 * (size - 1))
                                : ((in[1][2 * p + a] + T(1.)) * T(size) - T(1.)) * T(.5);
        if (o.padding == SamplePadding::kBorder) {
          if (at[a] < T(0.)) at[a] = T(0.);
          if (at[a] > T(size - 1)) at[a] = T(size - 1);
        }
      }
      for (int64_t h = 0; h < s[2]; ++h)
        for (int64_t w = 0; w < s[3]; ++w) {
          const T across = T(1.) - abs(at[0] - T(static_cast<double>(w))),
                  down = T(1.) - abs(at[1] - T(static_cast<double>(h)));
          if (across <= T(0.) || down <= T(0.)) continue;
          for (int64_t c = 0; c < s[1]; ++c)
            y[((p / pixels) * s[1] + c) * pixels + p % pixels] +=
                across * down * in[0][((p / pixels) * s[1] + c) * s[2] * s[3] + h * s[3] + w];
        }
    }
    return y;
  };
}

// Places inside the image and around it, none near a pixel's centre, where the gradient jumps, nor
// within the rounding of a border.
reference::Vec places(Draw& d, const Shape& s, int64_t count, const GridSampleOptions& o) {
  reference::Vec v;
  for (int64_t i = 0; i < 2 * count; ++i) {
    const int64_t size = s[3 - static_cast<int>(i % 2)];
    const double pixel = static_cast<double>(d.in(-2, size)) + .5 + .35 * d.values(1)[0];
    const auto n = static_cast<double>(size);
    double place =
        o.align_corners ? (n > 1 ? 2 * pixel / (n - 1) - 1 : pixel) : (2 * pixel + 1) / n - 1;
    v.push_back(static_cast<double>(static_cast<float>(place)));
  }
  return v;
}

TEST(GridSample, OutputAndGradientsMatchTheReference) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const SamplePadding padding : {SamplePadding::kZeros, SamplePadding::kBorder})
      for (const bool align : {false, true}) {
        const GridSampleOptions o{padding, align};
        SCOPED_TRACE(GridSampleOp(o).describe());
        Draw d(seed, "grid sample");
        const Shape s{d.in(1, 4), d.in(1, 12), d.in(1, 9), d.in(1, 9)};
        const Shape grid{s[0], d.in(1, 6), d.in(1, 9), 2};
        const int64_t pixels = grid[1] * grid[2];
        const std::vector<CheckInput> in{{s, d.values(s.numel())},
                                         {grid, places(d, s, s[0] * pixels, o)}};
        const auto ref = reference_sample(s, pixels, o);
        check_gradient(seed, in, [&](Tape& t, auto& v) { return grid_sample(t, v[0], v[1], o); },
                       ref, {.factor = 200, .absolute = 5e-6});
        if (seed < 6) check_finite_differences(seed, in, ref);
        if (HasFatalFailure()) return;
      }
}

TEST(GridSample, CornersAreThePixelsThatTheOptionSays) {
  Eager eager;
  Tape tape(eager, false);
  const Variable x = Variable::input(to_f32({1, 1, 1, 2}, {10, 20}));
  const Variable grid = Variable::input(to_f32({1, 1, 3, 2}, {-1, 0, 0, 0, 1, 0}));
  const auto read = [&](const GridSampleOptions& o) {
    const Variable y = grid_sample(tape, x, grid, o);
    return std::vector<float>(y.value().data<float>(), y.value().data<float>() + 3);
  };
  EXPECT_EQ(read({}), (std::vector<float>{10, 15, 20}));  // Paddle's own defaults
  EXPECT_EQ(read({SamplePadding::kZeros, false}), (std::vector<float>{5, 15, 10}));
  EXPECT_EQ(read({SamplePadding::kBorder, false}), (std::vector<float>{10, 15, 20}));
}

TEST(GridSample, PlacesThatAreNoNumbersReadNothing) {
  Eager eager;
  Tape tape(eager, true);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  const Variable x = Variable::input(to_f32({1, 1, 2, 2}, {1, 2, 3, 4}));
  const Tensor places =
      Tensor::from<float>({1, 1, 4, 2}, std::vector<float>{kNan, 0, kInf, 0, -kInf, 0, 1e30f, 0});
  const Variable y = grid_sample(tape, x, Variable::input(places));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y.value().data<float>()[i], 0) << i;
}

TEST(GridSample, RefusesAGridOfAnotherShape) {
  Eager eager;
  Tape tape(eager, false);
  const Variable x = Variable::input(Tensor::zeros({2, 3, 4, 4}));
  for (const Shape& bad : {Shape{1, 4, 4, 2}, Shape{2, 4, 4, 3}, Shape{2, 4, 2}})
    EXPECT_THROW(grid_sample(tape, x, Variable::input(Tensor::zeros(bad))), Error) << bad.str();
}

}  // namespace
}  // namespace train
