// Fuzzer: any bytes as an ONNX model are a graph that can be optimised, planned and, when small,
// run, or a train::Error.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "libocr/onnx/import.h"
#include "libtrain/graph/net.h"

namespace {

constexpr int64_t kMaxFed = 1 << 16;         // elements of an input
constexpr size_t kMaxRun = size_t{1} << 20;  // bytes of an arena that is run

// Tensors for the declared inputs; empty when one is too large.
std::vector<train::Feed> feeds_of(const train::Graph& graph) {
  std::vector<train::Feed> feeds;
  for (const train::GraphInput& in : graph.inputs) {
    train::Shape shape;
    for (int64_t d : in.dims) shape.push_back(d < 0 ? 3 : d);
    if (shape.numel() > kMaxFed) throw train::ShapeError("an input is too large for this test");
    feeds.push_back({train::Tensor::zeros(shape, in.dtype)});
  }
  return feeds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ocr::ImportOptions options;
  options.max_constant_bytes = 1 << 22;
  options.max_nodes = 500;
  for (const bool fuse : {false, true}) {
    try {
      const auto net = train::Net::compile(
          ocr::import_onnx(std::span(reinterpret_cast<const char*>(data), size), "fuzz", options),
          {.fuse = fuse, .max_arena_bytes = 1 << 26});
      const auto feeds = feeds_of(net->graph());
      if (net->plan(feeds) > kMaxRun) continue;
      train::Context context;
      std::vector<train::Tensor> outputs;
      net->run(context, feeds, outputs);
    } catch (const train::Error&) {
    }
  }
  return 0;
}
