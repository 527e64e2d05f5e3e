// `ocr runs` and `ocr plot` from the outside, on folders as trainings leave them.
#include <sys/file.h>

#include "tests/cli/cli.h"

namespace cli {
namespace {

class Runs : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    run("a/first",
        R"({"kind": "train", "epoch": 1, "global_step": 10, "lr": 0.001, "loss": 3.5, "ips": 20}
{"kind": "train", "epoch": 1, "global_step": 20, "lr": 0.001, "loss": null, "ips": 21}
{"kind": "eval", "epoch": 1, "global_step": 20, "strict_acc": 0.5, "cer": 0.2}
{"kind": "train", "epoch": 2, "global_step": 20, "lr": 0.001, "loss": 2.25, "ips": 22}
{"kind": "eval", "epoch": 2, "global_step": 40, "strict_acc": 0.25, "cer": 0.3}
{"kind": "train", "epo)",
        "[2026/01/01 10:00:00] ocr INFO: stopped by a signal; saved at global_step 40\n");
    run("b",
        R"({"kind": "train", "epoch": 2, "global_step": 9, "loss": 1.5})"
        "\n",
        "[2026/01/01 10:00:00] ocr INFO: finished: 2 epochs, global_step 9\n");
    std::ofstream(dir_ / "runs/b/config.yml")
        << "Global: {epoch_num: 2}\nArchitecture: {model_type: rec, algorithm: CRNN, Backbone: "
           "{name: MobileNetV3}}\n";
  }
  void run(const std::string& name, const std::string& metrics, const std::string& log) {
    fs::create_directories(dir_ / "runs" / name);
    std::ofstream(dir_ / "runs" / name / "metrics.jsonl") << metrics;
    std::ofstream(dir_ / "runs" / name / "train.log") << log;
  }
};

TEST_F(Runs, AreListedWithBestLossAndState) {
  const Result r = ocr({"runs", at("runs"), "--json"});
  ASSERT_EQ(r.rc, 0) << r.err;
  const json j = json::parse(r.out);
  ASSERT_EQ(j.size(), 2u);
  EXPECT_EQ(j[0]["folder"], at("runs/a/first"));
  EXPECT_EQ(j[0]["state"], "stopped");
  EXPECT_EQ(j[0]["epoch"], 2);
  EXPECT_EQ(j[0]["best"]["metric"], "strict_acc");
  EXPECT_EQ(j[0]["best"]["value"], 0.5);
  EXPECT_EQ(j[0]["best"]["global_step"], 20);
  EXPECT_EQ(j[0]["loss"], 2.25);  // of the step that came twice, the last
  EXPECT_EQ(j[1]["state"], "finished");
  EXPECT_EQ(j[1]["net"], "rec CRNN, MobileNetV3");
  EXPECT_EQ(j[1]["epochs"], 2);
  EXPECT_TRUE(j[1]["best"].is_null());
  // An older log does not say that the run was finished; its last evaluation does.
  std::ofstream(dir_ / "runs/b/train.log") << "x\n";
  std::ofstream(dir_ / "runs/b/metrics.jsonl", std::ios::app)
      << R"({"kind": "eval", "epoch": 2, "global_step": 9, "acc": 1})";
  EXPECT_EQ(json::parse(ocr({"runs", at("runs"), "--json"}).out)[1]["state"], "finished");

  const int fd = open(at("runs/b/train.log").c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_SH), 0);  // as a training holds it
  const Result table = ocr({"runs", at("runs")});
  close(fd);
  EXPECT_NE(table.out.find("running"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("strict_acc 0.5 at 20"), std::string::npos) << table.out;
  EXPECT_EQ(table.out.find("finished"), std::string::npos) << table.out;
  EXPECT_EQ(json::parse(ocr({"runs", in(), "--json"}).out).size(), 0u);
  EXPECT_EQ(ocr({"runs", at("nowhere")}).rc, 1);
}

TEST_F(Runs, AreDrawnIntoOnePageThatNeedsNothingElse) {
  const Result r = ocr({"plot", at("runs/a/first"), at("runs/b"), "-o", at("p.html")});
  ASSERT_EQ(r.rc, 0) << r.err;
  const std::string page = slurp(dir_ / "p.html");
  size_t charts = 0;
  for (size_t i = 0; (i = page.find("<figure>", i)) != std::string::npos; ++i) ++charts;
  EXPECT_EQ(charts, 5u);  // strict_acc, cer, loss, lr, ips
  EXPECT_LT(page.find("evaluation: strict_acc"), page.find("evaluation: cer"));
  EXPECT_LT(page.find("evaluation: cer"), page.find("<h2>loss</h2>"));
  for (const char* other : {"http", "src=", "@import", "<link"})
    EXPECT_EQ(page.find(other), std::string::npos) << other;
  // The data of the hover values, as JSON.
  const size_t begin = page.find("charts=") + 7;
  const json data = json::parse(page.substr(begin, page.find(";\n", begin) - begin));
  EXPECT_EQ(data[2]["curves"].size(), 2u);
  EXPECT_EQ(data[2]["curves"][0]["points"], json::parse("[[10, 3.5], [20, 2.25]]"));
  EXPECT_EQ(ocr({"plot"}).rc, 2);
  const Result none = ocr({"plot", in()});
  EXPECT_EQ(none.rc, 1);
  EXPECT_NE(none.err.find("metrics.jsonl"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace cli
