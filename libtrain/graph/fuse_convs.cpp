#include <cmath>

#include "libtrain/graph/fuse.h"
#include "libtrain/graph/rewriter.h"

namespace train {
namespace {

// y = scale[c] * x + shift[c], as a node after a convolution spells it.
struct Affine {
  std::vector<double> scale, shift;
};

std::optional<Affine> affine_of(const Rewriter& r, const Node& n, ValueId x, int64_t channels) {
  const auto c = static_cast<size_t>(channels);
  if (const auto* bn = Rewriter::as<BatchNormOp>(n)) {
    std::array<std::vector<double>, 4> p;
    for (size_t i = 0; i < 4; ++i) {
      const Tensor* t = r.graph_constant(n.inputs[i + 1]);
      if (!t || t->numel() != channels) return std::nullopt;
      p[i] = t->to_doubles();
    }
    Affine a{std::vector<double>(c), std::vector<double>(c)};
    for (size_t i = 0; i < c; ++i) {
      a.scale[i] = p[0][i] / std::sqrt(p[3][i] + bn->epsilon);
      a.shift[i] = p[1][i] - p[2][i] * a.scale[i];
    }
    return a;
  }
  const auto* op = Rewriter::as<BinaryOp>(n);
  if (!op || n.inputs.size() != 2) return std::nullopt;
  const bool first = n.inputs[0] == x;
  auto v = r.per_channel(n.inputs[first ? 1 : 0], channels);
  if (!v) return std::nullopt;
  Affine a{std::vector<double>(c, 1), std::vector<double>(c, 0)};
  switch (op->kind) {
    case BinaryKind::kAdd:
      a.shift = *v;
      return a;
    case BinaryKind::kMul:
      a.scale = *v;
      return a;
    case BinaryKind::kSub:
      if (!first)
        a.scale.assign(c, -1), a.shift = *v;
      else
        for (size_t i = 0; i < c; ++i) a.shift[i] = -(*v)[i];
      return a;
    case BinaryKind::kDiv:
      if (!first) return std::nullopt;
      for (size_t i = 0; i < c; ++i) {
        if ((*v)[i] == 0) return std::nullopt;
        a.scale[i] = 1 / (*v)[i];
      }
      return a;
    default:
      return std::nullopt;
  }
}

bool constant_over_channels(const std::vector<double>& v) {
  for (double d : v)
    if (d != v[0]) return false;
  return true;
}

// Weights of `out_axis` 0 (Conv: OIHW) or 1 (ConvTranspose: IOHW, O counted within its group) times
// scale[o].
Tensor scaled_weights(const Tensor& w, const std::vector<double>& scale, bool transposed,
                      int64_t groups) {
  Tensor out(w.shape(), DType::kF32);
  const Shape& s = w.shape();
  const int64_t inner = s.count(2, 4);
  for (int64_t a = 0; a < s[0]; ++a)
    for (int64_t b = 0; b < s[1]; ++b) {
      const int64_t o = transposed ? a / (s[0] / groups) * s[1] + b : a;
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t at = (a * s[1] + b) * inner + i;
        out.data<float>()[at] =
            static_cast<float>(w.data<float>()[at] * scale[static_cast<size_t>(o)]);
      }
    }
  return out;
}

template <class ConvT>
int64_t out_channels(const ConvT& op, const Shape& w) {
  if constexpr (std::is_same_v<ConvT, ConvOp>)
    return w[0];
  else
    return w[1] * op.groups;
}

// Takes the node `n` that reads conv `c` into it. Returns whether it did.
template <class ConvT>
bool absorb(Rewriter& r, Node& c, Node& n) {
  const auto& op = *Rewriter::as<ConvT>(c);
  const Tensor* w = r.graph_constant(c.inputs[1]);
  const ValueId bias_id = c.inputs.size() > 2 ? c.inputs[2] : kNoValue;
  if (!w || w->shape().rank() != 4 || w->dtype() != DType::kF32 ||
      (bias_id != kNoValue && !r.graph_constant(bias_id)))
    return false;
  auto fused = std::make_shared<ConvT>(op);
  cpu::Epilogue& e = fused->epilogue;
  if (const auto* act = Rewriter::as<UnaryOp>(n)) {
    if (e.act.kind != cpu::Act::kNone || e.post_scale != 1 || e.post_bias != 0 ||
        e.residual == cpu::Residual::kAfterAct)
      return false;
    e.act = act->activation;
    r.become(n, fused, c.inputs);
    return true;
  }
  const int64_t channels = out_channels(op, w->shape());
  const auto a = affine_of(r, n, c.outputs[0], channels);
  if (!a || e.residual != cpu::Residual::kNone) return false;
  if (e.act.kind != cpu::Act::kNone) {
    if (!constant_over_channels(a->scale) || !constant_over_channels(a->shift)) return false;
    e.post_scale = static_cast<float>(e.post_scale * a->scale[0]);
    e.post_bias = static_cast<float>(e.post_bias * a->scale[0] + a->shift[0]);
    r.become(n, fused, c.inputs);
    return true;
  }
  Tensor bias = Tensor::zeros({channels});
  if (bias_id != kNoValue) bias = r.graph_constant(bias_id)->clone();
  for (int64_t i = 0; i < channels; ++i) {
    const auto k = static_cast<size_t>(i);
    bias.data<float>()[i] = static_cast<float>(bias.data<float>()[i] * a->scale[k] + a->shift[k]);
  }
  const bool unit = constant_over_channels(a->scale) && a->scale[0] == 1;
  const ValueId weights =
      unit ? c.inputs[1]
           : r.add_constant(
                 n.name + ".weight",
                 scaled_weights(*w, a->scale, std::is_same_v<ConvT, ConvTransposeOp>, op.groups));
  const ValueId b = r.add_constant(n.name + ".bias", bias);
  r.become(n, fused, {c.inputs[0], weights, b});
  return true;
}

// The operand of `n` that a convolution makes for it alone.
template <class ConvT>
Node* conv_before(Rewriter& r, const Node& n) {
  if (!Rewriter::as<UnaryOp>(n) && !Rewriter::as<BatchNormOp>(n) && !Rewriter::as<BinaryOp>(n))
    return nullptr;
  for (size_t i = 0; i < n.inputs.size() && i < 2; ++i)
    if (Node* c = r.sole<ConvT>(n.inputs[i])) return c;
  return nullptr;
}

}  // namespace

bool fuse_into_convs(Graph& graph) {
  Rewriter r(graph);
  bool changed = false;
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    if (!n.op) continue;
    if (Node* c = conv_before<ConvOp>(r, n))
      changed |= absorb<ConvOp>(r, *c, n);
    else if (Node* t = conv_before<ConvTransposeOp>(r, n))
      changed |= absorb<ConvTransposeOp>(r, *t, n);
  }
  graph.remove_dead();
  return changed;
}

bool fuse_into_matmuls(Graph& graph) {
  Rewriter r(graph);
  bool changed = false;
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    if (!n.op) continue;
    const bool add = Rewriter::is_binary(n, BinaryKind::kAdd);
    if (!add && !Rewriter::as<UnaryOp>(n)) continue;
    for (int side = 0; side < (add ? 2 : 1); ++side) {
      Node* m = r.sole<MatMulOp>(n.inputs[side]);
      const Tensor* b = m ? r.graph_constant(m->inputs[1]) : nullptr;
      if (!b || b->shape().rank() != 2) continue;
      auto fused = std::make_shared<MatMulOp>(*Rewriter::as<MatMulOp>(*m));
      if (fused->alpha != 1 || fused->epilogue.act.kind != cpu::Act::kNone) continue;
      std::vector<ValueId> inputs = m->inputs;
      if (add) {
        const int64_t size = b->shape()[fused->trans_b ? 0 : 1];
        if (inputs.size() > 2 || !r.per_last_axis(n.inputs[1 - side], size)) continue;
        inputs.push_back(r.add_constant(n.name + ".bias",
                                        r.graph_constant(n.inputs[1 - side])->reshaped({size})));
      } else {
        fused->epilogue.act = Rewriter::as<UnaryOp>(n)->activation;
      }
      r.become(n, fused, inputs);
      changed = true;
      break;
    }
  }
  graph.remove_dead();
  return changed;
}

namespace {

// `n` = `p` + `other`: the convolution or product `p` adds it itself. Returns whether it can.
template <class OpT>
bool take_residual_as(Rewriter& r, const Node& p, Node& n, ValueId other) {
  const auto* op = Rewriter::as<OpT>(p);
  if (!op || p.inputs.size() > 3) return false;
  auto fused = std::make_shared<OpT>(*op);
  cpu::Epilogue& e = fused->epilogue;
  const bool plain = e.act.kind == cpu::Act::kNone && e.post_scale == 1 && e.post_bias == 0;
  e.residual = plain ? cpu::Residual::kBeforeAct : cpu::Residual::kAfterAct;
  std::vector<ValueId> inputs = p.inputs;
  inputs.resize(3, kNoValue);
  inputs.push_back(other);
  r.become(n, fused, inputs);
  return true;
}

bool take_residual(Rewriter& r, const Node& p, Node& n, ValueId other) {
  if (const auto* m = Rewriter::as<MatMulOp>(p)) {
    const Tensor* b = r.graph_constant(p.inputs[1]);  // only a packed product has an epilogue
    return b && b->shape().rank() == 2 && m->alpha == 1 &&
           take_residual_as<MatMulOp>(r, p, n, other);
  }
  return take_residual_as<ConvOp>(r, p, n, other);
}

}  // namespace

void fuse_residuals(Graph& graph) {
  Rewriter r(graph);
  const auto shapes = probe_shapes(graph);
  const auto equal = [&](ValueId a, ValueId b) {
    return shapes[a] && shapes[b] && *shapes[a] == *shapes[b];
  };
  // Resize first: in a feature pyramid the enlarged map then never exists by itself.
  for (const bool resize : {true, false})
    for (size_t i = 0; i < r.size(); ++i) {
      Node& n = r.node(i);
      if (!n.op || !Rewriter::is_binary(n, BinaryKind::kAdd) || n.inputs[0] == n.inputs[1])
        continue;
      if (!equal(n.inputs[0], n.inputs[1]) || graph.constant(n.inputs[0]) ||
          graph.constant(n.inputs[1]))
        continue;
      for (const int side : {1, 0}) {
        const ValueId other = n.inputs[1 - side];
        if (resize) {
          Node* p = r.sole<ResizeOp>(n.inputs[side]);
          if (!p || p->inputs.size() > kResizeResidual) continue;
          std::vector<ValueId> inputs = p->inputs;
          inputs.resize(kResizeResidual, kNoValue);
          inputs.push_back(other);
          r.become(n, p->op, inputs);
          break;
        }
        Node* c = r.sole<ConvOp>(n.inputs[side]);
        if (!c) c = r.sole<MatMulOp>(n.inputs[side]);
        if (!c || !take_residual(r, *c, n, other)) continue;
        break;
      }
    }
  graph.remove_dead();
}

}  // namespace train
