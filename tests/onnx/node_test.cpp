// Runs the official ONNX node tests. ONNX_NODE_TESTS names the folder that holds them (a folder per
// test: model.onnx, test_data_set_*/); without it the test is skipped. ONNX_NODE_TABLE names a file
// to write docs/onnx.md's table to. scripts/onnx_node_tests.sh sets both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "libocr/onnx/import.h"
#include "libocr/onnx/proto.h"
#include "libocr/onnx/tensor_proto.h"
#include "libtrain/graph/net.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using train::Tensor;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

struct Outcome {
  enum Kind { kPass, kType, kUnsupported, kFail } kind = kPass;
  std::string why;
  int frozen = 0;  // how many inputs had to be constants
};

struct NodeCase {
  std::string name;
  fs::path folder;
  onnx::ModelProto model;
  std::set<std::string> ops;
};

struct DataSet {
  std::vector<Tensor> inputs, outputs;
};

DataSet load_data(const fs::path& folder, const onnx::ModelProto& model) {
  DataSet d;
  TensorReader reader("", int64_t{1} << 30);
  const auto load = [&](const std::string& stem, int count, std::vector<Tensor>& to) {
    for (int i = 0; i < count; ++i) {
      onnx::TensorProto t;
      const std::string bytes = read_file(folder / (stem + std::to_string(i) + ".pb"));
      if (!t.ParseFromString(bytes)) throw train::FormatError("test data of another kind");
      to.push_back(reader.read(t));
    }
  };
  load("input_", model.graph().input_size(), d.inputs);
  load("output_", model.graph().output_size(), d.outputs);
  return d;
}

// The relative tolerance of onnx's own runner; results of narrow floats differ in their last bits.
std::string difference(const Tensor& got, const Tensor& want, bool narrow) {
  if (!(got.shape() == want.shape()))
    return "shape " + got.shape().str() + " instead of " + want.shape().str();
  if (got.dtype() != want.dtype())
    return train::cat("type ", train::name_of(got.dtype()), " instead of ",
                      train::name_of(want.dtype()));
  const auto a = got.to_doubles(), b = want.to_doubles();
  const double relative = narrow ? 1e-2 : 1e-3, absolute = narrow ? 1e-3 : 1e-6;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    if (!(std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])))
      return train::cat("element ", i, " is ", a[i], " instead of ", b[i]);
  }
  return "";
}

bool is_narrow(const onnx::ValueInfoProto& v) {
  const int t = v.type().tensor_type().elem_type();
  return t == onnx::TensorProto::FLOAT16 || t == onnx::TensorProto::BFLOAT16;
}

std::string run_once(const NodeCase& c, const DataSet& d, const std::set<int>& frozen, bool fuse) {
  ImportOptions options;
  std::vector<train::Feed> feeds;
  for (int i = 0; i < c.model.graph().input_size(); ++i) {
    if (frozen.contains(i))
      options.constants[c.model.graph().input(i).name()] = d.inputs[i];
    else
      feeds.push_back({d.inputs[i], train::Layout::kLinear});
  }
  const auto net =
      train::Net::compile(import_onnx((c.folder / "model.onnx").string(), options), {.fuse = fuse});
  train::Context context;
  std::vector<Tensor> outputs;
  net->run(context, feeds, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    bool narrow = is_narrow(c.model.graph().output(static_cast<int>(i)));
    for (const auto& in : c.model.graph().input()) narrow = narrow || is_narrow(in);
    const std::string diff = difference(outputs[i], d.outputs[i], narrow);
    if (!diff.empty()) return train::cat("output ", i, ": ", diff, fuse ? " (passes on)" : "");
  }
  return "";
}

// As it stands; then with all inputs but the first as constants; then with all of them.
Outcome run_case(const NodeCase& c) {
  try {
    import_onnx((c.folder / "model.onnx").string());
  } catch (const train::Error& e) {
    std::string why = e.what();
    if (const size_t at = why.find("model.onnx: "); at != std::string::npos) why.erase(0, at + 12);
    if (why.find("elements of type") != std::string::npos ||
        why.find("a cast to") != std::string::npos || why.find("is no tensor") != std::string::npos)
      return {Outcome::kType, why, 0};
    if (why.find("If at node") == std::string::npos) return {Outcome::kUnsupported, why, 0};
  }
  DataSet d;
  try {
    d = load_data(c.folder / "test_data_set_0", c.model);
  } catch (const train::Error& e) {
    return {Outcome::kType, e.what(), 0};
  }
  const int inputs = c.model.graph().input_size();
  Outcome last;
  for (int first = inputs; first >= 0; first = first > 1 ? 1 : first - 1) {
    std::set<int> frozen;
    for (int i = first; i < inputs; ++i) frozen.insert(i);
    last.frozen = static_cast<int>(frozen.size());
    try {
      for (const bool fuse : {false, true}) {
        const std::string diff = run_once(c, d, frozen, fuse);
        if (!diff.empty()) return {Outcome::kFail, diff, last.frozen};
      }
      return {Outcome::kPass, "", last.frozen};
    } catch (const train::Error& e) {
      last = {Outcome::kFail, e.what(), last.frozen};
      // Only what needs constants is tried again with constants.
      if (last.why.find("computed") == std::string::npos &&
          last.why.find("constant") == std::string::npos)
        return last;
    }
  }
  return last;
}

// name -> reason, from tests/onnx/node_exclusions.txt.
std::map<std::string, std::string> exclusions() {
  std::map<std::string, std::string> out;
  std::ifstream in(std::string(OCR_SOURCE_DIR) + "/tests/onnx/node_exclusions.txt");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (!line.empty() && line[0] != '#' && colon != std::string::npos)
      out[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return out;
}

struct Tally {
  int pass = 0, constant = 0, type = 0, fail = 0, unsupported = 0, excluded = 0;
};

TEST(OnnxNodeTests, EveryClaimedOperatorPasses) {
  const char* root = std::getenv("ONNX_NODE_TESTS");
  if (!root)
    GTEST_SKIP() << "ONNX_NODE_TESTS is not set; scripts/onnx_node_tests.sh brings the data";
  const char* only = std::getenv("ONNX_NODE_ONLY");
  std::set<std::string> claimed;
  for (const SupportedOp& op : supported_ops()) claimed.insert(op.name);
  claimed.insert("If");
  const auto excluded = exclusions();
  std::set<std::string> used;
  std::map<std::string, Tally> by_op;
  Tally total, composite;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) folders.push_back(entry.path());
  std::ranges::sort(folders);
  for (const fs::path& folder : folders) {
    NodeCase c{folder.filename().string(), folder, {}, {}};
    if (only && c.name.find(only) == std::string::npos) continue;
    ASSERT_TRUE(c.model.ParseFromString(read_file(folder / "model.onnx"))) << folder;
    bool all_claimed = true;
    for (const auto& n : c.model.graph().node()) {
      c.ops.insert(n.op_type());
      all_claimed = all_claimed && n.domain().empty() && claimed.contains(n.op_type());
    }
    Outcome o = run_case(c);
    if (std::getenv("ONNX_NODE_VERBOSE"))
      std::cout << c.name << ' ' << o.kind << ' ' << o.frozen << ' ' << o.why << '\n';
    const auto reason = excluded.find(c.name);
    Tally& tally = c.ops.size() == 1 ? by_op[*c.ops.begin()] : composite;
    for (Tally* t : {&tally, &total}) {
      if (o.kind == Outcome::kPass) ++t->pass, t->constant += o.frozen > 0;
      if (o.kind != Outcome::kPass && reason != excluded.end())
        ++t->excluded;
      else if (o.kind == Outcome::kType)
        ++t->type;
      else if (o.kind == Outcome::kUnsupported)
        ++t->unsupported;
      else if (o.kind == Outcome::kFail)
        ++t->fail;
    }
    if (reason != excluded.end()) {
      used.insert(c.name);
      EXPECT_NE(o.kind, Outcome::kPass) << c.name << " passes and needs no exclusion";
    } else if (o.kind == Outcome::kFail || (o.kind == Outcome::kUnsupported && all_claimed)) {
      ADD_FAILURE() << c.name << ": " << o.why;
    }
  }
  std::cout << "node tests: " << total.pass << " passed (" << total.constant
            << " of them with constant parameters), " << total.fail << " failed, " << total.excluded
            << " excluded, " << total.type << " of element types that the engine does not have, "
            << total.unsupported << " of unsupported operators\n";
  if (only) return;
  for (const auto& [name, why] : excluded)
    EXPECT_TRUE(used.contains(name)) << "no such test to exclude: " << name;
  EXPECT_GT(total.pass, 700);
  if (const char* table = std::getenv("ONNX_NODE_TABLE")) {
    std::map<std::string, std::string> forms;
    for (const SupportedOp& op : supported_ops()) {
      std::string& f = forms[op.name];
      f += (f.empty() ? "" : ", ") + std::to_string(std::max(op.since, kMinOpset));
    }
    std::ofstream out(table);
    out << "| operator | forms since opset | node tests passed | with constant parameters | other "
           "element "
           "types | excluded |\n"
        << "| --- | --- | --- | --- | --- | --- |\n";
    for (const auto& [name, form] : forms) {
      const Tally& t = by_op[name];
      out << "| " << name << " | " << form << " | " << t.pass << " | " << t.constant << " | "
          << t.type << " | " << t.excluded << " |\n";
    }
    out << "| composites of several | | " << composite.pass << " | " << composite.constant << " | "
        << composite.type << " | " << composite.excluded << " |\n";
  }
}

}  // namespace
}  // namespace ocr
