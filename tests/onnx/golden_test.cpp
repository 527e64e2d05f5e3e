// Per-layer checksums of real models, so that a wrong pass or kernel names the first layer that it
// breaks. The models are not in the repository: scripts/fetch_models.sh brings them, without them
// the tests are skipped. OCR_UPDATE_GOLDEN=1 writes the files anew.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "libocr/onnx/import.h"
#include "libtrain/graph/net.h"

namespace ocr {
namespace {

using train::Shape;
using train::Tensor;

// Mean and mean of absolute values: enough to tell a wrong layer, and alike on every instruction
// set.
struct Sums {
  double mean = 0, magnitude = 0;
};

std::vector<std::pair<std::string, Sums>> layers_of(const std::string& model, const Shape& shape) {
  const auto net = train::Net::compile(import_onnx(model));
  train::Feed feed{Tensor(shape)};
  uint32_t state = 1;
  for (float& v : feed.tensor.span<float>()) {  // a fixed sequence in [-1, 1)
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) * 0x1p-23f - 1.f;
  }
  std::vector<std::pair<std::string, Sums>> layers;
  train::Context context;
  context.inspect = [&](const std::string& node, const std::string&, const Tensor& t) {
    if (t.dtype() != train::DType::kF32 || t.numel() == 0) return;
    Sums s;
    for (const float v : t.span<float>()) {
      s.mean += v;
      s.magnitude += std::abs(v);
    }
    const auto n = static_cast<double>(t.numel());
    layers.emplace_back(node, Sums{s.mean / n, s.magnitude / n});
  };
  std::vector<Tensor> out;
  net->run(context, {&feed, 1}, out);
  return layers;
}

class Golden : public ::testing::TestWithParam<std::tuple<const char*, const char*, Shape>> {};

TEST_P(Golden, EveryLayer) {
  const auto& [name, file, shape] = GetParam();
  const std::string model = std::string(OCR_SOURCE_DIR "/models/") + file;
  if (!std::filesystem::exists(model))
    GTEST_SKIP() << file << " is not there; scripts/fetch_models.sh brings it";
  const std::string path = std::string(OCR_TEST_DATA "/golden/") + name + ".txt";
  const auto layers = layers_of(model, shape);
  if (std::getenv("OCR_UPDATE_GOLDEN")) {
    std::ofstream out(path);
    out.precision(9);
    for (const auto& [layer, s] : layers)
      out << layer << '\t' << s.mean << '\t' << s.magnitude << '\n';
    GTEST_SKIP() << "wrote " << path;
  }
  std::ifstream in(path);
  ASSERT_TRUE(in) << path;
  size_t i = 0;
  for (std::string line; std::getline(in, line); ++i) {
    const size_t tab = line.find('\t');
    std::istringstream numbers(line.substr(tab));
    Sums want;
    numbers >> want.mean >> want.magnitude;
    ASSERT_LT(i, layers.size());
    ASSERT_EQ(layers[i].first, line.substr(0, tab))
        << "layer " << i << ": the graph has changed; update on purpose";
    const double slack = 1e-4 * want.magnitude + 1e-9;
    ASSERT_NEAR(layers[i].second.mean, want.mean, slack)
        << "first wrong layer: " << layers[i].first;
    ASSERT_NEAR(layers[i].second.magnitude, want.magnitude, slack)
        << "first wrong layer: " << layers[i].first;
  }
  EXPECT_EQ(i, layers.size());
}

INSTANTIATE_TEST_SUITE_P(
    Models, Golden,
    ::testing::Values(std::tuple("v6_tiny_det", "ppocrv6_tiny/det.onnx", Shape{1, 3, 96, 160}),
                      std::tuple("v6_tiny_rec", "ppocrv6_tiny/rec.onnx", Shape{1, 3, 48, 160}),
                      std::tuple("v2_cls", "cls_v2/cls.onnx", Shape{2, 3, 48, 192})),
    [](const auto& info) { return std::string(std::get<0>(info.param)); });

}  // namespace
}  // namespace ocr
