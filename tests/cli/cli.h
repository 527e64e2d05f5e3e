// `ocr` run from the outside: the fixture of the tests of the program.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using nlohmann::json;

inline std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

struct Result {
  int rc = -1;
  std::string out, err;
  int64_t peak_memory = 0;  // bytes that were in use at most
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
    rusage usage = {};
    wait4(pid, &status, 0, &usage);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), slurp(dir_ / "out.txt"),
            slurp(dir_ / "err.txt"), int64_t{usage.ru_maxrss} * 1024};
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
  // Objects of the run's metrics.jsonl of one kind, "train" or "eval".
  std::vector<json> metrics(const std::string& folder, const std::string& kind) {
    std::vector<json> found;
    std::ifstream in(dir_ / folder / "metrics.jsonl");
    for (std::string line; std::getline(in, line);)
      if (json j = json::parse(line); j["kind"] == kind) found.push_back(std::move(j));
    return found;
  }
  std::string data_;
};

}  // namespace cli
