// Valid models with a few things changed that a parser cannot see: attributes, shapes, element
// types, contents of constants, operators, opsets. Each gives a result or a train::Error, and stays
// within its memory; a crash prints the seed. ONNX_MUTATIONS sets how many (default 6000).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <span>

#include "libocr/onnx/import.h"
#include "libocr/onnx/op_map.h"
#include "libocr/onnx/proto.h"
#include "libtrain/graph/net.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;

std::vector<onnx::ModelProto> fixtures() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(std::string(OCR_TEST_DATA) + "/onnx/ops"))
    files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<onnx::ModelProto> models;
  for (const fs::path& path : files) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (size_t at = 0; at + 4 <= bytes.size();) {
      uint32_t size = 0;
      std::memcpy(&size, bytes.data() + at, 4);
      onnx::ModelProto m;
      if (m.ParseFromArray(bytes.data() + at + 4, static_cast<int>(size))) {
        auto* tensors = m.mutable_graph()->mutable_initializer();
        for (int i = tensors->size(); i-- > 0;)  // the fixture's own test data
          if (tensors->Get(i).name().find('/') != std::string::npos) tensors->DeleteSubrange(i, 1);
        models.push_back(std::move(m));
      }
      at += 4 + size;
    }
  }
  return models;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : engine_(seed) {}
  int64_t below(int64_t n) {
    return n <= 0 ? 0 : std::uniform_int_distribution<int64_t>(0, n - 1)(engine_);
  }
  // Mostly small, sometimes at an edge of its type.
  int64_t number() {
    constexpr int64_t edges[] = {0,
                                 -1,
                                 1,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min(),
                                 int64_t{1} << 31,
                                 (int64_t{1} << 31) - 1,
                                 -(int64_t{1} << 31),
                                 int64_t{1} << 40,
                                 1 << 20,
                                 1000};
    return below(3) ? below(8) - 2 : edges[below(std::size(edges))];
  }
  void mutate(onnx::ModelProto& m) {
    for (int64_t i = below(3); i >= 0; --i) once(m);
  }

 private:
  void once(onnx::ModelProto& m) {
    auto* g = m.mutable_graph();
    auto* node = g->mutable_node(0);
    switch (below(9)) {
      case 0:
      case 1:
        if (node->attribute_size())
          attribute(node->mutable_attribute(below(node->attribute_size())));
        break;
      case 2:
        if (node->attribute_size())
          node->mutable_attribute()->DeleteSubrange(below(node->attribute_size()), 1);
        break;
      case 3:
        if (g->input_size()) {
          auto* shape = g->mutable_input(below(g->input_size()))
                            ->mutable_type()
                            ->mutable_tensor_type()
                            ->mutable_shape();
          if (shape->dim_size() && below(4))
            shape->mutable_dim(below(shape->dim_size()))
                ->set_dim_value(below(2) ? below(9) : number());
          else if (shape->dim_size() && below(2))
            shape->mutable_dim()->RemoveLast();
          else
            shape->add_dim()->set_dim_value(below(4));
        }
        break;
      case 4:
        if (g->input_size()) {
          constexpr int types[] = {1, 2, 3, 6, 7, 9, 10, 11};
          g->mutable_input(below(g->input_size()))
              ->mutable_type()
              ->mutable_tensor_type()
              ->set_elem_type(types[below(std::size(types))]);
        }
        break;
      case 5:
        if (g->initializer_size()) contents(g->mutable_initializer(below(g->initializer_size())));
        break;
      case 6:
        node->set_op_type(
            std::string(all_rows()[below(static_cast<int64_t>(all_rows().size()))].op));
        break;
      case 7:
        m.mutable_opset_import(0)->set_version(kMinOpset + below(kMaxOpset - kMinOpset + 1));
        break;
      default:
        if (node->input_size() > 1)
          node->mutable_input()->SwapElements(below(node->input_size()), below(node->input_size()));
        else
          node->add_output("extra");
    }
  }
  void attribute(onnx::AttributeProto* a) {
    if (a->type() == onnx::AttributeProto::INT) a->set_i(number());
    if (a->type() == onnx::AttributeProto::FLOAT) a->set_f(static_cast<float>(number()));
    if (a->type() == onnx::AttributeProto::INTS && a->ints_size())
      a->set_ints(below(a->ints_size()), number());
    if (a->type() == onnx::AttributeProto::INTS && !below(4)) a->add_ints(number());
  }
  // A shape or a list of integers that still fits its data.
  void contents(onnx::TensorProto* t) {
    if (t->data_type() == onnx::TensorProto::INT64 && t->raw_data().size() >= 8) {
      const int64_t v = number();
      std::memcpy(
          t->mutable_raw_data()->data() + 8 * below(static_cast<int64_t>(t->raw_data().size() / 8)),
          &v, 8);
    } else if (t->dims_size() > 1 && below(2)) {
      t->mutable_dims()->SwapElements(0, t->dims_size() - 1);
    } else {
      t->add_dims(1);
    }
  }
  std::mt19937 engine_;
};

// True when it ran to the end.
bool run(const onnx::ModelProto& m, bool fuse) {
  const std::string bytes = m.SerializeAsString();
  ImportOptions limits;
  limits.max_constant_bytes = 1 << 24;
  try {
    const auto net =
        train::Net::compile(import_onnx(std::span(bytes.data(), bytes.size()), "mutated", limits),
                            {.fuse = fuse, .max_arena_bytes = 1 << 26});
    std::vector<train::Feed> feeds;
    for (const train::GraphInput& in : net->graph().inputs) {
      train::Shape shape;
      for (int64_t d : in.dims) shape.push_back(d < 0 ? 3 : d);
      if (shape.numel() > (1 << 16)) return false;
      feeds.push_back({train::Tensor::zeros(shape, in.dtype)});
    }
    if (net->plan(feeds) > (1 << 22)) return false;
    train::Context context;
    std::vector<train::Tensor> outputs;
    net->run(context, feeds, outputs);
    return true;
  } catch (const train::Error&) {
    return false;
  }
}

TEST(OnnxMutations, GiveAResultOrAnError) {
  const auto models = fixtures();
  ASSERT_GT(models.size(), 500u);
  const char* wanted = std::getenv("ONNX_MUTATIONS");
  const char* first = std::getenv("ONNX_FIRST_MUTATION");
  const unsigned count = wanted ? static_cast<unsigned>(std::atoi(wanted)) : 6000;
  const unsigned begin = first ? static_cast<unsigned>(std::atoi(first)) : 0;
  int ran = 0;
  for (unsigned seed = begin; seed < begin + count; ++seed) {
    Mutator mutator(seed);
    onnx::ModelProto m = models[seed % models.size()];
    mutator.mutate(m);
    if (const char* dump = std::getenv("ONNX_DUMP"))
      std::ofstream(dump, std::ios::binary) << m.SerializeAsString();
    SCOPED_TRACE(testing::Message() << "ONNX_FIRST_MUTATION=" << seed << " ONNX_MUTATIONS=1 "
                                    << m.graph().node(0).op_type());
    std::fprintf(stderr, "\r%u", seed);  // what ran last, should it crash
    const auto start = std::chrono::steady_clock::now();
    for (const bool fuse : {false, true}) ran += run(m, fuse);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << "too slow";
    if (took.count() > .5) std::fprintf(stderr, " took %.1f s\n", took.count());
  }
  std::fprintf(stderr, "\n");
  EXPECT_GT(ran, static_cast<int>(count) / 4) << "too few mutants are valid to tell anything";
}

}  // namespace
}  // namespace ocr
