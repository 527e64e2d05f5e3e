// `ocr train` and `ocr export` where nothing more can be written: one clear error, and what was
// there stays.
#include <sys/resource.h>

#include <csignal>
#include <map>

#include "tests/cli/cli.h"

namespace cli {
namespace {

constexpr rlim_t kBytes = 20'000;  // more than a log, less than a net

// While it lives, files of this process and of those it starts end at kBytes: writes fail as on a
// full disk.
class FullDisk {
 public:
  FullDisk() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{kBytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

// Names and contents of a folder's files.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& e : fs::directory_iterator(folder))
    files[e.path().filename().string()] = slurp(e.path());
  return files;
}

void expect_one_error(const Result& r, const std::string& file) {
  EXPECT_EQ(r.rc, 1) << r.err;
  EXPECT_NE(r.err.find(file + ": cannot write it"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("free some space or choose another folder"), std::string::npos) << r.err;
  const size_t last = r.err.rfind('\n', r.err.size() - 2) + 1;  // npos + 1: the first line
  EXPECT_NE(r.err.find("cannot write it", last), std::string::npos) << "not the end: " << r.err;
  EXPECT_EQ(r.err.find("cannot write it"), r.err.rfind("cannot write it")) << r.err;
}

TEST_F(Training, AFullDiskLeavesTheExportThatWasThere) {
  ASSERT_EQ(train("run", {"-o", "Global.epoch_num=1"}).rc, 0);
  const auto export_to = [&](const std::string& folder) {
    return ocr({"export", "-c", at("run/config.yml"), "-o",
                "Global.pretrained_model=" + at("run/latest"),
                "Global.save_inference_dir=" + at(folder)});
  };
  const Result first = export_to("net");
  ASSERT_EQ(first.rc, 0) << first.err;
  const auto before = files_of(dir_ / "net");
  ASSERT_GT(before.at("inference.onnx").size(), kBytes);
  {
    const FullDisk full;
    expect_one_error(export_to("net"), at("net/inference.onnx"));
    expect_one_error(export_to("new"), at("new/inference.onnx"));
  }
  EXPECT_TRUE(files_of(dir_ / "net") == before);
  EXPECT_TRUE(files_of(dir_ / "new").empty());
  EXPECT_EQ(export_to("new").rc, 0);
  EXPECT_TRUE(files_of(dir_ / "new") == before);
}

TEST_F(Training, AFullDiskLeavesTheCheckpointThatWasThere) {
  const std::string every = "Global.eval_batch_step=[0,1000]";
  ASSERT_EQ(train("run", {"-o", "Global.epoch_num=1", every}).rc, 0);
  const std::string before = slurp(dir_ / "run/latest.safetensors");
  ASSERT_GT(before.size(), kBytes);
  {
    const FullDisk full;
    const Result r = train("run", {"-o", "Global.epoch_num=2", every, "--resume"});
    EXPECT_EQ(r.rc, 1) << r.err;
    expect_one_error(r, ".safetensors");
  }
  EXPECT_TRUE(slurp(dir_ / "run/latest.safetensors") == before);
  for (const auto& [name, bytes] : files_of(dir_ / "run"))
    EXPECT_FALSE(name.ends_with(".tmp")) << name;
  EXPECT_EQ(train("run", {"-o", "Global.epoch_num=2", every, "--resume"}).rc, 0);
}

}  // namespace
}  // namespace cli
