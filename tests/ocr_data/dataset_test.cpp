// Data sets from configurations: what a sample holds, what does not depend on workers, how bad ones
// are named; batches of several sizes.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "libocr/data/dataset.h"
#include "libocr/data/image_io.h"
#include "libocr/data/multi_scale_sampler.h"
#include "libtrain/data/loader.h"
#include "tests/ocr_data/fixtures.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using train::data::SampleRequest;

SampleRequest request(int64_t index, int64_t epoch = 0) {
  SampleRequest r;
  r.index = index;
  r.epoch = epoch;
  r.random = train::data::sample_random(5, epoch, index);
  return r;
}

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("ocr_dataset_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (int i = 0; i < 6; ++i)
      write_picture((folder_ / (std::to_string(i) + ".png")).string(),
                    test::picture(32, 60 + 20 * i, i));
    write_picture((folder_ / "page.png").string(), test::picture(120, 160, 9));
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream((folder_ / name).string(), std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::unique_ptr<OcrDataset> make(const std::string& train_section,
                                   const std::string& global = "max_text_length: 8") {
    config_ = train::config::parse_training_config(
        "Architecture: {algorithm: X}\nGlobal: {" + global + "}\nTrain:\n" + train_section,
        "c.yml");
    return make_dataset(config_, true, config_.warnings);
  }
  std::string rec_section(const std::string& extra = "") {
    return "  dataset:\n    name: SimpleDataSet\n    data_dir: " + folder_.string() +
           "\n    label_file_list: [" + (folder_ / "rec.txt").string() + "]\n" + extra +
           "    ext_op_transform_idx: 1\n    transforms:\n    - DecodeImage: {img_mode: BGR}\n"
           "    - RecConAug: {prob: 0.5, ext_data_num: 2, image_shape: [32, 640, 3]}\n    - "
           "RecAug:\n"
           "    - MultiLabelEncode: {gtc_encode: NRTRLabelEncode}\n"
           "    - RecResizeImg: {image_shape: [3, 32, 320]}\n"
           "    - KeepKeys: {keep_keys: [image, label_ctc, label_gtc, length, valid_ratio]}\n";
  }
  fs::path folder_;
  train::config::TrainingConfig config_;
};

TEST_F(DatasetTest, RecognitionSamplesAreAFunctionOfSeedEpochAndIndex) {
  write("rec.txt", "0.png\tab\n1.png\tcd\n2.png\te\n");
  const auto set = make(rec_section());
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->keys(),
            (std::vector<std::string>{"image", "label_ctc", "label_gtc", "length", "valid_ratio"}));
  int differ = 0;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const auto a = set->get(request(0, epoch)), b = set->get(request(0, epoch));
    ASSERT_EQ(a.fields.size(), 5u);
    EXPECT_EQ(a.fields[0].shape().str(), "[3, 32, 320]");
    EXPECT_EQ(a.fields[1].shape().str(), "[8]");
    for (size_t f = 0; f < 5; ++f) EXPECT_EQ(a.fields[f].to_doubles(), b.fields[f].to_doubles());
    differ += a.fields[0].to_doubles() != set->get(request(0, epoch + 1)).fields[0].to_doubles();
  }
  EXPECT_GE(differ, 3);
}

TEST_F(DatasetTest, TheLoaderGivesTheSameWithAnyNumberOfWorkers) {
  write("rec.txt", "0.png\tab\n1.png\tcd\n2.png\te\n3.png\tfgh\n");
  const auto set = make(rec_section());
  const train::data::SimpleBatchSampler sampler(set->size(), {2, true, false, 3, 0, 1});
  std::vector<std::vector<double>> runs[2];
  for (int w = 0; w < 2; ++w) {
    train::data::LoaderOptions options;
    options.workers = 3 * w;
    train::data::DataLoader loader(*set, sampler, options);
    loader.start(0);
    while (const auto batch = loader.next())
      for (const train::Tensor& t : batch->fields) runs[w].push_back(t.to_doubles());
    EXPECT_TRUE(loader.bad().empty());
  }
  EXPECT_EQ(runs[0].size(), 10u);
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(DatasetTest, BadSamplesAreNamed) {
  write("rec.txt",
        "0.png\tab\nmissing.png\tcd\n1.png\t\n2.png\t!!!\nrec.txt\tab\nno tab\n3.png\tabcdefgh\n");
  std::string section = rec_section();
  section.replace(section.find("prob: 0.5"), 9, "prob: 0.0");
  const auto set = make(section);
  ASSERT_EQ(set->size(), 6);
  EXPECT_EQ(set->skips().total(), 1);
  const auto reason = [&](int64_t i) {
    try {
      set->get(request(i));
    } catch (const SkippedSample& e) {
      EXPECT_NE(std::string(e.what()).find("rec.txt:" + std::to_string(e.line)), std::string::npos);
      return std::string(skip_name(e.reason));
    }
    return std::string();
  };
  EXPECT_EQ(reason(1), "image not found");
  EXPECT_EQ(reason(2), "empty text");
  EXPECT_EQ(reason(3), "no character in the dictionary");
  EXPECT_EQ(reason(4), "image not readable");
  EXPECT_EQ(reason(5), "text too long for the attention head");
}

TEST_F(DatasetTest, DetectionTargets) {
  std::string label = R"([{"transcription":"a","points":[[20,20],[90,20],[90,50],[20,50]]},)"
                      R"({"transcription":"###","points":[[20,70],[90,70],[90,100],[20,100]]}])";
  write("det.txt", "page.png\t" + label + "\npage.png\t[]\n");
  const auto set =
      make("  dataset:\n    data_dir: " + folder_.string() + "\n    label_file_list: [" +
           (folder_ / "det.txt").string() +
           "]\n    transforms:\n    - DecodeImage: {img_mode: BGR}\n    - DetLabelEncode:\n    - "
           "CopyPaste:\n"
           "    - IaaAugment:\n    - EastRandomCropData: {size: [96, 64]}\n"
           "    - MakeBorderMap: {total_epoch: 10}\n    - MakeShrinkMap: {total_epoch: 10}\n"
           "    - NormalizeImage: {order: hwc}\n    - ToCHWImage:\n"
           "    - KeepKeys: {keep_keys: [image, threshold_map, threshold_mask, shrink_map, "
           "shrink_mask]}\n");
  const auto s = set->get(request(0));
  ASSERT_EQ(s.fields.size(), 5u);
  EXPECT_EQ(s.fields[0].shape().str(), "[3, 64, 96]");
  for (size_t f = 1; f < 5; ++f) EXPECT_EQ(s.fields[f].shape().str(), "[64, 96]");
  EXPECT_THROW(set->get(request(1)), SkippedSample);
}

TEST_F(DatasetTest, RatiosDrawOtherLinesEachEpoch) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i % 6) + ".png\ta" + std::to_string(i) + "\n";
  write("rec.txt", text);
  const auto set = make(rec_section("    ratio_list: [0.25]\n"));
  ASSERT_EQ(set->size(), 10);
  std::set<std::string> seen;
  for (int64_t epoch = 0; epoch < 30; ++epoch)
    for (int64_t i = 0; i < 10; ++i) seen.insert(set->raw(i, epoch, false).label);
  EXPECT_EQ(seen.size(), 40u);
}

TEST_F(DatasetTest, MultiScaleTakesTheBatchesSize) {
  write("rec.txt", "0.png\tab\n1.png\tcd\n");
  std::string section = rec_section();
  section.replace(section.find("SimpleDataSet"), 13, "MultiScaleDataSet");
  const size_t at = section.find("    - RecResizeImg");
  section.erase(at, section.find('\n', at) + 1 - at);
  const auto set = make(section);
  SampleRequest r = request(0);
  r.height = 64;
  r.width = 320;
  EXPECT_EQ(set->get(r).fields[0].shape().str(), "[3, 64, 320]");
}

TEST_F(DatasetTest, ErrorsOfTheConfiguration) {
  write("rec.txt", "0.png\tab\n");
  const auto error = [&](const std::string& section) {
    try {
      make(section);
    } catch (const train::Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error(rec_section("    ratio_list: [0.5, 0.5]\n")),
            "c.yml:8:17: 'ratio_list' has 2 numbers for 1 label files");
  EXPECT_EQ(error(rec_section("    ratio_list: 1.5\n")),
            "c.yml:8:17: 'ratio_list' takes numbers from 0 to 1, got 1.5");
  std::string section = rec_section();
  section.replace(section.find("SimpleDataSet"), 13, "SimpelDataSet");
  EXPECT_EQ(error(section),
            "c.yml:5:11: there is no data set 'SimpelDataSet'; did you mean 'SimpleDataSet'?");
}

TEST(MultiScaleSampler, BatchesAsUpstreamMakesThem) {
  train::config::SamplerConfig c;
  c.scales = {{320, 32}, {320, 48}, {320, 64}};
  c.first_bs = 128;
  c.fix_bs = false;
  const MultiScaleSampler s(c, 1000, {}, {1, 0, 1});
  ASSERT_EQ(s.scales().size(), 3u);
  EXPECT_EQ(s.scales()[1].batch, 85);
  EXPECT_EQ(s.scales()[2].batch, 64);
  const auto plans = s.epoch(0);
  std::set<int64_t> seen;
  for (const auto& p : plans) {
    EXPECT_EQ(p.width, 320);
    EXPECT_EQ(p.indices.size(), p.height == 32 ? 128u : p.height == 48 ? 85u : 64u);
    seen.insert(p.indices.begin(), p.indices.end());
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_NE(s.epoch(1)[0].indices, plans[0].indices);
  EXPECT_EQ(s.epoch(0)[0].indices, plans[0].indices);
}

TEST(MultiScaleSampler, RanksTakeTheSameSizesAndOtherSamples) {
  train::config::SamplerConfig c;
  c.scales = {{320, 32}, {320, 48}};
  c.first_bs = 8;
  c.fix_bs = false;
  const MultiScaleSampler a(c, 101, {}, {1, 0, 2}), b(c, 101, {}, {1, 1, 2});
  const auto pa = a.epoch(3), pb = b.epoch(3);
  ASSERT_EQ(pa.size(), pb.size());
  std::set<int64_t> seen;
  for (size_t i = 0; i < pa.size(); ++i) {
    EXPECT_EQ(pa[i].height, pb[i].height);
    EXPECT_EQ(pa[i].indices.size(), pb[i].indices.size());
    for (const int64_t k : pa[i].indices)
      EXPECT_TRUE(std::find(pb[i].indices.begin(), pb[i].indices.end(), k) == pb[i].indices.end());
    seen.insert(pa[i].indices.begin(), pa[i].indices.end());
    seen.insert(pb[i].indices.begin(), pb[i].indices.end());
  }
  EXPECT_EQ(seen.size(), 100u);
}

TEST(MultiScaleSampler, WidthFollowsTheAspect) {
  train::config::SamplerConfig c;
  c.scales = {{320, 32}};
  c.first_bs = 4;
  std::vector<double> aspects;
  for (int i = 0; i < 16; ++i) aspects.push_back((i * 7 % 16) + 0.5);
  const MultiScaleSampler s(c, 16, aspects, {1, 0, 1});
  std::set<int> widths;
  for (const auto& p : s.epoch(0)) widths.insert(p.width);
  EXPECT_EQ(widths, (std::set<int>{64, 192, 320, 448}));  // means 2, 6, 10, 14
}

}  // namespace
}  // namespace ocr
