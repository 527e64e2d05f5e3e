#include "libocr/pipeline/writers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

DocumentResult example() {
  DocumentResult d;
  d.path = "in/page.png";
  PageResult p;
  p.width = 100, p.height = 50;
  p.dpi = 72;
  TextLine a;
  a.points = {{1, 2}, {40.5f, 2}, {40.5f, 12}, {1, 12}};
  a.det_score = 0.9;
  a.text = "Tea\t\"1\"";
  a.score = 0.987654321;
  a.words = {{"Tea", 0.99, Quad{Point2f{1, 2}, {20, 2}, {20, 12}, {1, 12}}}};
  TextLine b;
  b.points = {{1, 20}, {30, 20}, {30, 30}, {1, 30}};
  b.text = "茶";
  b.score = 0.5;
  p.lines = {a, b};
  d.pages = {p};
  return d;
}

RunInfo run() {
  RunInfo r;
  r.version = "1.2.3";
  r.models = {{"det", "m/det.onnx", "abc"}};
  r.settings = {{"drop_score", "0.5", "", Source::kDefault, true},
                {"det_db_thresh", "0.2", "m/det_inference.yml:4:3", Source::kInferenceYml, true},
                {"jobs", "2", "--jobs", Source::kFlag, false}};
  return r;
}

TEST(Writers, Text) {
  EXPECT_EQ(write_document(example(), run(), Format::kText, "page.png"), "Tea \"1\"\n茶\n");
}

TEST(Writers, TextOfSeveralPagesIsParted) {
  DocumentResult d = example();
  d.page_count = 2;
  d.pages.push_back(d.pages[0]);
  d.pages[1].index = 1;
  EXPECT_EQ(write_document(d, run(), Format::kText, "k"), "Tea \"1\"\n茶\n\nTea \"1\"\n茶\n");
}

TEST(Writers, RecognitionPrintsPathTextScore) {
  RunInfo r = run();
  r.task = "rec";
  DocumentResult d = example();
  d.pages[0].lines.resize(1);
  EXPECT_EQ(write_document(d, r, Format::kText, "in/page.png"), "in/page.png\tTea \"1\"\t0.9877\n");
}

TEST(Writers, Tsv) {
  EXPECT_EQ(write_document(example(), run(), Format::kTsv, "page.png"),
            "page.png\t1\t1\t0.9877\t[[1,2],[40.5,2],[40.5,12],[1,12]]\tTea \"1\"\n"
            "page.png\t1\t2\t0.5000\t[[1,20],[30,20],[30,30],[1,30]]\t茶\n");
}

TEST(Writers, TsvOfClassificationHasTheAngle) {
  RunInfo r = run();
  r.task = "cls";
  DocumentResult d = example();
  d.pages[0].lines.resize(1);
  d.pages[0].lines[0] = {};
  d.pages[0].lines[0].points = {{0, 0}, {40, 0}, {40, 12}, {0, 12}};
  d.pages[0].lines[0].angle = 180;
  d.pages[0].lines[0].angle_score = .75;
  EXPECT_EQ(write_document(d, r, Format::kTsv, "page.png"),
            "page.png\t1\t1\t0.7500\t[[0,0],[40,0],[40,12],[0,12]]\t180\n");
}

TEST(Writers, PaddleLineIsWhatPaddleOcrWrites) {
  EXPECT_EQ(write_document(example(), run(), Format::kPaddle, "in/page.png"),
            "in/page.png\t[{\"transcription\":\"Tea\\t\\\"1\\\"\",\"points\":[[1,2],[41,2],[41,12],"
            "[1,12]],\"difficult\":false},{\"transcription\":\"茶\",\"points\":[[1,20],[30,20],"
            "[30,30],[1,30]],\"difficult\":false}]\n");
}

TEST(Writers, JsonHoldsRunPageAndLines) {
  const std::string text = write_document(example(), run(), Format::kJson, "page.png");
  const auto j = nlohmann::json::parse(text);
  EXPECT_EQ(j["schema"], kSchema);
  EXPECT_EQ(j["program"], "ocr 1.2.3");
  EXPECT_EQ(j["models"]["det"]["sha256"], "abc");
  EXPECT_EQ(j["settings"]["det_db_thresh"]["value"], 0.2);
  EXPECT_EQ(j["settings"]["det_db_thresh"]["from"], "inference.yml");
  EXPECT_EQ(j["settings"]["det_db_thresh"]["where"], "m/det_inference.yml:4:3");
  EXPECT_FALSE(j["settings"].contains("jobs"));  // results do not depend on it
  const auto& page = j["pages"][0];
  EXPECT_EQ(page["width"], 100);
  EXPECT_EQ(page["dpi"], 72);
  EXPECT_EQ(page["rotation"], 0);
  EXPECT_EQ(page["lines"][0]["text"], "Tea\t\"1\"");
  EXPECT_EQ(page["lines"][0]["score"], 0.98765);
  EXPECT_EQ(page["lines"][0]["points"][1][0], 40.5);
  EXPECT_EQ(page["lines"][0]["words"][0]["text"], "Tea");
  EXPECT_FALSE(page["lines"][1].contains("words"));
}

TEST(Writers, JsonLinesHoldsAPagePerLine) {
  DocumentResult d = example();
  d.page_count = 2;
  d.pages.push_back(d.pages[0]);
  d.pages[1].index = 1;
  const std::string text = write_document(d, run(), Format::kJsonl, "page.png");
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  const auto second = nlohmann::json::parse(text.substr(text.find('\n') + 1));
  EXPECT_EQ(second["page"], 2);
  EXPECT_EQ(second["file"], "in/page.png");
}

TEST(Writers, Paddle3HasItsFieldNames) {
  DocumentResult d = example();
  d.pages[0].detected = {d.pages[0].lines[0].points,
                         {{50, 2}, {60, 2}, {60, 12}, {50, 12}},  // a box whose text was not kept
                         d.pages[0].lines[1].points};
  const auto j = nlohmann::json::parse(write_document(d, run(), Format::kPaddle3, "k"));
  EXPECT_EQ(j["input_path"], "in/page.png");
  EXPECT_EQ(j["rec_texts"][1], "茶");
  EXPECT_EQ(j["rec_boxes"][0], (nlohmann::json{1, 2, 41, 12}));
  EXPECT_EQ(j["rec_polys"].size(), 2u);
  ASSERT_EQ(j["dt_polys"].size(), 3u);
  EXPECT_EQ(j["dt_polys"][1][2], (nlohmann::json{60, 12}));
}

TEST(Writers, PagesOfSeveralHaveKeysOfTheirOwn) {
  DocumentResult d = example();
  EXPECT_EQ(page_key(d, d.pages[0], "a.pdf"), "a.pdf");
  d.page_count = 3;
  d.pages[0].index = 1;
  EXPECT_EQ(page_key(d, d.pages[0], "a.pdf"), "a.pdf#2");
}

TEST(Writers, NamesThatAreNotUtf8StillGiveValidJson) {
  DocumentResult d = example();
  d.path = "bad\xff.png";
  const auto j = nlohmann::json::parse(write_document(d, run(), Format::kJson, d.path));
  EXPECT_EQ(j["file"], "bad\ufffd.png");
}

TEST(Writers, RefusesUnknownFormats) {
  EXPECT_THROW(parse_format("xml"), train::ConfigError);
  EXPECT_EQ(parse_format("paddle3"), Format::kPaddle3);
}

}  // namespace
}  // namespace ocr
