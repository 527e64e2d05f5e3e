// `ocr infer` from the outside: exit codes, outputs, errors, resuming and interrupting, on drawn
// pages and with models of a few hundred bytes.
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/cli/cli.h"

namespace cli {
namespace {

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

}  // namespace
}  // namespace cli
