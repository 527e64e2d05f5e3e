// The trainer: resumed runs end with the same bits, signals save, NaN is left out, logs have their
// form.
#include "libtrain/train/trainer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "libtrain/train/events.h"
#include "tests/support/error_of.h"
#include "tests/train/digits_run.h"

extern char** environ;

namespace train {
namespace {

using test::DigitOptions;
using test::DigitRun;
using test::error_of;

struct Folder {
  std::string path;
  explicit Folder(const std::string& name)
      : path(testing::TempDir() + "trainer_" + name + std::to_string(::getpid())) {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {(std::istreambuf_iterator<char>(in)), {}};
}

bool any_line(const std::vector<std::string>& log, const std::string& part) {
  return std::ranges::any_of(log, [&](const auto& l) { return l.find(part) != std::string::npos; });
}

TEST(Trainer, ResumesWithTheSameBitsAfterAnyUpdate) {
  DigitRun whole({});
  const TrainResult result = whole.trainer->run();
  EXPECT_EQ(result.end, TrainResult::End::kFinished);
  EXPECT_EQ(result.global_step, 24);
  for (const int64_t stop : {1, 7, 8, 20}) {
    const Folder folder("resume");
    DigitRun first({.stop_after = stop, .folder = folder.path});
    EXPECT_EQ(first.trainer->run().end, TrainResult::End::kLimit);
    DigitRun second({.workers = 0, .folder = folder.path});
    ASSERT_TRUE(second.trainer->resume_latest());
    const TrainResult rest = second.trainer->run();
    EXPECT_EQ(rest.global_step, 24);
    EXPECT_EQ(rest.best, result.best);
    EXPECT_EQ(rest.best_step, result.best_step);
    EXPECT_EQ(second.weights(), whole.weights()) << stop;
  }
}

TEST(Trainer, AccumulatesBatchesAndResumesBetween) {
  DigitRun whole({.accumulate = 3});
  EXPECT_EQ(whole.trainer->run().global_step, 9);  // 8 batches an epoch: 3 + 3 + 2
  const Folder folder("accumulate");
  DigitRun first({.accumulate = 3, .stop_after = 4, .folder = folder.path});
  first.trainer->run();
  DigitRun second({.accumulate = 3, .folder = folder.path});
  EXPECT_TRUE(second.trainer->resume_latest());
  second.trainer->run();
  EXPECT_EQ(second.weights(), whole.weights());
}

TEST(Trainer, WritesWhatARunLeaves) {
  const Folder folder("files");
  DigitRun run({.folder = folder.path});
  EXPECT_FALSE(run.trainer->resume_latest());
  run.trainer->run();
  for (const char* name : {"latest", "best_accuracy", "iter_epoch_2"})
    EXPECT_TRUE(std::filesystem::exists(folder.path + "/" + name + ".safetensors")) << name;
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/iter_epoch_1.safetensors"));
  EXPECT_EQ(content(folder.path + "/config.yml"), "Global: {epoch_num: 3}\n");
  const std::string log = content(folder.path + "/train.log");
  EXPECT_NE(log.find("ocr INFO: epoch: [1/3], global_step: 4, lr: 0.00"), std::string::npos) << log;
  EXPECT_NE(log.find(", loss: "), std::string::npos);
  EXPECT_NE(log.find(" samples/s, eta: 0:00:"), std::string::npos);
  const std::string json = content(folder.path + "/metrics.jsonl");
  EXPECT_EQ(json.find(R"({"kind": "train", "epoch": 1, "global_step": 4, "lr": )"), 0u) << json;
  EXPECT_NE(json.find(R"({"kind": "eval", "epoch": 1, "global_step": 8, "acc": )"),
            std::string::npos);

  // Weights alone, by either name; the averages unless told otherwise.
  test::DigitNet net;
  EXPECT_EQ(load_weights(net, folder.path + "/latest", false).kept, 8);
  std::vector<float> loaded;
  for (const auto& e : net.state_dict())
    loaded.insert(loaded.end(), e.variable.value().span<float>().begin(),
                  e.variable.value().span<float>().end());
  EXPECT_EQ(loaded, run.weights());
  load_weights(net, folder.path + "/latest.safetensors");
  EXPECT_NE(net.parameters()[0].variable.value().data<float>()[0], loaded[0]);
  struct Other : nn::Module {
    nn::Linear head{2, 2};
    Other() { add_module("head", head); }
  } other;
  EXPECT_NE(error_of([&] { load_weights(other, folder.path + "/latest"); }).find("not one of its"),
            std::string::npos);
}

TEST(Trainer, RefusesACheckpointOfAnotherRun) {
  const Folder folder("other");
  DigitRun run({.epochs = 1, .folder = folder.path});
  run.trainer->run();
  std::string bytes = content(folder.path + "/latest.safetensors");
  bytes[bytes.size() / 2] ^= 4;
  std::ofstream(folder.path + "/bad.safetensors", std::ios::binary) << bytes;
  DigitRun next({.folder = folder.path});
  EXPECT_NE(error_of([&] { next.trainer->resume(folder.path + "/bad"); }).find("damaged"),
            std::string::npos);
  EXPECT_NE(error_of([&] { next.trainer->resume(folder.path + "/none"); }).find("No such file"),
            std::string::npos);
}

TEST(Trainer, SignalSavesAndStops) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const Folder folder("signal");
    DigitRun whole({}), first({.epochs = 3, .folder = folder.path}),
        second({.folder = folder.path});
    whole.trainer->run();
    std::thread sender([&] {  // as soon as something is saved
      while (!std::filesystem::exists(folder.path + "/latest.safetensors"))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::kill(::getpid(), signal);
    });
    const TrainResult stopped = first.trainer->run();
    sender.join();
    ASSERT_EQ(stopped.end, TrainResult::End::kSignal);
    EXPECT_LT(stopped.global_step, 24);
    EXPECT_TRUE(any_line(first.log, "stopped by a signal; saved at global_step"));
    EXPECT_TRUE(second.trainer->resume_latest());
    second.trainer->run();
    EXPECT_EQ(second.weights(), whole.weights());
  }
}

TEST(Trainer, LeavesOutUpdatesWithNanAndNamesTheSamples) {
  DigitRun run({.poison = 17});
  const TrainResult result = run.trainer->run();
  EXPECT_EQ(result.skipped, 3);  // once an epoch
  EXPECT_TRUE(any_line(run.log, "the loss is NaN or Inf at global_step")) << run.log.size();
  EXPECT_TRUE(any_line(run.log, "digits.txt:18"));
  for (const float w : run.weights()) ASSERT_TRUE(std::isfinite(w));  // running statistics too
}

TEST(Trainer, StopsOrGoesBackPastTheLimit) {
  DigitRun run({.poison = 17, .max_non_finite = 0});
  const std::string message = error_of([&] { run.trainer->run(); });
  EXPECT_NE(message.find("digits.txt:18"), std::string::npos) << message;
  EXPECT_NE(message.find("Lower the learning rate"), std::string::npos) << message;
  const Folder folder("rollback");
  DigitRun back({.save_every = 1,
                 .poison = 17,
                 .max_non_finite = 0,
                 .max_rollbacks = 5,
                 .folder = folder.path});
  const TrainResult result = back.trainer->run();
  EXPECT_EQ(result.end, TrainResult::End::kFinished);
  EXPECT_GE(result.rollbacks, 2);
  EXPECT_EQ(result.global_step, 24);
  EXPECT_TRUE(any_line(back.log, "back to the weights of"));
}

std::string run_probe(const std::string& folder, int kill_after_ms) {
  int out[2];
  if (::pipe(out) != 0) return "no pipe";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  std::string program = RESUME_PROBE, argument = folder;
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  if (failed) return "no program";
  if (kill_after_ms >= 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kill_after_ms));
    ::kill(pid, SIGKILL);
  }
  char text[128] = {};
  size_t got = 0;
  for (ssize_t n; (n = ::read(out[0], text + got, sizeof text - 1 - got)) > 0;)
    got += static_cast<size_t>(n);
  ::close(out[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "";
}

TEST(Trainer, KilledAtRandomMomentsEndsWithTheSameBits) {
  const Folder undisturbed("whole"), killed("killed");
  const auto begin = std::chrono::steady_clock::now();
  const std::string expected = run_probe(undisturbed.path, -1);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                      std::chrono::steady_clock::now() - begin)
                      .count();
  ASSERT_EQ(expected.size(), 65u) << expected;
  std::mt19937 random(std::random_device{}());
  for (int kill = 0; kill < 5; ++kill)
    run_probe(killed.path, static_cast<int>(random() % static_cast<unsigned>(ms / 2 + 1)));
  EXPECT_EQ(run_probe(killed.path, -1), expected);
}

TEST(RunLog, LinesHavePaddlesForm) {
  EXPECT_EQ(progress_line({.epoch = 1,
                           .epochs = 20,
                           .global_step = 10,
                           .metrics = {{"lr", .001}, {"loss", 2.3012341}},
                           .reader_cost = .00012,
                           .batch_cost = .01,
                           .samples = 64,
                           .eta_seconds = 100.7,
                           .memory_bytes = 120 << 20}),
            "epoch: [1/20], global_step: 10, lr: 0.001000, loss: 2.301234, avg_reader_cost: "
            "0.00012 s, avg_batch_cost: "
            "0.01000 s, avg_samples: 64.0, ips: 6400.00000 samples/s, eta: 0:01:40, "
            "max_mem_reserved: 120 MB");
  EXPECT_EQ(duration_text(86400 + 5), "1 day, 0:00:05");
  EXPECT_EQ(duration_text(2 * 86400 + 3661), "2 days, 1:01:01");
  EXPECT_EQ(json_line({{"a\"\n", "b"}}, {{"x", .5}, {"y", std::nan("")}}),
            R"({"a\"\u000a": "b", "x": 0.5, "y": null})");
  SmoothedMetrics smoothed(3);
  for (const double v : {9., 1., 5., 2.}) smoothed.add({{"loss", v}});
  EXPECT_EQ(smoothed.medians()[0].second, 2);
}

TEST(Events, HaveTensorBoardsFormat) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the check value of CRC-32C
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  const std::string event = scalar_event(1.5, 300, "train/loss", .25f);
  const char expected[] =
      "\x09\0\0\0\0\0\0\xF8\x3F"
      "\x10\xAC\x02"
      "\x2A\x13"
      "\x0A\x11"
      "\x0A\x0Atrain/loss"
      "\x15\0\0\x80\x3E";
  EXPECT_EQ(event, std::string(expected, sizeof expected - 1));
  const std::string record = tfrecord("abc");
  EXPECT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  const Folder folder("events");
  std::filesystem::create_directories(folder.path);
  {
    EventWriter writer(folder.path);
    writer.scalar(1, "x", 2);
  }
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    EXPECT_EQ(entry.path().filename().string().find("events.out.tfevents."), 0u);
    bytes = content(entry.path());
  }
  int records = 0;
  for (size_t at = 0; at < bytes.size(); ++records) {
    uint64_t n = 0;
    std::memcpy(&n, bytes.data() + at, 8);
    const std::string data = bytes.substr(at + 12, n);
    EXPECT_EQ(bytes.substr(at, 16 + n), tfrecord(data));
    if (records == 0) {
      EXPECT_NE(data.find("brain.Event:2"), std::string::npos);
    }
    at += 16 + n;
  }
  EXPECT_EQ(records, 2);
}

}  // namespace
}  // namespace train
