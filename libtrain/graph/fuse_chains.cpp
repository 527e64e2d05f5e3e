#include "libtrain/graph/fuse.h"
#include "libtrain/graph/rewriter.h"
#include "libtrain/ops/chain.h"

namespace train {
namespace {

bool rowwise(const Rewriter& r, const Node& n) {
  if (!Rewriter::as<ConvOp>(n) && !Rewriter::as<ConvTransposeOp>(n)) return false;
  const Tensor* w = r.graph_constant(n.inputs[1]);
  return w && ChainOp::rowwise(*n.op, w->shape());
}

}  // namespace

void fuse_chains(Graph& graph) {
  Rewriter r(graph);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    if (!n.op || !rowwise(r, n)) continue;
    const Node* first = r.producer(n.inputs[0]);
    if (!first || r.uses(n.inputs[0]) != 1 || !rowwise(r, *first)) continue;
    std::vector<ValueId> inputs = first->inputs;
    inputs.insert(inputs.end(), n.inputs.begin() + 1, n.inputs.end());
    r.become(n, std::make_shared<ChainOp>(first->op, first->inputs.size(), n.op), inputs);
  }
  graph.remove_dead();
}

}  // namespace train
