// Label files, the labels of pages, LMDB sets, and label encoders compared with PaddleOCR's own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "libocr/data/detection_label.h"
#include "libocr/data/label_encode.h"
#include "libocr/data/label_file.h"
#include "libocr/data/lmdb.h"
#include "tests/ocr_data/fixtures.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

using test::fixture;

TEST(LabelFile, KeepsSpacesStripsCrAndBom) {
  const LabelFile f = parse_label_file(
      "\xef\xbb\xbf"
      "a.jpg\t x y \r\n\nb c.jpg\tz",
      "l.txt");
  ASSERT_EQ(f.lines.size(), 2u);
  EXPECT_EQ(f.lines[0].path, "a.jpg");
  EXPECT_EQ(f.lines[0].label, " x y ");
  EXPECT_EQ(f.lines[1].path, "b c.jpg");
  EXPECT_EQ(f.lines[1].line, 3);
  EXPECT_EQ(f.skips.total(), 0);
}

TEST(LabelFile, CountsBadLinesWithTheirNumbers) {
  const LabelFile f =
      parse_label_file("a.jpg x\nb.jpg\ty\tz\n\tno path\nc.jpg\t\xff\nd.jpg\tok\n", "l");
  ASSERT_EQ(f.lines.size(), 1u);
  EXPECT_EQ(f.skips.total(), 4);
  EXPECT_EQ(f.skips.examples(Skip::kNoDelimiter)[0], "l:1: no tab between path and label");
  EXPECT_EQ(f.skips.examples(Skip::kManyDelimiters)[0],
            "l:2: more than one tab; a label cannot contain one");
  EXPECT_EQ(f.skips.examples(Skip::kNoPath)[0], "l:3: no path before the tab");
  EXPECT_EQ(f.skips.examples(Skip::kNotUtf8)[0], "l:4: the line is not UTF-8");
  EXPECT_EQ(f.skips.summary(5).substr(0, 37), "4 of 5 samples cannot be used: 1 with");
}

TEST(LabelFile, OtherDelimiterAndSizes) {
  const LabelFile f = parse_label_file("a.jpg, b\n", "l", {", ", false});
  ASSERT_EQ(f.lines.size(), 1u);
  EXPECT_EQ(f.lines[0].label, "b");
  const LabelFile g = parse_label_file("a.jpg\tb\t64\t32\nc\td\t3\n", "l", {"\t", true});
  ASSERT_EQ(g.lines.size(), 1u);
  EXPECT_EQ(g.lines[0].label, "b");
  EXPECT_EQ(g.lines[0].aspect, 2);
  EXPECT_EQ(g.skips.count(Skip::kBadLabel), 1);
  EXPECT_THROW(parse_label_file("", "l", {"", false}), train::ConfigError);
}

TEST(LabelFile, SeveralPicturesOfOneLabel) {
  EXPECT_EQ(label_paths(R"(["a.jpg", "b.jpg"])"), (std::vector<std::string>{"a.jpg", "b.jpg"}));
  EXPECT_EQ(label_paths("[1].jpg"), std::vector<std::string>{"[1].jpg"});
  EXPECT_EQ(label_paths("[1, 2]"), std::vector<std::string>{"[1, 2]"});
}

TEST(LabelFile, DrawsThePartThatTheRatioAsksFor) {
  EXPECT_EQ(draw_lines(5, 0.5, 1, 0, 0).size(), 2u);  // round half to even
  EXPECT_EQ(draw_lines(7, 0.5, 1, 0, 0).size(), 4u);
  EXPECT_EQ(draw_lines(10, 1.0, 1, 0, 0).size(), 10u);
  EXPECT_EQ(draw_lines(10, 0, 1, 0, 0).size(), 0u);
  const auto a = draw_lines(1000, 0.3, 1, 0, 0);
  EXPECT_EQ(a, draw_lines(1000, 0.3, 1, 0, 0));
  EXPECT_NE(a, draw_lines(1000, 0.3, 1, 1, 0));
  EXPECT_NE(a, draw_lines(1000, 0.3, 1, 0, 1));
  EXPECT_TRUE(std::is_sorted(a.begin(), a.end()));
  std::vector<int> taken(100);
  for (int epoch = 0; epoch < 400; ++epoch)
    for (const int64_t i : draw_lines(100, 0.25, 3, epoch, 0)) ++taken[static_cast<size_t>(i)];
  for (const int n : taken) EXPECT_NEAR(n, 100, 45);
}

TEST(DetectionLabel, ReadsAndWrites) {
  const std::string text =
      R"([{"points":[[1,2],[30.5,2],[30.5,9],[1,9]],"transcription":"a \"b\" 中"},)"
      R"({"points":[[0,0],[1,0],[1,1]],"transcription":"###"}])";
  const auto boxes = parse_detection_label(text);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].text, "a \"b\" 中");
  EXPECT_EQ(boxes[0].points[1].x, 30.5);
  EXPECT_TRUE(boxes[1].ignore());
  EXPECT_EQ(write_detection_label(boxes), text);
}

TEST(DetectionLabel, SaysWhatIsWrong) {
  const auto error = [](const std::string& t) {
    try {
      parse_detection_label(t);
    } catch (const train::FormatError& e) {
      return std::string(e.what());
    }
    return std::string("fine");
  };
  EXPECT_EQ(error("[{]"), "not JSON at character 3");
  EXPECT_EQ(error("{}"), "not a list of boxes");
  EXPECT_EQ(error("[]"), "fine");
  EXPECT_EQ(error(R"([{"points":[[1,2]]}])"), "box 1: no text named 'transcription'");
  EXPECT_EQ(error(R"([{"transcription":"a","points":[[1,2],[3,4]]}])"),
            "box 1: 2 points; a box has at least 3");
  EXPECT_EQ(error(R"([{"transcription":"a","points":[[1,2],[3],[4,5]]}])"),
            "box 1: a point is not [x, y]");
  EXPECT_EQ(error(std::string(100, '[')), "nested too deeply for a label");
}

TEST(Lmdb, WritesAndReadsFromManyThreads) {
  const fs::path folder = fs::path(testing::TempDir()) / "lmdb_test";
  fs::remove_all(folder);
  for (const char* part : {"b", "a/deep"}) {
    LmdbWriter writer((folder / part).string());
    for (int i = 0; i < 50; ++i)
      writer.add(std::string(100'000, static_cast<char>('a' + i % 26)) + part,
                 std::string(part) + std::to_string(i));
    writer.finish();
  }
  const LmdbReader reader(folder.string());
  ASSERT_EQ(reader.size(), 100);
  EXPECT_EQ(reader.label(0), "a/deep0");
  EXPECT_EQ(reader.label(50), "b0");
  EXPECT_EQ(reader.name(51), (folder / "b/label-000000002").string());
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 100; ++i) {
        const LmdbReader::Record r = reader.get(i);
        const char* part = i < 50 ? "a/deep" : "b";
        good +=
            r.label == part + std::to_string(i % 50) && r.image.size() == 100'000 + strlen(part);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 400);
  EXPECT_THROW(LmdbWriter((folder / "b").string()), train::FormatError);
  EXPECT_THROW(LmdbReader(folder.parent_path().string() + "/nothing"), train::FormatError);
  EXPECT_THROW(reader.get(100), train::ShapeError);
  fs::remove_all(folder);
}

TEST(Lmdb, ASetThatWasCutShortIsRefused) {
  const fs::path folder = fs::path(testing::TempDir()) / "lmdb_short";
  fs::remove_all(folder);
  {
    LmdbWriter writer(folder.string());
    for (int i = 0; i < 3000; ++i) writer.add("image", "label");
  }
  EXPECT_THROW(LmdbReader{folder.string()}, train::FormatError);
  fs::remove_all(folder);
}

std::vector<int64_t> ints(const json& j) { return j.get<std::vector<int64_t>>(); }

TEST(LabelEncode, EqualsUpstreamOnEverySample) {
  const json data = fixture("labels.json");
  int encoded = 0, skipped = 0;
  for (const json& c : data["cases"]) {
    SCOPED_TRACE(c.dump());
    const int longest = c["max_text_length"].get<int>();
    const bool space = c["space"].get<bool>();
    TextEncoder encoder = TextEncoder::from_settings("", space, longest);
    if (!c["dictionary"].is_null())
      encoder = TextEncoder(
          Dictionary::from_text(data["dictionaries"][c["dictionary"]].get<std::string>(),
                                space ? SpaceClass::kAppend : SpaceClass::kNone, "d"),
          longest, false);
    EXPECT_EQ(encoder.classes(GuideHead::kNone), c["classes"].get<int64_t>());
    EXPECT_EQ(encoder.classes(GuideHead::kNrtr), c["nrtr_classes"].get<int64_t>());
    EXPECT_EQ(encoder.classes(GuideHead::kSar), c["sar_classes"].get<int64_t>());
    const std::string label = c["label"].get<std::string>();
    EncodedText text;
    try {
      text = encoder.encode(label, "f", 1);
    } catch (const SkippedSample&) {
      EXPECT_TRUE(c["ctc"].is_null());
      ++skipped;
      continue;
    }
    ASSERT_FALSE(c["ctc"].is_null());
    ++encoded;
    EXPECT_EQ(encoder.ctc(text), ints(c["ctc"]));
    EXPECT_EQ(static_cast<int>(text.ids.size()), c["length"].get<int>());
    for (const auto& [head, key] :
         {std::pair(GuideHead::kNrtr, "nrtr"), {GuideHead::kSar, "sar"}}) {
      try {
        EXPECT_EQ(encoder.guide(text, head), ints(c[key]));
      } catch (const SkippedSample& e) {
        EXPECT_EQ(e.reason, Skip::kTooLongForAttention);
        EXPECT_TRUE(c[key].is_null());
      }
    }
    EXPECT_EQ(c["multi"].is_null(), c["nrtr"].is_null());
  }
  EXPECT_GE(encoded, 50);
  EXPECT_GE(skipped, 10);
}

TEST(LabelEncode, ReportsWhatUpstreamDropsInSilence) {
  const TextEncoder e(Dictionary::from_text("a\nb\n", SpaceClass::kNone, "ab.txt"), 5, false);
  const EncodedText t = e.encode("aéb");
  EXPECT_EQ(t.unknown, std::vector<std::string>{"é"});
  EXPECT_EQ(e.seen_text("aéb"), "ab");
  try {
    e.encode("zzz", "l.txt", 7);
    FAIL();
  } catch (const SkippedSample& s) {
    EXPECT_STREQ(s.what(), "l.txt:7: no character of 'zzz' is in ab.txt");
  }
  try {
    e.encode("aaaaaa", "l.txt", 8);
    FAIL();
  } catch (const SkippedSample& s) {
    EXPECT_STREQ(s.what(), "l.txt:8: the text has 6 characters, max_text_length is 5");
  }
}

TEST(LabelEncode, CtcNeedsAStepBetweenEqualCharacters) {
  EXPECT_EQ(ctc_steps_needed({}), 0);
  EXPECT_EQ(ctc_steps_needed({1, 2, 3}), 3);
  EXPECT_EQ(ctc_steps_needed({1, 1, 1, 2, 2}), 8);
  EXPECT_EQ(class_of("180", {"0", "180"}), 1);
  EXPECT_EQ(class_of("90", {"0", "180"}), -1);
}

}  // namespace
}  // namespace ocr
