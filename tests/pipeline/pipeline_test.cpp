#include "libocr/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <opencv2/core/utility.hpp>
#include <thread>

#include "libocr/image/encode.h"
#include "libocr/pipeline/batch.h"
#include "libocr/pipeline/ocr.h"
#include "libocr/pipeline/writers.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

// Rows of colour squares, which the models in tests/data/colour_models read as letters.
Image page(const std::vector<std::string>& rows, int width = 400, int x0 = 60, int y0 = 60,
           int height = 0) {
  Image image(width, std::max(height, y0 + 80 * static_cast<int>(rows.size())), Bgr{255, 255, 255});
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t i = 0; i < rows[r].size(); ++i)
      for (int y = 0; y < 24; ++y)
        for (int x = 0; x < 24; ++x) {
          uint8_t* p = image.row(y0 + 80 * static_cast<int>(r) + y) +
                       3 * (x0 + 36 * static_cast<int>(i) + x);
          const char c = rows[r][i];
          p[0] = c == 'B' ? 255 : 0, p[1] = c == 'G' ? 255 : 0, p[2] = c == 'R' ? 255 : 0;
        }
  return image;
}

Options settings() {
  Options o;
  set_option(o, "models", OCR_TEST_DATA "/colour_models", Source::kFlag);
  set_option(o, "threads", "1", Source::kFlag);
  set_option(o, "use_angle_cls", "false", Source::kFlag);  // there may be a real one or not
  return o;
}

std::string text_of(const PageResult& r) {
  std::string out;
  for (const TextLine& line : r.lines) out += line.text + "\n";
  return out;
}

TEST(Pipeline, ReadsLinesWithBoxesOfWordsAndCharacters) {
  const auto pipeline = Pipeline::open(settings());
  const PageResult r = pipeline->run(page({"RGB", "KK"}).view());
  ASSERT_EQ(text_of(r), "RGB\nKK\n");
  EXPECT_EQ(r.width, 400);
  ASSERT_EQ(r.lines[0].chars.size(), 3u);
  EXPECT_EQ(r.lines[0].words.size(), 1u);
  // The second square stands at x 96..120.
  const float middle = (r.lines[0].chars[1].box[0].x + r.lines[0].chars[1].box[1].x) / 2;
  EXPECT_NEAR(middle, 108, 8);
}

TEST(Pipeline, MetadataGivesSettingsAndFlagsWin) {
  Options o = settings();
  set_option(o, "det_db_thresh", "0.35", Source::kFlag, "--det_db_thresh");
  const auto pipeline = Pipeline::open(o);
  EXPECT_EQ(pipeline->options().det_db_thresh.value, 0.35);
  EXPECT_EQ(pipeline->options().det_limit_side_len.value, 64);
  EXPECT_EQ(pipeline->options().det_limit_side_len.source, Source::kMetadata);
  ASSERT_EQ(pipeline->info().models.size(), 2u);
  EXPECT_EQ(pipeline->info().models[0].sha256.size(), 64u);
}

TEST(Pipeline, AScratchAndTheSharedStoreGiveTheSame) {
  const auto pipeline = Pipeline::open(settings());
  const Image image = page({"RGBK", "BB", "GRGRG"});
  auto scratch = pipeline->make_scratch(2);
  const PageResult a = pipeline->run(image.view()), b = pipeline->run(image.view(), *scratch);
  ASSERT_EQ(a.lines.size(), b.lines.size());
  for (size_t i = 0; i < a.lines.size(); ++i) {
    EXPECT_EQ(a.lines[i].text, b.lines[i].text);
    EXPECT_EQ(a.lines[i].score, b.lines[i].score);
    EXPECT_EQ(a.lines[i].points, b.lines[i].points);
  }
}

TEST(Pipeline, IsSafeFromManyThreads) {
  const auto pipeline = Pipeline::open(settings());
  std::vector<Image> images;
  std::vector<std::string> expected;
  for (int i = 0; i < 6; ++i) {
    images.push_back(page({std::string(1 + i, "RGBK"[i % 4]), "GB"}, 360 + 20 * i));
    expected.push_back(text_of(pipeline->run(images.back().view())));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 12; ++k) {
        const int i = (t + k) % 6;
        if (text_of(pipeline->run(images[i].view())) != expected[i]) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Pipeline, TilesFindWhatOnePieceFinds) {
  const Image image = page({"RGBKRG", "KKBBGG", "GBR"}, 900, 200, 140, 800);
  const std::string whole = text_of(Pipeline::open(settings())->run(image.view()));
  Options o = settings();
  set_option(o, "det_tile", "on", Source::kFlag);
  set_option(o, "det_tile_size", "256", Source::kFlag);
  const PageResult tiled = Pipeline::open(o)->run(image.view());
  EXPECT_GT(tiled.tiles, 4);
  EXPECT_EQ(text_of(tiled), whole);
}

TEST(Pipeline, VeryLongLinesAreReadInPieces) {
  // 150 squares: a line of about 5,400 x 24 pixels, 8,400 columns for the recogniser.
  std::string row;
  for (int i = 0; i < 150; ++i) row += "RGBK"[(i * 7 + i / 3) % 4];
  const Image image = page({row}, 5600, 60, 4);
  const ImageView line = crop_view(image.view(), 0, 0, 5600, 32);
  Options o = settings();
  set_option(o, "task", "rec", Source::kFlag);
  const PageResult r = Pipeline::open(o)->run(line);
  ASSERT_EQ(r.lines.size(), 1u);
  EXPECT_EQ(r.lines[0].text, row);
  EXPECT_EQ(r.lines[0].chars.size(), row.size());
}

TEST(Pipeline, ArabicDictionariesReadFromTheRight) {
  const std::string path = ::testing::TempDir() + "arabic_colours.txt";
  std::ofstream(path) << "\u05d0\n\u05d1\n\u05d2\nK\n";  // alef, bet, gimel for R, G, B
  Options o = settings();
  set_option(o, "rec_char_dict_path", path, Source::kFlag);
  const Image image = page({"RGKKB"});
  const PageResult r = Pipeline::open(o)->run(image.view());
  ASSERT_EQ(text_of(r), "\u05d2KK\u05d1\u05d0\n");
  ASSERT_EQ(r.lines[0].chars.size(), 5u);
  EXPECT_EQ(r.lines[0].chars[0].text, "\u05d2");  // the first in reading is the rightmost
  EXPECT_GT(r.lines[0].chars[0].box[0].x, r.lines[0].chars[4].box[0].x);
  EXPECT_LT(r.lines[0].chars[1].box[0].x, r.lines[0].chars[2].box[0].x);  // Latin letters stay
  ASSERT_EQ(r.lines[0].words.size(), 1u);
  EXPECT_EQ(r.lines[0].words[0].text, "\u05d2KK\u05d1\u05d0");
  set_option(o, "rec_right_to_left", "false", Source::kFlag);
  EXPECT_EQ(text_of(Pipeline::open(o)->run(image.view())), "\u05d0\u05d1KK\u05d2\n");
}

TEST(Pipeline, KeepsWhatWasDetectedWhereTheTextIsDropped) {
  Options o = settings();
  set_option(o, "drop_score", "1", Source::kFlag);
  const PageResult r = Pipeline::open(o)->run(page({"RGB", "KK"}).view());
  EXPECT_TRUE(r.lines.empty());
  EXPECT_EQ(r.detected.size(), 2u);
}

// The detector's input is what --dump_stages writes as pageN.resize.npy: [h, w, 3].
std::pair<int, int> detector_input(const Options& given, const Image& image) {
  // A folder of each test's own: they run side by side.
  const std::string dir = ::testing::TempDir() + "stages_of_" +
                          ::testing::UnitTest::GetInstance()->current_test_info()->name();
  Options o = given;
  set_option(o, "dump_stages", dir, Source::kFlag);
  Pipeline::open(o)->run(image.view());
  std::ifstream in(dir + "/page0.resize.npy", std::ios::binary);
  std::string head(128, '\0');
  in.read(head.data(), 128);
  std::pair<int, int> hw;
  std::sscanf(head.c_str() + head.find("'shape': (") + 10, "%d, %d", &hw.first, &hw.second);
  return hw;
}

TEST(Pipeline, FollowsTheWaysToSayTheDetectorsSize) {
  using Size = std::pair<int, int>;
  const Image image = page({"RGB"}, 400, 60, 60, 200);
  Options o = settings();
  set_option(o, "det_resize_long", "512", Source::kInferenceYml);
  EXPECT_EQ(detector_input(o, image), (Size{192, 384}));  // the model's metadata has a limit
  set_option(o, "det_resize_long", "512", Source::kConfig);
  EXPECT_EQ(detector_input(o, image), (Size{256, 512}));
  set_option(o, "det_image_shape", "[3, 160, 640]", Source::kConfig);
  EXPECT_EQ(detector_input(o, image), (Size{160, 640}));
  set_option(o, "det_keep_ratio", "true", Source::kConfig);
  EXPECT_EQ(detector_input(o, image), (Size{160, 320}));
  set_option(o, "det_limit_side_len", "96", Source::kFlag);  // said louder than -c
  EXPECT_EQ(detector_input(o, image), (Size{192, 384}));
  set_option(o, "det_image_shape", "736", Source::kFlag);
  EXPECT_THROW(Pipeline::open(o), train::ConfigError);
}

// Copies of a page, enlarged: letters that a smaller input shows as well.
Image enlarged(const Image& from, int factor) {
  Image out(from.width * factor, from.height * factor, Bgr{255, 255, 255});
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x)
      std::copy_n(from.row(y / factor) + 3 * (x / factor), 3, out.row(y) + 3 * x);
  return out;
}

TEST(Pipeline, PagesWithTallLettersAreSearchedSmaller) {
  const Image small = page({"RGBKRG", "KKBBGG", "GBR", "BBG", "KRK"});
  const Image image = enlarged(small, 4);
  Options o = settings();
  const auto plain = detector_input(o, image);
  EXPECT_LT(plain.first, image.height / 2);
  EXPECT_EQ(text_of(Pipeline::open(o)->run(image.view())),
            text_of(Pipeline::open(o)->run(small.view())));
  set_option(o, "det_scale", "full", Source::kFlag);
  const auto full = detector_input(o, image);
  EXPECT_GE(full.first, image.height - 16);
  // Who says a size gets it.
  for (const auto& [name, value] :
       {std::pair("det_limit_side_len", "96"), {"det_limit_type", "min"}, {"preset", "ppocr3"}}) {
    Options said = settings();
    set_option(said, name, value, Source::kFlag);
    EXPECT_EQ(detector_input(said, image), full) << name;
  }
}

TEST(Pipeline, AnImageShapeForTheRecogniserGivesItsLeastWidth) {
  Options o = settings();
  set_option(o, "rec_image_shape", "3,48,320", Source::kInferenceYml);
  EXPECT_EQ(Pipeline::open(o)->options().rec_min_width.value, 160);
  set_option(o, "rec_image_shape", "3,48,400", Source::kFlag, "--rec_image_shape");
  EXPECT_EQ(Pipeline::open(o)->options().rec_min_width.value, 400);
  set_option(o, "rec_min_width", "64", Source::kFlag);
  EXPECT_EQ(Pipeline::open(o)->options().rec_min_width.value, 64);
}

TEST(Pipeline, OpenCvStartsNoThreadsOfItsOwn) {
  cv::setNumThreads(4);
  Pipeline::open(settings());
  EXPECT_EQ(cv::getNumThreads(), 1);
}

TEST(Pipeline, RefusesImagesWithoutPixels) {
  EXPECT_THROW(Pipeline::open(settings())->run(ImageView{}), train::Error);
}

TEST(Batch, KeepsOrderAndReportsBadDocuments) {
  const auto pipeline = Pipeline::open(settings());
  std::vector<BatchInput> inputs;
  for (int i = 0; i < 9; ++i) {
    const auto png = encode_png(page({std::string(1 + i % 5, 'R'), "GB"}).view());
    inputs.push_back({"p" + std::to_string(i), i == 4 ? std::vector<uint8_t>{1, 2, 3} : png});
  }
  std::vector<size_t> order;
  std::vector<std::string> errors;
  int pages = 0;
  BatchEvents events;
  events.on_document = [&](size_t i, DocumentResult& d, bool complete) {
    EXPECT_TRUE(complete);
    order.push_back(i);
    if (!d.error.empty()) errors.push_back(d.error);
  };
  events.on_page = [&](size_t, const PageResult&) { ++pages; };
  BatchOptions options;
  options.jobs = 3, options.threads = 1;
  run_batch(*pipeline, inputs, options, events);
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(pages, 8);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("p4"), std::string::npos);
}

TEST(Batch, AnErrorInAnEventEndsTheBatchAndComesOut) {
  const auto pipeline = Pipeline::open(settings());
  const auto png = encode_png(page({"R"}).view());
  std::vector<BatchInput> inputs(20, {"p", png});
  BatchEvents events;
  events.on_document = [](size_t, DocumentResult&, bool) { throw train::DeviceError("disk full"); };
  BatchOptions options;
  options.jobs = 2, options.threads = 1;
  EXPECT_THROW(run_batch(*pipeline, inputs, options, events), train::DeviceError);
}

TEST(CApi, ReadsBytesAndPixelsAndReportsErrors) {
  EXPECT_EQ(ocr_abi_version(), OCR_ABI_VERSION);
  EXPECT_EQ(ocr_open("drop_scroe: 1"), nullptr);
  EXPECT_NE(std::string(ocr_last_error()).find("drop_score"), std::string::npos);
  ocr_reader* reader = ocr_open("models: " OCR_TEST_DATA "/colour_models\nthreads: 1\n");
  ASSERT_NE(reader, nullptr) << ocr_last_error();
  const Image image = page({"RGB"});
  const auto text = [](char* json) {
    const auto j = nlohmann::json::parse(json);
    ocr_free(json);
    return j["pages"][0]["lines"][0]["text"].get<std::string>();
  };
  const auto png = encode_png(image.view());
  char* bytes = ocr_read_bytes(reader, png.data(), png.size(), "page.png");
  ASSERT_NE(bytes, nullptr) << ocr_last_error();
  EXPECT_EQ(text(bytes), "RGB");
  EXPECT_EQ(text(ocr_read_pixels(reader, image.pixels.data(), image.width, image.height, 3,
                                 image.stride())),
            "RGB");
  std::vector<uint8_t> bgra;
  for (size_t i = 0; i < image.pixels.size(); i += 3)
    bgra.insert(bgra.end(), {image.pixels[i], image.pixels[i + 1], image.pixels[i + 2], 255});
  EXPECT_EQ(text(ocr_read_pixels(reader, bgra.data(), image.width, image.height, 4,
                                 ptrdiff_t{4} * image.width)),
            "RGB");
  EXPECT_EQ(ocr_read_file(reader, "/no/such/file.png"), nullptr);
  EXPECT_NE(std::string(ocr_last_error()).find("/no/such/file.png"), std::string::npos);
  EXPECT_EQ(ocr_read_bytes(reader, "x", 1, nullptr), nullptr);
  EXPECT_EQ(ocr_read_pixels(reader, image.pixels.data(), 400, 10, 3, 8), nullptr);
  EXPECT_EQ(ocr_read_file(nullptr, "x"), nullptr);
  ocr_close(reader);
  ocr_close(nullptr);
}

}  // namespace
}  // namespace ocr
