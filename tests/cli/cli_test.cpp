// `ocr` from the outside: exit codes, outputs, errors, resuming and interrupting, on drawn pages
// and with models of a few hundred bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

struct Result {
  int rc = -1;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(::testing::TempDir()) /
           (std::string("cli_") + info->name() + "_" + std::to_string(getpid()));
    fs::create_directories(dir_ / "in");
  }
  void TearDown() override { fs::remove_all(dir_); }

  // Starts `ocr ARGS...` with its output in files of dir_.
  pid_t start(std::vector<std::string> args, const std::string& input = "/dev/null") {
    args.insert(args.begin(), OCR_PROGRAM);
    return start_program(std::move(args), input);
  }
  pid_t start_program(std::vector<std::string> args, const std::string& input = "/dev/null") {
    std::vector<char*> argv;
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open(input.c_str(), O_RDONLY), 0);
      dup2(open((dir_ / "out.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      dup2(open((dir_ / "err.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
    return pid;
  }
  Result finish(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), slurp(dir_ / "out.txt"),
            slurp(dir_ / "err.txt")};
  }
  Result ocr(std::vector<std::string> args, const std::string& input = "/dev/null") {
    return finish(start(std::move(args), input));
  }
  // `ocr infer` with the test models.
  Result infer(std::vector<std::string> args, const std::string& input = "/dev/null") {
    return ocr(with_models(std::move(args)), input);
  }
  std::vector<std::string> with_models(std::vector<std::string> args) {
    // Without the angle classifier: there may be a real one beside the program or not.
    args.insert(args.begin(),
                {"infer", "--models", OCR_TEST_DATA "/colour_models", "--use_angle_cls", "false"});
    return args;
  }

  // A page of colour squares, 24 pixels each, one string of R, G, B, K per row.
  std::string page(const std::string& name, const std::vector<std::string>& rows, int width = 400) {
    const int height = 60 + 80 * static_cast<int>(rows.size());
    std::string pixels(static_cast<size_t>(width) * height * 3, '\xff');
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t i = 0; i < rows[r].size(); ++i) {
        const char c = rows[r][i];
        for (int y = 0; y < 24; ++y)
          for (int x = 0; x < 24; ++x) {
            char* p = &pixels[((60 + 80 * r + y) * width + 60 + 36 * i + x) * 3];
            p[0] = c == 'R' ? '\xff' : 0, p[1] = c == 'G' ? '\xff' : 0,
            p[2] = c == 'B' ? '\xff' : 0;
          }
      }
    const fs::path path = dir_ / "in" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << "P6\n"
                                          << width << " " << height << "\n255\n"
                                          << pixels;
    return path.string();
  }
  std::string in(const std::string& name = "") { return (dir_ / "in" / name).string(); }
  std::string at(const std::string& name) { return (dir_ / name).string(); }

  fs::path dir_;
};

TEST_F(Cli, VersionAndHelp) {
  EXPECT_EQ(ocr({"--version"}).out.rfind("ocr ", 0), 0u);
  const Result help = ocr({"infer", "--help"});
  EXPECT_EQ(help.rc, 0);
  for (const char* word : {"--det_limit_side_len", "--resume", "Examples:", "Exit codes"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  EXPECT_EQ(ocr({}).rc, 2);
  EXPECT_EQ(ocr({"infre"}).rc, 2);
  EXPECT_NE(ocr({"infre"}).err.find("ocr infer"), std::string::npos);
}

TEST_F(Cli, ReadsAPage) {
  const Result r = infer({page("a.ppm", {"RGB", "KKR"})});
  EXPECT_EQ(r.rc, 0) << r.err;
  EXPECT_EQ(r.out, "RGB\nKKR\n");
  EXPECT_EQ(r.err, "");  // no progress bar when piped
}

TEST_F(Cli, APageWithoutTextIsASuccess) {
  const Result r = infer({page("empty.ppm", {""}), "--format", "json"});
  EXPECT_EQ(r.rc, 0) << r.err;
  EXPECT_TRUE(json::parse(r.out)["pages"][0]["lines"].empty());
}

TEST_F(Cli, JsonSaysWhatWasDone) {
  const Result r = infer({page("a.ppm", {"RGB"}), "--format=json", "--drop-score", "0.25"});
  ASSERT_EQ(r.rc, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["settings"]["drop_score"]["value"], 0.25);
  EXPECT_EQ(j["settings"]["drop_score"]["from"], "flag");
  EXPECT_EQ(j["settings"]["det_limit_side_len"]["from"], "metadata");
  EXPECT_EQ(j["models"]["det"]["sha256"].get<std::string>().size(), 64u);
  const json& line = j["pages"][0]["lines"][0];
  EXPECT_EQ(line["text"], "RGB");
  EXPECT_EQ(line["chars"].size(), 3u);
  const auto x = [](const json& part) { return part["points"][0][0].get<double>(); };
  EXPECT_LT(x(line["chars"][0]), x(line["chars"][1]));
  EXPECT_NEAR(line["points"][0][0].get<double>(), 60, 36);
  EXPECT_NEAR(line["points"][0][1].get<double>(), 60, 24);
}

TEST_F(Cli, ABadFileDoesNotEndTheBatch) {
  const std::string good = page("good.ppm", {"RG"});
  std::ofstream(in("bad.png")) << "this is no picture";
  const Result r = infer({in("bad.png"), good, "--format", "jsonl"});
  EXPECT_EQ(r.rc, 3);
  EXPECT_NE(r.out.find("\"RG\""), std::string::npos);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find("bad.png"), std::string::npos);
  EXPECT_EQ(infer({in("bad.png")}).rc, 1);
  EXPECT_EQ(infer({at("no_such_file.png")}).rc, 1);
  EXPECT_EQ(infer({at("no_such_file.png"), good}).rc, 3);

  const Result folder = infer({in(), "--format", "json", "-o", at("out")});
  EXPECT_EQ(folder.rc, 3);
  const json summary = json::parse(slurp(dir_ / "out/ocr_summary.json"));
  EXPECT_EQ(summary["failed"], 1);
  EXPECT_NE(summary["errors"][0]["file"].get<std::string>().find("bad.png"), std::string::npos);
}

TEST_F(Cli, WrongUsageNamesTheNearestFlag) {
  const Result r = infer({page("a.ppm", {"R"}), "--det_limit_sidelen", "960"});
  EXPECT_EQ(r.rc, 2);
  EXPECT_NE(r.err.find("--det_limit_side_len"), std::string::npos) << r.err;
  EXPECT_EQ(infer({}).rc, 2);
  EXPECT_EQ(infer({in("a.ppm"), "--format", "xml"}).rc, 2);
  EXPECT_EQ(infer({in("a.ppm"), "--drop_score", "2"}).rc, 2);
  EXPECT_EQ(infer({in("a.ppm"), "--drop_score"}).rc, 2);
}

TEST_F(Cli, PaddleOcrCommandLinesPasteIn) {
  page("imgs/a.ppm", {"RGB"});
  const Result r = ocr({"infer",
                        "--image_dir=" + in("imgs"),
                        "--det_model_dir=" OCR_TEST_DATA "/colour_models/det.onnx",
                        "--rec-model-dir",
                        OCR_TEST_DATA "/colour_models/rec.onnx",
                        "--use_angle_cls",
                        "False",
                        "--det_limit_side_len=96",
                        "--det_limit_type",
                        "min",
                        "--det_db_thresh",
                        "0.3",
                        "--det_db_box_thresh",
                        "0.5",
                        "--det_db_unclip_ratio",
                        "1.5",
                        "--use_dilation",
                        "False",
                        "--det_db_score_mode",
                        "fast",
                        "--rec_batch_num",
                        "6",
                        "--use_space_char",
                        "True",
                        "--use_gpu",
                        "False",
                        "--enable_mkldnn",
                        "True",
                        "--use_onnx=True",
                        "--gpu_mem",
                        "500",
                        "--cpu_threads",
                        "1",
                        "--page_num",
                        "0",
                        "--drop_score",
                        "0.5",
                        "--det_algorithm",
                        "DB"});
  EXPECT_EQ(r.rc, 0) << r.err;
  EXPECT_EQ(r.out, "RGB\n");
  EXPECT_NE(r.err.find("note: --use_gpu"), std::string::npos) << r.err;
}

TEST_F(Cli, PaddleFoldersAreAnsweredWithTheConversion) {
  fs::create_directories(dir_ / "ch_det");
  std::ofstream(dir_ / "ch_det/inference.pdmodel") << "x";
  std::ofstream(dir_ / "ch_det/inference.pdiparams") << "x";
  const Result r = infer({page("a.ppm", {"R"}), "--det_model_dir", at("ch_det")});
  EXPECT_EQ(r.rc, 2);
  EXPECT_NE(r.err.find("paddle2onnx --model_dir " + at("ch_det")), std::string::npos) << r.err;
}

TEST_F(Cli, MissingModelsAreAnsweredWithTheCommand) {
  const Result r = ocr({"infer", page("a.ppm", {"R"}), "--models", "no_such_set"});
  EXPECT_EQ(r.rc, 2);
  EXPECT_NE(r.err.find("no_such_set"), std::string::npos) << r.err;
}

TEST_F(Cli, ADictionaryThatDoesNotFitIsRefusedWithBothSizes) {
  std::ofstream(at("dict.txt")) << "a\nb\n";
  const Result r = infer({page("a.ppm", {"R"}), "--rec_char_dict_path", at("dict.txt")});
  EXPECT_NE(r.rc, 0);
  EXPECT_NE(r.err.find("6"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("4"), std::string::npos) << r.err;
}

TEST_F(Cli, ConfigFilesWithMistypedKeysAreRefusedWithTheirPlace) {
  std::ofstream(at("p.yml")) << "drop_score: 0.1\ndet_db_tresh: 0.2\n";
  const Result r = infer({page("a.ppm", {"R"}), "-c", at("p.yml")});
  EXPECT_EQ(r.rc, 2);
  EXPECT_NE(r.err.find("p.yml:2:1"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("det_db_thresh"), std::string::npos) << r.err;
}

TEST_F(Cli, FoldersAreMirroredAndNamesKept) {
  page("a/one.ppm", {"RG"});
  page("a/b/two words.ppm", {"GB"});
  page("a/b/\xe6\xbc\xa2\xe5\xad\x97.ppm", {"BK"});
  const Result r = infer({in(), "-o", at("out"), "--format", "json"});
  ASSERT_EQ(r.rc, 0) << r.err;
  EXPECT_EQ(r.out, "");
  for (const char* name :
       {"a/one.ppm.json", "a/b/two words.ppm.json", "a/b/\xe6\xbc\xa2\xe5\xad\x97.ppm.json"})
    EXPECT_EQ(json::parse(slurp(dir_ / "out" / name))["pages"].size(), 1u) << name;
  for (const auto& e : fs::recursive_directory_iterator(dir_ / "out"))  // nothing half is left over
    EXPECT_EQ(e.path().filename().string().find("tmp"), std::string::npos);
}

TEST_F(Cli, TasksDetAndRec) {
  const std::string p = page("a.ppm", {"RGB", "GK"});
  const Result det = infer({p, "--task", "det", "--format", "paddle"});
  EXPECT_EQ(det.rc, 0) << det.err;
  EXPECT_EQ(json::parse(det.out.substr(det.out.find('\t') + 1)).size(), 2u);
  const Result crops = infer({p, "--save_crops", at("crops")});
  ASSERT_EQ(crops.rc, 0) << crops.err;
  EXPECT_EQ(slurp(at("crops/rec.txt")), "a.ppm.0001.png\tRGB\na.ppm.0002.png\tGK\n");
  const Result rec = infer({at("crops"), "--task", "rec"});
  EXPECT_EQ(rec.rc, 0) << rec.err;
  EXPECT_NE(rec.out.find("a.ppm.0001.png\tRGB\t"), std::string::npos) << rec.out;
  EXPECT_NE(rec.out.find("a.ppm.0002.png\tGK\t"), std::string::npos) << rec.out;
}

TEST_F(Cli, LabelTxtNamesFolderAndFile) {
  page("set/a.ppm", {"RGB"});
  ASSERT_EQ(infer({in("set"), "-o", at("out"), "--format", "paddle"}).rc, 0);
  EXPECT_EQ(slurp(dir_ / "out/Label.txt").rfind("set/a.ppm\t[{\"transcription\":\"RGB\"", 0), 0u);
}

TEST_F(Cli, StandardInputAndSeveralFilesAsOneJsonArray) {
  const std::string a = page("a.ppm", {"RGB"}), b = page("b.ppm", {"GG"});
  const Result piped = infer({"-"}, a);
  EXPECT_EQ(piped.rc, 0) << piped.err;
  EXPECT_EQ(piped.out, "RGB\n");
  const Result both = infer({a, b, "--format", "json"});
  const json j = json::parse(both.out);
  ASSERT_EQ(j.size(), 2u);
  EXPECT_EQ(j[1]["pages"][0]["lines"][0]["text"], "GG");
}

TEST_F(Cli, PicturesAreDrawn) {
  const Result r = infer({page("a.ppm", {"RGB"}), "--visualize", at("seen")});
  EXPECT_EQ(r.rc, 0) << r.err;
  EXPECT_GT(fs::file_size(dir_ / "seen/a.ppm.jpg"), 1000u);
}

// The text of a page does not depend on batch size, threads, jobs or the pages beside it.
TEST_F(Cli, ResultsDoNotDependOnBatchesThreadsOrNeighbours) {
  const std::string colours = "RGBK";
  for (int i = 0; i < 8; ++i) {
    std::vector<std::string> rows;
    for (int r = 0; r <= i % 4; ++r) {
      std::string row;
      for (int k = 0; k < 1 + (i * 3 + r * 5) % 8; ++k) row += colours[(i + r + k * k) % 4];
      rows.push_back(row);
    }
    page("p" + std::to_string(i) + ".ppm", rows, 380 + 10 * i);
  }
  ASSERT_EQ(infer({in(), "-o", at("ref"), "-f", "json", "--jobs", "1", "--threads", "1",
                   "--rec_batch_num", "1"})
                .rc,
            0);
  const std::vector<std::vector<std::string>> variants = {
      {"--jobs", "3", "--threads", "1"},
      {"--jobs", "1", "--threads", "2", "--rec_batch_num", "16"},
      {"--jobs", "2", "--threads", "2", "--rec_batch_num", "3"}};
  for (size_t v = 0; v < variants.size(); ++v) {
    std::vector<std::string> args{in(), "-o", at("v" + std::to_string(v)), "-f", "json"};
    args.insert(args.end(), variants[v].begin(), variants[v].end());
    ASSERT_EQ(infer(args).rc, 0);
    for (int i = 0; i < 8; ++i) {
      const std::string name = "p" + std::to_string(i) + ".ppm.json";
      EXPECT_EQ(slurp(dir_ / ("v" + std::to_string(v)) / name), slurp(dir_ / "ref" / name));
    }
  }
  // One page alone, and the others in reverse.
  const Result alone = infer({in("p5.ppm"), "-f", "jsonl"});
  const Result reversed =
      infer({in("p7.ppm"), in("p6.ppm"), in("p5.ppm"), "-f", "jsonl", "--jobs", "3"});
  EXPECT_NE(reversed.out.find(alone.out), std::string::npos);
  EXPECT_LT(reversed.out.find("p7.ppm"),
            reversed.out.find("p6.ppm"));  // in the order of the inputs
}

TEST_F(Cli, ResumeSkipsWhatIsFinishedAndOnlyThat) {
  for (int i = 0; i < 4; ++i) page("p" + std::to_string(i) + ".ppm", {"RGB"});
  const std::vector<std::string> run{in(), "-o", at("out"), "-f", "json", "--resume"};
  ASSERT_EQ(infer(run).rc, 0);
  const auto stamp = [&](const char* n) { return fs::last_write_time(dir_ / "out" / n); };
  const auto p0 = stamp("p0.ppm.json"), p1 = stamp("p1.ppm.json");
  fs::remove(dir_ / "out/p2.ppm.json");
  page("p1.ppm", {"KK"});  // changed since
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(infer(run).rc, 0);
  EXPECT_EQ(stamp("p0.ppm.json"), p0);
  EXPECT_NE(stamp("p1.ppm.json"), p1);
  EXPECT_TRUE(fs::exists(dir_ / "out/p2.ppm.json"));
  EXPECT_EQ(json::parse(slurp(dir_ / "out/ocr_summary.json"))["skipped"], 2);
  // Other settings: everything anew.
  std::vector<std::string> other = run;
  other.insert(other.end(), {"--drop_score", "0.1"});
  ASSERT_EQ(infer(other).rc, 0);
  EXPECT_NE(stamp("p0.ppm.json"), p0);
  EXPECT_EQ(infer({in(), "--resume"}).rc, 2);
}

TEST_F(Cli, ResumeContinuesASingleFileWhereItsLastWholeRecordEnds) {
  for (int i = 0; i < 3; ++i) page("p" + std::to_string(i) + ".ppm", {"RGB"});
  const std::vector<std::string> run{in(), "-o", at("all.jsonl"), "-f", "jsonl", "--resume"};
  ASSERT_EQ(infer(run).rc, 0);
  const std::string whole = slurp(at("all.jsonl"));
  // As if it had been killed while writing the third record.
  std::string journal = slurp(at(".all.jsonl.done"));
  journal.resize(journal.rfind('\n', journal.size() - 2) + 1);
  std::ofstream(at(".all.jsonl.done")) << journal;
  std::ofstream(at("all.jsonl")) << whole.substr(0, whole.size() - 40);
  ASSERT_EQ(infer(run).rc, 0);
  EXPECT_EQ(slurp(at("all.jsonl")), whole);
}

TEST_F(Cli, AnInterruptKeepsWhatIsFinished) {
  for (int i = 0; i < 60; ++i) {
    char name[32];
    std::snprintf(name, sizeof name, "p%03d.ppm", i);
    page(name, {"RGBRGB", "GBKGBK", "BBRRGG", "KRKRKR"}, 1200);
  }
  const auto args = with_models(
      {in(), "-o", at("out"), "-f", "json", "--jobs", "1", "--det_limit_side_len", "700"});
  const pid_t pid = start(args);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!fs::exists(dir_ / "out/p002.ppm.json") && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(pid, SIGINT);
  const Result r = finish(pid);
  EXPECT_EQ(r.rc, 130) << r.err;
  size_t finished = 0;
  for (const auto& e : fs::directory_iterator(dir_ / "out")) {
    const std::string name = e.path().filename().string();
    if (name == ".ocr_done") continue;
    EXPECT_NO_THROW({
      const json j = json::parse(slurp(e.path()));
      EXPECT_TRUE(j.is_object());
    }) << name;
    finished += name.ends_with(".ppm.json");
  }
  EXPECT_GE(finished, 3u);
  EXPECT_LT(finished, 60u);
  // The rest follows, and only the rest.
  std::vector<std::string> again = args;
  again.push_back("--resume");
  EXPECT_EQ(ocr(again).rc, 0);
  EXPECT_EQ(json::parse(slurp(dir_ / "out/ocr_summary.json"))["skipped"], finished);
  EXPECT_EQ(json::parse(slurp(dir_ / "out/ocr_summary.json"))["pages"], 60 - finished);
}

TEST_F(Cli, StagesCanBeDumped) {
  const Result r = infer({page("a.ppm", {"RGB"}), "--dump_stages", at("stages")});
  EXPECT_EQ(r.rc, 0) << r.err;
  EXPECT_EQ(r.out, "RGB\n");
  for (const char* stage :
       {"decode.npy", "resize.npy", "map.npy", "boxes.txt", "crop0.npy", "logits0.npy"})
    EXPECT_TRUE(fs::exists(dir_ / "stages" / (std::string("page0.") + stage))) << stage;
}

TEST_F(Cli, TheExamplesOfTheLibraryWork) {
  const std::string p = page("a.ppm", {"RGB", "KG"});
  const Result cpp = finish(start_program({EXAMPLE_CPP, p, OCR_TEST_DATA "/colour_models"}));
  EXPECT_EQ(cpp.rc, 0) << cpp.err;
  EXPECT_NE(cpp.out.find("  RGB\n"), std::string::npos) << cpp.out;
  const Result c = finish(start_program({EXAMPLE_C, p, "models: " OCR_TEST_DATA "/colour_models"}));
  EXPECT_EQ(c.rc, 0) << c.err;
  EXPECT_EQ(json::parse(c.out)["pages"][0]["lines"][1]["text"], "KG");
  const Result bad = finish(start_program({EXAMPLE_C, p, "drop_scroe: 1"}));
  EXPECT_EQ(bad.rc, 1);
  EXPECT_NE(bad.err.find("drop_score"), std::string::npos) << bad.err;
}

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

TEST_F(Cli, MessagesByLevelAndIntoAFile) {
  std::ofstream(in("bad.png")) << "this is no picture";
  const std::string good = page("good.ppm", {"RG"});
  const Result r = infer({in("bad.png"), good, "--use_gpu", "False", "--log-file", at("log/x.log"),
                          "--log_level=debug"});
  EXPECT_EQ(r.rc, 3);
  for (const char* start : {"ocr: note: --use_gpu", "ocr: debug: det model", "ocr: error: "})
    EXPECT_NE(r.err.find(start), std::string::npos) << start << "\n" << r.err;
  const std::string log = slurp(at("log/x.log"));
  for (const char* part : {"] ocr INFO: --use_gpu", "] ocr DEBUG: det model", "] ocr ERROR: "})
    EXPECT_NE(log.find(part), std::string::npos) << part << "\n" << log;
  const Result quiet = infer({in("bad.png"), good, "--use_gpu", "False", "--log_level", "error"});
  EXPECT_EQ(quiet.err.find("note"), std::string::npos) << quiet.err;
  EXPECT_NE(quiet.err.find("ocr: error: "), std::string::npos) << quiet.err;
  EXPECT_EQ(infer({good, "--log_level", "loud"}).rc, 2);
}

TEST_F(Cli, TheFormatFollowsTheNameOfTheOutputUnlessOneIsAskedFor) {
  const std::string p = page("a.ppm", {"RGB"});
  ASSERT_EQ(infer({p, "-o", at("a.json")}).rc, 0);
  EXPECT_EQ(json::parse(slurp(at("a.json")))["pages"][0]["lines"][0]["text"], "RGB");
  ASSERT_EQ(infer({p, "-o", at("a.jsonl")}).rc, 0);
  EXPECT_EQ(json::parse(slurp(at("a.jsonl")))["lines"][0]["text"], "RGB");
  ASSERT_EQ(infer({p, "-o", at("a.txt")}).rc, 0);
  EXPECT_EQ(slurp(at("a.txt")), "RGB\n");
  ASSERT_EQ(infer({p, "-o", at("b.json"), "-f", "text"}).rc, 0);
  EXPECT_EQ(slurp(at("b.json")), "RGB\n");
  ASSERT_EQ(infer({p, "-o", at("folder")}).rc, 0);
  EXPECT_EQ(slurp(at("folder/a.ppm.txt")), "RGB\n");
}

TEST_F(Cli, AForgottenCommandIsAnsweredWithIt) {
  const std::string p = page("a.ppm", {"R"});
  const Result r = ocr({p});
  EXPECT_EQ(r.rc, 2);
  EXPECT_NE(r.err.find("ocr infer " + p), std::string::npos) << r.err;
}

// Names that could be taken for something else.
TEST_F(Cli, FilesMayBeCalledLikeCommandsListsAndFlags) {
  const fs::path a = page("a.ppm", {"RGB"});
  for (const char* name : {"bench", "[a,b]", "--resume", "-1", "++"}) {
    fs::copy(a, dir_ / name);
    auto args = with_models({"-f", "text", "--", name});
    args[2] = fs::absolute(args[2]);
    const fs::path here = fs::current_path();
    fs::current_path(dir_);
    const Result r = ocr(args);
    if (name[0] == '[' || name[0] == 'b') {
      args.erase(args.end() - 2);  // needs no --
      EXPECT_EQ(ocr(args).out, "RGB\n") << name;
    }
    fs::current_path(here);
    EXPECT_EQ(r.rc, 0) << name << r.err;
    EXPECT_EQ(r.out, "RGB\n") << name;
  }
}

// With the real models, where they have been fetched.
TEST_F(Cli, ReadsTheSampleReceipt) {
  const fs::path models = fs::path(OCR_SOURCE_DIR) / "models";
  if (!fs::exists(models / "ppocrv6_tiny/det.onnx")) GTEST_SKIP() << "no models fetched";
  const Result r = ocr({"infer", OCR_SOURCE_DIR "/datasets/sample/receipt.jpg", "--models",
                        models.string(), "-f", "text"});
  EXPECT_EQ(r.rc, 0) << r.err;
  for (const char* line :
       {"BLUE HERON BOOKS\n", "Receipt No. 2024-0317\n", "TOTAL EUR\n", "86.86\n"})
    EXPECT_NE(r.out.find(line), std::string::npos) << line << r.out;
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

// The lines of the sample receipt, cut from it, as data of configs/tiny/rec_rosetta.yml.
class Training : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    data_ = (dir_ / "data").string();
    const Result r = ocr({"data", "crop", OCR_SOURCE_DIR "/datasets/sample/det.txt", "--images",
                          OCR_SOURCE_DIR "/datasets/sample", "--save", data_});
    ASSERT_EQ(r.rc, 0) << r.err;
  }
  Result train(const std::string& folder, std::vector<std::string> more) {
    const std::string labels = "dataset.label_file_list=[" + data_ + "/rec.txt]";
    const std::string images = "dataset.data_dir=" + data_;
    std::vector<std::string> args{"train",
                                  "-c",
                                  OCR_SOURCE_DIR "/configs/tiny/rec_rosetta.yml",
                                  "-o",
                                  "Global.character_dict_path=" OCR_SOURCE_DIR
                                  "/datasets/sample/charset.txt",
                                  "Global.save_model_dir=" + (dir_ / folder).string(),
                                  "Train." + labels,
                                  "Train." + images,
                                  "Eval." + labels,
                                  "Eval." + images};
    args.insert(args.end(), more.begin(), more.end());
    return ocr(args);
  }
  std::string data_;
};

TEST_F(Training, LearnsToReadTheSampleReceipt) {
  const Result r = train("run", {});
  ASSERT_EQ(r.rc, 0) << r.err;
  EXPECT_NE(r.err.find("strict_acc: 1,"), std::string::npos) << r.err;
  for (const char* name : {"latest.safetensors", "best_accuracy.safetensors", "config.yml",
                           "train.log", "metrics.jsonl"})
    EXPECT_TRUE(fs::exists(dir_ / "run" / name)) << name;
}

TEST_F(Training, GoesOnToTheSameBits) {
  const std::string two = "Global.epoch_num=2", one = "Global.epoch_num=1";
  const std::string eval = "Global.eval_batch_step=[0,3]";         // every epoch
  ASSERT_EQ(train("whole", {"-o", two, eval, "--resume"}).rc, 0);  // nothing there yet: a start
  ASSERT_EQ(train("parts", {"-o", one, eval}).rc, 0);
  const Result r = train("parts", {"-o", two, eval, "--resume"});
  ASSERT_EQ(r.rc, 0) << r.err;
  EXPECT_NE(r.err.find("resumed from"), std::string::npos) << r.err;
  EXPECT_TRUE(slurp(dir_ / "whole/latest.safetensors") == slurp(dir_ / "parts/latest.safetensors"));
}

TEST_F(Training, CopiesThatLookScannedKeepTheirNamesAndText) {
  const std::string folder = (dir_ / "scanned").string();
  const std::vector<std::string> lines{"data",     "degrade", data_ + "/rec.txt", "--save", folder,
                                       "--copies", "2"};
  const Result r = ocr(lines);
  ASSERT_EQ(r.rc, 0) << r.err;
  EXPECT_NE(r.out.find("46 samples of 23 pictures"), std::string::npos) << r.out;
  std::istringstream clean(slurp(data_ + "/rec.txt")), labels(slurp(folder + "/labels.txt"));
  std::string line, copy;
  ASSERT_TRUE(std::getline(clean, line));
  const std::string stem = line.substr(0, line.find(".png")), text = line.substr(line.find('\t'));
  for (const char* number : {"1", "2"}) {
    ASSERT_TRUE(std::getline(labels, copy));
    EXPECT_EQ(copy, std::string("degraded/") + number + "/" + stem + ".jpg" + text);
  }
  const std::string first = slurp(folder + "/degraded/1/" + stem + ".jpg");
  EXPECT_NE(first, slurp(folder + "/degraded/2/" + stem + ".jpg"));
  ASSERT_EQ(ocr(lines).rc, 0);
  EXPECT_EQ(first,
            slurp(folder + "/degraded/1/" + stem + ".jpg"));  // the same seed, the same bytes

  const Result page = ocr({"data", "degrade", OCR_SOURCE_DIR "/datasets/sample/det.txt", "--save",
                           (dir_ / "page").string()});
  ASSERT_EQ(page.rc, 0) << page.err;
  const Result cut =
      ocr({"data", "crop", (dir_ / "page/labels.txt").string(), "--save", (dir_ / "cut").string()});
  EXPECT_EQ(cut.rc, 0) << cut.err;
  EXPECT_NE(cut.out.find("23 samples of 1 pictures"), std::string::npos) << cut.out;
  EXPECT_EQ(ocr({"data", "degrade", data_ + "/rec.txt", "--save", folder, "--strength", "9"}).rc,
            2);
}

TEST_F(Training, LinesUprightAndUpsideDownForTheClassifier) {
  const std::string folder = (dir_ / "cls").string();
  const Result r = ocr({"data", "turn", data_ + "/rec.txt", "--save", folder});
  ASSERT_EQ(r.rc, 0) << r.err;
  EXPECT_NE(r.out.find("46 samples of 23 pictures"), std::string::npos) << r.out;
  std::istringstream labels(slurp(folder + "/cls.txt"));
  std::string upright, turned;
  ASSERT_TRUE(std::getline(labels, upright) && std::getline(labels, turned));
  ASSERT_TRUE(upright.ends_with("_0.png\t0") && turned.ends_with("_180.png\t180"));
  upright.erase(upright.find('\t'));
  turned.erase(turned.find('\t'));
  EXPECT_NE(slurp(folder + "/" + upright), slurp(folder + "/" + turned));
  // Turned twice, a line is itself again.
  std::ofstream(folder + "/again.txt") << turned << "\t180\n";
  const std::string again = (dir_ / "again").string();
  ASSERT_EQ(ocr({"data", "turn", folder + "/again.txt", "--save", again}).rc, 0);
  std::istringstream second(slurp(again + "/cls.txt"));
  ASSERT_TRUE(std::getline(second, turned) && std::getline(second, turned));
  turned.erase(turned.find('\t'));
  EXPECT_EQ(slurp(folder + "/" + upright), slurp(again + "/" + turned));
}

TEST_F(Training, RefusesToLoseSamplesInSilence) {
  std::ofstream(data_ + "/rec.txt", std::ios::app) << "crops/nowhere.png\n";
  const Result r = train("run", {"--dry-run"});
  EXPECT_EQ(r.rc, 1);
  EXPECT_NE(r.err.find("--skip-bad 1"), std::string::npos) << r.err;
  EXPECT_EQ(train("run", {"--dry-run", "--skip-bad", "1"}).rc, 0);
  const Result slip = train("run", {"--dry-run", "--skip-bad", "1", "-o", "Optimizer.nam=SGD"});
  EXPECT_EQ(slip.rc, 2);
  EXPECT_NE(slip.err.find("did you mean 'name'"), std::string::npos) << slip.err;
}

// From a training to the text of a line, and what stands in the way.
TEST_F(Training, ExportedModelReadsTheLines) {
  ASSERT_EQ(train("run", {}).rc, 0);
  const std::string config = (dir_ / "run/config.yml").string(), folder = (dir_ / "rec").string();
  const auto exported = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"export", "-c", config};
    args.insert(args.end(), more.begin(), more.end());
    return ocr(args);
  };
  const Result r = exported({"-o", "Global.save_inference_dir=" + folder});
  ASSERT_EQ(r.rc, 0) << r.err;
  EXPECT_NE(r.err.find("checked: 23 samples"), std::string::npos) << r.err;
  const std::string bytes = slurp(dir_ / "rec/inference.onnx");
  ASSERT_EQ(exported({"-o", "Global.save_inference_dir=" + folder}).rc, 0);
  EXPECT_TRUE(bytes == slurp(dir_ / "rec/inference.onnx")) << "other bytes the second time";

  // Lines no wider than those of the training.
  std::map<std::string, std::string> labels;
  std::ifstream in(data_ + "/rec.txt");
  for (std::string line; std::getline(in, line);)
    labels[fs::path(line.substr(0, line.find('\t'))).filename()] = line.substr(line.find('\t') + 1);
  int read = 0;
  for (const auto& [name, text] : labels) {
    const std::string png = slurp(data_ + "/crops/" + name);
    const auto side = [&png](size_t at) {
      return static_cast<uint8_t>(png[at]) * 256 + static_cast<uint8_t>(png[at + 1]);
    };
    if (side(18) * 32 > side(22) * 310 || read == 6) continue;
    const Result line =
        ocr({"infer", "--task", "rec", "--rec_model_dir", folder, data_ + "/crops/" + name});
    EXPECT_EQ(line.rc, 0) << line.err;
    EXPECT_NE(line.out.find('\t' + text + '\t'), std::string::npos) << line.out << text;
    ++read;
  }
  EXPECT_EQ(read, 6);
  const Result eval = ocr({"eval", "-c", config, "--model", folder, "--mode", "paddle", "--json",
                           (dir_ / "e.json").string()});
  ASSERT_EQ(eval.rc, 0) << eval.err;  // as the training measured: every line right
  EXPECT_EQ(json::parse(slurp(dir_ / "e.json"))["as PaddleOCR evaluates"]["strict"]["acc"], 1.0);

  const auto refused = [&](std::vector<std::string> more, const char* why) {
    more.insert(more.begin(), {"-o", "Global.save_inference_dir=" + (dir_ / "no").string()});
    const Result no = exported(more);
    EXPECT_NE(no.rc, 0);
    EXPECT_NE(no.err.find(why), std::string::npos) << no.err;
    EXPECT_FALSE(fs::exists(dir_ / "no/inference.onnx"));
  };
  refused({"Global.pretrained_model=nowhere/best"}, "there is no checkpoint nowhere/best");
  refused({"Global.use_space_char=false"}, "gives 90 classes, the checkpoint has 91");
  refused({"Architecture.Backbone.scale=0.5"}, "is of another architecture");
  refused({"Architecture.Neck.encoder_type=rnn"}, "another architecture");
  std::ofstream(dir_ / "file") << "x";
  refused({"Global.save_inference_dir=" + (dir_ / "file").string()}, "cannot be made");
  EXPECT_EQ(exported({}).rc, 2);  // where to?
  const Result kind = ocr({"infer", "--task", "det", "--det_model_dir", folder, data_ + "/crops"});
  EXPECT_NE(kind.err.find("is a model for 'rec', not for 'det'"), std::string::npos) << kind.err;
  // Weights that a training began with are not those that it ended with.
  const std::string began = slurp(config);
  std::ofstream(dir_ / "run/began.yml") << "Global:\n  pretrained_model: nowhere/start\n"
                                        << began.substr(began.find('\n') + 1);
  const Result best = ocr({"export", "-c", (dir_ / "run/began.yml").string(), "-o",
                           "Global.save_inference_dir=" + folder});
  EXPECT_EQ(best.rc, 0) << best.err;
  EXPECT_NE(best.err.find("exported is"), std::string::npos) << best.err;
  // Data that are not there any more: said, and checked on random numbers.
  fs::remove(data_ + "/rec.txt");
  const Result random = exported({"-o", "Global.save_inference_dir=" + folder});
  EXPECT_EQ(random.rc, 0) << random.err;
  EXPECT_NE(random.err.find("random numbers only"), std::string::npos) << random.err;
}

// A page through the file of a detector after a few updates, with the thresholds of its
// configuration. (What a longer training finds, its file finds: docs/export.md.)
TEST_F(Training, ExportedDetectorBringsItsSettings) {
  const std::string folder = (dir_ / "det").string(), run = (dir_ / "run").string();
  const std::string images = "dataset.data_dir=" OCR_SOURCE_DIR "/datasets/sample";
  const std::string labels = "dataset.label_file_list=[" OCR_SOURCE_DIR "/datasets/sample/det.txt]";
  const Result trained =
      ocr({"train", "-c", OCR_SOURCE_DIR "/configs/tiny/det_db.yml", "-o",
           "Global.save_model_dir=" + run, "Global.epoch_num=12", "Global.eval_batch_step=[0,1000]",
           "PostProcess.box_thresh=0.2", "Optimizer.lr.warmup_epoch=0", "Train." + images,
           "Train." + labels, "Eval." + images, "Eval." + labels});
  ASSERT_EQ(trained.rc, 0) << trained.err;
  const std::string config = run + "/config.yml";
  const Result r = ocr({"export", "-c", config, "-o", "Global.pretrained_model=" + run + "/latest",
                        "Global.save_inference_dir=" + folder});
  ASSERT_EQ(r.rc, 0) << r.err;
  EXPECT_NE(r.err.find("checked: 1 samples"), std::string::npos) << r.err;
  const Result page = ocr({"infer", "--task", "det", "--det_model_dir", folder,
                           OCR_SOURCE_DIR "/datasets/sample/receipt.jpg", "-f", "json"});
  ASSERT_EQ(page.rc, 0) << page.err;
  const json j = json::parse(page.out);
  EXPECT_EQ(j["settings"]["det_db_box_thresh"]["value"], 0.2);
  EXPECT_EQ(j["settings"]["det_db_box_thresh"]["from"], "metadata");
  const Result eval = ocr({"eval", "-c", config, "--model", folder, "--mode", "paddle"});
  EXPECT_EQ(eval.rc, 0) << eval.err;
}

}  // namespace
