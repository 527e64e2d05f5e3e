// A short hand for building graphs in tests, with seeded random weights.
#pragma once
#include <random>
#include <string>

#include "libtrain/graph/graph.h"
#include "libtrain/ops/nn.h"

namespace train::testing {

inline Tensor random_tensor(const Shape& shape, std::mt19937& rng, float lo = -1, float hi = 1) {
  Tensor t(shape);
  std::uniform_real_distribution<float> u(lo, hi);
  for (float& v : t.span<float>()) v = u(rng);
  return t;
}

class GraphBuilder {
 public:
  explicit GraphBuilder(unsigned seed = 1) : rng(seed) {}

  ValueId input(std::vector<int64_t> dims, DType dtype = DType::kF32) {
    const ValueId v = graph.add_value("input" + std::to_string(graph.inputs.size()));
    graph.inputs.push_back({v, dtype, std::move(dims)});
    return v;
  }
  ValueId weight(const Shape& shape, float lo = -1, float hi = 1) {
    return graph.add_constant("w" + std::to_string(graph.values.size()),
                              random_tensor(shape, rng, lo, hi));
  }
  ValueId scalar(float v) { return graph.add_constant("s", Tensor::from<float>({1}, {v})); }
  ValueId ints(std::vector<int64_t> v) {
    return graph.add_constant(
        "i", Tensor::from<int64_t>({static_cast<int64_t>(v.size())}, std::span<const int64_t>(v)));
  }
  ValueId add(std::shared_ptr<const Op> op, std::vector<ValueId> inputs) {
    const std::string name = "n" + std::to_string(graph.nodes.size());
    const ValueId v = graph.add_value(name + ".out");
    graph.add_node(name, std::move(op), std::move(inputs), {v});
    return v;
  }
  ValueId conv(ValueId x, int64_t cin, int64_t cout, int k, int stride = 1, int64_t groups = 1) {
    Window w;
    w.strides = {stride, stride};
    w.pads = {k / 2, k / 2, k / 2, k / 2};
    return add(std::make_shared<ConvOp>(w, groups),
               {x, weight({cout, cin / groups, k, k}, -.3f, .3f), weight({cout})});
  }
  ValueId batch_norm(ValueId x, int64_t c) {
    return add(std::make_shared<BatchNormOp>(),
               {x, weight({c}, .5f, 2), weight({c}), weight({c}), weight({c}, .2f, 2)});
  }
  ValueId binary(BinaryKind kind, ValueId a, ValueId b) {
    return add(std::make_shared<BinaryOp>(kind), {a, b});
  }
  ValueId unary(const char* name, cpu::Activation act, ValueId x) {
    return add(std::make_shared<UnaryOp>(name, act), {x});
  }
  /// x * clip(x + 3, 0, 6) / 6, as exporters write it.
  ValueId spelled_hard_swish(ValueId x) {
    const ValueId clipped = unary("Clip", cpu::clip(0, 6), binary(BinaryKind::kAdd, x, scalar(3)));
    return binary(BinaryKind::kDiv, binary(BinaryKind::kMul, x, clipped), scalar(6));
  }
  /// x/2 (1 + erf(x / sqrt 2)), as exporters write it.
  ValueId spelled_gelu(ValueId x) {
    const ValueId erf =
        unary("Erf", {cpu::Act::kErf, 0, 0}, binary(BinaryKind::kDiv, x, scalar(1.41421356f)));
    return binary(BinaryKind::kMul,
                  binary(BinaryKind::kMul, x, binary(BinaryKind::kAdd, erf, scalar(1))),
                  scalar(.5f));
  }
  Graph finish(std::vector<ValueId> outputs) {
    graph.outputs = std::move(outputs);
    graph.validate();
    return std::move(graph);
  }

  std::mt19937 rng;
  Graph graph;
};

}  // namespace train::testing
