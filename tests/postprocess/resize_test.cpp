#include <cmath>
#include <random>

#include "fixture.h"
#include "libocr/postprocess/detection_resize.h"
#include "libocr/postprocess/network_input.h"
#include "libocr/postprocess/recognition_resize.h"

namespace ocr {
namespace {

// The fixture holds what RapidOCR's own code answers; 0 0 where it gives up.
TEST(DetectionResize, EqualsRapidOcr) {
  std::ifstream file = open_fixture("sizes.txt");
  std::string kind;
  int det = 0, pages = 0;
  while (file >> kind) {
    if (kind == "det") {
      std::string type;
      int side, h, w, oh, ow;
      file >> type >> side >> h >> w >> oh >> ow;
      if (oh == 0) continue;
      DetectionResizeOptions o = DetectionResizeOptions::rapidocr();
      o.limit_type = type == "min" ? LimitType::kMin : LimitType::kMax;
      o.limit_side_len = side;
      const DetectionSize size = detection_size(h, w, o);
      EXPECT_EQ(size.height, oh) << type << " " << w << "x" << h;
      EXPECT_EQ(size.width, ow) << type << " " << w << "x" << h;
      ++det;
    } else {
      int h, w, ih, iw, pad, padded;
      double ratio_h, ratio_w;
      file >> h >> w >> ih >> iw >> ratio_h >> ratio_w >> pad >> padded;
      SCOPED_TRACE(std::to_string(w) + "x" + std::to_string(h));
      if (ih == 0) {
        EXPECT_THROW(rapidocr_page(h, w), train::ShapeError);
        continue;
      }
      const RapidPage page = rapidocr_page(h, w);
      EXPECT_EQ(page.height, ih);
      EXPECT_EQ(page.width, iw);
      EXPECT_EQ(page.pad, pad);
      EXPECT_EQ(page.height + 2 * page.pad, padded);
      EXPECT_DOUBLE_EQ(page.ratio_h, ratio_h);
      EXPECT_DOUBLE_EQ(page.ratio_w, ratio_w);
      ++pages;
    }
  }
  EXPECT_GT(det, 150);
  EXPECT_GT(pages, 70);
}

TEST(DetectionResize, RapidOcrPointsGoBackToThePage) {
  RapidPage page{64, 512, 10, 2.0, 1.5};
  Point2f points[] = {{100, 30}, {-3, 5}, {5000, 5000}};
  rapidocr_to_page(points, page, 128, 768);
  EXPECT_EQ(points[0], (Point2f{150, 40}));
  EXPECT_EQ(points[1], (Point2f{0, 0}));
  EXPECT_EQ(points[2], (Point2f{768, 128}));
}

std::pair<int, int> size_of(int h, int w, const DetectionResizeOptions& o) {
  const DetectionSize s = detection_size(h, w, o);
  return {s.height, s.width};
}
using Size = std::pair<int, int>;

TEST(DetectionResize, RoundsHalfToEven) {
  DetectionResizeOptions o = DetectionResizeOptions::ppocr3();
  EXPECT_EQ(size_of(80, 112, o), Size(64, 128));    // 2.5 -> 2, 3.5 -> 4
  EXPECT_EQ(size_of(144, 176, o), Size(128, 192));  // 4.5 -> 4, 5.5 -> 6
  EXPECT_EQ(size_of(145, 175, o), Size(160, 160));
}

TEST(DetectionResize, CapsTheLongerSideAfterTheLimit) {
  const DetectionResizeOptions o = DetectionResizeOptions::ppocr3();
  EXPECT_EQ(size_of(6000, 3000, o), Size(4000, 1984));  // 2000 / 32 = 62.5 -> 62
}

TEST(DetectionResize, EveryVariant) {
  DetectionResizeOptions o = DetectionResizeOptions::ppocr2();
  EXPECT_EQ(size_of(1920, 1080, o), Size(960, 544));
  EXPECT_EQ(size_of(500, 500, o), Size(512, 512));
  o.limit_type = LimitType::kResizeLong;
  EXPECT_EQ(size_of(480, 240, o), Size(960, 480));
  o = {};
  o.kind = DetectionResizeKind::kResizeLong128;
  EXPECT_EQ(size_of(1000, 700, o), Size(1024, 768));  // 960, 672 up to 128
  o.kind = DetectionResizeKind::kImageShape;
  EXPECT_EQ(size_of(33, 77, o), Size(736, 1280));
  o.keep_ratio = true;
  EXPECT_EQ(size_of(368, 500, o), Size(736, 1024));  // 1000 up to 32
}

TEST(DetectionResize, SmallPagesArePadded) {
  const DetectionSize s = detection_size(20, 40, {});
  EXPECT_EQ(s.padded_height, 32);
  EXPECT_EQ(s.padded_width, 40);
  EXPECT_EQ(s.height, 736);
  EXPECT_DOUBLE_EQ(s.ratio_h, 736.0 / 32);
  EXPECT_EQ(detection_size(32, 32, {}).padded_height, 32);
  EXPECT_EQ(detection_size(1, 1, {}).padded_width, 32);
}

TEST(DetectionResize, RefusesTheImpossible) {
  EXPECT_THROW(detection_size(0, 10, {}), train::ShapeError);
  EXPECT_THROW(detection_size(1, 1 << 24, DetectionResizeOptions::rapidocr()), train::ShapeError);
  EXPECT_NO_THROW(detection_size(1, 1 << 24, {}));  // capped at 4000
  DetectionResizeOptions o;
  o.limit_side_len = 0;
  EXPECT_THROW(detection_size(10, 10, o), train::ConfigError);
}

TEST(DetectionInput, NormalisesAndPadsAsUpstream) {
  cv::Mat page(20, 30, CV_8UC3, cv::Scalar(10, 100, 250));
  DetectionSize size;
  size.height = size.padded_height = 32;
  size.width = size.padded_width = 32;
  std::vector<float> out(32 * 32 * 4, -9);
  write_detection_input(page, size, Normalizer::imagenet(), out.data(), 4);
  EXPECT_NEAR(out[0], (10 / 255.0 - 0.485) / 0.229, 1e-6);  // RGB numbers on BGR pixels
  EXPECT_NEAR(out[1], (100 / 255.0 - 0.456) / 0.224, 1e-6);
  EXPECT_NEAR(out[2], (250 / 255.0 - 0.406) / 0.225, 1e-6);
  EXPECT_EQ(out[3], 0);
  const size_t padding = (31 * 32 + 31) * 4;
  EXPECT_NEAR(out[padding], -0.485 / 0.229, 1e-6);  // black, normalised
}

TEST(DetectionInput, RapidOcrFramesFlatPages) {
  const cv::Mat page(40, 400, CV_8UC3, cv::Scalar(50, 60, 70));
  const RapidPage prepared = rapidocr_page(40, 400);
  const cv::Mat copy = rapidocr_copy(page, prepared);
  EXPECT_EQ(copy.size(), cv::Size(400, 100));  // max(400 / 8, 30) * 2 rows
  EXPECT_EQ(copy.at<cv::Vec3b>(0, 5), cv::Vec3b(0, 0, 0));
  EXPECT_EQ(copy.at<cv::Vec3b>(prepared.pad, 5), cv::Vec3b(50, 60, 70));
  EXPECT_EQ(copy.at<cv::Vec3b>(99, 5), cv::Vec3b(0, 0, 0));
  EXPECT_EQ(rapidocr_copy(page, rapidocr_page(400, 400)).rows, 400);
}

TEST(RecognitionResize, WidthOfTheCropAlone) {
  const auto width = [](int w, int h, const RecognitionResizeOptions& o) {
    const RecognitionSize s = recognition_size(w, h, o);
    return std::make_pair(s.width, s.text_width);
  };
  RecognitionResizeOptions o;
  EXPECT_EQ(width(100, 48, o), std::make_pair(160, 100));
  EXPECT_EQ(width(100, 47, o), std::make_pair(160, 103));     // ceil(102.1)
  EXPECT_EQ(width(1000, 47, o), std::make_pair(1021, 1021));  // int(1021.3); the ceil is cut
  EXPECT_EQ(width(3, 480, o), std::make_pair(160, 1));
  o.multiple = 8;
  EXPECT_EQ(width(1000, 47, o), std::make_pair(1024, 1021));
  EXPECT_EQ(width(100, 48, RecognitionResizeOptions::parity()), std::make_pair(320, 100));
  EXPECT_EQ(width(48 * 100, 48, RecognitionResizeOptions::paddlex()), std::make_pair(3200, 3200));
  EXPECT_THROW(recognition_size(0, 48, o), train::ShapeError);
  EXPECT_THROW(recognition_size(1 << 20, 1, o), train::ShapeError);
  for (int m = 1; m < 700; ++m) {  // no minimum is lost to rounding
    RecognitionResizeOptions any;
    any.min_width = m;
    ASSERT_EQ(recognition_size(1, 100, any).width, m);
  }
}

TEST(RecognitionResize, PaddingIsZeroAfterNormalisation) {
  cv::Mat crop(48, 20, CV_8UC3, cv::Scalar(0, 127, 255));
  const RecognitionSize size = recognition_size(20, 48, {});
  std::vector<float> out(static_cast<size_t>(48 * size.width * 3), 7);
  write_recognition_input(crop, size, 48, out.data(), 3);
  for (int y = 0; y < 48; ++y) {
    const float* row = out.data() + y * size.width * 3;
    ASSERT_FLOAT_EQ(row[0], -1);
    ASSERT_NEAR(row[1], -0.00392157, 1e-6);
    ASSERT_FLOAT_EQ(row[2], 1);
    for (int i = size.text_width * 3; i < size.width * 3; ++i) ASSERT_EQ(row[i], 0) << i;
  }
}

TEST(ClassifierInput, Shapes) {
  cv::Mat image(30, 600, CV_8UC3, cv::Scalar(10, 20, 250));
  for (const auto& s : {ClassifierInput::padded(), ClassifierInput::padded(32, 320),
                        ClassifierInput::textline_pplcnet(), ClassifierInput::doc_orientation()}) {
    std::vector<float> out(static_cast<size_t>(s.height * s.width * 3), NAN);
    write_classifier_input(image, s, out.data(), 3);
    for (float v : out) ASSERT_TRUE(std::isfinite(v));
    if (s.kind == ClassifierInput::Kind::kPadded) {
      EXPECT_NEAR(out[2], 250 / 127.5 - 1, 1e-6);
    } else {
      EXPECT_NEAR(out[0], (250 / 255.0 - 0.485) / 0.229, 1e-5) << "red first";
    }
  }
  EXPECT_THROW(write_classifier_input(cv::Mat(), ClassifierInput::padded(), nullptr, 3),
               train::ShapeError);
}

TEST(ClassifierInput, CentreOfALongPage) {
  // Left part black, the middle white: only the middle is seen.
  cv::Mat image(40, 8000, CV_8UC3, cv::Scalar(0, 0, 0));
  image(cv::Rect(3900, 0, 200, 40)).setTo(cv::Scalar(255, 255, 255));
  std::vector<float> out(224 * 224 * 3);
  write_classifier_input(image, ClassifierInput::doc_orientation(), out.data(), 3);
  for (float v : out) ASSERT_GT(v, 2.0f);
}

TEST(RecognitionSize, OneWidthForAllLines) {
  RecognitionResizeOptions o;
  o.height = 32;
  o.min_width = o.max_width = 100;
  for (const int width : {10, 100, 1000}) {  // padded, or squashed
    const RecognitionSize size = recognition_size(width, 32, o);
    EXPECT_EQ(size.width, 100);
    EXPECT_EQ(size.text_width, std::min(width, 100));
  }
  o.stretch = true;
  for (const int width : {10, 100, 1000}) EXPECT_EQ(recognition_size(width, 32, o).text_width, 100);
}

}  // namespace
}  // namespace ocr
