#include "libtrain/graph/passes.h"

#include <algorithm>

#include "libtrain/graph/evaluate.h"
#include "libtrain/graph/fuse.h"
#include "libtrain/graph/instance.h"
#include "libtrain/graph/rewriter.h"
#include "libtrain/ops/best.h"

namespace train {
namespace {

constexpr int64_t kMaxFoldedBytes = int64_t{1}
                                    << 28;  // a small file must not unfold into gigabytes

// x * 1 (of f32; exporters write it for a swish with beta = 1).
bool is_times_one(const Rewriter& r, const Node& n) {
  return Rewriter::is_binary(n, BinaryKind::kMul) && r.scalar(n.inputs[1]) == 1.f &&
         r.graph_constant(n.inputs[1])->shape().rank() == 0;
}

// Identities (and dropout, which is one at inference) vanish; a graph output keeps its own value.
void drop_identities(Graph& graph) {
  Rewriter r(graph);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    if (!n.op) continue;
    if (n.op->type() != "Identity" && n.op->type() != "Dropout" && !is_times_one(r, n)) continue;
    if (n.outputs.size() > 1 && n.outputs[1] != kNoValue && r.uses(n.outputs[1]) > 0) continue;
    const ValueId from = n.outputs[0], to = n.inputs[0];
    if (std::ranges::find(graph.outputs, from) != graph.outputs.end()) continue;
    r.redirect(from, to);
  }
  graph.remove_dead();
}

}  // namespace

void fold_constants(Graph& graph) {
  int64_t bytes = 0;
  for (Node& n : graph.nodes) {
    std::vector<ValueInfo> in, out(n.outputs.size());
    bool constant = n.op->reads_data();  // what depends on shapes alone is known later
    for (ValueId v : n.inputs) {
      const Tensor* t = graph.constant(v);
      if (v != kNoValue && !t) constant = false;
      in.push_back(v == kNoValue || !t ? ValueInfo::absent() : ValueInfo(t->shape(), t->dtype()));
      in.back().constant = t;
    }
    if (!constant) continue;
    try {
      n.op->infer(in, out);
      int64_t size = 0;
      for (const ValueInfo& o : out)
        size += o.shape.numel() * static_cast<int64_t>(size_of(o.dtype));
      if ((bytes += size) > kMaxFoldedBytes)
        throw ShapeError("its constant results need too much memory");
      PackStore packs(1);
      auto results = evaluate_op(*n.op, in, out, packs.of(0));
      for (size_t i = 0; i < results.size(); ++i)
        if (n.outputs[i] != kNoValue) graph.values[n.outputs[i]].constant = std::move(results[i]);
      n.op = nullptr;
    } catch (const ShapeError& e) {
      throw ShapeError(cat("node '", n.name, "' (", n.op->type(), "): ", e.what()));
    }
  }
  graph.remove_dead();
}

void optimize(Graph& graph, cpu::Precision precision) {
  drop_identities(graph);
  fold_constants(graph);
  drop_identities(graph);  // folding uncovers products with one
  fuse_activations(graph);
  fuse_layer_norm(graph);
  fuse_residual_gates(graph);
  // A fold uncovers the next (conv, affine, activation, affine, residual): repeat until nothing
  // changes.
  while (fuse_into_convs(graph) || fuse_into_matmuls(graph)) {
  }
  fuse_residuals(graph);
  while (fuse_into_convs(graph)) {  // an activation after a residual
  }
  commute_pools(graph);
  fuse_pyramids(graph);
  if (precision == cpu::Precision::kBf16) lower_to_bf16(graph);
  fuse_chains(graph);  // of steps whose precision is settled
}

bool keep_best_class(Graph& graph, size_t output, int64_t extra_class) {
  drop_identities(graph);
  Rewriter r(graph);
  Node* n = r.producer(graph.outputs[output]);
  while (n && n->op->type() == "Identity")
    n = r.producer(n->inputs[0]);  // an output keeps its Identity
  const auto* softmax = n ? Rewriter::as<SoftmaxOp>(*n) : nullptr;
  if (!softmax || softmax->log || r.uses(n->outputs[0]) != 1) return false;
  const auto shape = probe_shapes(graph)[n->inputs[0]];
  if (!shape || shape->axis(softmax->axis) != shape->rank() - 1 || extra_class >= shape->dim(-1))
    return false;
  r.become(*n, std::make_shared<SoftmaxBestOp>(extra_class), {n->inputs[0]});
  return true;
}

}  // namespace train
