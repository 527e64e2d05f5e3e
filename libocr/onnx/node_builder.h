// What a row of the operator table sees of one ONNX node, and how it adds ops to the graph.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libocr/onnx/proto.h"
#include "libocr/onnx/tensor_proto.h"
#include "libtrain/graph/graph.h"

namespace ocr {

using train::kNoValue;
using train::ValueId;

/// Follows the graph as it grows with guessed sizes for free dimensions, to learn the rank and
/// dtype of every value and the contents of small ones. What depends on a guess is used for ranks
/// only.
class ShapeProbe {
 public:
  explicit ShapeProbe(const train::Graph& graph) : graph_(graph) {}
  void add_input(ValueId v, train::DType dtype, const std::vector<int64_t>& dims);
  void add_node(const train::Node& node);
  /// Rank and dtype, or nothing when unknown.
  std::optional<int> rank(ValueId v) const;
  std::optional<train::DType> dtype(ValueId v) const;
  /// A dimension that does not depend on a guess, or -1.
  int64_t fixed_dim(ValueId v, int axis) const;
  /// The contents of a value that does not depend on any input, or null.
  const train::Tensor* constant(ValueId v) const;

 private:
  struct Known {
    train::ValueInfo info;
    train::ValueInfo other;  // under a second guess: what differs is free
    std::optional<train::Tensor> data, other_data;
    bool valid = false, exact = false;  // exact: depends on constants alone
  };
  const Known* known(ValueId v) const;
  Known& at(ValueId v);
  bool evaluate(const train::Node& node, bool second, std::vector<train::ValueInfo>& outputs,
                std::vector<std::optional<train::Tensor>>& data) const;
  const train::Graph& graph_;
  std::vector<std::unique_ptr<Known>> known_;
};

class NodeBuilder {
 public:
  NodeBuilder(train::Graph& graph, ShapeProbe& probe, TensorReader& tensors,
              const onnx::NodeProto& node, int64_t opset, std::string name,
              std::vector<ValueId> inputs, std::vector<ValueId> outputs)
      : node(node),
        opset(opset),
        name(std::move(name)),
        graph_(graph),
        probe_(probe),
        tensors_(tensors),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}

  const onnx::NodeProto& node;
  const int64_t opset;
  const std::string name;

  // ---- Inputs and outputs. Absent optional ones are kNoValue.
  int inputs() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(outputs_.size()); }
  ValueId opt(int i) const { return i < inputs() ? inputs_[i] : kNoValue; }
  bool has(int i) const { return opt(i) != kNoValue; }
  ValueId in(int i) const;  // throws when absent
  ValueId out(int i) const { return i < outputs() ? outputs_[i] : kNoValue; }
  const std::vector<ValueId>& all_inputs() const { return inputs_; }
  const std::vector<ValueId>& all_outputs() const { return outputs_; }

  // ---- Attributes; a wrong type throws.
  bool has_attr(const char* key) const { return find(key) != nullptr; }
  int64_t attr_int(const char* key, int64_t otherwise) const;
  float attr_float(const char* key, float otherwise) const;
  std::string attr_string(const char* key, const std::string& otherwise) const;
  std::vector<int64_t> attr_ints(const char* key, std::vector<int64_t> otherwise = {}) const;
  std::vector<float> attr_floats(const char* key) const;
  std::vector<std::string> attr_strings(const char* key) const;
  std::optional<train::Tensor> attr_tensor(const char* key) const;
  const onnx::GraphProto* attr_graph(const char* key) const;

  // ---- What is known of values.
  std::optional<int> rank(ValueId v) const { return probe_.rank(v); }
  std::optional<train::DType> dtype(ValueId v) const { return probe_.dtype(v); }
  int64_t fixed_dim(ValueId v, int axis) const { return probe_.fixed_dim(v, axis); }
  const train::Tensor* constant(ValueId v) const;
  /// The contents of a constant input as integers; throws when it is computed.
  std::vector<int64_t> constant_ints(int input) const;
  std::optional<float> constant_float(ValueId v) const;  // of one element

  // ---- Adding to the graph.
  ValueId ints(const std::vector<int64_t>& values);  // i64 [n]
  ValueId int_scalar(int64_t v);
  ValueId floats(const std::vector<float>& values);  // f32 [n]
  ValueId scalar(float v);
  ValueId tensor(train::Tensor t);
  /// Adds a node with one new output and returns it.
  ValueId add(std::shared_ptr<const train::Op> op, std::vector<ValueId> inputs);
  void add(std::shared_ptr<const train::Op> op, std::vector<ValueId> inputs,
           std::vector<ValueId> outputs);
  /// Adds the node that makes output 0.
  void finish(std::shared_ptr<const train::Op> op, std::vector<ValueId> inputs) {
    add(std::move(op), std::move(inputs), {outputs_.empty() ? kNoValue : outputs_[0]});
  }
  template <class Op, class... A>
  ValueId make(std::vector<ValueId> inputs, A&&... args) {
    return add(std::make_shared<Op>(std::forward<A>(args)...), std::move(inputs));
  }
  /// Makes output 0 another name of a constant.
  void finish_constant(train::Tensor t);

  /// Throws train::FormatError naming the operator and the node.
  [[noreturn]] void fail(const std::string& why) const;
  /// Throws unless only output 0 is used.
  void only_output() const;

 private:
  const onnx::AttributeProto* find(const char* key) const;
  const onnx::AttributeProto* find(const char* key, int type) const;

  train::Graph& graph_;
  ShapeProbe& probe_;
  TensorReader& tensors_;
  std::vector<ValueId> inputs_, outputs_;
  int added_ = 0;
};

}  // namespace ocr
