// Metrics on cases small enough to count by hand.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "libocr/metrics/classification_metric.h"
#include "libocr/metrics/detection_metric.h"
#include "libocr/metrics/gallery.h"
#include "libocr/metrics/recognition_metric.h"
#include "libocr/text/edit_distance.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

ReadLine line(const std::string& target, const std::string& prediction, int height = 32) {
  return {"n", target, prediction, target, 0.9, 100, height};
}

TEST(Align, IsMinimalAndComplete) {
  std::mt19937 rng(1);
  for (int i = 0; i < 300; ++i) {
    std::string a, b;
    for (unsigned k = rng() % 8; k > 0; --k) a += static_cast<char>('a' + rng() % 3);
    for (unsigned k = rng() % 8; k > 0; --k) b += static_cast<char>('a' + rng() % 3);
    std::string ra, rb;
    int64_t edits = 0;
    for (const AlignedPair& p : align_texts(a, b)) {
      if (p.reference) ra += static_cast<char>(p.reference);
      if (p.hypothesis) rb += static_cast<char>(p.hypothesis);
      edits += !p.same();
    }
    EXPECT_EQ(ra, a);
    EXPECT_EQ(rb, b);
    EXPECT_EQ(edits, edit_distance(a, b));
  }
}

TEST(Recognition, StrictCountsWhatLenientForgives) {
  RecognitionMetric m;
  m.add(line("a b", "ab"));       // a lost space
  m.add(line("Total", "total"));  // case
  m.add(line("xyz", "xyz"));
  ReadLine unseen = line("naïve", "nave");
  unseen.seen_target = "nave";  // upstream drops what the dictionary does not have
  m.add(unseen);
  EXPECT_DOUBLE_EQ(m.strict().accuracy(), 0.25);
  EXPECT_DOUBLE_EQ(m.lenient().accuracy(), 0.75);
  EXPECT_DOUBLE_EQ(m.folded().accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(m.strict().cer(), 3.0 / 16);
  EXPECT_DOUBLE_EQ(m.strict().wer(), 4.0 / 5);  // "a b" -> "ab": 2 edits; Total; naïve
  EXPECT_DOUBLE_EQ(m.strict().norm_edit_dis(), (2. / 3 + 4. / 5 + 1 + 4. / 5) / 4);
  EXPECT_EQ(m.confusions().top(9).size(), 3u);
  EXPECT_EQ(m.slices().at("length 02-05").lines, 4);
  EXPECT_EQ(m.slices().at("height 32-47").lines, 4);
  EXPECT_EQ(m.slices().at("script Latin").lines, 4);
  ASSERT_EQ(m.worst().size(), 3u);
  EXPECT_EQ(m.worst()[0].target, "a b");
  const auto j = nlohmann::json::parse(m.json());
  EXPECT_DOUBLE_EQ(j["strict"]["acc"].get<double>(), 0.25);
}

TEST(Recognition, OptionsOfPaddle) {
  RecognitionMetric spaces({false, false}), filter({true, true});
  for (RecognitionMetric* m : {&spaces, &filter}) {
    m->add(line("a b", "ab"));
    m->add(line("A-1", "a1"));
  }
  EXPECT_EQ(spaces.lenient().exact, 0);
  EXPECT_EQ(filter.lenient().exact, 2);
}

TEST(Recognition, EmptyTextsAndScripts) {
  RecognitionMetric m;
  m.add(line("", ""));
  m.add(line("", "abc"));
  EXPECT_EQ(m.strict().char_edits, 3);
  EXPECT_EQ(m.strict().cer(), 0);  // no character to be wrong about
  EXPECT_EQ(script_of("12-3"), "digits");
  EXPECT_EQ(script_of("Abc 12"), "Latin");
  EXPECT_EQ(script_of("中文 1"), "CJK");
  EXPECT_EQ(script_of("中a"), "mixed");
  EXPECT_EQ(script_of("Привет"), "Cyrillic");
  EXPECT_EQ(script_of("--"), "signs");
  EXPECT_EQ(fold_text("  A  bC\u3000d "), "a bc d");
}

Polygon box(float x, float y, float w, float h) {
  return {{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}};
}

TEST(Detection, MatchesAboveHalf) {
  DetectionMetric m;
  // Half of the union exactly is no match: IoU must be above 0.5.
  m.add("half", {{box(0, 0, 100, 20), "a", false}}, {box(0, 0, 50, 20)});
  EXPECT_EQ(m.total().matched, 0);
  m.add("more", {{box(0, 0, 100, 20), "a", false}}, {box(0, 0, 51, 20), box(200, 0, 10, 20)});
  EXPECT_EQ(m.total().matched, 1);
  EXPECT_EQ(m.total().targets, 2);
  EXPECT_EQ(m.total().found, 3);
  EXPECT_DOUBLE_EQ(m.total().precision(), 1. / 3);
  EXPECT_DOUBLE_EQ(m.total().recall(), 0.5);
  EXPECT_DOUBLE_EQ(m.total().hmean(), 0.4);
  EXPECT_EQ(m.worst(1)[0].name, "half");
  EXPECT_EQ(m.by_height().at("height 20-39").targets, 2);
}

TEST(Detection, FirstMatchIsTakenAndIgnoredTextsDoNotCount) {
  DetectionMetric m;
  // The first target takes the first box above 0.5, though the second would fit better.
  m.add("greedy", {{box(0, 0, 100, 20), "a", false}, {box(0, 0, 90, 20), "b", false}},
        {box(0, 0, 91, 20), box(0, 0, 100, 20)});
  EXPECT_EQ(m.total().matched, 2);
  DetectionMetric ignored;
  ignored.add("i", {{box(0, 0, 100, 20), "###", true}, {box(0, 50, 100, 20), "a", false}},
              {box(0, 0, 60, 20), box(0, 50, 100, 20), box(90, 0, 21, 20)});
  EXPECT_EQ(ignored.total().targets, 1);
  EXPECT_EQ(ignored.total().found, 2);  // the third lies on the ignored text by less than half
  EXPECT_EQ(ignored.total().matched, 1);
}

TEST(Detection, PolygonsThatCrossThemselvesAreLeftOut) {
  EXPECT_TRUE(is_simple_polygon(box(0, 0, 10, 10)));
  EXPECT_TRUE(is_simple_polygon({{0, 0}, {10, 0}, {10, 10}, {0, 10}, {0, 10}, {0, 10}}));  // padded
  EXPECT_FALSE(is_simple_polygon({{0, 0}, {10, 10}, {10, 0}, {0, 10}}));  // a bow tie
  EXPECT_FALSE(is_simple_polygon({{0, 0}, {10, 0}, {20, 0}}));
  EXPECT_FALSE(is_simple_polygon({{0, 0}, {10, 0}, {10, 10}, {10, 0}, {0, 5}}));  // a spike
  EXPECT_FALSE(is_simple_polygon({{0, 0}, {1, 1}}));
  DetectionMetric m;
  m.add("x", {{{{0, 0}, {10, 10}, {10, 0}, {0, 10}}, "a", false}}, {box(0, 0, 10, 10)});
  EXPECT_EQ(m.total().targets, 0);
  EXPECT_EQ(m.total().found, 1);
}

TEST(EndToEnd, ABoxCountsWhenItsTextIsRight) {
  EndToEndMetric m(false), folded(true);
  for (EndToEndMetric* e : {&m, &folded})
    e->add({{box(0, 0, 100, 20), "Total 12", false},
            {box(0, 50, 100, 20), "ab", false},
            {box(0, 90, 100, 20), "###", true}},
           {{box(0, 0, 100, 20), "TOTAL 12", false},
            {box(200, 0, 50, 20), "xy", false},
            {box(0, 90, 100, 20), "junk", false}});
  EXPECT_EQ(m.lines().matched, 0);
  EXPECT_EQ(folded.lines().matched, 1);
  EXPECT_EQ(m.lines().targets, 2);
  EXPECT_EQ(m.lines().found, 2);
  EXPECT_EQ(m.words().matched, 1);
  EXPECT_DOUBLE_EQ(m.cer(), (4 + 2 + 2) / 10.);
  EXPECT_DOUBLE_EQ(folded.cer(), (2 + 2) / 10.);
}

TEST(Classification, ByClass) {
  ClassificationMetric m({"0", "180"});
  for (int i = 0; i < 8; ++i) m.add(0, 0, 0.99);
  m.add(0, 1, 0.95);
  m.add(0, 1, 0.6);
  for (int i = 0; i < 5; ++i) m.add(1, 1, 0.9);
  EXPECT_DOUBLE_EQ(m.accuracy(), 13. / 15);
  EXPECT_DOUBLE_EQ(m.recall(0), 0.8);
  EXPECT_DOUBLE_EQ(m.precision(1), 5. / 7);
  EXPECT_DOUBLE_EQ(m.wrongly_turned(0.9), 0.1);
  EXPECT_THROW(m.add(2, 0, 1), train::ShapeError);
  EXPECT_EQ(nlohmann::json::parse(m.json())["classes"]["0"]["read_as"]["180"].get<int>(), 2);
}

TEST(Gallery, EscapesAndHoldsItsPictures) {
  const std::string html =
      gallery_html("<t>", "a & b", {{"x\"y", {0x89, 'P', 'N', 'G'}, "a b<", "ab<", "CER 1"}});
  EXPECT_NE(html.find("&lt;t&gt;"), std::string::npos);
  EXPECT_NE(html.find("a &amp; b"), std::string::npos);
  EXPECT_NE(html.find("data:image/png;base64,iVBORw=="), std::string::npos);
  EXPECT_NE(html.find("a<mark>\u2423</mark>b&lt;"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos);
}

}  // namespace
}  // namespace ocr
