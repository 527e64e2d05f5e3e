#include "libocr/onnx/node_builder.h"

#include <algorithm>

#include "libtrain/graph/evaluate.h"

namespace ocr {
namespace {

using onnx::AttributeProto;
using train::cat;
using train::FormatError;
using train::Tensor;
using train::ValueInfo;

constexpr int64_t kProbeElements = 4096;  // larger values are not evaluated while importing

// Every node that is probed may allocate a pack; nothing here keeps it.
class NoCache final : public train::PackCache {
 protected:
  std::shared_ptr<const void> get_any(
      int, train::FunctionRef<std::shared_ptr<const void>()> make) override {
    return make();
  }
};

}  // namespace

// ---- ShapeProbe

const ShapeProbe::Known* ShapeProbe::known(ValueId v) const {
  if (v < 0 || static_cast<size_t>(v) >= known_.size()) return nullptr;
  return known_[v] && known_[v]->valid ? known_[v].get() : nullptr;
}

ShapeProbe::Known& ShapeProbe::at(ValueId v) {
  if (known_.size() <= static_cast<size_t>(v)) known_.resize(graph_.values.size());
  if (!known_[v]) known_[v] = std::make_unique<Known>();
  return *known_[v];
}

void ShapeProbe::add_input(ValueId v, train::DType dtype, const std::vector<int64_t>& dims) {
  Known& k = at(v);
  // Image sizes that survive five halvings; two sets, so that what is free shows.
  constexpr int64_t first[] = {2, 64, 64, 64}, second[] = {3, 96, 96, 96};
  train::Shape a, b;
  for (size_t i = 0; i < dims.size() && i < train::Shape::kMaxRank; ++i) {
    a.push_back(dims[i] >= 0 ? dims[i] : first[std::min<size_t>(i, 3)]);
    b.push_back(dims[i] >= 0 ? dims[i] : second[std::min<size_t>(i, 3)]);
  }
  k.info = ValueInfo(a, dtype);
  k.other = ValueInfo(b, dtype);
  k.valid = true;
}

// Infers the node's outputs under one of the guesses and computes small ones whose inputs are
// known.
bool ShapeProbe::evaluate(const train::Node& node, bool second, std::vector<ValueInfo>& outputs,
                          std::vector<std::optional<Tensor>>& data) const {
  std::vector<ValueInfo> inputs;
  bool computable = true;
  for (ValueId v : node.inputs) {
    ValueInfo info = ValueInfo::absent();
    if (v != kNoValue) {
      if (const Tensor* c = graph_.constant(v)) {
        info = ValueInfo(c->shape(), c->dtype());
        info.constant = c;
      } else if (const Known* k = known(v)) {
        info = second ? k->other : k->info;
        const auto& d = second ? k->other_data : k->data;
        if (d) info.constant = &*d;
      } else {
        return false;
      }
      computable = computable && (info.constant || !node.op->reads_data());
    }
    inputs.push_back(info);
  }
  outputs.assign(node.outputs.size(), ValueInfo());
  node.op->infer(inputs, outputs);
  data.assign(node.outputs.size(), std::nullopt);
  int64_t elements = 0;
  for (const ValueInfo& o : outputs) elements += o.shape.numel();
  for (const ValueInfo& i : inputs)
    if (i.present && node.op->reads_data()) elements += i.shape.numel();
  if (!computable || elements > kProbeElements) return true;
  NoCache packs;
  const auto results = train::evaluate_op(*node.op, inputs, outputs, packs);
  data.assign(results.begin(), results.end());
  return true;
}

void ShapeProbe::add_node(const train::Node& node) {
  std::vector<ValueInfo> a, b;
  std::vector<std::optional<Tensor>> data, other;
  try {
    if (!evaluate(node, false, a, data) || !evaluate(node, true, b, other)) return;
  } catch (const train::Error&) {
    return;  // does not fit the guess: unknown from here on
  }
  const bool exact = std::ranges::all_of(node.inputs, [&](ValueId v) {
    const Known* k = known(v);
    return v == kNoValue || graph_.constant(v) || (k && k->exact);
  });
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue || a[i].shape.rank() != b[i].shape.rank()) continue;
    Known& k = at(node.outputs[i]);
    k.info = a[i];
    k.other = b[i];
    k.info.constant = k.other.constant = nullptr;
    k.data = std::move(data[i]);
    k.other_data = std::move(other[i]);
    k.valid = true;
    k.exact = exact;
  }
}

std::optional<int> ShapeProbe::rank(ValueId v) const {
  if (const Tensor* c = graph_.constant(v)) return c->shape().rank();
  const Known* k = known(v);
  return k ? std::optional(k->info.shape.rank()) : std::nullopt;
}

std::optional<train::DType> ShapeProbe::dtype(ValueId v) const {
  if (const Tensor* c = graph_.constant(v)) return c->dtype();
  const Known* k = known(v);
  return k ? std::optional(k->info.dtype) : std::nullopt;
}

int64_t ShapeProbe::fixed_dim(ValueId v, int axis) const {
  if (const Tensor* c = graph_.constant(v)) return c->shape()[axis];
  const Known* k = known(v);
  return k && k->info.shape[axis] == k->other.shape[axis] ? k->info.shape[axis] : -1;
}

const Tensor* ShapeProbe::constant(ValueId v) const {
  if (const Tensor* c = graph_.constant(v)) return c;
  const Known* k = known(v);
  return k && k->exact && k->data ? &*k->data : nullptr;
}

// ---- NodeBuilder

void NodeBuilder::fail(const std::string& why) const {
  throw FormatError(cat("operator ", node.op_type().substr(0, 100), " (opset ", opset,
                        ") at node '", name, "': ", why));
}

ValueId NodeBuilder::in(int i) const {
  if (!has(i)) fail(cat("input ", i, " is missing"));
  return inputs_[i];
}

void NodeBuilder::only_output() const {
  for (int i = 1; i < outputs(); ++i)
    if (out(i) != kNoValue) fail(cat("output ", i, " is not supported"));
}

const AttributeProto* NodeBuilder::find(const char* key) const {
  for (const AttributeProto& a : node.attribute())
    if (a.name() == key) return &a;
  return nullptr;
}

const AttributeProto* NodeBuilder::find(const char* key, int type) const {
  const AttributeProto* a = find(key);
  if (a && !a->ref_attr_name().empty()) fail(cat("attribute '", key, "' refers to a function"));
  if (a && a->type() != type && a->type() != AttributeProto::UNDEFINED)
    fail(cat("attribute '", key, "' has the wrong type"));
  return a;
}

int64_t NodeBuilder::attr_int(const char* key, int64_t otherwise) const {
  const AttributeProto* a = find(key, AttributeProto::INT);
  return a ? a->i() : otherwise;
}

float NodeBuilder::attr_float(const char* key, float otherwise) const {
  const AttributeProto* a = find(key, AttributeProto::FLOAT);
  return a ? a->f() : otherwise;
}

std::string NodeBuilder::attr_string(const char* key, const std::string& otherwise) const {
  const AttributeProto* a = find(key, AttributeProto::STRING);
  return a ? a->s() : otherwise;
}

std::vector<int64_t> NodeBuilder::attr_ints(const char* key, std::vector<int64_t> otherwise) const {
  const AttributeProto* a = find(key, AttributeProto::INTS);
  if (a) otherwise.assign(a->ints().begin(), a->ints().end());
  return otherwise;
}

std::vector<float> NodeBuilder::attr_floats(const char* key) const {
  const AttributeProto* a = find(key, AttributeProto::FLOATS);
  return a ? std::vector<float>(a->floats().begin(), a->floats().end()) : std::vector<float>();
}

std::vector<std::string> NodeBuilder::attr_strings(const char* key) const {
  const AttributeProto* a = find(key, AttributeProto::STRINGS);
  return a ? std::vector<std::string>(a->strings().begin(), a->strings().end())
           : std::vector<std::string>();
}

std::optional<Tensor> NodeBuilder::attr_tensor(const char* key) const {
  const AttributeProto* a = find(key, AttributeProto::TENSOR);
  return a ? std::optional(tensors_.read(a->t())) : std::nullopt;
}

const onnx::GraphProto* NodeBuilder::attr_graph(const char* key) const {
  const AttributeProto* a = find(key, AttributeProto::GRAPH);
  return a ? &a->g() : nullptr;
}

const Tensor* NodeBuilder::constant(ValueId v) const {
  return v == kNoValue ? nullptr : probe_.constant(v);
}

std::vector<int64_t> NodeBuilder::constant_ints(int input) const {
  const Tensor* t = constant(in(input));
  if (!t || train::is_float(t->dtype()))
    fail(cat("input ", input, " must be a constant of integers"));
  return t->to_ints();
}

std::optional<float> NodeBuilder::constant_float(ValueId v) const {
  const Tensor* t = constant(v);
  if (!t || t->numel() != 1) return std::nullopt;
  return static_cast<float>(t->to_doubles()[0]);
}

ValueId NodeBuilder::tensor(Tensor t) {
  return graph_.add_constant(cat(name, "/constant", added_++), std::move(t));
}

ValueId NodeBuilder::ints(const std::vector<int64_t>& values) {
  return tensor(Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueId NodeBuilder::int_scalar(int64_t v) { return tensor(Tensor::scalar(v)); }

ValueId NodeBuilder::floats(const std::vector<float>& values) {
  return tensor(Tensor::from<float>({static_cast<int64_t>(values.size())}, values));
}

ValueId NodeBuilder::scalar(float v) { return tensor(Tensor::scalar(v)); }

ValueId NodeBuilder::add(std::shared_ptr<const train::Op> op, std::vector<ValueId> inputs) {
  const ValueId v = graph_.add_value(cat(name, "/value", added_));
  add(std::move(op), std::move(inputs), {v});
  return v;
}

void NodeBuilder::add(std::shared_ptr<const train::Op> op, std::vector<ValueId> inputs,
                      std::vector<ValueId> outputs) {
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  const std::string node_name = added_ == 0 ? name : cat(name, "/", op->type(), added_);
  ++added_;
  probe_.add_node(graph_.add_node(node_name, std::move(op), std::move(inputs), std::move(outputs)));
}

void NodeBuilder::finish_constant(Tensor t) {
  if (out(0) != kNoValue) graph_.values[out(0)].constant = std::move(t);
}

}  // namespace ocr
