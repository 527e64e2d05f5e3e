// Every operator at every opset where its definition changed, against what ONNX Runtime computes
// (scripts/fixtures/make_onnx_ops.py), with the passes off and on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "libocr/onnx/export.h"
#include "libocr/onnx/import.h"
#include "libocr/onnx/op_map.h"
#include "libocr/onnx/proto.h"
#include "libocr/onnx/tensor_proto.h"
#include "libtrain/graph/net.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using train::Tensor;

std::vector<std::string> read_bundle(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::string> models;
  for (size_t at = 0; at + 4 <= bytes.size();) {
    uint32_t size = 0;
    std::memcpy(&size, bytes.data() + at, 4);
    models.push_back(bytes.substr(at + 4, size));
    at += 4 + size;
  }
  return models;
}

void expect_near(const Tensor& got, const Tensor& want, const std::string& label) {
  ASSERT_EQ(got.shape().str(), want.shape().str()) << label;
  ASSERT_EQ(got.dtype(), want.dtype()) << label;
  const auto a = got.to_doubles(), b = want.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    ASSERT_NEAR(a[i], b[i], 2e-5 * std::max(1.0, std::abs(b[i]))) << label << " element " << i;
  }
}

std::map<std::string, Tensor> initializers(const onnx::GraphProto& g) {
  std::map<std::string, Tensor> out;
  TensorReader reader("", 1 << 26);
  for (const auto& t : g.initializer()) out[t.name()] = reader.read(t);
  return out;
}

void run_graph(train::Graph graph, const onnx::ModelProto& model, bool fuse,
               const std::string& label) {
  const auto tensors = initializers(model.graph());
  const auto net = train::Net::compile(std::move(graph), {.fuse = fuse});
  std::vector<train::Feed> feeds;
  for (const auto& in : model.graph().input()) feeds.push_back({tensors.at("feed/" + in.name())});
  train::Context context;
  std::vector<Tensor> outputs;
  net->run(context, feeds, outputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    expect_near(outputs[i],
                tensors.at("expect/" + model.graph().output(static_cast<int>(i)).name()), label);
}

void run_model(const std::string& bytes, const onnx::ModelProto& model, bool fuse) {
  const std::string label = model.graph().name() + (fuse ? " (passes on)" : "");
  train::Graph graph = import_onnx(std::span(bytes.data(), bytes.size()), label);
  ASSERT_EQ(static_cast<int>(graph.outputs.size()), model.graph().output_size());
  run_graph(std::move(graph), model, fuse, label);
}

class OnnxOps : public testing::TestWithParam<std::string> {};

TEST_P(OnnxOps, AgreesWithOnnxRuntime) {
  const auto models = read_bundle(std::string(OCR_TEST_DATA) + "/onnx/ops/" + GetParam() + ".bin");
  ASSERT_FALSE(models.empty());
  for (const std::string& bytes : models) {
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(bytes));
    for (const bool fuse : {false, true}) {
      try {
        run_model(bytes, model, fuse);
      } catch (const train::Error& e) {
        ADD_FAILURE() << model.graph().name() << ": " << e.what();
      }
    }
  }
}

std::vector<std::string> bundles() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(std::string(OCR_TEST_DATA) + "/onnx/ops"))
    names.insert(entry.path().stem().string());
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(All, OnnxOps, testing::ValuesIn(bundles()),
                         [](const auto& info) { return info.param; });

// What is read of the fixtures is written again, where the exporter knows it, and read once more.
TEST(OnnxOpExport, WritesWhatItReads) {
  const std::vector<std::string> all = exported_ops();
  const std::set<std::string> known(all.begin(), all.end());
  // Made by recordings alone; tests/export has them. (The importer reads newer opsets' own.)
  std::set<std::string> written{"Swish"};
  int models = 0;
  for (const std::string& name : bundles())
    for (const std::string& bytes :
         read_bundle(std::string(OCR_TEST_DATA) + "/onnx/ops/" + name + ".bin")) {
      onnx::ModelProto model;
      ASSERT_TRUE(model.ParseFromString(bytes));
      const std::string label = model.graph().name();
      train::Graph graph = import_onnx(std::span(bytes.data(), bytes.size()), label);
      graph.outputs.resize(1);
      if (std::ranges::any_of(graph.nodes, [&](const train::Node& n) {
            return !known.contains(std::string(n.op->type()));
          }))
        continue;
      std::string again;
      try {
        ExportInfo info;
        info.output = model.graph().output(0).name();
        again = export_onnx(graph, info);
      } catch (const train::Error& e) {
        // A form that opset 17 lacks, weights or shapes that are inputs: said.
        const std::string why = e.what();
        EXPECT_TRUE(why.starts_with("node '") || why.find("worked out") != why.npos) << why;
        continue;
      }
      try {
        run_graph(import_onnx(std::span(again.data(), again.size()), label), model, true, label);
      } catch (const train::Error& e) {
        ADD_FAILURE() << label << ": " << e.what();
      }
      for (const train::Node& n : graph.nodes) written.insert(std::string(n.op->type()));
      ++models;
    }
  EXPECT_GT(models, 100);
  for (const std::string& op : all) EXPECT_TRUE(written.contains(op)) << op;
}

// Forms newer than the opsets the fixtures cover, or that ONNX Runtime does not run.
const std::set<std::string> kWithoutFixture = {"RMSNormalization", "Swish"};

TEST(OnnxOpTable, EveryRowHasAFixture) {
  std::set<const OpRow*> covered;
  for (const std::string& name : bundles()) {
    for (const std::string& bytes :
         read_bundle(std::string(OCR_TEST_DATA) + "/onnx/ops/" + name + ".bin")) {
      onnx::ModelProto model;
      ASSERT_TRUE(model.ParseFromString(bytes));
      const OpRow* row = find_row(model.graph().node(0).op_type(), model.opset_import(0).version());
      ASSERT_NE(row, nullptr);
      covered.insert(row);
    }
  }
  for (const OpRow& row : all_rows())
    EXPECT_TRUE(covered.contains(&row) || kWithoutFixture.contains(std::string(row.op)))
        << row.op << " since " << row.since;
}

}  // namespace
}  // namespace ocr
