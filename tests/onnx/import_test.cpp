// The importer: what it reads, how it names what it cannot, and that hostile files are refused
// before memory is taken.
#include "libocr/onnx/import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "libocr/onnx/proto.h"
#include "libocr/onnx/wire.h"
#include "libtrain/core/sha256.h"
#include "libtrain/graph/net.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;
using train::Tensor;

ModelProto empty_model(int64_t opset = 17) {
  ModelProto m;
  m.set_ir_version(8);
  m.set_producer_name("import_test");
  auto* o = m.add_opset_import();
  o->set_domain("");
  o->set_version(opset);
  m.mutable_graph()->set_name("g");
  return m;
}

NodeProto* add_node(onnx::GraphProto* g, const std::string& op, const std::vector<std::string>& in,
                    const std::vector<std::string>& out) {
  auto* n = g->add_node();
  n->set_op_type(op);
  n->set_name("the_" + op);
  for (const auto& i : in) n->add_input(i);
  for (const auto& o : out) n->add_output(o);
  return n;
}
NodeProto* add_node(ModelProto& m, const std::string& op, const std::vector<std::string>& in,
                    const std::vector<std::string>& out) {
  return add_node(m.mutable_graph(), op, in, out);
}

void add_input(ModelProto& m, const std::string& name, const std::vector<std::string>& dims,
               int type = TensorProto::FLOAT) {
  auto* in = m.mutable_graph()->add_input();
  in->set_name(name);
  auto* t = in->mutable_type()->mutable_tensor_type();
  t->set_elem_type(type);
  for (const auto& d : dims) {
    auto* dim = t->mutable_shape()->add_dim();
    if (!d.empty() && isdigit(d[0]))
      dim->set_dim_value(std::stoll(d));
    else
      dim->set_dim_param(d);
  }
}

void add_output(ModelProto& m, const std::string& name) {
  auto* out = m.mutable_graph()->add_output();
  out->set_name(name);
  out->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
}

TensorProto* add_tensor(ModelProto& m, const std::string& name, const std::vector<int64_t>& dims,
                        int type = TensorProto::FLOAT) {
  auto* t = m.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  for (int64_t d : dims) t->add_dims(d);
  return t;
}

void add_ints(ModelProto& m, const std::string& name, const std::vector<int64_t>& values) {
  auto* t = add_tensor(m, name, {static_cast<int64_t>(values.size())}, TensorProto::INT64);
  for (int64_t v : values) t->add_int64_data(v);
}

train::Graph load(const ModelProto& m, const ImportOptions& options = {},
                  ModelInfo* info = nullptr) {
  const std::string bytes = m.SerializeAsString();
  return import_onnx(std::span(bytes.data(), bytes.size()), "test.onnx", options, info);
}

Tensor run(train::Graph graph, const std::vector<Tensor>& inputs) {
  const auto net = train::Net::compile(std::move(graph));
  std::vector<train::Feed> feeds;
  for (const Tensor& t : inputs) feeds.push_back({t});
  train::Context context;
  std::vector<Tensor> outputs;
  net->run(context, feeds, outputs);
  return outputs.at(0).clone();
}

// The message of what `f` throws.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const train::Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

void expect_error(const ModelProto& m, const std::vector<std::string>& parts) {
  const std::string what = error_of([&] { load(m); });
  for (const std::string& part : parts)
    EXPECT_NE(what.find(part), std::string::npos) << "'" << part << "' is not in: " << what;
}

// x [N, 2] + w.
ModelProto add_model() {
  ModelProto m = empty_model();
  add_input(m, "x", {"batch", "2"});
  add_node(m, "Add", {"x", "w"}, {"y"});
  add_output(m, "y");
  return m;
}

TEST(OnnxImport, ReadsNamesAndMetadata) {
  ModelProto m = add_model();
  auto* w = add_tensor(m, "w", {2});
  w->add_float_data(1);
  w->add_float_data(2);
  auto* meta = m.add_metadata_props();
  meta->set_key("character");
  meta->set_value("abc");
  ModelInfo info;
  const train::Graph g = load(m, {}, &info);
  EXPECT_EQ(info.opset, 17);
  EXPECT_EQ(info.producer, "import_test");
  EXPECT_EQ(info.metadata.at("character"), "abc");
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].name, "x");
  EXPECT_EQ(info.inputs[0].dtype, "float");
  EXPECT_EQ(info.inputs[0].dims, (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(info.inputs[0].dim_names[0], "batch");
  EXPECT_EQ(info.sha256, train::sha256_hex(m.SerializeAsString()));
  EXPECT_EQ(g.inputs[0].dims, (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(run(g, {Tensor::from<float>({1, 2}, {10.f, 20.f})}).to_doubles(),
            (std::vector<double>{11, 22}));
}

TEST(OnnxImport, Sha256OfKnownMessages) {
  EXPECT_EQ(train::sha256_hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(train::sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(train::sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(OnnxImport, NarrowAndWideFloatsBecomeF32) {
  for (const int type : {TensorProto::FLOAT16, TensorProto::BFLOAT16, TensorProto::DOUBLE}) {
    ModelProto m = empty_model();
    add_input(m, "x", {"2"}, type);
    add_node(m, "Add", {"x", "w"}, {"sum"});
    auto* cast = add_node(m, "Cast", {"sum"}, {"y"});
    auto* a = cast->add_attribute();
    a->set_name("to");
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(type);
    add_output(m, "y");
    auto* w = add_tensor(m, "w", {2}, type);
    if (type == TensorProto::DOUBLE) {
      w->add_double_data(1.5);
      w->add_double_data(-2);
    } else {
      const bool half = type == TensorProto::FLOAT16;
      w->add_int32_data(half ? 0x3e00 : 0x3fc0);
      w->add_int32_data(half ? 0xc000 : 0xc000);
    }
    const train::Graph g = load(m);
    EXPECT_EQ(g.inputs[0].dtype, train::DType::kF32);
    EXPECT_EQ(run(g, {Tensor::from<float>({2}, {1.f, 1.f})}).to_doubles(),
              (std::vector<double>{2.5, -1}));
  }
}

TEST(OnnxImport, FollowsIdentitiesToWeights) {
  ModelProto m = empty_model();
  add_input(m, "x", {"1", "1", "3", "3"});
  auto* w = add_tensor(m, "w", {1, 1, 1, 1});
  w->add_float_data(2);
  add_node(m, "Identity", {"w"}, {"w1"});
  add_node(m, "Identity", {"w1"}, {"w2"});
  add_node(m, "Conv", {"x", "w2"}, {"y"});
  add_output(m, "y");
  const train::Graph g = load(m);
  EXPECT_EQ(g.nodes.size(), 1u);
  EXPECT_NE(g.constant(g.nodes[0].inputs[1]), nullptr);
}

onnx::AttributeProto* add_branch(NodeProto* n, const std::string& name, float value) {
  auto* a = n->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::GRAPH);
  auto* c = a->mutable_g()->add_initializer();
  c->set_name("c");
  c->set_data_type(TensorProto::FLOAT);
  c->add_float_data(value);
  add_node(a->mutable_g(), "Mul", {"x", "c"}, {"branch_y"});
  a->mutable_g()->add_output()->set_name("branch_y");
  return a;
}

ModelProto if_model(bool constant) {
  ModelProto m = empty_model();
  add_input(m, "x", {"2"});
  if (constant)
    add_tensor(m, "cond", {}, TensorProto::BOOL)->add_int32_data(0);
  else
    add_input(m, "cond", {}, TensorProto::BOOL);
  NodeProto* n = add_node(m, "If", {"cond"}, {"y"});
  add_branch(n, "then_branch", 2);
  add_branch(n, "else_branch", 3);
  add_output(m, "y");
  return m;
}

TEST(OnnxImport, TakesTheBranchOfAConstantCondition) {
  EXPECT_EQ(run(load(if_model(true)), {Tensor::from<float>({2}, {1.f, 5.f})}).to_doubles(),
            (std::vector<double>{3, 15}));
  expect_error(if_model(false), {"If", "the_If", "condition"});
}

TEST(OnnxImport, InputsCanBecomeConstants) {
  ModelProto m = add_model();
  add_input(m, "w", {"2"});
  ImportOptions options;
  options.constants["w"] = Tensor::from<float>({2}, {1.f, 1.f});
  EXPECT_EQ(load(m, options).inputs.size(), 1u);
}

TEST(OnnxImport, NamesWhatItDoesNotSupport) {
  ModelProto m = empty_model();
  add_input(m, "x", {"2"});
  NodeProto* n = add_node(m, "NoSuchOp", {"x"}, {"y"});
  add_output(m, "y");
  expect_error(m, {"test.onnx", "NoSuchOp", "opset 17", "the_NoSuchOp"});
  n->set_domain("com.microsoft");
  expect_error(m, {"com.microsoft.NoSuchOp", "the_NoSuchOp"});
  n->set_domain("");
  n->set_op_type("Loop");
  expect_error(m, {"Loop", "the_NoSuchOp"});
  ModelProto old = add_model();
  old.mutable_opset_import(0)->set_version(6);
  expect_error(old, {"opset 6", "7 to"});
  old.mutable_opset_import(0)->set_version(99);
  expect_error(old, {"opset 99"});
}

TEST(OnnxImport, BrokenGraphsAreErrors) {
  expect_error(add_model(), {"the_Add", "'w'"});  // nothing makes w
  ModelProto twice = add_model();
  add_tensor(twice, "w", {1})->add_float_data(1);
  add_node(twice, "Relu", {"x"}, {"y"});
  expect_error(twice, {"'y'", "twice"});
  ModelProto none = empty_model();
  expect_error(none, {"no output"});
  ModelProto missing = empty_model();
  add_output(missing, "z");
  expect_error(missing, {"'z'"});
  ModelProto type = add_model();
  add_tensor(type, "w", {1}, TensorProto::STRING)->add_string_data("a");
  expect_error(type, {"'w'", "string"});
  EXPECT_NE(error_of([] { import_onnx("/no/such/model.onnx"); }).find("no such file"),
            std::string::npos);
  const std::string bytes = add_model().SerializeAsString();
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_THROW(import_onnx(std::span(bytes.data(), cut), "cut.onnx"), train::Error) << cut;
}

// ---- Hostile files

TEST(OnnxHostile, SizesMustFitTheData) {
  const std::vector<std::vector<int64_t>> shapes = {
      {1 << 20, 1 << 20},         {INT64_MAX}, {INT64_MAX, INT64_MAX}, {-1}, {3},
      {1, 1, 1, 1, 1, 1, 1, 1, 1}};
  for (const auto& dims : shapes) {
    ModelProto m = add_model();
    auto* w = add_tensor(m, "w", dims);
    w->add_float_data(1);
    expect_error(m, {"'w'"});
    w->clear_float_data();
    w->set_raw_data("12345678");
    expect_error(m, {"'w'"});
  }
}

TEST(OnnxHostile, CountsAndNamesAreBounded) {
  ModelProto m = add_model();
  add_tensor(m, "w", {1})->add_float_data(1);
  ImportOptions options;
  options.max_nodes = 0;
  EXPECT_NE(error_of([&] { load(m, options); }).find("nodes"), std::string::npos);
  options = {};
  options.max_constant_bytes = 3;
  EXPECT_NE(error_of([&] { load(m, options); }).find("constants exceed"), std::string::npos);
  options = {};
  options.max_file_bytes = 10;
  EXPECT_NE(error_of([&] { load(m, options); }).find("limit"), std::string::npos);
  m.mutable_graph()->mutable_node(0)->set_output(0, std::string(5000, 'y'));
  expect_error(m, {"name"});
}

TEST(OnnxHostile, NestingAndFieldCountsAreBoundedBeforeParsing) {
  // A graph in an attribute of a node of a graph, and so on.
  std::string graph;
  const auto field = [](int number, const std::string& payload) {
    std::string out(1, static_cast<char>(number << 3 | 2));
    for (size_t n = payload.size();; n >>= 7) {
      out += static_cast<char>((n & 127) | (n > 127 ? 128 : 0));
      if (n <= 127) break;
    }
    return out + payload;
  };
  for (int i = 0; i < 40; ++i) graph = field(1, field(5, field(6, graph)));
  const std::string nested = field(7, graph);
  EXPECT_NE(error_of([&] {
              import_onnx(std::span(nested.data(), nested.size()), "n.onnx");
            }).find("nested"),
            std::string::npos);
  std::string nodes;
  for (int i = 0; i < 1000; ++i) nodes += field(1, "");
  const std::string many = field(7, nodes);
  EXPECT_NO_THROW(check_wire(std::span(many.data(), many.size()), {.max_fields = 1001}));
  EXPECT_THROW(check_wire(std::span(many.data(), many.size()), {.max_fields = 1000}),
               train::FormatError);
}

TEST(OnnxHostile, GeneratedConstantsAreBounded) {
  const std::vector<int64_t> huge = {1 << 20, 1 << 20, 1 << 6};
  const auto bomb = [&](const std::string& op, const std::vector<std::string>& inputs) {
    ModelProto m = empty_model();
    add_input(m, "x", {"1"});
    add_ints(m, "shape", huge);
    auto* one = add_tensor(m, "one", {1, 1, 1});
    one->add_float_data(1);
    for (const auto& [name, value] :
         {std::pair<std::string, int64_t>{"start", 0}, {"limit", INT64_MAX}, {"delta", 1}})
      add_tensor(m, name, {}, TensorProto::INT64)->add_int64_data(value);
    add_node(m, op, inputs, {"big"});
    add_node(m, "Size", {"big"}, {"y"});
    add_output(m, "y");
    EXPECT_NE(error_of([&] {
                for (const bool fuse : {false, true}) {
                  const auto net = train::Net::compile(load(m), {.fuse = fuse});
                  const train::Feed feed{Tensor::zeros({1})};
                  net->plan(std::span(&feed, 1));
                }
              }),
              "nothing was thrown")
        << op;
  };
  bomb("ConstantOfShape", {"shape"});
  bomb("Expand", {"one", "shape"});
  bomb("Tile", {"one", "shape"});
  bomb("Range", {"start", "limit", "delta"});
}

// ---- External data

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / train::cat("ocr_onnx_test_", getpid());
    fs::create_directories(root_ / "model" / "sub");
    write(root_ / "secret.bin");
    write(root_ / "model" / "w.bin");
    write(root_ / "model" / "sub" / "w.bin");
  }
  void TearDown() override { fs::remove_all(root_); }
  static void write(const fs::path& p) {
    const float values[4] = {1, 2, 3, 4};
    std::ofstream(p, std::ios::binary).write(reinterpret_cast<const char*>(values), 16);
  }
  // w [2] at `offset` of `location`.
  std::string try_load(const std::string& location, const std::string& offset = "8",
                       const std::string& length = "8") {
    ModelProto m = add_model();
    auto* w = add_tensor(m, "w", {2});
    w->set_data_location(TensorProto::EXTERNAL);
    const auto entry = [&](const std::string& k, const std::string& v) {
      auto* e = w->add_external_data();
      e->set_key(k);
      e->set_value(v);
    };
    entry("location", location);
    if (!offset.empty()) entry("offset", offset);
    if (!length.empty()) entry("length", length);
    const fs::path path = root_ / "model" / "m.onnx";
    std::ofstream(path, std::ios::binary) << m.SerializeAsString();
    const std::string what = error_of([&] {
      const Tensor y = run(import_onnx(path.string()), {Tensor::zeros({1, 2})});
      EXPECT_EQ(y.to_doubles(), (std::vector<double>{3, 4}));
    });
    return what == "nothing was thrown" ? "" : what;
  }
  fs::path root_;
};

TEST_F(ExternalData, IsReadFromTheModelsFolderOnly) {
  EXPECT_EQ(try_load("w.bin"), "");
  EXPECT_EQ(try_load("sub/w.bin"), "");
  EXPECT_EQ(try_load("w.bin", "8", ""), "");
  EXPECT_NE(try_load("../secret.bin").find("outside"), std::string::npos);
  EXPECT_NE(try_load("sub/../../secret.bin").find("outside"), std::string::npos);
  EXPECT_NE(try_load((root_ / "secret.bin").string()).find("outside"), std::string::npos);
  fs::create_symlink(root_ / "secret.bin", root_ / "model" / "link.bin");
  EXPECT_NE(try_load("link.bin").find("outside"), std::string::npos);
  EXPECT_NE(try_load("absent.bin").find("cannot be found"), std::string::npos);
  EXPECT_NE(try_load("sub").find("no file"), std::string::npos);
  EXPECT_NE(try_load("").find("outside"), std::string::npos);
}

TEST_F(ExternalData, OffsetsAndLengthsAreChecked) {
  EXPECT_NE(try_load("w.bin", "12").find("ends before"), std::string::npos);
  EXPECT_NE(try_load("w.bin", "9223372036854775807").find("ends before"), std::string::npos);
  EXPECT_NE(try_load("w.bin", "-8").find("no offset"), std::string::npos);
  EXPECT_NE(try_load("w.bin", "8", "16").find("16 bytes"), std::string::npos);
  ModelProto m = add_model();
  add_tensor(m, "w", {2})->set_data_location(TensorProto::EXTERNAL);
  expect_error(m, {"external data needs a model read from a file"});
}

}  // namespace
}  // namespace ocr
