// Which products of a net multiply bf16.
#include "libtrain/graph/passes.h"
#include "libtrain/graph/rewriter.h"

namespace train {
namespace {

// The islands of f32: what reads the net's input, and what works on pooled values (gates, the last
// product of a classifier), which costs next to nothing and scales everything after it.
bool is_island(const Graph& graph, ValueId x, const std::optional<Shape>& shape) {
  for (const GraphInput& in : graph.inputs)
    if (in.value == x) return true;
  if (!shape) return true;
  return shape->rank() == 4 ? (*shape)[2] == 1 && (*shape)[3] == 1 : shape->rank() < 3;
}

}  // namespace

void lower_to_bf16(Graph& graph) {
  const auto shapes = probe_shapes(graph);
  for (Node& n : graph.nodes) {
    if (!n.op || n.inputs.size() < 2 || n.inputs[1] == kNoValue) continue;
    const Tensor* weights = graph.constant(n.inputs[1]);
    if (!weights || is_island(graph, n.inputs[0], shapes[n.inputs[0]])) continue;
    if (const auto* conv = Rewriter::as<ConvOp>(n)) {
      if (conv->groups > 1 && weights->shape()[1] == 1) continue;  // depthwise
      auto lowered = std::make_shared<ConvOp>(*conv);
      lowered->precision = cpu::Precision::kBf16;
      n.op = std::move(lowered);
    } else if (const auto* product = Rewriter::as<MatMulOp>(n)) {
      if (weights->shape().rank() != 2 || product->alpha != 1) continue;
      auto lowered = std::make_shared<MatMulOp>(*product);
      lowered->precision = cpu::Precision::kBf16;
      n.op = std::move(lowered);
    }
  }
}

}  // namespace train
