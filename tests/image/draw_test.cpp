#include "libocr/image/draw.h"

#include <cmath>
#include <limits>

#include "libtrain/core/error.h"
#include "tests/image/test_images.h"

namespace ocr {
namespace {

constexpr Bgr kWhite{255, 255, 255}, kBlack{0, 0, 0};

Image white(int width, int height) { return Image(width, height, kWhite); }

// Sum of darkness over a rectangle, in fully black pixels.
double ink(const Image& image, int x0, int y0, int x1, int y1) {
  double sum = 0;
  for (int y = y0; y < y1; y++)
    for (int x = x0; x < x1; x++) sum += 1 - pixel(image, x, y).g / 255.0;
  return sum;
}
double ink(const Image& image) { return ink(image, 0, 0, image.width, image.height); }

TEST(Draw, LinesCoverTheirLengthTimesTheirWidth) {
  for (const DrawPoint end :
       {DrawPoint{90.5, 10.5}, DrawPoint{10.5, 90.5}, DrawPoint{70, 60}, DrawPoint{40, 95}}) {
    Image image = white(100, 100);
    draw_polyline(image, {{10.5, 10.5}, end}, false, kBlack, 3);
    const double length = std::hypot(end.x - 10.5, end.y - 10.5);
    EXPECT_NEAR(ink(image), 3 * length + M_PI * 1.5 * 1.5, 4) << end.x;
    EXPECT_EQ(pixel(image, 10, 10), kBlack);
  }
}

TEST(Draw, PolygonsAreFilledOverTheirArea) {
  Image image = white(60, 60);
  fill_polygon(image, {{10, 10}, {50, 10}, {50, 30}, {10, 30}}, kBlack, 1);
  EXPECT_EQ(ink(image), 800);
  fill_polygon(image, {{0, 40}, {60, 40}, {60, 60}, {0, 60}}, kBlack, 0.5);
  EXPECT_NEAR(ink(image, 0, 40, 60, 60), 600, 5);
  image = white(60, 60);
  fill_polygon(image, {{30, 5}, {55, 30}, {30, 55}, {5, 30}}, kBlack, 1);
  EXPECT_NEAR(ink(image), 1250, 30);
}

TEST(Draw, AbsurdCoordinatesAreClippedOrDropped) {
  Image image = white(20, 20);
  const double nan = std::numeric_limits<double>::quiet_NaN(), far = 1e300;
  draw_polyline(image, {{nan, 0}, {10, 10}, {far, far}, {-1e6, 5}}, true, kBlack, 2);
  fill_polygon(image, {{nan, 0}, {10, 10}, {0, 10}}, kBlack, 1);
  fill_polygon(image, {{-1e6, -1e6}, {1e6, -1e6}, {1e6, -5}, {-1e6, -5}}, kBlack, 1);
  FontSet fonts;
  draw_text_in_box(image, {{nan, 0}, {10, 0}, {10, 10}, {0, 10}}, U"x", fonts, kBlack);
  draw_text_in_box(image, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, U"x", fonts, kBlack);
  fonts.draw(image, U"x", {0, 0, 0, 0, 10}, kBlack);
  fonts.draw(image, U"x", {-1e9, 0, 1, 0, 1e9}, kBlack);
  EXPECT_EQ(ink(image), 0);
  Image empty;
  fonts.draw(empty, U"x", {}, kBlack);
}

TEST(Draw, ShrinkingKeepsTheMean) {
  const Image image = noisy_image(101, 67);
  const Image small = shrink_to(image.view(), 40);
  EXPECT_EQ(small.width, 40);
  EXPECT_EQ(small.height, 26);
  const auto mean = [](const Image& i) {
    double sum = 0;
    for (const uint8_t b : i.pixels) sum += b;
    return sum / static_cast<double>(i.pixels.size());
  };
  EXPECT_NEAR(mean(small), mean(image), 0.6);
  EXPECT_EQ(shrink_to(Image(300, 200, Bgr{7, 8, 9}).view(), 77).pixels,
            Image(77, 51, Bgr{7, 8, 9}).pixels);
  EXPECT_EQ(shrink_to(image.view(), 0).pixels, image.pixels);
  EXPECT_EQ(shrink_to(Image(5000, 1, kBlack).view(), 100).height, 1);
}

TEST(Font, WithoutAnyFontTextBecomesBoxes) {
  FontSet none(std::vector<std::string>{});
  EXPECT_FALSE(none.has(U'a'));
  EXPECT_NEAR(none.measure(U"ab"), 1.2, 1e-9);
  Image image = white(60, 40);
  none.draw(image, U"a", {10, 30, 1, 0, 20}, kBlack);
  EXPECT_GT(ink(image, 10, 14, 24, 31), 20);
  EXPECT_EQ(ink(image), ink(image, 10, 13, 24, 32));
}

TEST(Font, OverrideMustBeAFont) {
  EXPECT_THROW(FontSet("/none/such.ttf"), train::ConfigError);
  EXPECT_THROW(FontSet(fixture("rgb8.png")), train::ConfigError);
}

class WithFonts : public testing::Test {
 protected:
  void SetUp() override {
    if (!fonts_.has(U'H')) GTEST_SKIP() << "no font is installed here";
  }
  FontSet fonts_;
};

TEST_F(WithFonts, TextFillsItsBoxAndStaysInside) {
  // Horizontal, turned by 90 degrees, slanted, and a tall box whose text is turned.
  const std::vector<std::vector<DrawPoint>> quads = {{{20, 60}, {180, 60}, {180, 90}, {20, 90}},
                                                     {{140, 20}, {140, 180}, {110, 180}, {110, 20}},
                                                     {{30, 30}, {150, 100}, {137, 122}, {17, 52}},
                                                     {{60, 20}, {90, 20}, {90, 180}, {60, 180}}};
  for (const auto& quad : quads) {
    Image image = white(200, 200), mask = white(200, 200);
    draw_text_in_box(image, quad, U"HxHHHHHHHHHHHHHHHHHHHH", fonts_, kBlack);
    EXPECT_GT(ink(image), 100);
    fill_polygon(mask, quad, kBlack, 1);
    for (int y = 0; y < 200; y++)
      for (int x = 0; x < 200; x++)
        if (pixel(mask, x, y) == kWhite) {
          ASSERT_GT(pixel(image, x, y).g, 100) << x << " " << y;
        }
  }
}

TEST_F(WithFonts, LengthFollowsTheText) {
  EXPECT_NEAR(fonts_.measure(U"HHHH"), 4 * fonts_.measure(U"H"), 1e-6);
  EXPECT_LT(fonts_.measure(U"i"), fonts_.measure(U"W"));
  // An unassigned plane-14 character has no glyph anywhere.
  EXPECT_FALSE(fonts_.has(0xE0FFF));
}

TEST_F(WithFonts, ChineseIsShownWhereAFontHasIt) {
  if (!fonts_.has(U'你')) GTEST_SKIP() << "no CJK font is installed here";
  Image image = white(100, 60);
  fonts_.draw(image, U"你好", {10, 45, 1, 0, 36}, kBlack);
  EXPECT_GT(ink(image, 10, 10, 46, 55), 100);
  EXPECT_GT(ink(image, 46, 10, 84, 55), 100);
  EXPECT_NEAR(fonts_.measure(U"你好"), 2, 0.1);
}

TEST_F(WithFonts, AnnotatedPageHasBoxesLeftAndTextRight) {
  const Image page = white(300, 200);
  const std::vector<AnnotatedBox> boxes = {
      {{{50, 50}, {250, 50}, {250, 80}, {50, 80}}, U"Hello"},
      {{{50, 120}, {250, 120}, {250, 150}, {150, 160}, {50, 150}}, U"World"},
      {{}, U"nowhere"}};
  const Image out = annotate(page.view(), boxes, fonts_);
  EXPECT_EQ(out.width, 600);
  EXPECT_EQ(out.height, 200);
  EXPECT_NE(pixel(out, 150, 65), kWhite);
  EXPECT_NE(pixel(out, 150, 65), pixel(out, 150, 135));
  EXPECT_GT(ink(out, 352, 52, 450, 78), 50);
  EXPECT_GT(ink(out, 352, 122, 450, 148), 50);
  EXPECT_EQ(out.pixels, annotate(page.view(), boxes, fonts_).pixels);
  AnnotateOptions options;
  options.max_side = 150;
  options.text_panel = false;
  const Image small = annotate(page.view(), boxes, fonts_, options);
  EXPECT_EQ(small.width, 150);
  EXPECT_NE(pixel(small, 25, 30), kWhite);
}

}  // namespace
}  // namespace ocr
