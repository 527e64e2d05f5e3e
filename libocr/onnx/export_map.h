// How each op of the engine is written: one function a kind of op, which adds ONNX nodes.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "libocr/onnx/proto.h"
#include "libtrain/graph/graph.h"

namespace ocr {

/// The node of the graph that is being written, and the ONNX graph that grows.
class NodeWriter {
 public:
  NodeWriter(const train::Graph& graph, const std::vector<std::string>& names,
             onnx::GraphProto& out)
      : graph_(graph), names_(names), out_(out) {}

  /// Writes `node`; see export_map.cpp for the table.
  void write(const train::Node& node);

  // ---- For the functions of the table.
  const train::Node& node() const { return *node_; }
  size_t inputs() const { return node_->inputs.size(); }
  bool has(size_t i) const {
    return i < node_->inputs.size() && node_->inputs[i] != train::kNoValue;
  }
  /// The name of input `i`; "" where it is absent.
  std::string in(size_t i) const { return has(i) ? names_[size_t(node_->inputs[i])] : ""; }
  /// All inputs, without absent ones at the end.
  std::vector<std::string> all_inputs() const;
  std::string out(size_t i = 0) const;
  const train::Tensor* constant(size_t i) const {
    return has(i) ? graph_.constant(node_->inputs[i]) : nullptr;
  }
  /// A name for something between the node's ONNX nodes.
  std::string part(const char* what) { return node_->name + "." + what + number(); }
  /// An initialiser, and its name.
  std::string initializer(const train::Tensor& tensor);

  onnx::NodeProto& add(const char* type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs);
  [[noreturn]] void fail(const std::string& why) const;

 private:
  std::string number() { return std::to_string(parts_++); }
  const train::Graph& graph_;
  const std::vector<std::string>& names_;  // of the graph's values
  onnx::GraphProto& out_;
  const train::Node* node_ = nullptr;
  int parts_ = 0, written_ = 0;
};

/// `tensor` as an ONNX tensor called `name`.
void write_tensor(const train::Tensor& tensor, const std::string& name, onnx::TensorProto& to);
/// ONNX's number of an element type.
int onnx_type_of(train::DType dtype);

}  // namespace ocr
