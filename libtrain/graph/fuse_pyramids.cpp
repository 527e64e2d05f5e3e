// Feature pyramids: what is linear in them composes, so that no map is enlarged, gated or joined
// only to be convolved.
#include <algorithm>
#include <cmath>

#include "libtrain/cpu/pyramid_conv.h"
#include "libtrain/graph/fuse.h"
#include "libtrain/graph/rewriter.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/pyramid.h"

namespace train {
namespace {

// One term of what a convolution reads: up(factor, gate * (lateral x)).
struct Term {
  ValueId x;
  int factor;
  ValueId lateral = kNoValue, gate = kNoValue;
  int64_t first = 0, mid = 0;  // the channels of the convolution's input that it is, or adds to
  int64_t channels = 0;        // of x
};

using Shapes = std::vector<std::optional<Shape>>;

// f where `n` repeats every pixel f times along both axes, else 0.
int repeats(const Rewriter& r, const Node& n) {
  const auto* op = Rewriter::as<ResizeOp>(n);
  if (!op || op->desc.mode != cpu::ResizeMode::kNearest || n.inputs.size() < 2 ||
      (n.inputs.size() > 2 && n.inputs[2] != kNoValue))
    return 0;
  const bool floor = op->desc.coord == cpu::ResizeCoord::kAsymmetric &&
                     op->desc.nearest == cpu::NearestMode::kFloor;
  const bool centre = op->desc.coord == cpu::ResizeCoord::kHalfPixel &&
                      (op->desc.nearest == cpu::NearestMode::kRoundPreferFloor ||
                       op->desc.nearest == cpu::NearestMode::kRoundPreferCeil);
  const Tensor* t = r.graph_constant(n.inputs[1]);
  if ((!floor && !centre) || !t || t->numel() != 4) return 0;
  const auto s = t->to_doubles();
  const bool whole =
      s[0] == 1 && s[1] == 1 && s[2] == s[3] && s[2] >= 1 && s[2] <= 64 && s[2] == std::floor(s[2]);
  return whole ? static_cast<int>(s[2]) : 0;
}

bool is_plain(const cpu::Epilogue& e) {
  return e.act.kind == cpu::Act::kNone && e.post_scale == 1 && e.post_bias == 0 &&
         e.residual == cpu::Residual::kNone;
}

bool is_zero(const Tensor& t) {
  return std::ranges::all_of(t.span<float>(), [](float v) { return v == 0; });
}

// A constant 1x1 convolution without anything else: its weights; `bias` allows one.
const Tensor* pointwise(const Rewriter& r, const Node* n, bool bias) {
  const auto* op = n ? Rewriter::as<ConvOp>(*n) : nullptr;
  if (!op || op->groups != 1 || !is_plain(op->epilogue) || n->inputs.size() > 3) return nullptr;
  const Tensor* w = r.graph_constant(n->inputs[1]);
  const Window& win = op->window;
  if (!w || w->dtype() != DType::kF32 || w->shape().count(2, 4) != 1 || win.strides[0] != 1 ||
      win.strides[1] != 1 || win.pads != std::array<int, 4>{})
    return nullptr;
  const ValueId b = n->inputs.size() > 2 ? n->inputs[2] : kNoValue;
  const Tensor* t = r.graph_constant(b);
  if (b != kNoValue && (!t || (!bias && !is_zero(*t)))) return nullptr;
  return w;
}

class PyramidPass {
 public:
  explicit PyramidPass(Graph& graph) : r_(graph), shapes_(probe_shapes(graph)) {}

  void run() {
    for (size_t i = 0; i < r_.size(); ++i)
      if (r_.node(i).op) rewrite(r_.node(i));
    for (size_t i = 0; i < r_.size(); ++i)  // of what is left
      if (r_.node(i).op) merge_lateral(r_.node(i));
  }

 private:
  void rewrite(Node& n) {
    const auto* op = Rewriter::as<ConvOp>(n);
    const Tensor* w = op ? r_.graph_constant(n.inputs[1]) : nullptr;
    if (!w || !suits(n, *op, *w)) return;
    std::vector<Term> terms;
    const Node* concat = r_.producer(n.inputs[0]);
    const auto* join = concat ? Rewriter::as<ConcatOp>(*concat) : nullptr;
    if (join && join->axis == 1) {
      int64_t first = 0;
      for (const ValueId v : concat->inputs) {
        if (!shapes_[v] || shapes_[v]->rank() != 4) return;
        expand(v, 1, first, terms);
        first += (*shapes_[v])[1];
      }
    } else {
      expand(n.inputs[0], 1, 0, terms);
    }
    if (!pays(terms, *w)) return;
    replace(n, *op, *w, terms);
  }

  // up(x) + gate * lateral: the gate scales the weights, the sum is made where it is stored.
  void merge_lateral(Node& n) {
    const int f = repeats(r_, n);
    if (f < 2 || n.inputs.size() <= kResizeResidual || !shapes_[n.outputs[0]]) return;
    Node* mul = r_.sole<BinaryOp>(n.inputs[kResizeResidual]);
    if (!mul || !Rewriter::is_binary(*mul, BinaryKind::kMul)) return;
    for (const int side : {0, 1}) {
      Node* conv = r_.sole<ConvOp>(mul->inputs[side]);
      const ValueId gate = mul->inputs[1 - side];
      if (!pointwise(r_, conv, false) ||
          !is_gate(gate, mul->inputs[side], (*shapes_[n.outputs[0]])[1]))
        continue;
      r_.become(n, std::make_shared<PyramidConvOp>(std::vector<int>{f, 1}, 1, cpu::Activation{}),
                {n.inputs[0], kNoValue, kNoValue, kNoValue, conv->inputs[0], kNoValue,
                 conv->inputs[1], gate, kNoValue});
      return;
    }
  }

  bool suits(const Node& n, const ConvOp& op, const Tensor& w) const {
    const Shape& s = w.shape();
    const int k = static_cast<int>(s[2]), p = k / 2;
    const Window& win = op.window;
    const ValueId bias = n.inputs.size() > 2 ? n.inputs[2] : kNoValue;
    return w.dtype() == DType::kF32 && op.groups == 1 && s[2] == s[3] && k % 2 == 1 && k >= 3 &&
           k <= 31 && win.strides == std::array<int, 2>{1, 1} &&
           win.dilations == std::array<int, 2>{1, 1} && win.auto_pad == AutoPad::kNotSet &&
           win.pads == std::array<int, 4>{p, p, p, p} && op.epilogue.post_scale == 1 &&
           op.epilogue.post_bias == 0 && op.epilogue.residual == cpu::Residual::kNone &&
           (bias == kNoValue || r_.graph_constant(bias));
  }

  // Adds the terms that value `v`, enlarged by `factor`, is the sum of.
  void expand(ValueId v, int factor, int64_t first, std::vector<Term>& terms) {
    const Node* n = r_.producer(v);
    if (const int f = n ? repeats(r_, *n) : 0; f > 0 && factor * f <= 64) {
      expand(n->inputs[0], factor * f, first, terms);
      if (n->inputs.size() > kResizeResidual && n->inputs[kResizeResidual] != kNoValue)
        expand(n->inputs[kResizeResidual], factor, first, terms);
      return;
    }
    if (!shapes_[v] || shapes_[v]->rank() != 4) {
      terms.push_back({v, 0});  // unknown: nothing fits it
      return;
    }
    Term t{v, factor};
    t.first = first;
    t.mid = t.channels = (*shapes_[v])[1];
    ValueId x = v;
    if (n && Rewriter::is_binary(*n, BinaryKind::kMul))
      for (const int side : {0, 1})
        if (x == v && is_gate(n->inputs[1 - side], n->inputs[side], t.mid))
          t.gate = n->inputs[1 - side], x = n->inputs[side];
    const Node* lateral = r_.producer(x);
    const Tensor* w = pointwise(r_, lateral, false);
    if (w && w->shape()[1] < t.mid) {
      t.lateral = lateral->inputs[1];
      t.x = lateral->inputs[0];
      t.channels = w->shape()[1];
    } else if (t.gate != kNoValue && factor == 1) {
      t.x = x;  // few weights to scale instead of many pixels
    } else {
      t.gate = kNoValue;
    }
    terms.push_back(t);
  }

  // One number per image and channel at any image size: made from a global average.
  bool is_gate(ValueId gate, ValueId x, int64_t channels) {
    if (!shapes_[gate] || !shapes_[x] || shapes_[x]->rank() != 4 ||
        *shapes_[gate] != Shape{(*shapes_[x])[0], channels, 1, 1})
      return false;
    for (const Node* n = r_.producer(gate); n; n = r_.producer(n->inputs[0])) {
      if (Rewriter::as<GlobalPoolOp>(*n)) return true;
      const auto* binary = Rewriter::as<BinaryOp>(*n);
      if (!Rewriter::as<UnaryOp>(*n) && !(binary && r_.graph_constant(n->inputs[1])) &&
          !(Rewriter::as<ConvOp>(*n) && r_.graph_constant(n->inputs[1]) && n->inputs.size() <= 3))
        return false;
    }
    return false;
  }

  // Whether the terms cost less than the convolution as it is, and are what PyramidConv computes.
  static bool pays(const std::vector<Term>& terms, const Tensor& w) {
    const int k = static_cast<int>(w.shape()[2]);
    double cost = 0;
    bool whole = false;
    for (const Term& t : terms) {
      if (t.factor < 1) return false;
      whole = whole || t.factor == 1;
      cost += cpu::PyramidConv::taps(k, t.factor) * static_cast<double>(t.channels);
    }
    return whole && terms.size() <= cpu::kMaxPyramidSources &&
           cost < .9 * k * k * static_cast<double>(w.shape()[1]);
  }

  void replace(Node& n, const ConvOp& op, const Tensor& w, const std::vector<Term>& terms) {
    std::vector<int> factors;
    std::vector<ValueId> inputs;
    std::vector<std::pair<int64_t, ValueId>> slices;  // by first channel
    for (const Term& t : terms) {
      const auto same = std::ranges::find(slices, t.first, &std::pair<int64_t, ValueId>::first);
      const ValueId weights = t.mid == w.shape()[1] ? n.inputs[1]
                              : same != slices.end()
                                  ? same->second
                                  : r_.add_constant(n.name + ".weight", slice(w, t.first, t.mid));
      slices.emplace_back(t.first, weights);
      factors.push_back(t.factor);
      inputs.insert(inputs.end(), {t.x, weights, t.lateral, t.gate});
    }
    inputs.push_back(n.inputs.size() > 2 ? n.inputs[2] : kNoValue);
    r_.become(n,
              std::make_shared<PyramidConvOp>(std::move(factors), static_cast<int>(w.shape()[2]),
                                              op.epilogue.act),
              inputs);
  }

  // Input channels [first, first + count) of [M, C, k, k].
  static Tensor slice(const Tensor& w, int64_t first, int64_t count) {
    const Shape& s = w.shape();
    Tensor t({s[0], count, s[2], s[3]});
    const int64_t taps = s[2] * s[3];
    for (int64_t o = 0; o < s[0]; ++o)
      std::copy_n(w.data<float>() + (o * s[1] + first) * taps, count * taps,
                  t.data<float>() + o * count * taps);
    return t;
  }

  Rewriter r_;
  Shapes shapes_;
};

}  // namespace

void commute_pools(Graph& graph) {
  std::vector<Node> nodes;
  {
    Rewriter r(graph);
    for (size_t i = 0; i < r.size(); ++i) {
      Node n = r.node(i);
      const auto* pool = n.op ? Rewriter::as<GlobalPoolOp>(n) : nullptr;
      const Node* conv =
          pool && pool->kind == PoolKind::kAverage ? r.producer(n.inputs[0]) : nullptr;
      const Tensor* w = pointwise(r, conv, true);
      if (!w || w->shape()[1] >= w->shape()[0]) {
        nodes.push_back(std::move(n));
        continue;
      }
      const ValueId mean = graph.add_value(n.name + ".mean");
      std::vector<ValueId> inputs = conv->inputs;
      nodes.push_back({n.name + ".mean", n.op, {inputs[0]}, {mean}});
      inputs[0] = mean;
      nodes.push_back({n.name, conv->op, inputs, n.outputs});
    }
  }
  graph.nodes = std::move(nodes);
  graph.remove_dead();
}

void fuse_pyramids(Graph& graph) {
  PyramidPass(graph).run();
  graph.remove_dead();
}

}  // namespace train
