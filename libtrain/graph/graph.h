// Graph: nodes and values in logical shapes, as read from ONNX or recorded from a model; passes
// rewrite it.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/ops/op.h"

namespace train {

using ValueId = int;
constexpr ValueId kNoValue = -1;  // an absent optional input or an unused output

struct Value {
  std::string name;
  std::optional<Tensor> constant;  // weights and folded constants
};

struct Node {
  std::string name;
  std::shared_ptr<const Op> op;
  std::vector<ValueId> inputs, outputs;
};

/// Declared type of a graph input; a dimension of -1 is free.
struct GraphInput {
  ValueId value;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
};

/// Nodes stand in topological order. Every value has at most one producer.
class Graph {
 public:
  ValueId add_value(std::string name);
  ValueId add_constant(std::string name, Tensor t);
  Node& add_node(std::string name, std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                 std::vector<ValueId> outputs);

  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<GraphInput> inputs;
  std::vector<ValueId> outputs;

  const Tensor* constant(ValueId v) const {
    return v == kNoValue || !values[v].constant ? nullptr : &*values[v].constant;
  }
  /// producers()[v] = index of the node that makes v, -1 for inputs and constants.
  std::vector<int> producers() const;
  /// users()[v] = indices of the nodes that read v; a graph output counts as one more user, -1.
  std::vector<std::vector<int>> users() const;
  /// Drops nodes marked by a null op, and nodes and constants that nothing uses.
  void remove_dead();
  /// Throws FormatError when an index is out of range, a value is made twice or the order is not
  /// topological.
  void validate() const;
};

}  // namespace train
