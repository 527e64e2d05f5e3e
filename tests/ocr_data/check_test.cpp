// `data check` finds what is wrong, with its place; labels of other formats become lines.
#include <gtest/gtest.h>

#include <filesystem>

#include "libocr/data/check.h"
#include "libocr/data/convert.h"
#include "libocr/data/image_io.h"
#include "tests/ocr_data/fixtures.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;

class CheckTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("ocr_check_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (int i = 0; i < 4; ++i)
      write_picture((folder_ / (std::to_string(i) + ".png")).string(), test::picture(32, 80, i));
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  CheckReport check(const std::string& labels, const CheckOptions& options, const char* encode) {
    write("labels.txt", labels);
    config_ = train::config::parse_training_config(
        "Architecture: {algorithm: X}\nGlobal: {max_text_length: 10, label_list: ['0', '180']}\n"
        "Train:\n  dataset:\n    data_dir: " +
            folder_.string() + "\n    label_file_list: [" + (folder_ / "labels.txt").string() +
            "]\n    transforms:\n    - DecodeImage: {img_mode: BGR}\n    - " + encode + ":\n",
        "c.yml");
    const auto set = make_dataset(config_, true, config_.warnings);
    return check_dataset(*set, "Train", options);
  }
  fs::path folder_;
  train::config::TrainingConfig config_;
};

TEST_F(CheckTest, Recognition) {
  CheckOptions o;
  o.ctc_steps = 6;
  o.threads = 3;
  const CheckReport r = check(
      "0.png\tabc\n1.png\ta-b\n0.png\tabc\n0.png\txyz\nnone.png\ta\n2.png\taabbcc\n3."
      "png\tabcdefghijk\n"
      "bad line\n",
      o, "CTCLabelEncode");
  EXPECT_EQ(r.samples, 8);
  EXPECT_EQ(r.skips.count(Skip::kImageMissing), 1);
  EXPECT_EQ(r.skips.count(Skip::kTooLongForSteps), 1);
  EXPECT_EQ(r.skips.count(Skip::kTooLong), 1);
  EXPECT_EQ(r.skips.count(Skip::kNoDelimiter), 1);
  EXPECT_EQ(r.unknown.count, 1);
  EXPECT_EQ(r.unknown_characters.at("-"), 1);
  EXPECT_EQ(r.duplicates.count, 1);
  EXPECT_EQ(r.conflicts.count, 1);
  EXPECT_EQ(r.lost(), 5);
  EXPECT_EQ(r.classes, 36);
  EXPECT_EQ(r.never_seen, 36 - 6);
  EXPECT_NE(r.duplicates.examples[0].find("labels.txt:3: the same picture and label as"),
            std::string::npos);
  EXPECT_NE(r.text().find("Train: 8 samples, 5 would be lost or learnt wrongly"),
            std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(r.json())["lost"].get<int>(), 5);
  EXPECT_EQ(find_leakage(r, r).count, 4);
}

// Lines of their own widths have as many steps as their widths give: 64 x 32 pixels eight.
TEST_F(CheckTest, OwnWidthsHaveOwnSteps) {
  CheckOptions o;
  o.ctc_steps = 80;
  o.step_columns = 8;
  o.height = 32;
  o.max_width = 320;
  int64_t told = 0;
  o.progress = [&](int64_t n) { told += n; };
  write("labels.txt", "0.png\tabcdefgh\t64\t32\n1.png\tabcdefghi\t64\t32\n2.png\taabbc\t32\t32\n");
  config_ = train::config::parse_training_config(
      "Architecture: {algorithm: X}\nGlobal: {max_text_length: 10}\nTrain:\n  dataset:\n"
      "    ds_width: true\n    data_dir: " +
          folder_.string() + "\n    label_file_list: [" + (folder_ / "labels.txt").string() +
          "]\n    transforms:\n    - DecodeImage: {img_mode: BGR}\n    - CTCLabelEncode:\n",
      "c.yml");
  const auto set = make_dataset(config_, true, config_.warnings);
  const CheckReport r = check_dataset(*set, "Train", o);
  EXPECT_EQ(r.skips.count(Skip::kTooLongForSteps), 2) << r.text();
  EXPECT_EQ(told, 3);
}

TEST_F(CheckTest, DetectionAndClasses) {
  CheckOptions o;
  o.kind = TaskKind::kDetection;
  const CheckReport d =
      check(R"(0.png	[{"transcription":"a","points":[[0,0],[90,0],[90,20],[0,20]]}])"
            "\n"
            R"(1.png	[{"transcription":"###","points":[[0,0],[20,20],[20,0],[0,20]]}])"
            "\n2.png\t[]\n3.png\t[{}]\n",
            o, "DetLabelEncode");
  EXPECT_EQ(d.outside.count, 1);
  EXPECT_EQ(d.odd_boxes.count, 1);
  EXPECT_EQ(d.skips.count(Skip::kNoBoxes), 1);
  EXPECT_EQ(d.skips.count(Skip::kBadLabel), 1);
  EXPECT_EQ(d.boxes, 2);
  o.kind = TaskKind::kClassification;
  o.classes = {"0", "180"};
  const CheckReport c = check("0.png\t0\n1.png\t180\n2.png\t90\n", o, "ClsLabelEncode");
  EXPECT_EQ(c.class_counts.at("180"), 1);
  EXPECT_EQ(c.skips.count(Skip::kBadLabel), 1);
}

TEST_F(CheckTest, LabelsOfOtherTools) {
  write("gt_0.txt",
        "\xef\xbb\xbf"
        "1,2,30,2,30,9,1,9,\"a, b\"\r\n1, 2, 30, 9, ###\n");
  write("gt_1.txt", "1,2,x\n");
  write("2.gt.txt", "hello there\n");
  write("3.xml",
        "<?xml version=\"1.0\"?><alto><TextLine HPOS=\"1\" VPOS=\"2\" WIDTH=\"30\" HEIGHT=\"8\">"
        "<String CONTENT=\"a&amp;b\"/><SP/><String CONTENT=\"c\"/></TextLine></alto>");
  SkipReport skips;
  const auto icdar =
      read_labels_of(LabelFormat::kIcdar, folder_.string(), "", folder_.string(), skips);
  ASSERT_EQ(icdar.size(), 1u);
  EXPECT_EQ(icdar[0].path, "0.png");
  const auto boxes = parse_detection_label(icdar[0].label);
  EXPECT_EQ(boxes[0].text, "a, b");
  EXPECT_TRUE(boxes[1].ignore());
  EXPECT_EQ(boxes[1].points[2].x, 30);
  EXPECT_EQ(skips.total(), 1);
  EXPECT_NE(skips.examples(Skip::kBadLabel)[0].find("gt_1.txt:1: not x1,y1"), std::string::npos);
  const auto lines =
      read_labels_of(LabelFormat::kGtTxt, folder_.string(), "", folder_.string(), skips);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].label, "hello there");
  const auto xml = read_labels_of(LabelFormat::kXml, folder_.string(), "", folder_.string(), skips);
  ASSERT_EQ(xml.size(), 1u);
  EXPECT_EQ(parse_detection_label(xml[0].label)[0].text, "a&b c");
}

TEST(Convert, PageXml) {
  const auto lines = parse_layout_xml(
      "<PcGts><TextRegion><Coords points=\"0,0 9,0 9,9 0,9\"/><pc:TextLine id='l'><Coords "
      "points=\"1,2 30,2 30,9 1,9\"/><Word><Coords points='1,1 2,2 "
      "3,3'/><TextEquiv><Unicode>x</Unicode>"
      "</TextEquiv></Word><TextEquiv><Unicode>x &#233; </Unicode></TextEquiv></pc:TextLine>"
      "</TextRegion></PcGts>",
      "p.xml");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text, "x é");
  EXPECT_EQ(lines[0].points.size(), 4u);
  EXPECT_EQ(lines[0].points[0].x, 1);
  EXPECT_THROW(parse_layout_xml("<html></html>", "p.xml"), train::FormatError);
}

TEST(Convert, PartsHeldBackByPage) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926u);
  EXPECT_EQ(page_key("a/b/page_1_crop_12.png"), "page_1");
  EXPECT_EQ(page_key("page.1.png"), "page.1");
  EXPECT_EQ(held_back("x/page_1_crop_0.png", 10), held_back("y/page_1_crop_7.jpg", 10));
}

}  // namespace
}  // namespace ocr
