// Vector activations against double precision over the whole range of floats, and their special
// values.
#include "libtrain/cpu/elementwise.h"
#include "tests/cpu/support.h"

namespace train::cpu {
namespace {

// Floats spread evenly over all bit patterns between -limit and limit, plus values where functions
// turn.
std::vector<float> probes(float limit, bool positive) {
  std::vector<float> v;
  for (uint32_t bits = 0x00800000; bits < 0x7F800000; bits += 9973) {
    float x;
    std::memcpy(&x, &bits, 4);
    if (x > limit) break;
    v.push_back(x);
    if (!positive) v.push_back(-x);
  }
  for (int i = -4000; i <= 4000; ++i) {
    const float x = static_cast<float>(i) * .0251f;
    if (std::fabs(x) <= limit && (x > 0 || !positive)) v.push_back(x);
  }
  return v;
}

// relative error bound plus an absolute one
void check(const Activation& act, double relative, double absolute, float limit = 3e38f,
           bool positive = false) {
  const std::vector<float> x = probes(limit, positive);
  std::vector<float> y(x.size());
  unary(act, x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = reference_act(act, double{x[i]});
    if (std::fabs(want) > 3.4e38) {
      EXPECT_TRUE(std::isinf(y[i]) || std::fabs(y[i]) > 3.3e38f) << "f(" << x[i] << ") = " << y[i];
      continue;
    }
    const double bound =
        relative * std::fabs(want) + absolute + 1.2e-38;  // results below that may be flushed
    ASSERT_LE(std::fabs(want - double{y[i]}), bound)
        << "activation " << static_cast<int>(act.kind) << " f(" << x[i] << ") = " << y[i]
        << ", want " << want;
  }
}

TEST(VecMath, AccurateOverTheWholeRange) {
  for_each_isa([] {
    check({Act::kExp, 0, 0}, 2e-7, 0);
    check({Act::kLog, 0, 0}, 2e-7, 0, 3e38f, true);
    check({Act::kErf, 0, 0}, 5e-7, 0);
    check({Act::kTanh, 0, 0}, 4e-7, 0);
    check({Act::kSigmoid, 0, 0}, 4e-7, 0);
    check(swish(), 5e-7, 4e-37, 1e30f);  // exp(-x) overflows where the result is about to vanish
    check({Act::kGelu, 0, 0}, 5e-7, 1.2e-6, 1e30f);
    check({Act::kGeluTanh, 0, 0}, 5e-7, 1.2e-6, 1e10f);
    check({Act::kElu, 1.5f, 0}, 4e-7, 0);
    check({Act::kSelu, 1.67326319217681884765625f, 1.05070102214813232421875f}, 5e-7, 0, 1e30f);
    check({Act::kCelu, 2, 0}, 5e-7, 0);
    check({Act::kSoftplus, 0, 0}, 6e-7, 0);
    check({Act::kMish, 0, 0}, 1e-6, 0, 1e30f);
    check({Act::kSoftsign, 0, 0}, 3e-7, 0, 1e30f);
    check(hard_swish(), 3e-7, 1e-7, 1e18f);
    check(hard_sigmoid(), 3e-7, 1e-7);
    for (const Act exact : {Act::kNone, Act::kRelu, Act::kAbs, Act::kNeg, Act::kFloor, Act::kCeil,
                            Act::kRound, Act::kSign})
      check({exact, 0, 0}, 0, 0);
    check({Act::kClip, -1, 2}, 0, 0);
    check({Act::kLeakyRelu, .1f, 0}, 1e-7, 0);
    check({Act::kThresholdedRelu, 1, 0}, 0, 0);
    check({Act::kSqrt, 0, 0}, 1e-7, 0, 3e38f, true);
    check({Act::kReciprocal, 0, 0}, 1e-7, 0);
    check({Act::kSquare, 0, 0}, 1e-7, 0);
  });
}

float one(const Activation& act, float x) {
  float y = 0;
  unary(act, &x, &y, 1);
  return y;
}

TEST(VecMath, SpecialValues) {
  for_each_isa([] {
    const float inf = INFINITY;
    for (int k = 0; k < static_cast<int>(Act::kCount); ++k) {
      const Act a = static_cast<Act>(k);
      if (a == Act::kThresholdedRelu) continue;  // NaN > alpha is false: 0
      EXPECT_TRUE(std::isnan(one({a, 1, 1}, NAN))) << "NaN must pass through activation " << k;
    }
    EXPECT_EQ(one({Act::kExp, 0, 0}, inf), inf);
    EXPECT_EQ(one({Act::kExp, 0, 0}, -inf), 0);
    EXPECT_EQ(one({Act::kExp, 0, 0}, 0), 1);
    EXPECT_EQ(one({Act::kLog, 0, 0}, 0), -inf);
    EXPECT_EQ(one({Act::kLog, 0, 0}, inf), inf);
    EXPECT_EQ(one({Act::kLog, 0, 0}, 1), 0);
    EXPECT_TRUE(std::isnan(one({Act::kLog, 0, 0}, -1)));
    EXPECT_EQ(one({Act::kErf, 0, 0}, inf), 1);
    EXPECT_EQ(one({Act::kErf, 0, 0}, -5), -1);
    EXPECT_EQ(one({Act::kTanh, 0, 0}, -inf), -1);
    EXPECT_EQ(one({Act::kTanh, 0, 0}, 30), 1);
    EXPECT_EQ(one({Act::kSigmoid, 0, 0}, -inf), 0);
    EXPECT_EQ(one({Act::kSigmoid, 0, 0}, inf), 1);
    EXPECT_EQ(one({Act::kGelu, 0, 0}, -20), 0);
    EXPECT_EQ(one({Act::kGelu, 0, 0}, 20), 20);
    EXPECT_EQ(one({Act::kSoftplus, 0, 0}, inf), inf);
    EXPECT_EQ(one({Act::kMish, 0, 0}, 100), 100);
    EXPECT_EQ(one({Act::kElu, 2, 0}, -inf), -2);
    EXPECT_TRUE(std::signbit(one({Act::kErf, 0, 0}, -0.f)));
    EXPECT_NEAR(one({Act::kLog, 0, 0}, 1e-40f), std::log(1e-40),
                1e-4);  // a denormal, outside flush-to-zero
    EXPECT_NEAR(one({Act::kExp, 0, 0}, -100), std::exp(-100.), 2e-45);
  });
}

}  // namespace
}  // namespace train::cpu
