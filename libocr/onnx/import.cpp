#include "libocr/onnx/import.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unordered_map>
#include <unordered_set>

#include "libocr/onnx/op_map.h"
#include "libocr/onnx/proto.h"
#include "libocr/onnx/wire.h"
#include "libtrain/core/sha256.h"
#include "libtrain/ops/move.h"

namespace ocr {
namespace {

using train::cat;
using train::DType;
using train::FormatError;
using train::Graph;

constexpr int64_t kMaxDim = int64_t{1} << 40;
constexpr size_t kMaxName = 4096;  // bytes of a value's or node's name

std::string shown(const std::string& s) { return s.size() <= 200 ? s : s.substr(0, 200) + "..."; }

bool default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// Names of values visible in a graph; a subgraph sees those of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string, ValueId> values;

  ValueId find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (const auto it = s->values.find(name); it != s->values.end()) return it->second;
    return kNoValue;
  }
};

class Importer {
 public:
  Importer(std::string model_name, const std::string& folder, const ImportOptions& options)
      : model_name_(std::move(model_name)),
        options_(options),
        tensors_(folder, options.max_constant_bytes),
        probe_(graph_) {}

  Graph run(const onnx::ModelProto& model, ModelInfo* info);

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw FormatError(cat("ONNX model ", model_name_, ": ", why));
  }
  const std::string& checked(const std::string& name) const {
    if (name.size() > kMaxName) fail("a name is longer than 4096 bytes");
    return name;
  }
  int64_t opset_of(const onnx::ModelProto& model) const;
  void add_initializers(const onnx::GraphProto& g, Scope& scope);
  void add_inputs(const onnx::GraphProto& g, Scope& scope);
  void add_nodes(const onnx::GraphProto& g, Scope& scope, int depth);
  void add_node(const onnx::NodeProto& n, Scope& scope, int depth);
  void inline_if(const onnx::NodeProto& n, Scope& scope, int depth);
  ValueId define(const std::string& name, Scope& scope);

  std::string model_name_;
  const ImportOptions& options_;
  Graph graph_;
  TensorReader tensors_;
  ShapeProbe probe_;
  std::unordered_set<std::string> outputs_;  // names of the model's outputs
  int64_t opset_ = 0, nodes_ = 0;
};

int64_t Importer::opset_of(const onnx::ModelProto& model) const {
  int64_t opset = 0;
  for (const auto& o : model.opset_import())
    if (default_domain(o.domain())) opset = std::max<int64_t>(opset, o.version());
  if (opset == 0) fail("no opset of the default domain is declared");
  if (opset < kMinOpset || opset > kMaxOpset)
    fail(cat("opset ", opset, " is not supported; ", kMinOpset, " to ", kMaxOpset,
             " are (onnx.version_converter can convert the model)"));
  return opset;
}

ValueId Importer::define(const std::string& name, Scope& scope) {
  if (const auto it = scope.values.find(checked(name)); it != scope.values.end())
    fail("value '" + shown(name) + "' is made twice");
  const ValueId v = graph_.add_value(name);
  scope.values.emplace(name, v);
  return v;
}

void Importer::add_initializers(const onnx::GraphProto& g, Scope& scope) {
  if (g.sparse_initializer_size()) fail("sparse initialisers are not supported");
  for (const onnx::TensorProto& t : g.initializer()) {
    try {
      graph_.values[define(t.name(), scope)].constant = tensors_.read(t);
    } catch (const FormatError& e) {
      fail(e.what());
    }
  }
}

void Importer::add_inputs(const onnx::GraphProto& g, Scope& scope) {
  for (const onnx::ValueInfoProto& in : g.input()) {
    if (scope.values.contains(in.name())) continue;  // an initialiser gives its value
    const ValueId v = define(in.name(), scope);
    if (const auto it = options_.constants.find(in.name()); it != options_.constants.end()) {
      graph_.values[v].constant = it->second;
      continue;
    }
    if (!in.type().has_tensor_type()) fail("input '" + shown(in.name()) + "' is no tensor");
    const auto& type = in.type().tensor_type();
    const auto dtype = dtype_of(type.elem_type());
    if (!dtype)
      fail(cat("input '", shown(in.name()), "' has elements of type ",
               onnx_type_name(type.elem_type()), ", which is not supported"));
    train::GraphInput input{v, *dtype, {}};
    if (type.shape().dim_size() > train::Shape::kMaxRank)
      fail(cat("input '", shown(in.name()), "' has ", type.shape().dim_size(), " dimensions"));
    for (const auto& d : type.shape().dim()) {
      if (d.dim_value() > kMaxDim)
        fail(cat("input '", shown(in.name()), "' has a dimension of ", d.dim_value()));
      input.dims.push_back(d.has_dim_value() && d.dim_value() > 0 ? d.dim_value() : -1);
    }
    if (type.has_shape()) probe_.add_input(v, *dtype, input.dims);
    graph_.inputs.push_back(std::move(input));
  }
}

void Importer::add_nodes(const onnx::GraphProto& g, Scope& scope, int depth) {
  if (depth > options_.max_depth) fail("subgraphs are nested too deeply");
  nodes_ += g.node_size();
  if (nodes_ > options_.max_nodes) fail(cat("more than ", options_.max_nodes, " nodes"));
  for (const onnx::NodeProto& n : g.node()) add_node(n, scope, depth);
}

void Importer::add_node(const onnx::NodeProto& n, Scope& scope, int depth) {
  const std::string name = !n.name().empty()
                               ? shown(n.name())
                               : cat(n.op_type().substr(0, 100), "_",
                                     n.output_size() ? shown(n.output(0)) : std::to_string(nodes_));
  if (!default_domain(n.domain()))
    fail(cat("operator ", shown(n.domain()), ".", shown(n.op_type()), " at node '", name,
             "' is not supported: only the default domain is"));
  if (n.op_type() == "If") return inline_if(n, scope, depth);
  const OpRow* row = find_row(n.op_type(), opset_);
  if (!row)
    fail(cat("operator ", shown(n.op_type()), " (default domain, opset ", opset_, ") at node '",
             name, "' is not supported"));
  std::vector<ValueId> inputs, outputs;
  for (const std::string& in : n.input()) {
    if (in.empty()) {
      inputs.push_back(kNoValue);
      continue;
    }
    const ValueId v = scope.find(in);
    if (v == kNoValue)
      fail(cat("node '", name, "' reads '", shown(in), "' before anything makes it"));
    inputs.push_back(v);
  }
  // A renamed value is the value itself.
  const bool renames = n.op_type() == "Identity" && inputs.size() == 1 && inputs[0] != kNoValue &&
                       n.output_size() == 1 && !outputs_.contains(n.output(0));
  if (renames) {
    if (!scope.values.emplace(checked(n.output(0)), inputs[0]).second)
      fail("value '" + shown(n.output(0)) + "' is made twice");
    return;
  }
  for (const std::string& out : n.output())
    outputs.push_back(out.empty() ? kNoValue : define(out, scope));
  NodeBuilder b(graph_, probe_, tensors_, n, opset_, name, std::move(inputs), std::move(outputs));
  try {
    row->build(b);
  } catch (const train::Error& e) {
    fail(e.what());
  }
}

// Only a condition that is known from constants: the branch taken joins the graph.
void Importer::inline_if(const onnx::NodeProto& n, Scope& scope, int depth) {
  const std::string name = shown(n.name().empty() && n.output_size() ? n.output(0) : n.name());
  const ValueId cond = n.input_size() == 1 ? scope.find(n.input(0)) : kNoValue;
  const train::Tensor* known = cond == kNoValue ? nullptr : probe_.constant(cond);
  if (!known || known->numel() != 1)
    fail("operator If at node '" + name + "' is not supported: its condition is no constant");
  const bool taken = known->to_doubles()[0] != 0;
  const onnx::GraphProto* branch = nullptr;
  for (const auto& a : n.attribute())
    if (a.name() == (taken ? "then_branch" : "else_branch")) branch = &a.g();
  if (!branch || branch->output_size() != n.output_size())
    fail("operator If at node '" + name + "' lacks a branch that fits its outputs");
  Scope inner{&scope, {}};
  add_initializers(*branch, inner);
  add_nodes(*branch, inner, depth + 1);
  for (int i = 0; i < n.output_size(); ++i) {
    const ValueId v = inner.find(branch->output(i).name());
    if (v == kNoValue) fail("nothing makes output '" + shown(branch->output(i).name()) + "'");
    if (n.output(i).empty()) continue;
    const ValueId out = define(n.output(i), scope);
    graph_.add_node(cat(name, "/branch", i), std::make_shared<train::IdentityOp>(), {v}, {out});
    probe_.add_node(graph_.nodes.back());
  }
}

TensorInfo describe(const onnx::ValueInfoProto& v) {
  TensorInfo t;
  t.name = v.name();
  const auto& type = v.type().tensor_type();
  t.dtype = onnx_type_name(type.elem_type());
  t.has_shape = type.has_shape();
  for (const auto& d : type.shape().dim()) {
    t.dims.push_back(d.has_dim_value() && d.dim_value() > 0 ? d.dim_value() : -1);
    t.dim_names.push_back(d.dim_param());
  }
  return t;
}

Graph Importer::run(const onnx::ModelProto& model, ModelInfo* info) {
  if (!model.has_graph()) fail("the file holds no graph");
  if (model.functions_size()) fail("model-local functions are not supported");
  const onnx::GraphProto& g = model.graph();
  opset_ = opset_of(model);
  if (g.node_size() > options_.max_nodes) fail(cat("more than ", options_.max_nodes, " nodes"));
  for (const auto& o : g.output()) outputs_.insert(checked(o.name()));
  Scope scope;
  add_initializers(g, scope);
  add_inputs(g, scope);
  add_nodes(g, scope, 0);
  if (g.output_size() == 0) fail("the graph has no output");
  for (const auto& o : g.output()) {
    const ValueId v = scope.find(o.name());
    if (v == kNoValue) fail("nothing makes the graph output '" + shown(o.name()) + "'");
    graph_.outputs.push_back(v);
  }
  graph_.validate();
  if (info) {
    info->ir_version = model.ir_version();
    info->opset = opset_;
    info->producer = model.producer_name();
    info->producer_version = model.producer_version();
    info->graph_name = g.name();
    for (const train::GraphInput& in : graph_.inputs)
      for (const auto& v : g.input())
        if (v.name() == graph_.values[in.value].name) info->inputs.push_back(describe(v));
    for (const auto& v : g.output()) info->outputs.push_back(describe(v));
    for (const auto& entry : model.metadata_props()) info->metadata[entry.key()] = entry.value();
    info->nodes = nodes_;
    info->constant_bytes = tensors_.bytes();
  }
  return std::move(graph_);
}

Graph import_bytes(std::span<const char> bytes, const std::string& name, const std::string& folder,
                   const ImportOptions& options, ModelInfo* info) {
  if (info) *info = {};
  const int64_t limit = std::min<int64_t>(options.max_file_bytes, (int64_t{1} << 31) - 1);
  if (static_cast<int64_t>(bytes.size()) > limit)
    throw FormatError(cat("ONNX model ", name, ": ", bytes.size() >> 20,
                          " MiB are more than the limit; large weights belong into external data"));
  try {
    check_wire(bytes);
  } catch (const FormatError& e) {
    throw FormatError(cat("ONNX model ", name, ": ", e.what()));
  }
  onnx::ModelProto model;
  if (bytes.empty() || !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw FormatError(cat("ONNX model ", name, ": the file is no ONNX model, or it is cut off"));
  Graph g = Importer(name, folder, options).run(model, info);
  if (info) info->sha256 = train::sha256_hex({bytes.data(), bytes.size()});
  return g;
}

}  // namespace

Graph import_onnx(const std::string& path, const ImportOptions& options, ModelInfo* info) {
  namespace fs = std::filesystem;
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) throw FormatError("ONNX model " + path + ": no such file");
  const auto size = static_cast<int64_t>(fs::file_size(path, ec));
  if (ec || size > options.max_file_bytes)
    throw FormatError(cat("ONNX model ", path, ": ", size >> 20,
                          " MiB are more than the limit; large weights belong into external data"));
  std::vector<char> bytes(static_cast<size_t>(size));
  std::ifstream in(path, std::ios::binary);
  if (!in.read(bytes.data(), size)) throw FormatError("ONNX model " + path + ": cannot be read");
  const fs::path folder = fs::path(path).parent_path();
  return import_bytes(bytes, path, folder.empty() ? "." : folder.string(), options, info);
}

Graph import_onnx(std::span<const char> bytes, const std::string& name,
                  const ImportOptions& options, ModelInfo* info) {
  return import_bytes(bytes, name, "", options, info);
}

}  // namespace ocr
