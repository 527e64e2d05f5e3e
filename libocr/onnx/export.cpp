#include "libocr/onnx/export.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <unordered_set>

#include "libocr/onnx/export_map.h"
#include "libocr/onnx/node_builder.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::Graph;
using train::ValueId;

// Names of values, unique and never empty: what a file refers to.
std::vector<std::string> value_names(const Graph& graph, const std::string& output) {
  std::vector<std::string> names(graph.values.size());
  std::unordered_set<std::string> used{output};
  std::vector<char> live(names.size(), 0);
  for (const train::GraphInput& in : graph.inputs) live[static_cast<size_t>(in.value)] = 1;
  for (const train::Node& n : graph.nodes)
    for (const ValueId o : n.outputs)
      if (o != train::kNoValue) live[static_cast<size_t>(o)] = 1;
  for (size_t v = 0; v < names.size(); ++v) {
    if (!live[v] && !graph.values[v].constant) continue;
    std::string name = graph.values[v].name.empty() ? cat("value", v) : graph.values[v].name;
    while (!used.insert(name).second) name += '_';
    names[v] = name;
  }
  names[static_cast<size_t>(graph.outputs[0])] = output;
  return names;
}

void describe(onnx::ValueInfoProto& info, const std::string& name, train::DType dtype,
              const std::vector<int64_t>& dims, const std::vector<std::string>& dim_names) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_type_of(dtype));
  for (size_t i = 0; i < dims.size(); ++i) {
    auto& d = *type.mutable_shape()->add_dim();
    if (dims[i] >= 0)
      d.set_dim_value(dims[i]);
    else
      d.set_dim_param(i < dim_names.size() && !dim_names[i].empty() ? dim_names[i]
                                                                    : cat(name, '_', i));
  }
}

// Which dimensions of the output are the same for every input.
void describe_output(const Graph& graph, const ExportInfo& info, onnx::GraphProto& out) {
  ShapeProbe probe(graph);
  for (const train::GraphInput& in : graph.inputs) probe.add_input(in.value, in.dtype, in.dims);
  for (const train::Node& n : graph.nodes) probe.add_node(n);
  const ValueId y = graph.outputs[0];
  const auto rank = probe.rank(y);
  if (!rank) throw train::Error("the shape of the net's output could not be worked out");
  std::vector<int64_t> dims;
  for (int i = 0; i < *rank; ++i) dims.push_back(probe.fixed_dim(y, i));
  describe(*out.add_output(), info.output, probe.dtype(y).value_or(train::DType::kF32), dims,
           info.output_dims);
}

std::string bytes_of(const onnx::ModelProto& model) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  // Files are limited to 2 GiB by protobuf itself.
  if (model.ByteSizeLong() > INT32_MAX || !model.SerializeToCodedStream(&coded))
    throw train::Error("the model is larger than the 2 GiB that an ONNX file can hold");
  coded.Trim();
  return bytes;
}

}  // namespace

std::string export_onnx(const Graph& graph, const ExportInfo& info) {
  if (graph.outputs.size() != 1) throw train::Error("a model is written with one output");
  graph.validate();
  onnx::ModelProto model;
  model.set_ir_version(kExportIrVersion);
  model.set_producer_name("ocr");
  model.set_producer_version(info.producer_version);
  auto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kExportOpset);
  onnx::GraphProto& out = *model.mutable_graph();
  out.set_name(info.graph_name);

  const std::vector<std::string> names = value_names(graph, info.output);
  for (const train::GraphInput& in : graph.inputs)
    describe(*out.add_input(), names[static_cast<size_t>(in.value)], in.dtype, in.dims,
             info.input_dims);
  describe_output(graph, info, out);
  NodeWriter writer(graph, names, out);
  for (const train::Node& n : graph.nodes) writer.write(n);
  // Constants that the nodes as written still refer to.
  std::unordered_set<std::string> read{info.output};
  for (const onnx::NodeProto& n : out.node()) read.insert(n.input().begin(), n.input().end());
  for (size_t v = 0; v < names.size(); ++v)
    if (graph.values[v].constant && read.contains(names[v]))
      write_tensor(*graph.values[v].constant, names[v], *out.add_initializer());
  for (const auto& [key, value] : info.metadata) {
    auto& p = *model.add_metadata_props();
    p.set_key(key);
    p.set_value(value);
  }
  return bytes_of(model);
}

}  // namespace ocr
