// Reads an ONNX model into a Graph.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libtrain/graph/graph.h"

namespace ocr {

/// A model's own words about an input or output. `dims`: -1 where free, whose name is then in
/// `dim_names`.
struct TensorInfo {
  std::string name, dtype;  // dtype as ONNX names it: "float", "int64", ...
  bool has_shape = false;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names;
};

struct ModelInfo {
  int64_t ir_version = 0, opset = 0;
  std::string producer, producer_version, graph_name;
  std::vector<TensorInfo> inputs, outputs;
  std::map<std::string, std::string> metadata;
  std::string sha256;  // of the file, external data not included
  int64_t nodes = 0, constant_bytes = 0;
};

/// Limits for files that nobody vouches for, and replacements for inputs.
struct ImportOptions {
  int64_t max_file_bytes = (int64_t{1} << 31) - 1;  // protobuf's own limit
  int64_t max_constant_bytes = int64_t{1} << 33;    // weights, external data included
  int64_t max_nodes = 200'000;
  int max_depth = 16;  // nested subgraphs
  /// Inputs that become constants, by name.
  std::map<std::string, train::Tensor> constants;
};

constexpr int kMinOpset = 7, kMaxOpset = 24;

/// Reads a model file. Floats of every width become f32 (weights, inputs, casts), so a
/// half-precision model runs in f32. External data is read from the model's own folder only. Throws
/// train::FormatError when the file is no valid model, exceeds a limit, or uses an operator that is
/// not supported (named with its domain, opset and node).
train::Graph import_onnx(const std::string& path, const ImportOptions& options = {},
                         ModelInfo* info = nullptr);

/// The same from memory; `name` stands in messages, external data is refused.
train::Graph import_onnx(std::span<const char> bytes, const std::string& name,
                         const ImportOptions& options = {}, ModelInfo* info = nullptr);

/// One row of the operator table: the operator in the form it has since an opset.
struct SupportedOp {
  std::string name;
  int since;
};
/// Every operator the importer takes, sorted by name and opset.
std::vector<SupportedOp> supported_ops();

}  // namespace ocr
