// Every architecture that can be trained: written as ONNX, read again, and as good as the trained
// net at several batches and sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "libocr/onnx/import.h"
#include "libocr/training/export.h"
#include "libtrain/core/philox.h"
#include "libtrain/graph/net.h"
#include "libtrain/train/archive.h"
#include "tests/support/npy.h"

namespace ocr {
namespace {

using train::Shape;
using train::Tensor;

constexpr int64_t kClasses = 11;

Tensor noise(const Shape& shape, uint64_t stream, float low, float high) {
  const train::RandomStream random(3, stream);
  Tensor t(shape);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = random.uniform(static_cast<uint64_t>(i), low, high);
  return t;
}

struct Case {
  const char* name;
  const char* architecture;
  InputSize size;        // fixed sides
  int convolutions = 0;  // stem, blocks, gates, neck, head once merged; 0: not counted
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

// As after a training: batch norms with statistics, weights and biases of their own.
std::unique_ptr<models::Model> trained(const Case& c) {
  const auto config = train::config::parse_training_config(
      std::string("Architecture: ") + c.architecture + "\n", "net.yml");
  train::config::ReadContext context;
  auto model = models::build_model(config.architecture, kClasses, context);
  model->initialize(7);
  for (train::nn::Parameter p : model->parameters())  // Paddle starts depthwise kernels small
    if (const train::Shape& s = p.variable.shape(); s.rank() == 4 && s[1] == 1) {
      p.init.fan_in = s.count(1, 4);
      train::nn::fill(p.variable.writable(), p.init, 7, p.name);
    }
  uint64_t stream = 100;
  const auto shake = [&](train::Variable v, float low, float high) {
    const Tensor t = noise(v.shape(), ++stream, low, high);
    std::copy_n(t.data<float>(), t.numel(), v.writable().data<float>());
  };
  for (const train::nn::StateEntry& e : model->state_dict()) {
    const bool vector = e.variable.shape().rank() == 1;
    if (e.is_buffer && e.name.ends_with("var"))
      shake(e.variable, .6f, 1.6f);
    else if (e.is_buffer)
      shake(e.variable, -.3f, .3f);
    else if (vector && (e.name.ends_with("weight") || e.name.ends_with("scale")))
      shake(e.variable, .7f, 1.2f);
    else if (vector)
      shake(e.variable, -.2f, .2f);
  }
  return model;
}

// The values before the last softmax or sigmoid.
struct Logits {
  Tensor of_net;
  double range = 0;
};

Logits logits_of(const models::Model& model, const Tensor& images) {
  train::Eager eager;
  train::Tape tape(eager, false);
  train::Variable before;
  tape.on_step([&](const train::AppliedOp& step) { before = step.inputs[0]; });
  model(tape, train::Variable::input(images));
  Logits l{eager.to_layout(before.array(), train::Layout::kLinear).tensor};
  const auto [least, most] = std::ranges::minmax(l.of_net.span<float>());
  l.range = double{most} - least;
  return l;
}

// The graph without its last node, which must be a softmax or a sigmoid.
train::Graph before_last(train::Graph graph) {
  for (const train::Node& n : graph.nodes)
    if (n.outputs[0] == graph.outputs[0]) {
      EXPECT_TRUE(n.op->type() == "Softmax" || n.op->type() == "Sigmoid") << n.op->type();
      graph.outputs[0] = n.inputs[0];
      break;
    }
  graph.remove_dead();
  return graph;
}

class Architectures : public testing::TestWithParam<Case> {};

TEST_P(Architectures, FileGivesWhatTheTrainedNetGives) {
  const Case& c = GetParam();
  const auto model = trained(c);
  const train::Graph graph = inference_graph(*model, c.size);
  for (const train::Node& n : graph.nodes) EXPECT_NE(n.op->type(), "BatchNormalization") << n.name;
  const std::string bytes = export_onnx(graph, export_info("rec", {{"kind", "test"}}));
  EXPECT_EQ(bytes,
            export_onnx(inference_graph(*model, c.size), export_info("rec", {{"kind", "test"}})));
  const auto convolutions = std::ranges::count_if(
      graph.nodes, [](const train::Node& n) { return n.op->type() == "Conv"; });
  if (c.convolutions > 0) {
    EXPECT_EQ(convolutions, c.convolutions);
  }

  // For scripts/export_check.py, which shows them to other runtimes.
  const char* keep = std::getenv("OCR_KEEP_EXPORTS");
  const std::string kept = keep ? std::string(keep) + "/" + c.name : "";
  if (keep) train::write_file_atomically(kept + ".onnx", bytes);

  ModelInfo info;
  const auto net = train::Net::compile(before_last(import_onnx(bytes, c.name, {}, &info)));
  EXPECT_EQ(info.opset, kExportOpset);
  EXPECT_EQ(info.inputs[0].dims[0], -1);
  train::Context context;
  for (int64_t k = 0; k < 3; ++k) {
    const int64_t h = c.size.height > 0 ? c.size.height : 64 + 64 * k;
    const int64_t w = c.size.width > 0 ? c.size.width : 192 - 32 * k;
    const Tensor images = noise({1 + k, 3, h, w}, static_cast<uint64_t>(k), -1, 1);
    const Logits wanted = logits_of(*model, images);
    if (keep) {
      train::test::write_npy(train::cat(kept, ".", k, ".images.npy"), images);
      train::test::write_npy(train::cat(kept, ".", k, ".logits.npy"), wanted.of_net);
    }
    ASSERT_GT(wanted.range, 1e-2) << "the net says the same of everything";
    const train::Feed feed{images};
    std::vector<Tensor> got;
    net->run(context, {&feed, 1}, got);
    ASSERT_EQ(got[0].shape(), wanted.of_net.shape());
    for (int64_t i = 0; i < got[0].numel(); ++i)
      ASSERT_NEAR(got[0].data<float>()[i], wanted.of_net.data<float>()[i], 4e-5 * wanted.range)
          << "at " << i << " of " << got[0].shape().str();
  }
}

#define RNN \
  "Neck: {name: SequenceEncoder, encoder_type: rnn, hidden_size: 8}, Head: {name: CTCHead}"
const InputSize kLine32{32, 0}, kLine48{48, 0}, kFree{};
const Case kCases[] = {
    {"MobileNetV3DbFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: MobileNetV3, scale: 0.35, model_name: "
     "large}, Neck: {name: DBFPN, out_channels: 32}, Head: {name: DBHead, k: 50}}",
     kFree},
    {"MobileNetV3RseFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: MobileNetV3, scale: 0.35, disable_se: "
     "true}, Neck: {name: RSEFPN, out_channels: 32, shortcut: true}, Head: {name: DBHead, k: 50}}",
     kFree},
    {"ResNet18DbFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: ResNet_vd, layers: 18},"
     " Neck: {name: DBFPN, out_channels: 32}, Head: {name: DBHead, k: 50}}",
     kFree},
    {"PPLCNetV3RseFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: PPLCNetV3, scale: 0.35, det: true},"
     " Neck: {name: RSEFPN, out_channels: 32, shortcut: true}, Head: {name: DBHead, k: 50}}",
     kFree, 1 + 14 * 2 + 2 * 2 + 4 + 8 * 3 + 1},
    {"PPLCNetV4RepLkFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: PPLCNetV4, model_size: tiny, det: true},"
     " Neck: {name: RepLKFPN, out_channels: 32, shortcut: true}, Head: {name: DBHead, k: 50}}",
     kFree, 5 + 13 * 3 + 5 * 2 + 4 * 7 + 1},
    {"MobileNetV3Crnn",
     "{model_type: rec, algorithm: CRNN, Backbone: {name: MobileNetV3, scale: 0.35,"
     " model_name: small, small_stride: [1, 2, 2, 2]}, " RNN "}",
     kLine32},
    {"ResNetVdCrnn",
     "{model_type: rec, algorithm: CRNN, Backbone: {name: ResNet, layers: 18}, " RNN "}", kLine32},
    {"MobileNetV3Fc",
     "{model_type: rec, algorithm: Rosetta, Backbone: {name: MobileNetV3, scale: 0.35, model_name: "
     "small, small_stride: [1, 2, 2, 2]}, Neck: {name: SequenceEncoder, encoder_type: fc, "
     "hidden_size: 16}, Head: {name: CTCHead, mid_channels: 8}}",
     kLine32},
    {"SvtrLcNet",
     "{model_type: rec, algorithm: SVTR_LCNet, Backbone: {name: PPLCNetV3, scale: 0.35}, Head: {"
     "name: MultiHead, head_list: [{CTCHead: {Neck: {name: svtr, dims: 16, depth: 2, hidden_dims: "
     "16, kernel_size: [1, 3], use_guide: True}, Head: {fc_decay: 0.00001}}}]}}",
     kLine48, 1 + 14 * 2 + 2 * 2 + 5},
    {"MobileNetV1Enhance",
     "{model_type: rec, algorithm: SVTR, Backbone: {name: MobileNetV1Enhance, scale: 0.5, "
     "last_conv_stride: [1, 2], last_pool_type: avg}, Neck: {name: SequenceEncoder, encoder_type: "
     "svtr, dims: 16, depth: 1, hidden_dims: 16}, Head: {name: CTCHead}}",
     kLine48},
    {"V6TinyRec",
     "{model_type: rec, algorithm: SVTR_LCNet, Backbone: {name: PPLCNetV4, model_size: tiny}, "
     "Head: {name: MultiHead, head_list: [{CTCHead: {Neck: {name: reshape}, Head: {mid_channels: "
     "16}}}]}}",
     kLine48, 2 + 9 * 3 + 3 * 2},
    {"V6SmallRec",
     "{model_type: rec, algorithm: SVTR_LCNet, Backbone: {name: PPLCNetV4, model_size: small}, "
     "Head: {name: MultiHead, head_list: [{CTCHead: {Neck: {name: lightsvtr, dims: 16, depth: 1, "
     "num_heads: 4}, Head: {use_guide: true}}}]}}",
     kLine48},
    {"SvtrNet",
     "{model_type: rec, algorithm: SVTR, Backbone: {name: SVTRNet, img_size: [32, 100], "
     "embed_dim: [16, 32, 48], depth: [2, 2, 1], num_heads: [2, 4, 6], mixer: [Local, Local, "
     "Local, Global, Global], out_channels: 32, out_char_num: 25, last_stage: true, prenorm: "
     "false}, Neck: {name: SequenceEncoder, encoder_type: reshape}, Head: {name: CTCHead}}",
     {32, 100}},
    {"SvtrNetConvMixers",
     "{model_type: rec, algorithm: SVTR, Backbone: {name: SVTRNet, img_size: [32, 64], "
     "embed_dim: [16, 32, 48], depth: [1, 1, 1], num_heads: [2, 4, 6], mixer: [Conv, Local, "
     "Global], local_mixer: [[3, 3], [3, 3], [3, 3]], out_channels: 32, out_char_num: 20, "
     "patch_merging: Pool, last_stage: true, prenorm: true}, Neck: {name: SequenceEncoder, "
     "encoder_type: reshape}, Head: {name: CTCHead}}",
     {32, 64}},
    {"AngleClassifier",
     "{model_type: cls, algorithm: CLS, Backbone: {name: MobileNetV3, scale: 0.35, model_name: "
     "small}, Head: {name: ClsHead, class_dim: 2}}",
     kFree},
    {"TextlineOrientation",
     "{model_type: cls, algorithm: CLS, Backbone: {name: PPLCNet, scale: 0.25}, Head: {name: "
     "ClsHead, class_dim: 2}}",
     kFree},
};
INSTANTIATE_TEST_SUITE_P(PaddleOcr, Architectures, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ocr
