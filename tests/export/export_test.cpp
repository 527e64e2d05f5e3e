// What an exported file says of itself, and the structure of a small one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "libocr/onnx/export.h"
#include "libocr/onnx/import.h"
#include "libocr/pipeline/pipeline.h"
#include "libocr/training/export.h"
#include "libocr/training/replay.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"
#include "libtrain/train/archive.h"
#include "tests/support/error_of.h"

namespace ocr {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using train::Tensor;

train::config::TrainingConfig config_of(const std::string& text) {
  return train::config::parse_training_config(text, "c.yml");
}

using Metadata = std::map<std::string, std::string>;
Metadata metadata_of(const std::string& text, const TextEncoder* encoder = nullptr,
                     std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> own;
  return model_metadata(config_of(text), encoder, {}, warnings ? *warnings : own);
}

// A convolution, a hard swish and a softmax over channels: every kind of field of a file.
train::Graph small_graph() {
  train::Graph g;
  const auto x = g.add_value("x");
  g.inputs.push_back({x, train::DType::kF32, {-1, 1, 2, -1}});
  const auto w = g.add_constant("conv.weight", Tensor::from<float>({2, 1, 1, 1}, {1.f, -2.f}));
  const auto b = g.add_constant("conv.bias", Tensor::from<float>({2}, {.5f, .25f}));
  const auto y = g.add_value("conv.out"), a = g.add_value("act.out"), s = g.add_value("probs.out");
  g.add_node("conv", std::make_shared<train::ConvOp>(train::Window()), {x, w, b}, {y});
  g.add_node("act", std::make_shared<train::UnaryOp>("Swish", train::cpu::swish()), {y}, {a});
  g.add_node("probs", std::make_shared<train::SoftmaxOp>(1), {a}, {s});
  g.outputs = {s};
  return g;
}

TEST(ExportOnnx, SmallFileIsAsItWas) {
  ExportInfo info;
  info.graph_name = "small";
  info.output = "probs";
  info.producer_version = "1";
  info.input_dims = {"batch", "", "", "width"};
  info.output_dims = {"batch", "", "", "width"};
  info.metadata = {{"kind", "rec"}, {"character", "a\nb\n"}};
  const std::string bytes = export_onnx(small_graph(), info);
  std::ostringstream hex;
  constexpr char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < bytes.size(); ++i)
    hex << digits[static_cast<unsigned char>(bytes[i]) >> 4]
        << digits[static_cast<unsigned char>(bytes[i]) & 15] << (i % 40 == 39 ? "\n" : "");
  std::ifstream in(OCR_TEST_DATA "/export_small.hex");
  std::stringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(hex.str() + "\n", golden.str());
  EXPECT_EQ(bytes, export_onnx(small_graph(), info));

  ModelInfo read;
  import_onnx(bytes, "small", {}, &read);
  EXPECT_EQ(read.ir_version, kExportIrVersion);
  EXPECT_EQ(read.opset, kExportOpset);
  EXPECT_EQ(read.producer, "ocr");
  EXPECT_EQ(read.inputs[0].dims, (std::vector<int64_t>{-1, 1, 2, -1}));
  EXPECT_EQ(read.inputs[0].dim_names, (std::vector<std::string>{"batch", "", "", "width"}));
  EXPECT_EQ(read.outputs[0].dims, (std::vector<int64_t>{-1, 2, 2, -1}));
  EXPECT_EQ(read.metadata, info.metadata);
}

TEST(ExportOnnx, RefusalsNameTheNode) {
  train::Graph fused = small_graph();
  train::cpu::Epilogue relu;
  relu.act = {train::cpu::Act::kRelu};
  fused.nodes[0].op = std::make_shared<train::ConvOp>(train::Window(), 1, relu);
  EXPECT_THAT(train::test::error_of([&] { export_onnx(fused, {}); }),
              HasSubstr("node 'conv' (Conv"));
  train::Graph unknown = small_graph();
  unknown.nodes[1].op = std::make_shared<train::TriluOp>();
  EXPECT_THAT(train::test::error_of([&] { export_onnx(unknown, {}); }), HasSubstr("'act' (Trilu"));
  train::Graph two = small_graph();
  two.outputs.push_back(two.outputs[0]);
  EXPECT_THAT(train::test::error_of([&] { export_onnx(two, {}); }), HasSubstr("one output"));
}

TEST(ModelMetadata, OfADetector) {
  const Metadata m = metadata_of(R"(
Architecture: {model_type: det, algorithm: DB}
PostProcess: {name: DBPostProcess, thresh: 0.25, box_thresh: 0.5, unclip_ratio: 1.7}
Eval:
  dataset:
    transforms:
    - DecodeImage: {img_mode: BGR}
    - DetResizeForTest: {limit_side_len: 960, limit_type: max}
    - NormalizeImage: {scale: 1./255., mean: [0.4, 0.5, 0.6], std: [0.2, 0.3, 0.25], order: hwc}
)");
  for (const auto& [key, value] : Metadata{{"kind", "det"},
                                           {"channel_order", "BGR"},
                                           {"scale", "1/255"},
                                           {"mean", "0.4,0.5,0.6"},
                                           {"ocr.det_mean", "0.4,0.5,0.6"},
                                           {"ocr.det_std", "0.2,0.3,0.25"},
                                           {"ocr.det_limit_side_len", "960"},
                                           {"ocr.det_limit_type", "max"},
                                           {"ocr.det_db_thresh", "0.25"},
                                           {"ocr.det_db_box_thresh", "0.5"},
                                           {"ocr.det_db_unclip_ratio", "1.7"}})
    EXPECT_THAT(m, Contains(Pair(key, value)));
  EXPECT_THAT(metadata_of("Architecture: {model_type: det}\n"),
              Contains(Pair("ocr.det_limit_side_len", "736")));
}

TEST(ModelMetadata, OfARecogniser) {
  const char* text = R"(
Architecture: {model_type: rec, algorithm: CRNN}
Train:
  dataset:
    transforms:
    - DecodeImage: {img_mode: BGR}
    - RecResizeImg: {image_shape: [3, 32, 280]}
)";
  const TextEncoder spaced(
      Dictionary::from_list({"a", "", "b", ""}, SpaceClass::kAppend, "arabic_dict.txt"), 25, false);
  const Metadata m = metadata_of(text, &spaced);
  EXPECT_THAT(m, Contains(Pair("character", "a\n\nb\n\n")));
  EXPECT_THAT(m, Contains(Pair("ocr.use_space_char", "true")));
  EXPECT_THAT(m, Contains(Pair("ocr.rec_right_to_left", "true")));
  EXPECT_THAT(m, Contains(Pair("ocr.rec_image_shape", "3,32,280")));
  EXPECT_THAT(m, Contains(Pair("ocr.rec_min_width", "280")));
  // The pipeline's dictionary is the training's.
  const Dictionary read = Dictionary::from_text(m.at("character"), SpaceClass::kAppend, "m");
  EXPECT_EQ(read.entries(), spaced.dictionary().entries());

  const TextEncoder plain(Dictionary::from_list({"a", " "}, SpaceClass::kNone, "d.txt"), 25, false);
  const Metadata n =
      metadata_of(std::string(text) + "  sampler: {name: MultiScaleSampler}\n", &plain);
  EXPECT_THAT(n, Contains(Pair("character", "a\n \n")));
  EXPECT_THAT(n, Contains(Pair("ocr.use_space_char", "false")));
  EXPECT_THAT(n, Contains(Pair("ocr.rec_right_to_left", "false")));
  EXPECT_FALSE(n.contains("ocr.rec_min_width"));  // lines of many widths were seen
  const Metadata own = metadata_of(std::string(text) + "    ds_width: true\n", &plain);
  EXPECT_THAT(own, Contains(Pair("ocr.rec_min_width", "32")));  // no padding was seen
  const std::string svtr = R"(
Architecture: {model_type: rec, algorithm: SVTR}
Eval:
  dataset:
    transforms:
    - DecodeImage: {img_mode: RGB}
    - SVTRRecResizeImg: {image_shape: [3, 64, 256], padding: false}
)";
  std::vector<std::string> warnings;
  EXPECT_THAT(metadata_of(svtr, &plain, &warnings), Contains(Pair("ocr.rec_keep_ratio", "false")));
  EXPECT_THAT(warnings, Contains(HasSubstr("DecodeImage gives RGB")));
}

TEST(ModelMetadata, OfAClassifier) {
  const char* text = R"(
Global: {label_list: ['0', '90', '180', '270']}
Architecture: {model_type: cls, algorithm: CLS}
Eval:
  dataset:
    transforms:
    - DecodeImage: {img_mode: BGR}
    - ClsResizeImg: {image_shape: [3, 48, 192]}
)";
  const Metadata m = metadata_of(text);
  EXPECT_THAT(m, Contains(Pair("ocr.label_list", "0,90,180,270")));
  EXPECT_THAT(m, Contains(Pair("labels", "0,90,180,270")));
  EXPECT_THAT(m, Contains(Pair("ocr.cls_image_shape", "3,48,192")));
  EXPECT_THAT(m, Not(Contains(Pair("kind", "rec"))));
}

std::unique_ptr<models::Model> small_model(uint64_t seed) {
  const auto config = config_of(
      "Architecture: {model_type: rec, algorithm: CRNN, Backbone: {name: MobileNetV3, scale: 0.35, "
      "model_name: small, small_stride: [1, 2, 2, 2]}, Neck: {name: SequenceEncoder, encoder_type: "
      "reshape}, Head: {name: CTCHead}}\n");
  train::config::ReadContext context;
  auto model = models::build_model(config.architecture, 5, context);
  model->initialize(seed);
  return model;
}

TEST(Replay, SeesAnotherNet) {
  const auto model = small_model(1), other = small_model(2);
  const std::string bytes = export_onnx(inference_graph(*model, {32, 0}), export_info("rec", {}));
  const ReplayReport r = replay(*model, bytes, "rec", nullptr, nullptr, {});
  EXPECT_EQ(r.samples, 0);
  EXPECT_EQ(r.noise, 32);
  EXPECT_LT(r.max_difference, 1e-5);
  EXPECT_THAT(r.str(), HasSubstr("32 inputs of random numbers"));
  EXPECT_THAT(train::test::error_of([&] { replay(*other, bytes, "rec", nullptr, nullptr, {}); }),
              HasSubstr("differs from the trained net by"));
}

// SVTRNet takes one width: lines of every length are brought to it by the pipeline.
TEST(Pipeline, ReadsWithANetOfOneWidth) {
  const auto config = config_of(R"(
Architecture:
  model_type: rec
  algorithm: SVTR
  Backbone: {name: SVTRNet, img_size: [32, 64], embed_dim: [16, 32, 48], depth: [1, 1, 1], num_heads: [2, 4, 6],
    mixer: [Local, Local, Global], out_channels: 32, out_char_num: 16, last_stage: true, prenorm: false}
  Neck: {name: SequenceEncoder, encoder_type: reshape}
  Head: {name: CTCHead}
Eval:
  dataset:
    transforms:
    - DecodeImage: {img_mode: BGR}
    - SVTRRecResizeImg: {image_shape: [3, 32, 64], padding: false}
)");
  const TextEncoder encoder(Dictionary::from_list({"a", "b", "c"}, SpaceClass::kAppend, "d.txt"),
                            25, false);
  train::config::ReadContext context;
  const auto model =
      models::build_model(config.architecture, encoder.dictionary().classes(), context);
  model->initialize(5);
  const InputSize size = input_size(config, *model);
  EXPECT_EQ(size.height, 32);
  EXPECT_EQ(size.width, 64);
  std::vector<std::string> warnings;
  const std::string path = testing::TempDir() + "svtr_one_width.onnx";
  train::write_file_atomically(
      path, export_onnx(inference_graph(*model, size),
                        export_info("rec", model_metadata(config, &encoder, size, warnings))));
  EXPECT_THAT(warnings, testing::IsEmpty());
  Options options;
  for (const auto& [name, value] : Metadata{{"task", "rec"},
                                            {"rec_model_dir", path},
                                            {"use_angle_cls", "false"},
                                            {"drop_score", "0"}})
    set_option(options, name, value, Source::kFlag);
  const auto pipeline = Pipeline::open(options);
  EXPECT_FALSE(pipeline->options().rec_keep_ratio.value);
  EXPECT_EQ(pipeline->options().rec_min_width.value, 64);
  for (const int width : {20, 64, 900, 9000}) {
    const Image line(width, 32, Bgr{10, 200, 90});
    EXPECT_NO_THROW(pipeline->run(line.view())) << width;
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace ocr
