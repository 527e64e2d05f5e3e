// Holds an op's output and gradients in f32, over 1, 2 and 3 threads, to an f64 reference; and the
// reference to finite differences.
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "libtrain/autograd/tape.h"
#include "tests/support/autodiff.h"
#include "tests/support/random_shapes.h"

namespace train {

/// One input of a case: differentiated unless `fixed`; `parameter`: a weight, else data, which odd
/// seeds give channels-last where it has rank 4.
struct CheckInput {
  Shape shape;
  reference::Vec values;
  bool parameter = false;
  bool fixed = false;
};

struct CheckLimits {
  double factor = 32;  // errors in units of 2^-24 times the sum of magnitudes
  double absolute = 1e-30;
};

namespace check_detail {

inline Variable make_input(Eager& eager, const CheckInput& in, uint64_t seed) {
  const Tensor t = to_f32(in.shape, in.values);
  if (in.parameter) {
    Variable v = Variable::parameter(t);
    v.set_requires_grad(!in.fixed);
    return v;
  }
  Array a(t);
  if (in.shape.rank() == 4 && seed % 2) a = eager.to_layout(a, Layout::kChannelsLast);
  Variable v = Variable::input(a.tensor, a.layout);
  v.set_requires_grad(!in.fixed);
  return v;
}

inline Tensor linear(Eager& eager, const Tensor& t, Layout layout) {
  return eager.to_layout(Array(t, layout), Layout::kLinear).tensor;
}

template <class T>
std::vector<std::vector<T>> reals(const std::vector<CheckInput>& inputs) {
  std::vector<std::vector<T>> x;
  for (const CheckInput& in : inputs) {
    x.emplace_back();
    for (const double v : in.values)
      if constexpr (std::is_same_v<T, double>)
        x.back().push_back(v);
      else
        x.back().push_back(in.fixed ? T(v) : T::leaf(v));
  }
  return x;
}

}  // namespace check_detail

/// `run(tape, variables)` computes in f32, `ref(inputs)` the same on vectors of double or
/// reference::Real in linear order (a generic callable). The output's gradient is drawn from the
/// seed.
template <class Run, class Ref>
void check_gradient(uint64_t seed, const std::vector<CheckInput>& inputs, Run&& run, Ref&& ref,
                    const CheckLimits& limits = {}) {
  using reference::Real;
  SCOPED_TRACE(cat("seed ", seed));
  Real::clear();
  auto x = check_detail::reals<Real>(inputs);
  const std::vector<Real> y = ref(x);
  Draw draw(seed, "output gradient");
  const reference::Vec dy = draw.values(static_cast<int64_t>(y.size()));
  reference::Vec grad, magnitude;
  Real::backward(y, dy, grad, magnitude);

  std::vector<Tensor> first;  // y, then the gradients
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const PoolScope scope(&pool);
    Eager eager;
    Tape tape(eager, true, seed);
    std::vector<Variable> variables;
    for (const CheckInput& in : inputs)
      variables.push_back(check_detail::make_input(eager, in, seed));
    const Variable out = run(tape, variables);
    ASSERT_EQ(static_cast<size_t>(out.value().numel()), y.size());
    tape.backward(out, to_f32(out.shape(), dy));
    std::vector<Tensor> now{check_detail::linear(eager, out.value(), out.layout())};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].fixed) {
        ASSERT_TRUE(variables[i].grad().defined()) << "no gradient reached input " << i;
        now.push_back(check_detail::linear(eager, variables[i].grad(), variables[i].layout()));
      }
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i)
      ASSERT_EQ(std::memcmp(now[i].raw(), first[i].raw(), now[i].bytes()), 0)
          << "bits of result " << i << " with " << threads << " threads";
  }
  const double unit = 0x1p-24 * limits.factor;
  double largest = 0;
  for (const Real& v : y) largest = std::max(largest, std::abs(v.value()));
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_NEAR(first[0].data<float>()[i], y[i].value(), unit * largest + limits.absolute)
        << "output " << i;
  size_t at = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].fixed) continue;
    const float* got = first[at++].data<float>();
    for (size_t j = 0; j < x[i].size(); ++j) {
      const int64_t entry = x[i][j].index();
      ASSERT_NEAR(got[j], grad[entry], unit * magnitude[entry] + limits.absolute)
          << "gradient of input " << i << ", element " << j;
    }
  }
}

/// The gradient that Real gives for `ref` against central differences of the same code on doubles.
template <class Ref>
void check_finite_differences(uint64_t seed, const std::vector<CheckInput>& inputs, Ref&& ref,
                              double tolerance = 1e-7) {
  using reference::Real;
  SCOPED_TRACE(cat("seed ", seed));
  Real::clear();
  auto x = check_detail::reals<Real>(inputs);
  const std::vector<Real> y = ref(x);
  Draw draw(seed, "output gradient");
  const reference::Vec dy = draw.values(static_cast<int64_t>(y.size()));
  reference::Vec grad, magnitude;
  Real::backward(y, dy, grad, magnitude);
  auto plain = check_detail::reals<double>(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].fixed) continue;
    reference::Vec g;
    for (const Real& r : x[i]) g.push_back(grad[r.index()]);
    const auto f = [&](const reference::Vec& v) {
      auto at = plain;
      at[i] = v;
      return reference::dot(ref(at), dy);
    };
    EXPECT_LT(reference::finite_difference_error(f, inputs[i].values, g), tolerance)
        << "input " << i;
  }
}

}  // namespace train
