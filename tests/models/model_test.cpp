// Nets from configurations: every one runs, and every parameter of it learns.
#include "libocr/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "libocr/models/nrtr.h"
#include "libtrain/autograd/ctc.h"
#include "libtrain/autograd/map_loss.h"
#include "libtrain/core/error.h"
#include "libtrain/core/philox.h"

namespace ocr::models {
namespace {

using train::Eager;
using train::Shape;
using train::Tensor;

constexpr int64_t kClasses = 11;

std::unique_ptr<Model> built(const std::string& architecture,
                             std::vector<std::string>* warnings = nullptr) {
  const auto config =
      train::config::parse_training_config("Architecture: " + architecture + "\n", "net.yml");
  train::config::ReadContext context;
  auto model = build_model(config.architecture, kClasses, context);
  model->initialize(7);
  if (warnings) *warnings = context.warnings;
  return model;
}

Tensor noise(const Shape& shape) {
  const train::RandomStream random(3, 1);
  Tensor t(shape);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = random.uniform(static_cast<uint64_t>(i), -1.f, 1.f);
  return t;
}

struct Case {
  const char* name;
  const char* architecture;
  Shape images;
  Shape evaluated;  // of the one output in evaluation
};

std::string rec(const std::string& rest) {
  return "{model_type: rec, algorithm: CRNN, " + rest + "}";
}

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Nets : public testing::TestWithParam<Case> {};

TEST_P(Nets, RunsAndEveryParameterLearns) {
  const Case& c = GetParam();
  const auto model = built(c.architecture);
  Eager eager;
  {
    model->train(false);
    Tape tape(eager, false);
    const Outputs out = (*model)(tape, Variable::input(noise(c.images)));
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out.begin()->second.shape(), c.evaluated);
  }
  model->train(true);
  for (nn::Parameter& p : model->parameters())  // PP-LCNetV4's blocks start with a scale of 0
    if (p.name.ends_with("compress.bn.weight"))
      std::fill_n(p.variable.writable().data<float>(), p.variable.value().numel(), 1.f);
  Tape tape(eager, true);
  const Outputs out = (*model)(tape, Variable::input(noise(c.images)));
  Variable loss;
  const int64_t n = c.images[0];
  if (out.contains("maps")) {
    const Shape map{n, c.images[2], c.images[3]};
    ASSERT_EQ(out.at("maps").shape(), (Shape{n, 3, c.images[2], c.images[3]}));
    Tensor half = Tensor::zeros(map), all(map);
    std::fill_n(half.data<float>(), half.numel() / 2, 1.f);
    std::fill_n(all.data<float>(), all.numel(), 1.f);
    const auto in = [](const Tensor& t) { return Variable::input(t); };
    loss = train::db_loss(tape, out.at("maps"), in(half), in(all), in(half), in(all)).total;
  } else if (out.contains("ctc")) {
    const int64_t labels[] = {1, 2, 3, 4, 5, 6};
    const int64_t lengths[] = {3, 3};
    loss = train::ctc_loss(tape, out.at("ctc"),
                           Variable::input(Tensor::from<int64_t>({2, 3}, std::span(labels))),
                           Variable::input(Tensor::from<int64_t>({2}, std::span(lengths))))
               .loss;
  } else {
    const int64_t labels[] = {0, 1};
    loss = nn::SoftmaxCrossEntropy()(
        tape, out.at("cls"), Variable::input(Tensor::from<int64_t>({2}, std::span(labels))));
  }
  ASSERT_TRUE(std::isfinite(loss.value().data<float>()[0]));
  tape.backward(loss);
  std::set<std::string> still;
  for (const nn::Parameter& p : model->parameters()) {
    double sum = 0;
    if (p.variable.grad().defined())
      for (int64_t i = 0; i < p.variable.grad().numel(); ++i)
        sum += std::abs(p.variable.grad().data<float>()[i]);
    EXPECT_TRUE(std::isfinite(sum)) << p.name;
    // PP-LCNetV3 has affines that a stride of 2 does not use, and a gate that is all 0 or 1 is
    // flat.
    const bool may_rest = p.name.find(".act.lab.") != std::string::npos ||
                          p.name.find(".se_block.") != std::string::npos;
    if (sum == 0 && !may_rest) still.insert(p.name);
  }
  EXPECT_THAT(still, testing::IsEmpty());
}

#define RNN \
  "Neck: {name: SequenceEncoder, encoder_type: rnn, hidden_size: 8}, Head: {name: CTCHead}"
const Case kCases[] = {
    {"MobileNetV3DbFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: MobileNetV3, scale: 0.35, model_name: "
     "large},"
     " Neck: {name: DBFPN, out_channels: 32}, Head: {name: DBHead, k: 50}}",
     {2, 3, 64, 96},
     {2, 1, 64, 96}},
    {"MobileNetV3RseFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: MobileNetV3, scale: 0.35, disable_se: "
     "true},"
     " Neck: {name: RSEFPN, out_channels: 32, shortcut: true}, Head: {name: DBHead, k: 50}}",
     {2, 3, 64, 64},
     {2, 1, 64, 64}},
    {"ResNet18DbFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: ResNet_vd, layers: 18},"
     " Neck: {name: DBFPN, out_channels: 32}, Head: {name: DBHead, k: 50}}",
     {2, 3, 64, 64},
     {2, 1, 64, 64}},
    {"PPLCNetV3RseFpn",
     "{model_type: det, algorithm: DB, Backbone: {name: PPLCNetV3, scale: 0.35, det: true},"
     " Neck: {name: RSEFPN, out_channels: 32, shortcut: true}, Head: {name: DBHead, k: 50}}",
     {2, 3, 64, 64},
     {2, 1, 64, 64}},
    {"MobileNetV3Crnn",
     "{model_type: rec, algorithm: CRNN, Backbone: {name: MobileNetV3, scale: 0.35,"
     " model_name: small, small_stride: [1, 2, 2, 2]}, " RNN "}",
     {2, 3, 32, 64},
     {2, 16, kClasses}},
    {"ResNet34Crnn",
     "{model_type: rec, algorithm: CRNN, Backbone: {name: ResNet, layers: 18}, " RNN "}",
     {2, 3, 32, 48},
     {2, 12, kClasses}},
    {"SvtrLcNet",
     "{model_type: rec, algorithm: SVTR_LCNet, Backbone: {name: PPLCNetV3, scale: 0.35}, Head: {"
     "name: MultiHead, head_list: [{CTCHead: {Neck: {name: svtr, dims: 16, depth: 2, hidden_dims: "
     "16, kernel_size: [1, 3], use_guide: True}, Head: {fc_decay: 0.00001}}}]}}",
     {2, 3, 48, 96},
     {2, 12, kClasses}},
    {"MobileNetV1Enhance",
     "{model_type: rec, algorithm: SVTR, Backbone: {name: MobileNetV1Enhance, scale: 0.5, "
     "last_conv_stride: [1, 2], last_pool_type: avg}, Neck: {name: SequenceEncoder, encoder_type: "
     "svtr, dims: 16, depth: 1, hidden_dims: 16}, Head: {name: CTCHead}}",
     {2, 3, 48, 96},
     {2, 12, kClasses}},
    {"V6TinyRec",
     "{model_type: rec, algorithm: SVTR_LCNet, Backbone: {name: PPLCNetV4, model_size: tiny}, "
     "Head: "
     "{name: MultiHead, head_list: [{CTCHead: {Neck: {name: reshape}, Head: {mid_channels: "
     "16}}}]}}",
     {2, 3, 48, 96},
     {2, 12, kClasses}},
    {"AngleClassifier",
     "{model_type: cls, algorithm: CLS, Backbone: {name: MobileNetV3, scale: 0.35, model_name: "
     "small}, Head: {name: ClsHead, class_dim: 2}}",
     {2, 3, 48, 96},
     {2, 2}},
    {"TextlineOrientation",
     "{model_type: cls, algorithm: CLS, Backbone: {name: PPLCNet, scale: 0.25}, Head: {name: "
     "ClsHead, class_dim: 2}}",
     {2, 3, 80, 160},
     {2, 2}},
};
INSTANTIATE_TEST_SUITE_P(PaddleOcr, Nets, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

std::string refusal(const std::string& architecture) {
  try {
    built(architecture);
  } catch (const train::ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(BuildModel, RefusalsNameThePlaceAndWhatThereIs) {
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(refusal(rec("Backbone: {name: MobileNetV2}")),
              AllOf(HasSubstr("net.yml:1:"), HasSubstr("did you mean 'MobileNetV3'")));
  EXPECT_THAT(refusal(rec("Backbone: {name: ResNet31}")), HasSubstr("not built here"));
  EXPECT_THAT(refusal(rec("Backbone: {name: MobileNetV3, scal: 0.5}")), HasSubstr("scale"));
  EXPECT_THAT(refusal(rec("Backbone: {name: MobileNetV3, scale: 0.4}")), HasSubstr("0.35"));
  EXPECT_THAT(refusal(rec("Transform: {name: TPS}, Backbone: {name: MobileNetV3}")),
              HasSubstr("TPS"));
}

// Control points at their own places in the result make the spline the image itself.
TEST(Stn, AtFirstReadsTheImageFromEdgeToEdge) {
  const auto stn =
      make_stn({.tps_inputsize = {32, 64}, .tps_outputsize = {20, 40}, .tps_margins = {.01, .01}});
  stn->initialize(3);
  stn->train(false);
  Eager eager;
  Tape tape(eager, false);
  const Variable images = Variable::input(noise({2, 3, 48, 96}));
  const Tensor got = train::reshape(tape, (*stn)(tape, images), {-1}).value();
  const Variable plain = train::resize_bilinear(tape, images, 20, 40, true);
  const Tensor wanted = train::reshape(tape, plain, {-1}).value();
  ASSERT_EQ(got.numel(), wanted.numel());
  for (int64_t i = 0; i < got.numel(); ++i)
    ASSERT_NEAR(got.data<float>()[i], wanted.data<float>()[i], 1e-3f) << i;
}

TEST(Stn, LearnsInEveryLayerOnceItsLastOneHasMoved) {
  const auto stn =
      make_stn({.tps_inputsize = {32, 64}, .tps_outputsize = {16, 32}, .tps_margins = {.05, .05}});
  stn->initialize(3);
  std::vector<nn::Parameter> parameters = stn->parameters();
  for (nn::Parameter& p : parameters)
    if (p.name == "stn_head.stn_fc2.weight") {
      const Tensor moved = noise(p.variable.shape());
      std::copy_n(moved.data<float>(), moved.numel(), p.variable.writable().data<float>());
    }
  Eager eager;
  Tape tape(eager, true);
  const Variable y = (*stn)(tape, Variable::input(noise({4, 3, 32, 64})));
  tape.backward(train::mean(tape, train::mul(tape, y, y)));
  for (const nn::Parameter& p : parameters) {
    double sum = 0;
    const Tensor& g = p.variable.grad();
    for (int64_t i = 0; g.defined() && i < g.numel(); ++i) sum += std::abs(g.data<float>()[i]);
    EXPECT_GT(sum, 0) << p.name;
  }
}

TEST(Stn, RefusesSizesItCannotHave) {
  const std::string start =
      "Transform: {name: STN_ON, tps_outputsize: [32, 100], tps_margins: [0.05, 0.05], ";
  const std::string rest = "}, Backbone: {name: MobileNetV3}";
  EXPECT_THAT(refusal(rec(start + "tps_inputsize: [32, 100]" + rest)),
              testing::HasSubstr("[32, 64]"));
  EXPECT_THAT(refusal(rec(start + "tps_inputsize: [32, 64], num_control_points: 3" + rest)),
              testing::HasSubstr("num_control_points"));
  EXPECT_THAT(refusal(rec(start + "tps_inputsize: [32, 64], stn_activation: relu" + rest)),
              testing::HasSubstr("stn_activation"));
}

// Without the levels the heads would learn nothing, and nothing would say so.
TEST(BuildModel, AuxiliaryHeadsWantANeckWithLevels) {
  const auto net = [](const std::string& neck) {
    return built(
        "{model_type: det, algorithm: DB, Backbone: {name: MobileNetV3, scale: 0.35, "
        "model_name: small}, Neck: {name: " +
        neck +
        ", out_channels: 32}, "
        "Head: {name: DBHead, aux_in_channels: 32}}");
  };
  const auto run = [](const Model& model) {
    Eager eager;
    Tape tape(eager, true);
    return model(tape, Variable::input(noise({1, 3, 64, 64})));
  };
  const Outputs out = run(*net("RepLKFPN"));
  for (const char* name : {"aux_maps_p2", "aux_maps_p3", "aux_maps_p4"})
    EXPECT_EQ(out.at(name).shape(), (Shape{1, 3, 64, 64})) << name;
  EXPECT_THROW(run(*net("DBFPN")), train::Error);
}

TEST(BuildModel, NrtrGuidesATrainingAndSarIsLeftOutWithAWarning) {
  std::vector<std::string> warnings;
  const auto nrtr =
      built(rec("Backbone: {name: PPLCNetV3, scale: 0.35}, Head: {name: MultiHead, head_list: "
                "[{CTCHead: {Neck: {name: reshape}}}, {NRTRHead: {nrtr_dim: 64}}]}"),
            &warnings);
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(nrtr->has_guide());
  const auto sar =
      built(rec("Backbone: {name: PPLCNetV3, scale: 0.35}, Head: {name: MultiHead, head_list: "
                "[{CTCHead: {Neck: {name: reshape}}}, {SARHead: {enc_dim: 512}}]}"),
            &warnings);
  EXPECT_THAT(warnings, testing::ElementsAre(testing::HasSubstr("SARHead")));
  EXPECT_FALSE(sar->has_guide());
}

// The largest gradient of any parameter whose name begins with `part`.
double gradient_of(const Model& model, const std::string& part) {
  double largest = 0;
  for (const nn::Parameter& p : model.parameters())
    if (p.name.starts_with(part) && p.variable.grad().defined())
      for (const float g : p.variable.grad().span<float>())
        largest = std::max(largest, std::abs(static_cast<double>(g)));
  return largest;
}

// With use_guide the CTC branch does not teach the backbone; without a guide it must.
TEST(MultiHead, AGuidedBranchTeachesItsNeckAlone) {
  const std::string neck = "{name: svtr, dims: 16, depth: 1, hidden_dims: 24, use_guide: true}";
  for (const bool guided : {true, false}) {
    const auto model =
        built(rec("Backbone: {name: PPLCNetV3, scale: 0.35}, Head: {name: MultiHead, head_list: "
                  "[{CTCHead: {Neck: " +
                  neck + "}}" +
                  (guided ? ", {NRTRHead: {nrtr_dim: 64, num_decoder_layers: 1}}" : "") + "]}"));
    Eager eager;
    Tape tape(eager, true);
    const Outputs out = (*model)(tape, Variable::input(noise({2, 3, 48, 80})));
    EXPECT_FALSE(out.contains("nrtr"));
    tape.backward(train::mean(tape, train::mul(tape, out.at("ctc"), out.at("ctc"))));
    EXPECT_GT(gradient_of(*model, "head.ctc_encoder"), 0);
    EXPECT_EQ(gradient_of(*model, "backbone") > 0, !guided);
  }
}

// Step t of the decoder does not see the characters behind it.
TEST(Nrtr, ALaterCharacterChangesNoEarlierStep) {
  NrtrDecoder decoder({.nrtr_dim = 64, .num_decoder_layers = 2, .classes = 14});
  decoder.initialize(7);
  decoder.train(false);
  const auto said = [&](int64_t last) {
    Eager eager;
    Tape tape(eager, false);
    const Variable tokens = Variable::input(Tensor::from<int64_t>({1, 4}, {2, 4, 7, last}));
    return decoder(tape, tokens, Variable::input(noise({1, 5, 64}))).value().clone();
  };
  const Tensor a = said(5), b = said(9);
  constexpr int64_t kSaid = 15;  // the net has one class more than the labels
  ASSERT_EQ(a.shape(), (Shape{1, 4, kSaid}));
  double later = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double d = std::abs(static_cast<double>(a.data<float>()[i] - b.data<float>()[i]));
    if (i < 3 * kSaid)
      EXPECT_EQ(d, 0) << i;
    else
      later = std::max(later, d);
  }
  EXPECT_GT(later, 1e-3);
}

TEST(MobileNetV3, SmallDetectorsHaveFourScales) {
  EXPECT_NO_THROW(
      built("{model_type: det, algorithm: DB, Backbone: {name: MobileNetV3, model_name: "
            "small, scale: 0.5}, Neck: {name: DBFPN, out_channels: 32}, Head: {name: "
            "DBHead}}"));
}

TEST(StateDict, NamesArePaddlesOwn) {
  const auto model = built(kCases[0].architecture);
  std::set<std::string> names;
  for (const auto& e : model->state_dict(nn::Naming::kPaddle)) names.insert(e.name);
  for (const char* name :
       {"backbone.conv.conv.weight", "backbone.conv.bn._mean",
        "backbone.stage0.0.expand_conv.conv.weight", "backbone.stage1.0.bottleneck_conv.bn.weight",
        "neck.in2_conv.weight", "neck.p5_conv.weight", "head.binarize.conv1.weight",
        "head.binarize.conv_bn1._variance", "head.thresh.conv3.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace ocr::models
