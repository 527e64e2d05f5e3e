// `ocr bench`, `ocr eval` and `ocr data` from the outside.

#include "tests/cli/cli.h"

namespace cli {
namespace {

TEST_F(Cli, BenchReportsAModelAndItsLayers) {
  const std::vector<std::string> run{
      "bench",   OCR_TEST_DATA "/colour_models/rec.onnx", "--shape", "1x3x48x320", "--runs", "3",
      "--layers"};
  auto as_json = run;
  as_json.push_back("--json");
  const Result r = ocr(as_json);
  ASSERT_EQ(r.rc, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_GT(j["median_ms"].get<double>(), 0);
  EXPECT_GT(j["peak_gflops"].get<double>(), 0);
  EXPECT_EQ(j["runs"], 3);
  ASSERT_FALSE(j["layers"].empty());
  double flop = 0, floor = 0;
  for (const json& layer : j["layers"]) {
    flop += layer["gflop"].get<double>();
    floor += layer["floor_ms"].get<double>();
    EXPECT_GT(layer["mbytes"].get<double>(), 0);
  }
  EXPECT_NEAR(flop, j["gflop"].get<double>(), 1e-9);
  EXPECT_NEAR(floor, j["floor_ms"].get<double>(), 1e-9);

  // Against an earlier run: as if that had taken three times as long.
  json slow = j;
  slow["median_ms"] = 3 * j["median_ms"].get<double>();
  slow["layers"][0]["node"] = "gone";
  std::ofstream(at("slow.json")) << slow;
  as_json.insert(as_json.end(), {"--compare", at("slow.json")});
  const json compared = json::parse(ocr(as_json).out);
  EXPECT_NEAR(compared["ratio"].get<double>() * compared["median_ms"].get<double>(),
              slow["median_ms"].get<double>(), 1e-9);
  EXPECT_FALSE(compared["layers"][0].contains("ratio"));
  auto as_table = run;
  as_table.insert(as_table.end(), {"--compare", at("slow.json")});
  const Result table = ocr(as_table);
  EXPECT_EQ(table.rc, 0) << table.err;
  EXPECT_NE(table.out.find("times as fast as in"), std::string::npos) << table.out;

  // Refused: another shape, no measurement, no file, two subjects, none.
  as_table[3] = "1x3x48x160";
  EXPECT_EQ(ocr(as_table).rc, 2);
  std::ofstream(at("none.json")) << "{}";
  EXPECT_EQ(ocr({"bench", run[1], "--compare", at("none.json")}).rc, 1);
  EXPECT_EQ(ocr({"bench", run[1], "--compare", at("no.json")}).rc, 1);
  EXPECT_EQ(ocr({"bench", run[1], page("a.ppm", {"R"})}).rc, 2);
  EXPECT_EQ(ocr({"bench"}).rc, 2);
}

TEST_F(Cli, BenchReadsWholePages) {
  page("a.ppm", {"RGB"});
  page("b.ppm", {"R", "KK"});
  std::vector<std::string> args{"bench",  in(), "--models",        OCR_TEST_DATA "/colour_models",
                                "--runs", "2",  "--use_angle_cls", "false",
                                "--jobs", "1",  "--threads",       "2"};
  const Result table = ocr(args);
  EXPECT_EQ(table.rc, 0) << table.err;
  EXPECT_EQ(table.out.rfind("pages: 2, lines: 3", 0), 0u) << table.out;
  args.push_back("--json");
  const Result r = ocr(args);
  const json j = json::parse(r.out);
  EXPECT_EQ(j["lines"], 3);
  EXPECT_EQ(j["threads"], 2);
  EXPECT_EQ(j["passes"], 2);
  EXPECT_NEAR(j["pages_per_s"].get<double>() * j["median_s"].get<double>(), 2, 1e-9);
  std::ofstream(at("before.json")) << r.out;
  args.insert(args.end(), {"--compare", at("before.json")});
  EXPECT_TRUE(json::parse(ocr(args).out).contains("ratio"));
  std::ofstream(in("bad.png")) << "this is no picture";
  EXPECT_EQ(ocr(args).rc, 1);
}

TEST_F(Cli, DataCheckNamesWhatTrainingWouldLose) {
  const std::string good = page("a.ppm", {"RGB"});
  std::ofstream(dir_ / "rec.txt") << fs::path(good).filename().string() << "\tabc\n"
                                  << "nowhere.png\tabc\n";
  std::ofstream(dir_ / "c.yml")
      << "Architecture: {model_type: rec, algorithm: CRNN}\nTrain:\n  dataset:\n"
      << "    data_dir: " << fs::path(good).parent_path().string() << "\n    label_file_list: ["
      << (dir_ / "rec.txt").string() << "]\n    transforms:\n    - DecodeImage: {img_mode: BGR}\n"
      << "    - CTCLabelEncode:\n";
  const Result r = ocr({"data", "check", "-c", (dir_ / "c.yml").string()});
  EXPECT_EQ(r.rc, 1);
  EXPECT_NE(r.out.find("Train: 2 samples, 1 would be lost"), std::string::npos) << r.out << r.err;
  EXPECT_NE(r.out.find("rec.txt:2: "), std::string::npos) << r.out;
  EXPECT_EQ(ocr({"data", "check", "-c", (dir_ / "c.yml").string(), "--skip_bad", "1"}).rc, 0);
  const Result slip = ocr({"data", "check", "-c", (dir_ / "c.yml").string(), "-o", "Trian.a=1"});
  EXPECT_EQ(slip.rc, 2);
  EXPECT_NE(slip.err.find("did you mean 'Train'?"), std::string::npos) << slip.err;
}

TEST_F(Cli, EvalMeasuresLabelledLines) {
  const std::string line = page("a.ppm", {"RGB"});
  std::ofstream(dir_ / "rec.txt") << fs::path(line).filename().string() << "\tRGB\nnone.png\tx\n";
  const Result r =
      ocr({"eval", "--task", "rec", "--set", "models=" OCR_TEST_DATA "/colour_models", "--labels",
           (dir_ / "rec.txt").string(), "--images", fs::path(line).parent_path().string(), "--json",
           (dir_ / "r.json").string(), "--gallery", (dir_ / "g.html").string()});
  EXPECT_EQ(r.rc, 3) << r.err;  // one picture is missing, and said to be
  EXPECT_NE(r.err.find("1 of 2 samples cannot be used: 1 image not found"), std::string::npos)
      << r.err;
  const json j = json::parse(slurp(dir_ / "r.json"));
  EXPECT_EQ(j["deployed"]["strict"]["lines"].get<int>(), 1);
  EXPECT_EQ(j["as PaddleOCR evaluates"]["lenient"]["lines"].get<int>(), 1);
  EXPECT_NE(slurp(dir_ / "g.html").find("<!doctype html>"), std::string::npos);
}

}  // namespace
}  // namespace cli
