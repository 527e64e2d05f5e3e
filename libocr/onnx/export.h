// Writes a Graph as an ONNX model.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "libtrain/core/version.h"
#include "libtrain/graph/graph.h"

namespace ocr {

/// What a model says of itself besides its graph. `dims`: a name for each dimension, used where it
/// is free; missing or empty ones get a name of their own.
struct ExportInfo {
  std::string graph_name = "net", output = "y";
  std::string producer_version = train::kVersion;
  std::vector<std::string> input_dims, output_dims;
  std::map<std::string, std::string> metadata;
};

/// The opset and file version that are written: ONNX Runtime reads them since 1.12 (2022).
constexpr int kExportOpset = 17, kExportIrVersion = 8;

/// The bytes of an ONNX ModelProto: every operator of the default domain, weights inside as f32,
/// equal bytes for equal graphs. Takes graphs with one output and plain operators, as record_graph
/// and merge_branches leave them. Throws train::Error naming the node for an op without a row in
/// export_map.cpp, or one that optimize() fused.
std::string export_onnx(const train::Graph& graph, const ExportInfo& info);

/// The engine's types of op that are written, sorted.
std::vector<std::string> exported_ops();

}  // namespace ocr
