#include <cmath>

#include "libtrain/graph/fuse.h"
#include "libtrain/graph/rewriter.h"

namespace train {
namespace {

bool near(std::optional<float> v, double wanted) {
  return v && std::abs(*v - wanted) <= 1e-6 * std::max(1.0, std::abs(wanted));
}

// A commutative binary node with a scalar constant operand: the other operand and the scalar.
struct WithScalar {
  ValueId x = kNoValue;
  float scalar = 0;
};
std::optional<WithScalar> with_scalar(const Rewriter& r, const Node& n) {
  if (const auto s = r.scalar(n.inputs[1])) return WithScalar{n.inputs[0], *s};
  if (const auto s = r.scalar(n.inputs[0])) return WithScalar{n.inputs[1], *s};
  return std::nullopt;
}

// Multiplication by a scalar, spelled Mul or Div.
std::optional<WithScalar> scaled(const Rewriter& r, const Node& n) {
  if (Rewriter::is_binary(n, BinaryKind::kMul)) return with_scalar(r, n);
  if (!Rewriter::is_binary(n, BinaryKind::kDiv)) return std::nullopt;
  const auto s = r.scalar(n.inputs[1]);
  if (!s || *s == 0) return std::nullopt;
  return WithScalar{n.inputs[0], 1 / *s};
}

// v = clip(x + 3, 0, 6): returns x.
std::optional<ValueId> relu6_plus3(Rewriter& r, ValueId v) {
  const Node* clip = r.producer(v);
  if (!clip || !Rewriter::is_unary(*clip, cpu::Act::kClip)) return std::nullopt;
  const auto& act = Rewriter::as<UnaryOp>(*clip)->activation;
  const Node* add = r.producer(clip->inputs[0]);
  if (act.alpha != 0 || act.beta != 6 || !add || !Rewriter::is_binary(*add, BinaryKind::kAdd))
    return std::nullopt;
  const auto x = with_scalar(r, *add);
  return x && near(x->scalar, 3) ? std::optional(x->x) : std::nullopt;
}

std::shared_ptr<const Op> unary(const char* name, cpu::Activation act) {
  return std::make_shared<UnaryOp>(name, act);
}

// HardSigmoid: clip(x + 3, 0, 6) / 6.
bool fuse_hard_sigmoid(Rewriter& r, Node& n) {
  const auto s = scaled(r, n);
  if (!s || !near(s->scalar, 1.0 / 6)) return false;
  const auto x = relu6_plus3(r, s->x);
  if (!x) return false;
  r.become(n, unary("HardSigmoid", cpu::hard_sigmoid(1.f / 6, .5f)), {*x});
  return true;
}

// HardSwish: x * clip(x + 3, 0, 6) / 6, the scale at the end.
bool fuse_scaled_hard_swish(Rewriter& r, Node& n) {
  const auto s = scaled(r, n);
  if (!s || !near(s->scalar, 1.0 / 6)) return false;
  const Node* mul = r.producer(s->x);
  if (!mul || !Rewriter::is_binary(*mul, BinaryKind::kMul)) return false;
  for (int side = 0; side < 2; ++side)
    if (const auto x = relu6_plus3(r, mul->inputs[1 - side]); x && *x == mul->inputs[side]) {
      r.become(n, unary("HardSwish", cpu::hard_swish()), {*x});
      return true;
    }
  return false;
}

// x * sigmoid(a x): a Swish.
bool fuse_swish(Rewriter& r, Node& n) {
  if (!Rewriter::is_binary(n, BinaryKind::kMul)) return false;
  for (int side = 0; side < 2; ++side) {
    const Node* gate = r.producer(n.inputs[1 - side]);
    if (!gate || !Rewriter::is_unary(*gate, cpu::Act::kSigmoid)) continue;
    const Node* inner = r.producer(gate->inputs[0]);
    const auto s = inner ? scaled(r, *inner) : std::nullopt;
    if (!s || s->x != n.inputs[side]) continue;
    r.become(n, unary("Swish", {cpu::Act::kSwish, s->scalar, 0}), {s->x});
    return true;
  }
  return false;
}

// x * sigmoid(x), x * hardsigmoid(x).
bool fuse_gated(Rewriter& r, Node& n) {
  if (!Rewriter::is_binary(n, BinaryKind::kMul)) return false;
  for (int side = 0; side < 2; ++side) {
    const ValueId x = n.inputs[side];
    const Node* gate = r.producer(n.inputs[1 - side]);
    if (!gate || gate->inputs.size() != 1 || gate->inputs[0] != x) continue;
    if (Rewriter::is_unary(*gate, cpu::Act::kSigmoid)) {
      r.become(n, unary("Swish", cpu::swish()), {x});
      return true;
    }
    if (Rewriter::is_unary(*gate, cpu::Act::kHardSigmoid)) {
      const auto act = Rewriter::as<UnaryOp>(*gate)->activation;
      r.become(n, unary("HardSwish", {cpu::Act::kHardSwish, act.alpha, act.beta}), {x});
      return true;
    }
  }
  return false;
}

// v = 1 + erf(x / sqrt 2): returns x.
std::optional<ValueId> one_plus_erf(Rewriter& r, ValueId v) {
  const Node* add = r.producer(v);
  if (!add || !Rewriter::is_binary(*add, BinaryKind::kAdd)) return std::nullopt;
  const auto plus = with_scalar(r, *add);
  if (!plus || !near(plus->scalar, 1)) return std::nullopt;
  const Node* erf = r.producer(plus->x);
  if (!erf || !Rewriter::is_unary(*erf, cpu::Act::kErf)) return std::nullopt;
  const Node* inner = r.producer(erf->inputs[0]);
  const auto s = inner ? scaled(r, *inner) : std::nullopt;
  return s && near(s->scalar, M_SQRT1_2) ? std::optional(s->x) : std::nullopt;
}

// GELU = x/2 (1 + erf(x / sqrt 2)), the half applied to the product, to x or to the bracket.
bool fuse_gelu(Rewriter& r, Node& n) {
  if (!Rewriter::is_binary(n, BinaryKind::kMul) && !Rewriter::is_binary(n, BinaryKind::kDiv))
    return false;
  const auto half_of = [&](ValueId v) -> ValueId {
    const Node* p = r.producer(v);
    const auto s = p ? scaled(r, *p) : std::nullopt;
    return s && near(s->scalar, .5) ? s->x : kNoValue;
  };
  ValueId x = kNoValue;
  if (const auto s = scaled(r, n); s && near(s->scalar, .5)) {
    const Node* mul = r.producer(s->x);
    if (!mul || !Rewriter::is_binary(*mul, BinaryKind::kMul)) return false;
    for (int side = 0; side < 2; ++side)
      if (const auto e = one_plus_erf(r, mul->inputs[1 - side]); e && *e == mul->inputs[side])
        x = *e;
  } else if (Rewriter::is_binary(n, BinaryKind::kMul)) {
    for (int side = 0; side < 2 && x == kNoValue; ++side) {
      const ValueId a = n.inputs[side], b = n.inputs[1 - side];
      if (const auto e = one_plus_erf(r, b); e && half_of(a) == *e) x = *e;
      const ValueId bracket = half_of(b);
      if (bracket == kNoValue) continue;
      if (const auto e = one_plus_erf(r, bracket); e && *e == a) x = *e;
    }
  }
  if (x == kNoValue) return false;
  r.become(n, unary("Gelu", {cpu::Act::kGelu, 0, 0}), {x});
  return true;
}

}  // namespace

void fuse_activations(Graph& graph) {
  Rewriter r(graph);
  const auto shapes = probe_shapes(graph);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    if (!n.op) continue;
    if (is_mean_over(n, shapes, 2) && shapes[n.inputs[0]]->rank() == 4) {
      r.become(n, std::make_shared<GlobalPoolOp>(PoolKind::kAverage), {n.inputs[0]});
      continue;
    }
    fuse_hard_sigmoid(r, n) || fuse_scaled_hard_swish(r, n) || fuse_gated(r, n) ||
        fuse_swish(r, n) || fuse_gelu(r, n);
  }
  graph.remove_dead();
}

void fuse_residual_gates(Graph& graph) {
  Rewriter r(graph);
  const auto shapes = probe_shapes(graph);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    if (!n.op || !Rewriter::is_binary(n, BinaryKind::kAdd)) continue;
    for (const int side : {0, 1}) {
      Node* mul = r.sole<BinaryOp>(n.inputs[1 - side]);
      if (!mul || !Rewriter::is_binary(*mul, BinaryKind::kMul)) continue;
      const ValueId x = n.inputs[side];
      const int at = mul->inputs[0] == x ? 0 : mul->inputs[1] == x ? 1 : -1;
      const ValueId gate = at < 0 ? kNoValue : mul->inputs[1 - at];
      if (gate == kNoValue || gate == x || !shapes[x] || !shapes[gate]) continue;
      if (shapes[gate]->numel() >= shapes[x]->numel() || graph.constant(gate)) continue;
      const ValueId one = r.add_constant(mul->name + ".one", Tensor::scalar(1.f));
      const ValueId product = mul->outputs[0];
      r.become(*mul, std::make_shared<BinaryOp>(BinaryKind::kAdd), {gate, one});
      r.become(n, std::make_shared<BinaryOp>(BinaryKind::kMul), {x, product});
      break;
    }
  }
  graph.remove_dead();
}

}  // namespace train
