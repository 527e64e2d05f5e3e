// Parallel branches computed at once against branches computed one by one in f64.
#include "libtrain/autograd/branches.h"

#include <gtest/gtest.h>

#include "tests/support/gradient_check.h"
#include "tests/support/reference_nn.h"

namespace train {
namespace {

struct Case {
  Shape x;
  int64_t out;
  int branches;
  bool identity;
};

std::vector<CheckInput> inputs_of(Draw& d, const Case& k, double offset) {
  std::vector<CheckInput> in{{k.x, d.values(k.x.numel(), 2)}};
  for (double& v : in[0].values) v = static_cast<float>(v + offset);
  const auto vector = [&](int64_t n) { in.push_back({{n}, d.values(n), true}); };
  for (int i = 0; i < k.branches; ++i) {
    in.push_back({{k.out, k.x[1], 1, 1}, d.values(k.out * k.x[1]), true});
    vector(k.out), vector(k.out);
  }
  if (k.identity) vector(k.out), vector(k.out);
  return in;
}

// One branch after another.
auto reference_of(const Case& k) {
  return [k](const auto& in) {
    const int64_t n = k.x[0], pixels = k.x[2] * k.x[3];
    const auto norm = [&](const auto& z, size_t at) {
      return reference::batch_norm(z, in[at], in[at + 1], n, k.out, pixels, 1e-5f, {});
    };
    reference::Conv conv{.n = n, .cin = k.x[1], .h = k.x[2], .w = k.x[3], .cout = k.out};
    std::decay_t<decltype(in[0])> y(static_cast<size_t>(n * k.out * pixels));
    const auto more = [&](const auto& z) {
      for (size_t i = 0; i < y.size(); ++i) y[i] += z[i];
    };
    for (size_t i = 0; i < static_cast<size_t>(k.branches); ++i) {
      std::decay_t<decltype(in[0])> z(y.size());
      conv.each([&](int64_t to, int64_t x, int64_t w) { z[to] += in[0][x] * in[1 + 3 * i][w]; });
      more(norm(z, 2 + 3 * i));
    }
    if (k.identity) more(norm(in[0], in.size() - 2));
    return y;
  };
}

TEST(PointwiseBranches, AgreeWithBranchesOneByOne) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Draw d(seed, "branches");
    Case k{{d.in(1, 3), d.in(1, 12), d.in(2, 7), d.in(2, 9)},
           0,
           static_cast<int>(d.in(1, 4)),
           d.chance(2)};
    if (seed == 7) k.x = {3, 6, 13, 17};  // several blocks of rows
    k.out = k.identity ? k.x[1] : d.in(1, 20);
    const auto in = inputs_of(d, k, seed % 3 ? 0 : 3);
    const auto op = std::make_shared<PointwiseBranchesOp>(k.branches, k.identity, 1e-5f);
    check_gradient(
        seed, in,
        [&](Tape& t, auto& v) { return t.apply(op, v, PointwiseBranchesOp::kOutputs)[0]; },
        reference_of(k), {.factor = 200, .absolute = 2e-6});
    if (seed < 2 && k.x.numel() < 200) check_finite_differences(seed, in, reference_of(k), 3e-5);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace train
