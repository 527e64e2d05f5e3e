#include "libtrain/graph/fuse.h"
#include "libtrain/graph/rewriter.h"

namespace train {
namespace {

// The mean over the last axis of `x`, keeping it: returns x.
std::optional<ValueId> last_axis_mean(Rewriter& r, ValueId v,
                                      const std::vector<std::optional<Shape>>& shapes) {
  const Node* n = r.producer(v);
  return n && is_mean_over(*n, shapes, 1) ? std::optional(n->inputs[0]) : std::nullopt;
}

bool is_square(Rewriter& r, const Node& n) {
  if (Rewriter::is_binary(n, BinaryKind::kPow)) return r.scalar(n.inputs[1]) == 2.f;
  return Rewriter::is_binary(n, BinaryKind::kMul) && n.inputs[0] == n.inputs[1];
}

struct Match {
  ValueId x;
  float epsilon;
};

// n = d / sqrt(mean(d^2) + eps) with d = x - mean(x).
std::optional<Match> normalised(Rewriter& r, const Node& n,
                                const std::vector<std::optional<Shape>>& shapes) {
  if (!Rewriter::is_binary(n, BinaryKind::kDiv)) return std::nullopt;
  const ValueId d = n.inputs[0];
  const Node* sub = r.producer(d);
  if (!sub || !Rewriter::is_binary(*sub, BinaryKind::kSub)) return std::nullopt;
  const auto x = last_axis_mean(r, sub->inputs[1], shapes);
  if (!x || *x != sub->inputs[0]) return std::nullopt;
  const Node* root = r.producer(n.inputs[1]);
  if (!root || !Rewriter::is_unary(*root, cpu::Act::kSqrt)) return std::nullopt;
  const Node* add = r.producer(root->inputs[0]);
  if (!add || !Rewriter::is_binary(*add, BinaryKind::kAdd)) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    const auto epsilon = r.scalar(add->inputs[1 - side]);
    const auto square = last_axis_mean(r, add->inputs[side], shapes);
    if (!epsilon || !square) continue;
    const Node* pow = r.producer(*square);
    if (!pow || !is_square(r, *pow)) continue;
    const Node* base =
        r.producer(pow->inputs[0]);  // the difference, perhaps computed a second time
    if (pow->inputs[0] == d ||
        (base && Rewriter::is_binary(*base, BinaryKind::kSub) && base->inputs == sub->inputs))
      return Match{*x, *epsilon};
  }
  return std::nullopt;
}

}  // namespace

void fuse_layer_norm(Graph& graph) {
  Rewriter r(graph);
  const auto shapes = probe_shapes(graph);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    if (!n.op) continue;
    if (const auto m = normalised(r, n, shapes)) {
      r.become(n, std::make_shared<LayerNormOp>(-1, m->epsilon), {m->x});
      continue;
    }
    // The scale, then the bias, of the last axis.
    const bool mul = Rewriter::is_binary(n, BinaryKind::kMul),
               add = Rewriter::is_binary(n, BinaryKind::kAdd);
    for (int side = 0; (mul || add) && side < 2; ++side) {
      const ValueId parameter = n.inputs[1 - side];
      Node* norm = r.sole<LayerNormOp>(n.inputs[side]);
      if (!norm || !shapes[n.inputs[side]]) continue;
      const int64_t size = shapes[n.inputs[side]]->dim(-1);
      if (!r.per_last_axis(parameter, size) || norm->inputs.size() != (mul ? 1u : 2u)) continue;
      std::vector<ValueId> inputs = norm->inputs;
      inputs.push_back(
          r.add_constant(n.name + ".parameter", r.graph_constant(parameter)->reshaped({size})));
      r.become(n, norm->op, inputs);
      break;
    }
  }
  graph.remove_dead();
}

}  // namespace train
