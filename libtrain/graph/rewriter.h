// Rewriter: what the passes share: who makes and who uses a value, scalar constants, replacing and
// killing.
#pragma once
#include <optional>
#include <vector>

#include "libtrain/graph/graph.h"
#include "libtrain/ops/nn.h"

namespace train {

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  Graph& graph() { return graph_; }
  size_t size() const { return graph_.nodes.size(); }
  Node& node(size_t i) { return graph_.nodes[i]; }
  /// The live node that makes `v`, or null.
  Node* producer(ValueId v);
  /// The node that makes `v`, when it is of class T and nothing but one node reads its first
  /// output.
  template <class T>
  Node* sole(ValueId v) {
    Node* n = producer(v);
    return n && as<T>(*n) && uses(v) == 1 ? n : nullptr;
  }
  template <class T>
  static const T* as(const Node& n) {
    return dynamic_cast<const T*>(n.op.get());
  }
  static bool is_binary(const Node& n, BinaryKind kind) {
    const auto* op = as<BinaryOp>(n);
    return op && op->kind == kind;
  }
  static bool is_unary(const Node& n, cpu::Act kind) {
    const auto* op = as<UnaryOp>(n);
    return op && op->activation.kind == kind;
  }
  int uses(ValueId v) const { return use_count_[v]; }
  const Tensor* graph_constant(ValueId v) const { return graph_.constant(v); }
  /// The value of a constant f32 tensor of one element.
  std::optional<float> scalar(ValueId v) const;
  /// The elements of a constant f32 tensor that reads as one number per channel of [N, C, H, W]
  /// (shape [1, C, 1, 1] or [C, 1, 1]) or one number for all; null when it is neither or C differs.
  std::optional<std::vector<double>> per_channel(ValueId v, int64_t channels) const;
  /// The same per last-axis element: shape [C], [1, C], ...
  std::optional<std::vector<double>> per_last_axis(ValueId v, int64_t size) const;

  /// `node` now computes `op` from `inputs`; nodes left without readers die.
  void become(Node& node, std::shared_ptr<const Op> op, std::vector<ValueId> inputs);
  ValueId add_constant(const std::string& name, Tensor t);
  /// Everything that read `from` reads `to`; graph outputs too.
  void redirect(ValueId from, ValueId to);

 private:
  void release(ValueId v);
  Graph& graph_;
  std::vector<int> producer_, use_count_;
};

/// Shapes that the values of a graph have for one guess of the free input dimensions: enough to
/// know ranks and the dimensions that weights fix. An entry is empty where inference failed.
std::vector<std::optional<Shape>> probe_shapes(const Graph& graph);

/// Whether `n` is a ReduceMean over exactly the last `trailing` axes that keeps them, by the shapes
/// it was seen to make.
bool is_mean_over(const Node& n, const std::vector<std::optional<Shape>>& shapes, int trailing);

}  // namespace train
