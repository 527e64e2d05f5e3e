// The pipeline with real weights on pages drawn here. The models are not in the repository:
// scripts/fetch_models.sh brings them, without them (or without a font) the tests are skipped.
#include <gtest/gtest.h>

#include <filesystem>

#include "libocr/geometry/quad.h"
#include "libocr/image/decode.h"
#include "libocr/image/font.h"
#include "libocr/pipeline/pipeline.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr const char* kModels = OCR_SOURCE_DIR "/models";
constexpr Bgr kWhite{255, 255, 255}, kBlack{0, 0, 0};

bool has_models(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return std::filesystem::exists(std::string(kModels) + "/" + name);
  });
}

Options settings() {
  Options o;
  set_option(o, "models", std::string(kModels) + "/ppocrv6_tiny", Source::kFlag);
  set_option(o, "threads", "1", Source::kFlag);
  return o;
}

std::vector<std::string> texts_of(const PageResult& page) {
  std::vector<std::string> out;
  for (const TextLine& line : page.lines) out.push_back(line.text);
  return out;
}

// A letter of several lines of different length.
const std::vector<std::string> kLetter{
    "Harbour Street 12, Port Ellen",  "Dear reader, the ferry leaves at nine",
    "and returns before the evening", "when the lighthouse is lit again.",
    "Please bring a warm coat",       "With kind regards",
};

Image letter(FontSet& font) {
  Image page(620, 460, kWhite);
  for (size_t i = 0; i < kLetter.size(); ++i)
    font.draw(page, std::u32string(kLetter[i].begin(), kLetter[i].end()),
              {40, 70 + 66 * static_cast<double>(i), 1, 0, 28}, kBlack);
  return page;
}

class RealModels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_models({"ppocrv6_tiny/det.onnx", "ppocrv6_tiny/rec.onnx"}))
      GTEST_SKIP() << "no models; scripts/fetch_models.sh brings them";
    if (!font.has(U'a')) GTEST_SKIP() << "no font";
  }
  FontSet font;
};

TEST_F(RealModels, TurnedPagesAreReadUprightAndKeepTheirOwnCoordinates) {
  if (!has_models({"doc_ori/doc_ori.onnx", "cls_v2/cls.onnx"}))
    GTEST_SKIP() << "no page or line classifier";
  const Image upright = letter(font);
  Options o = settings();
  set_option(o, "use_doc_orientation_classify", "true", Source::kFlag);
  // Once as the page classifier says, once as the lines vote.
  for (const char* threshold : {"0", "1"}) {
    set_option(o, "doc_thresh", threshold, Source::kFlag);
    const auto pipeline = Pipeline::open(o);
    const PageResult expected = pipeline->run(upright.view());
    ASSERT_EQ(texts_of(expected), kLetter);
    for (const int turn : {0, 90, 180, 270}) {
      SCOPED_TRACE("turned by " + std::to_string(turn) + ", doc_thresh " + threshold);
      const Image page = rotate(upright.view(), turn);
      const PageResult r = pipeline->run(page.view());
      EXPECT_EQ(r.rotation, (360 - turn) % 360);
      EXPECT_EQ(r.width, page.width);
      EXPECT_EQ(r.height, page.height);
      ASSERT_EQ(texts_of(r), kLetter);
      for (size_t i = 0; i < r.lines.size(); ++i) {
        // The same box, where the turned page has it; corners start where reading starts.
        Polygon box = r.lines[i].points;
        for (Point2f& p : box) p = unrotate_point(p, turn, upright.width, upright.height);
        EXPECT_GT(polygon_iou(box, expected.lines[i].points), 0.9);
        EXPECT_NEAR(box[0].x, expected.lines[i].points[0].x, 4);
        EXPECT_NEAR(box[0].y, expected.lines[i].points[0].y, 4);
        ASSERT_FALSE(r.lines[i].words.empty());
        const Quad& word = r.lines[i].words[0].box;
        EXPECT_GT(intersection_area(word, r.lines[i].points), 0.8 * polygon_area(word));
      }
    }
  }
}

TEST_F(RealModels, ALineReadsAlikeWhereverItStands) {
  const auto pipeline = Pipeline::open(settings());
  const std::string text = "Invoice 2024-0317 paid on Monday";
  Image line(460, 44, kWhite);
  font.draw(line, std::u32string(text.begin(), text.end()), {6, 33, 1, 0, 28}, kBlack);
  for (int i = 0; i < 20; ++i) {
    // Offsets of all remainders to the net's grid of 32.
    const int x0 = 13 + 37 * i % 300, y0 = 9 + 53 * i % 600;
    Image page(800, 736, kWhite);
    for (int y = 0; y < line.height; ++y)
      std::copy_n(line.row(y), 3 * line.width, page.row(y0 + y) + 3 * x0);
    const PageResult r = pipeline->run(page.view());
    ASSERT_EQ(r.lines.size(), 1u) << "at " << x0 << ", " << y0;
    EXPECT_EQ(r.lines[0].text, text) << "at " << x0 << ", " << y0;
    EXPECT_NEAR(r.lines[0].points[0].x, static_cast<float>(x0 + 6), 12);
    EXPECT_NEAR(r.lines[0].points[0].y, static_cast<float>(y0 + 8), 12);
  }
}

TEST_F(RealModels, APageReadsAlikeWhereverItLiesOnALargeCanvas) {
  const Image receipt = std::move(read_image(OCR_SOURCE_DIR "/datasets/sample/receipt.jpg").image);
  const auto pipeline = Pipeline::open(settings());
  // In one piece; in tiles as the page is long; in tiles by the option.
  Options tiled = settings();
  set_option(tiled, "det_tile", "on", Source::kFlag);
  set_option(tiled, "det_tile_size", "512", Source::kFlag);
  const auto in_tiles = Pipeline::open(tiled);
  struct Case {
    const Pipeline* pipeline;
    Bgr ground;
    int width, height, places;
  };
  for (const auto& [reader, ground, width, height, places] :
       {Case{pipeline.get(), kWhite, 2600, 2500, 20},
        Case{pipeline.get(), {128, 128, 128}, 2600, 2500, 20},
        Case{pipeline.get(), kWhite, 9000, 2000, 5}, Case{in_tiles.get(), kWhite, 1500, 1700, 5}}) {
    const int room_x = width - receipt.width, room_y = height - receipt.height;
    ASSERT_GT(std::min(room_x, room_y), 100);
    PageResult first;
    for (int i = 0; i < places; ++i) {
      // The corners, then places of all remainders to the grids of the net and of the tiles.
      const int x0 = i < 4 ? (i % 2) * room_x : (13 + 237 * i) % room_x;
      const int y0 = i < 4 ? (i / 2) * room_y : (9 + 353 * i) % room_y;
      SCOPED_TRACE(train::cat(width, " x ", height, " at ", x0, ", ", y0));
      Image page(width, height, ground);
      for (int y = 0; y < receipt.height; ++y)
        std::copy_n(receipt.row(y), 3 * receipt.width, page.row(y0 + y) + 3 * x0);
      PageResult r = reader->run(page.view());
      for (TextLine& line : r.lines)
        for (Point2f& p : line.points)
          p = {p.x - static_cast<float>(x0), p.y - static_cast<float>(y0)};
      if (i == 0) {
        first = std::move(r);
        EXPECT_GT(first.lines.size(), 10u);
        continue;
      }
      ASSERT_EQ(texts_of(r), texts_of(first));
      for (size_t k = 0; k < r.lines.size(); ++k) {
        EXPECT_EQ(r.lines[k].score, first.lines[k].score);
        for (size_t c = 0; c < 4; ++c) {
          EXPECT_EQ(r.lines[k].points[c].x, first.lines[k].points[c].x);
          EXPECT_EQ(r.lines[k].points[c].y, first.lines[k].points[c].y);
        }
      }
    }
  }
}

TEST_F(RealModels, LettersTallerThanWhatTilesShareAreReadWhole) {
  Image page(2700, 1500, kWhite);
  const std::vector<std::string> small{"the ferry leaves at nine", "and returns in the evening"};
  font.draw(page, U"SOLD", {150, 860, 1, 0, 900}, kBlack);
  font.draw(page, U"the ferry leaves at nine", {220, 1330, 1, 0, 34}, kBlack);
  font.draw(page, U"and returns in the evening", {1300, 1440, 1, 0, 34}, kBlack);
  Options o = settings();
  set_option(o, "det_tile", "on", Source::kFlag);
  set_option(o, "det_tile_size", "512", Source::kFlag);
  const PageResult r = Pipeline::open(o)->run(page.view());
  EXPECT_GT(r.tiles, 12);
  EXPECT_EQ(texts_of(r), (std::vector<std::string>{"SOLD", small[0], small[1]}));
}

}  // namespace
}  // namespace ocr
