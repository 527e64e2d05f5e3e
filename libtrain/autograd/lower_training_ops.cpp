#include <cmath>

#include "libtrain/autograd/attention.h"
#include "libtrain/autograd/lstm.h"
#include "libtrain/autograd/record.h"
#include "libtrain/graph/rewriter.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"
#include "libtrain/ops/rnn.h"

namespace train {
namespace {

// Nodes of a new list, made beside the old ones.
class Lowering {
 public:
  explicit Lowering(Graph& graph) : graph_(graph), shapes_(probe_shapes(graph)) {}

  void run() {
    const std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const Node& n : old) {
      node_ = &n;
      parts_ = 0;
      if (const auto* op = dynamic_cast<const LstmOp*>(n.op.get()))
        lstm(*op);
      else if (const auto* attention = dynamic_cast<const AttentionOp*>(n.op.get()))
        attend(*attention);
      else
        graph_.nodes.push_back(n);
    }
    graph_.remove_dead();
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(cat("node '", node_->name, "' (", node_->op->describe(), ") ", why));
  }

  std::string part(const char* what) { return cat(node_->name, '.', what, parts_++); }

  // A node whose result is a new value, or the old node's output.
  ValueId add(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
              ValueId result = kNoValue) {
    const std::string name = part(std::string(op->type()).c_str());
    if (result == kNoValue) result = graph_.add_value(name + ".out");
    graph_.add_node(name, std::move(op), std::move(inputs), {result});
    return result;
  }
  ValueId transpose(ValueId x, std::vector<int64_t> perm) {
    return add(std::make_shared<TransposeOp>(std::move(perm)), {x});
  }
  ValueId reshape(ValueId x, std::vector<int64_t> shape, ValueId result = kNoValue) {
    return add(std::make_shared<ReshapeOp>(), {x, ints(shape)}, result);
  }
  ValueId ints(const std::vector<int64_t>& v) {
    return graph_.add_constant(part("ints"),
                               Tensor::from<int64_t>({static_cast<int64_t>(v.size())}, v));
  }
  const Tensor& constant(size_t input) const {
    const Tensor* t = graph_.constant(node_->inputs[input]);
    if (!t) fail(cat("has computed weights (input ", input, ")"));
    return *t;
  }

  // The four gates' rows of `t` [4 H, ...] from i f g o to ONNX's i o f c, appended to `to`.
  static void append_gates(const Tensor& t, std::vector<float>& to) {
    const int64_t quarter = t.numel() / 4;
    for (const int64_t gate : {0, 3, 1, 2})
      to.insert(to.end(), t.data<float>() + gate * quarter, t.data<float>() + (gate + 1) * quarter);
  }

  void lstm(const LstmOp& op) {
    const int64_t hidden = constant(2).shape()[1], input = constant(1).shape()[1];
    std::vector<float> w, r, b;
    for (size_t d = 0; d < static_cast<size_t>(op.directions); ++d) {
      append_gates(constant(1 + 4 * d), w);
      append_gates(constant(2 + 4 * d), r);
      append_gates(constant(3 + 4 * d), b);
      append_gates(constant(4 + 4 * d), b);
    }
    auto rnn = std::make_shared<RnnOp>(
        RnnCell::kLstm, op.directions == 2 ? RnnDirection::kBidirectional : RnnDirection::kForward,
        hidden);
    for (auto& a : rnn->activations)
      a = {cpu::Activation{cpu::Act::kSigmoid}, cpu::Activation{cpu::Act::kTanh},
           cpu::Activation{cpu::Act::kTanh}};
    const auto weights = [&](const char* name, const Shape& shape, const std::vector<float>& v) {
      return graph_.add_constant(cat(node_->name, '.', name),
                                 Tensor::from<float>(shape, std::span(v)));
    };
    const ValueId steps_first = transpose(node_->inputs[0], {1, 0, 2});
    const ValueId y =  // [T, D, N, H]
        add(rnn, {steps_first, weights("w", {op.directions, 4 * hidden, input}, w),
                  weights("r", {op.directions, 4 * hidden, hidden}, r),
                  weights("b", {op.directions, 8 * hidden}, b)});
    reshape(transpose(y, {2, 0, 1, 3}), {0, 0, op.directions * hidden}, node_->outputs[0]);
  }

  void attend(const AttentionOp& op) {
    if (op.dropout > 0) fail("drops values: record it in evaluation");
    const std::vector<ValueId>& in = node_->inputs;
    std::vector<ValueId> sources(in.begin(), in.begin() + op.sources);
    while (sources.size() < 3) {  // [q, k, v] or [k, v] lie side by side in the last
      const auto joined = static_cast<int64_t>(4 - sources.size());
      const ValueId both = sources.back();
      sources.pop_back();
      std::vector<ValueId> parts;
      for (int64_t i = 0; i < joined; ++i) parts.push_back(graph_.add_value(part("part")));
      graph_.add_node(part("Split"), std::make_shared<SplitOp>(2), {both}, parts);
      sources.insert(sources.end(), parts.begin(), parts.end());
    }
    const auto heads = [&](ValueId x, std::vector<int64_t> perm) {
      return transpose(reshape(x, {0, 0, op.heads, -1}), std::move(perm));
    };
    const int64_t channels = shape_of(in[0]).dim(-1) / (op.sources == 1 ? 3 : 1);
    const double scale = 1 / std::sqrt(static_cast<double>(channels / op.heads));
    const ValueId factor =
        graph_.add_constant(part("scale"), Tensor::scalar(static_cast<float>(scale)));
    const ValueId q = binary(BinaryKind::kMul, heads(sources[0], {0, 2, 1, 3}), factor),
                  k = heads(sources[1], {0, 2, 3, 1}), v = heads(sources[2], {0, 2, 1, 3});
    ValueId scores = add(std::make_shared<MatMulOp>(), {q, k});  // [N, heads, Tq, Tk]
    if (const auto m = static_cast<size_t>(op.sources); in.size() > m && in[m] != kNoValue)
      scores = binary(BinaryKind::kAdd, scores, mask(in[m]));
    const ValueId weights = add(std::make_shared<SoftmaxOp>(-1), {scores});
    const ValueId y = add(std::make_shared<MatMulOp>(), {weights, v});
    reshape(transpose(y, {0, 2, 1, 3}), {0, 0, -1}, node_->outputs[0]);
  }

  ValueId binary(BinaryKind kind, ValueId a, ValueId b) {
    return add(std::make_shared<BinaryOp>(kind), {a, b});
  }
  // [Tq, Tk] as it is, [N, Tq, Tk] the same for all heads.
  ValueId mask(ValueId m) {
    return shape_of(m).rank() == 2 ? m : add(std::make_shared<UnsqueezeOp>(), {m, ints({1})});
  }
  const Shape& shape_of(ValueId v) const {
    const auto& s = shapes_[static_cast<size_t>(v)];
    if (!s) fail("has an operand of unknown shape");
    return *s;
  }

  Graph& graph_;
  std::vector<std::optional<Shape>> shapes_;  // for one guess of what is free
  const Node* node_ = nullptr;
  int parts_ = 0;
};

}  // namespace

void lower_training_ops(Graph& graph) { Lowering(graph).run(); }

}  // namespace train
