// Deterministic transforms against PaddleOCR's own results; random ones by what they must keep.
#include <gtest/gtest.h>

#include "libocr/data/detection_augment.h"
#include "libocr/data/detection_targets.h"
#include "libocr/data/recognition_augment.h"
#include "libocr/data/transform.h"
#include "libtrain/config/yaml.h"
#include "libtrain/core/sha256.h"
#include "tests/ocr_data/fixtures.h"

namespace ocr {
namespace {

using nlohmann::json;
using test::fixture;
using test::picture;

std::string digest(const float* data, size_t count) {
  return train::sha256_hex({reinterpret_cast<const char*>(data), count * sizeof(float)});
}

// Equal to the bit, or a message with the first value that is not.
void expect_equal(const float* data, size_t count, const json& expected) {
  if (digest(data, count) == expected["sha256"]) return;
  ADD_FAILURE() << "differs";
  for (const json& v : expected["some"]) {
    const auto at = v[0].get<size_t>();
    ASSERT_LT(at, count);
    ASSERT_EQ(data[at], v[1].get<float>()) << "at " << at;
  }
}

std::unique_ptr<Transform> make(const std::string& yaml,
                                const train::config::GlobalConfig& global = {}) {
  const train::config::Node node = train::config::parse_yaml(yaml, "t.yml");
  train::config::ReadContext context{true, {}};
  auto t = make_transform(train::config::named_node(node, "transforms"),
                          {global, nullptr, global.max_text_length}, context);
  EXPECT_TRUE(context.warnings.empty());
  return t;
}

std::string error_of(const std::string& yaml) {
  try {
    make(yaml);
  } catch (const train::Error& e) {
    return e.what();
  }
  return "";
}

Random random_of(uint64_t n) { return Random(train::RandomStream(n, 7), 0); }

TEST(DetectionTargets, EqualUpstreamToTheBit) {
  const json cases = fixture("maps.json");
  ASSERT_GE(cases.size(), 95u);
  int learnt = 0;
  for (const json& c : cases) {
    SCOPED_TRACE(c["polys"].dump());
    std::vector<PolygonD> polys;
    for (const json& p : c["polys"]) {
      PolygonD& poly = polys.emplace_back();
      for (const json& q : p) poly.emplace_back(q[0].get<double>(), q[1].get<double>());
    }
    std::vector<uint8_t> ignore;
    for (const json& t : c["ignore"]) ignore.push_back(t.get<bool>());
    const cv::Size size(c["size"][1].get<int>(), c["size"][0].get<int>());
    const double ratio = ramped_shrink_ratio(0.4, c["epoch"].get<int>(), 500);
    const TargetMap border = make_border_map(polys, ignore, size, ratio, 0.3, 0.7);
    const TargetMap shrunk = make_shrink_map(polys, ignore, size, ratio, 8);
    const auto count = static_cast<size_t>(size.area());
    expect_equal(border.map.ptr<float>(), count, c["threshold_map"]);
    expect_equal(border.mask.ptr<float>(), count, c["threshold_mask"]);
    expect_equal(shrunk.map.ptr<float>(), count, c["shrink_map"]);
    expect_equal(shrunk.mask.ptr<float>(), count, c["shrink_mask"]);
    for (size_t i = 0; i < ignore.size(); ++i) {
      EXPECT_EQ(ignore[i] != 0, c["ignore_after"][i].get<bool>());
      learnt += !ignore[i];
      for (size_t k = 0; k < polys[i].size(); ++k) {
        EXPECT_EQ(polys[i][k].x, c["polys_after"][i][k][0].get<double>());
        EXPECT_EQ(polys[i][k].y, c["polys_after"][i][k][1].get<double>());
      }
    }
  }
  EXPECT_GE(learnt, 150);
}

std::vector<float> chw(const cv::Mat& image) {
  Sample s;
  s.image = image;
  const train::Tensor t = field_of(s, "image");
  return {t.span<float>().begin(), t.span<float>().end()};
}

TEST(LineResize, EqualsUpstreamToTheBit) {
  for (const json& c : fixture("resizes.json")) {
    SCOPED_TRACE(c.dump());
    Sample s;
    s.image = picture(c["size"][0], c["size"][1], c["seed"]);
    const LineShape shape{c["shape"][1], c["shape"][2]};
    if (c["kind"] == "free")
      resize_line_freely(s, shape);
    else
      resize_line(s, shape, c["kind"] == "line");
    EXPECT_EQ(s.image.rows, c["out"][1].get<int>());
    ASSERT_EQ(s.image.cols, c["out"][2].get<int>());
    EXPECT_FLOAT_EQ(s.valid_ratio, c["valid_ratio"].get<float>());
    const std::vector<float> out = chw(s.image);
    expect_equal(out.data(), out.size(), c);
  }
}

TEST(PageResize, EqualsUpstreamToTheBit) {
  const auto normalize = make(
      "NormalizeImage: {scale: 1./255., mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], "
      "order: hwc}");
  for (const json& c : fixture("pages.json")) {
    SCOPED_TRACE(c.dump());
    Sample s;
    s.image = picture(c["size"][0], c["size"][1], c["seed"]);
    s.source_height = s.image.rows;
    s.source_width = s.image.cols;
    Random random = random_of(1);
    make("DetResizeForTest: " + c["options"].dump())->apply(s, random, 0);
    normalize->apply(s, random, 0);
    const std::vector<float> out = chw(s.image);
    ASSERT_EQ(s.image.rows, c["out"][1].get<int>());
    ASSERT_EQ(s.image.cols, c["out"][2].get<int>());
    expect_equal(out.data(), out.size(), c);
    const train::Tensor shape = field_of(s, "shape");
    for (size_t i = 0; i < 4; ++i)
      EXPECT_FLOAT_EQ(shape.span<float>()[i], c["shape"][i].get<float>());
  }
}

TEST(WarpMls, EqualsUpstreamButForRounding) {
  for (const json& c : fixture("warps.json")) {
    std::vector<cv::Point2d> from, to;
    for (const json& p : c["from"]) from.emplace_back(p[0].get<double>(), p[1].get<double>());
    for (const json& p : c["to"]) to.emplace_back(p[0].get<double>(), p[1].get<double>());
    const cv::Mat out = warp_mls(picture(c["size"][0], c["size"][1], c["seed"]), from, to);
    size_t i = 0, different = 0;
    for (int y = 0; y < out.rows; y += 3)
      for (int x = 0; x < out.cols; x += 5)
        for (int ch = 0; ch < 3; ++ch, ++i) {
          const int got = out.ptr<uint8_t>(y)[3 * x + ch], want = c["out"][i].get<int>();
          // Upstream keeps weights in single precision, and the picture is steep.
          EXPECT_NEAR(got, want, 3) << y << " " << x;
          different += got != want;
        }
    EXPECT_EQ(i, c["out"].size());
    EXPECT_LE(different, i / 20) << c["seed"];
  }
}

Sample page_with_boxes() {
  Sample s;
  s.image = picture(200, 300, 3);
  s.polys = {{{20, 30}, {120, 30}, {120, 60}, {20, 60}},
             {{150, 100}, {280, 100}, {280, 130}, {150, 130}},
             {{30, 150}, {90, 150}, {90, 190}, {30, 190}}};
  s.texts = {"a", "b", "###"};
  s.ignore = {0, 0, 1};
  return s;
}

// A white square at the place of a box moves with the box's points.
double brightness_inside(const Sample& s, const PolygonD& p) {
  cv::Point2d c;
  for (const cv::Point2d& q : p) c += q * (1.0 / static_cast<double>(p.size()));
  const int x = static_cast<int>(c.x), y = static_cast<int>(c.y);
  if (x < 0 || y < 0 || x >= s.image.cols || y >= s.image.rows) return 255;
  return s.image.ptr<uint8_t>(y)[3 * x];
}

TEST(DetectionAugment, BoxesMoveWithThePicture) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    for (const char* yaml :
         {"IaaAugment:",
          "IaaAugment: {augmenter_args: [{type: Affine, args: {rotate: [-45, 45], "
          "fit_output: true}}, {type: Flipud, args: {p: 0.5}}]}",
          "RandomPerspective: {prob: 1, shear: 20, perspective: 0.001, fit_output: true}",
          "EastRandomCropData: {size: [160, 160], max_tries: 50, keep_ratio: true}"}) {
      Sample s = page_with_boxes();
      s.image = cv::Scalar(0, 0, 0);
      for (const PolygonD& p : s.polys) s.image(cv::Rect(p[0], p[2])) = cv::Scalar(255, 255, 255);
      Random random = random_of(seed);
      make(yaml)->apply(s, random, 0);
      ASSERT_EQ(s.polys.size(), s.texts.size());
      ASSERT_EQ(s.polys.size(), s.ignore.size());
      for (const PolygonD& p : s.polys) EXPECT_GT(brightness_inside(s, p), 200) << yaml << seed;
    }
  }
}

TEST(DetectionAugment, CropsCutNoTextThatCounts) {
  int cropped = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Sample s = page_with_boxes();
    Random random = random_of(seed);
    const std::vector<PolygonD> cared(s.polys.begin(), s.polys.begin() + 2);
    const cv::Rect r = choose_crop(s.image.size(), cared, {{64, 64}, 50, 0.1, true}, random);
    cropped += r.size() != s.image.size();
    for (const PolygonD& p : cared) {
      const cv::Rect box(p[0], p[2]), both = box & r;
      EXPECT_TRUE(both.area() == 0 || both == box) << r << box;
    }
  }
  EXPECT_GE(cropped, 150);
}

TEST(DetectionAugment, PastesWhereThereIsNoText) {
  int pasted = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Sample s = page_with_boxes();
    s.extra = {page_with_boxes()};
    Random random = random_of(seed);
    make("CopyPaste:")->apply(s, random, 0);
    ASSERT_EQ(s.polys.size(), s.texts.size());
    for (size_t i = 3; i < s.polys.size(); ++i, ++pasted) {
      EXPECT_TRUE(s.texts[i] == "a" || s.texts[i] == "b");
      EXPECT_EQ(s.polys[i].size(), 4u);
    }
  }
  EXPECT_GE(pasted, 10);
}

TEST(DetectionAugment, ColorJitterWithinItsRange) {
  Sample s = page_with_boxes();
  const cv::Mat before = s.image.clone();
  Random random = random_of(1);
  make("ColorJitter: {brightness: 0.4, contrast: 0.4, saturation: 0.7, hue: 0.1}")
      ->apply(s, random, 0);
  EXPECT_GT(cv::norm(before, s.image, cv::NORM_L1), 0);
  cv::Mat same = before.clone();
  color_jitter(same, {}, random);
  EXPECT_EQ(cv::norm(before, same, cv::NORM_L1), 0);
}

TEST(RecognitionAugment, KeepsTypeAndIsAFunctionOfTheSeed) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Sample a, b;
    a.image = picture(32, 120, static_cast<int>(seed));
    b.image = a.image.clone();
    const cv::Mat before = a.image.clone();
    Random ra = random_of(seed), rb = random_of(seed);
    make("RecAug:")->apply(a, ra, 0);
    make("RecAug:")->apply(b, rb, 0);
    EXPECT_EQ(a.image.type(), CV_8UC3);
    EXPECT_EQ(a.image.cols, 120);
    EXPECT_GE(a.image.rows, 24);
    ASSERT_EQ(a.image.size(), b.image.size());
    EXPECT_EQ(cv::norm(a.image, b.image, cv::NORM_L1), 0);
    changed += a.image.size() != before.size() || cv::norm(a.image, before, cv::NORM_L1) > 0;
  }
  EXPECT_GE(changed, 50);
}

TEST(RecognitionAugment, JoinsLinesUntilTheyAreTooLong) {
  train::config::GlobalConfig global;
  global.max_text_length = 6;
  const auto con = make("RecConAug: {prob: 1, ext_data_num: 2, image_shape: [48, 320, 3]}", global);
  EXPECT_EQ(con->extra_samples(), 2);
  const auto line = [](const char* label, int width) {
    Sample s;
    s.image = picture(24, width, 1);
    s.label = label;
    return s;
  };
  Sample s = line("ab", 40);
  s.extra = {line("cd", 30), line("efg", 30)};
  Random random = random_of(3);
  con->apply(s, random, 0);
  EXPECT_EQ(s.label, "abcd");
  EXPECT_EQ(s.image.rows, 48);
  EXPECT_EQ(s.image.cols, 80 + 60);
  Sample t = line("a", 150);
  t.extra = {line("b", 100)};
  con->apply(t, random, 0);
  EXPECT_EQ(t.label, "a");  // 250 / 24 is wider than 320 / 48
}

TEST(RandAugmentTest, OperationsDoWhatTheyAreCalled) {
  const cv::Mat image = picture(20, 30, 2);
  const auto at = [](const cv::Mat& m, int y, int x) { return int{m.ptr<uint8_t>(y)[3 * x]}; };
  EXPECT_EQ(at(rand_op(image, RandOp::kInvert, 5, 1), 3, 4), 255 - at(image, 3, 4));
  EXPECT_EQ(at(rand_op(image, RandOp::kPosterize, 5, 1), 3, 4), at(image, 3, 4) & 0xc0);
  const int v = at(image, 3, 4);
  EXPECT_EQ(at(rand_op(image, RandOp::kSolarize, 5, 1), 3, 4), v < 128 ? v : 255 - v);
  EXPECT_EQ(at(rand_op(image, RandOp::kBrightness, 5, -1), 3, 4), static_cast<int>(v * 0.55));
  // 150/331/2 of 30 columns is 6.8 to the left: nearest is the 7th column on.
  EXPECT_EQ(at(rand_op(image, RandOp::kTranslateX, 5, 1), 3, 4), at(image, 3, 11));
  EXPECT_EQ(at(rand_op(image, RandOp::kTranslateX, 5, 1), 3, 29), 128);
  for (int op = 0; op < kRandOps; ++op)
    for (const double magnitude : {0., 5., 10.})
      EXPECT_EQ(rand_op(image, static_cast<RandOp>(op), magnitude, -1).size(), image.size());
  // At magnitude 0 nothing moves.
  for (const RandOp op : {RandOp::kShearX, RandOp::kShearY, RandOp::kTranslateX, RandOp::kRotate,
                          RandOp::kColor, RandOp::kContrast, RandOp::kSharpness})
    EXPECT_EQ(cv::norm(rand_op(image, op, 0, 1), image, cv::NORM_L1), 0) << static_cast<int>(op);
}

TEST(TransformTable, ErrorsNamePlaceAndNearestName) {
  EXPECT_EQ(error_of("RecAgu:"),
            "t.yml:1:1: there is no transform 'RecAgu'; did you mean 'RecAug'?");
  EXPECT_EQ(
      error_of("EASTProcessTrain: {image_shape: [512, 512]}"),
      "t.yml:1:1: transform 'EASTProcessTrain' belongs to an algorithm that is not supported here");
  EXPECT_EQ(error_of("RecAug: {tia_prop: 1}"),
            "t.yml:1:10: unknown key 'RecAug.tia_prop'; did you mean 'tia_prob'?");
  EXPECT_EQ(error_of("IaaAugment: {augmenter_args: [{type: Afine}]}"),
            "t.yml:1:38: 'IaaAugment.augmenter_args[0].type' is Fliplr, Flipud, Affine or Resize, "
            "not Afine; did you mean 'Affine'?");
  EXPECT_EQ(error_of("RecResizeImg: {image_shape: [1, 32, 100]}"),
            "t.yml:1:29: 'RecResizeImg.image_shape' takes [3, height, width]: colour pictures");
  EXPECT_EQ(
      error_of("KeepKeys: {keep_keys: [image, lable]}"),
      "t.yml:1:23: 'KeepKeys.keep_keys' names 'lable', which no transform makes; did you mean "
      "'label'?");
}

}  // namespace
}  // namespace ocr
