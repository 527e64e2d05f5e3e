// `ocr train` over several ranks, as threads and as processes of mpirun.
#include <cmath>
#include <cstdlib>

#include "tests/cli/cli.h"

namespace cli {
namespace {

class Ranks : public Training {
 protected:
  // The arguments of a training of whole batches, eight lines in all, statistics over all ranks.
  std::vector<std::string> arguments(const std::string& folder, int batch, int epochs) {
    const std::string labels = "dataset.label_file_list=[" + data_ + "/rec.txt]";
    const std::string images = "dataset.data_dir=" + data_;
    return {"train",
            "-c",
            OCR_SOURCE_DIR "/configs/tiny/rec_rosetta.yml",
            "-t",
            "1",
            "-o",
            "Global.character_dict_path=" OCR_SOURCE_DIR "/datasets/sample/charset.txt",
            "Global.save_model_dir=" + at(folder),
            "Global.use_sync_bn=true",
            "Global.print_batch_step=1",
            "Global.eval_batch_step=[0,2]",  // every epoch
            "Global.epoch_num=" + std::to_string(epochs),
            "Train.loader.drop_last=true",
            "Train.loader.batch_size_per_card=" + std::to_string(batch),
            "Train." + labels,
            "Train." + images,
            "Eval." + labels,
            "Eval." + images};
  }
  static std::vector<std::string> joined(std::vector<std::string> a,
                                         const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  static bool has_mpi() {
    const std::string program = OCR_PROGRAM;
    return fs::exists(program.substr(0, program.rfind('/')) + "/libocr_mpi.so") &&
           fs::exists("/usr/bin/mpirun");
  }
  // Two processes that run `ocr ARGS...`.
  pid_t start_mpi(const std::vector<std::string>& args,
                  const std::vector<std::string>& options = {}) {
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);  // containers
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    std::vector<std::string> line{
        "/usr/bin/mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2"};
    line = joined(joined(joined(line, options), {OCR_PROGRAM}), args);
    return start_program(line);
  }
  // The processes that `parent` started.
  static std::vector<pid_t> children(pid_t parent) {
    std::vector<pid_t> all;
    std::istringstream in(
        slurp("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children"));
    for (pid_t pid = 0; in >> pid;) all.push_back(pid);
    return all;
  }
  // Waits until the log has a progress line, then gives rank 1's process.
  pid_t second_rank(pid_t mpirun) {
    for (int i = 0; i < 1200 && slurp(at("err.txt")).find("global_step: 2") == std::string::npos &&
                    slurp(at("out.txt")).find("global_step: 2") == std::string::npos;
         ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const pid_t pid : children(mpirun))
      if (slurp("/proc/" + std::to_string(pid) + "/environ").find("OMPI_COMM_WORLD_RANK=1") !=
          std::string::npos)
        return pid;
    return 0;
  }
};

#define NEEDS_MPI() \
  if (!has_mpi())   \
  GTEST_SKIP() << "no MPI here: install libopenmpi-dev and openmpi-bin, configure again"

TEST_F(Ranks, TwoWithStatisticsOfBothTrainAsOne) {
  const Result one = ocr(arguments("one", 8, 2));
  ASSERT_EQ(one.rc, 0) << one.err;
  const Result two = ocr(joined(arguments("two", 4, 2), {"--ranks", "2"}));
  ASSERT_EQ(two.rc, 0) << two.err;
  const auto a = metrics("one", "train"), b = metrics("two", "train");
  ASSERT_GE(a.size(), 4u);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i]["loss"], y = b[i]["loss"];
    EXPECT_NEAR(x, y, 2e-3 * x) << "step " << i + 1;
  }
  const auto c = metrics("one", "eval"), d = metrics("two", "eval");
  ASSERT_FALSE(c.empty());
  EXPECT_NEAR(double{c.back()["cer"]}, double{d.back()["cer"]}, .1);
}

TEST_F(Ranks, ProcessesTrainAsThreadsDoAndGoOnToTheSameBits) {
  NEEDS_MPI();
  const Result threads = ocr(joined(arguments("threads", 4, 2), {"--ranks", "2"}));
  ASSERT_EQ(threads.rc, 0) << threads.err;
  for (const int epochs : {1, 2}) {
    const Result r = finish(start_mpi(joined(arguments("mpi", 4, epochs), {"--resume"})));
    ASSERT_EQ(r.rc, 0) << r.err;
    EXPECT_NE((r.err + r.out).find("in each of 2 ranks"), std::string::npos) << r.err;
  }
  const Result whole = finish(start_mpi(arguments("whole", 4, 2)));
  ASSERT_EQ(whole.rc, 0) << whole.err;
  EXPECT_TRUE(slurp(at("threads/latest.safetensors")) == slurp(at("whole/latest.safetensors")));
  EXPECT_TRUE(slurp(at("mpi/latest.safetensors")) == slurp(at("whole/latest.safetensors")));
  const Result other = ocr(joined(arguments("mpi", 8, 3), {"--resume"}));
  ASSERT_EQ(other.rc, 0) << other.err;
  EXPECT_NE(other.err.find("made with 2 ranks, this run has 1"), std::string::npos) << other.err;
}

TEST_F(Ranks, AKilledRankEndsTheOther) {
  NEEDS_MPI();
  const pid_t mpirun = start_mpi(arguments("run", 4, 10000));
  const pid_t victim = second_rank(mpirun);
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  const Result r = finish(mpirun);
  EXPECT_NE(r.rc, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_NE((r.err + r.out).find("rank 1 (process " + std::to_string(victim) + ") died"),
            std::string::npos)
      << r.err << r.out;
}

TEST_F(Ranks, AHungRankEndsTheOtherAfterTheTimeout) {
  NEEDS_MPI();
  const pid_t mpirun = start_mpi(joined(arguments("run", 4, 10000), {"--rank-timeout", "2"}));
  const pid_t victim = second_rank(mpirun);
  ASSERT_GT(victim, 0);
  kill(victim, SIGSTOP);
  const Result r = finish(mpirun);
  EXPECT_NE(r.rc, 0);
  EXPECT_NE((r.err + r.out).find("rank 1 does not answer"), std::string::npos) << r.err << r.out;
}

TEST_F(Ranks, ASignalToMpirunSavesAndEnds) {
  NEEDS_MPI();
  const pid_t mpirun =
      start_mpi(arguments("run", 4, 10000), {"--mca", "odls_base_sigkill_timeout", "4"});
  ASSERT_GT(second_rank(mpirun), 0);
  kill(mpirun, SIGTERM);
  const Result r = finish(mpirun);
  EXPECT_NE((r.err + r.out).find("stopped by a signal; saved"), std::string::npos) << r.err;
  EXPECT_TRUE(fs::exists(dir_ / "run/latest.safetensors"));
}

TEST_F(Ranks, WithoutThePlugInOneErrorSaysSo) {
  NEEDS_MPI();
  const Result r =
      finish(start_mpi(arguments("run", 4, 1), {"-x", "OCR_MPI_PLUGIN=/nowhere/libocr_mpi.so"}));
  EXPECT_NE(r.rc, 0);
  const size_t at = r.err.find("need the MPI plug-in");
  ASSERT_NE(at, std::string::npos) << r.err << r.out;
  EXPECT_EQ(r.err.find("need the MPI plug-in", at + 1), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(dir_ / "run"));
}

TEST_F(Ranks, AnErrorOfAllIsToldOnce) {
  NEEDS_MPI();
  const Result r = finish(start_mpi(joined(arguments("run", 4, 1), {"-o", "Loss.name=NoLoss"})));
  EXPECT_NE(r.rc, 0);
  const size_t at = r.err.find("ocr: ");
  ASSERT_NE(at, std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("ocr: ", at + 1), std::string::npos) << r.err;
}

}  // namespace
}  // namespace cli
