// The command line's own parts: spellings, options shared by commands, messages.
#include "apps/ocr/command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/ocr/config_options.h"
#include "apps/ocr/log.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using Words = std::vector<std::string>;

const std::vector<Flag> kKnown = {{"drop_score", Takes::kValue},  {"d", Takes::kValue},
                                  {"use_dilation", Takes::kBool}, {"no_cache", Takes::kValue},
                                  {"opt", Takes::kValues},        {"help", Takes::kNothing}};

Words canonical(const Words& args) { return canonical_arguments(args, kKnown).args; }

std::string refusal(const Words& args) {
  try {
    canonical(args);
  } catch (const train::ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Spelling, AllSpellingsOfAFlagAreOne) {
  const Words expected{"--drop_score", "0.5", "x.png"};
  EXPECT_EQ(canonical({"--drop_score", "0.5", "x.png"}), expected);
  EXPECT_EQ(canonical({"--drop-score=0.5", "x.png"}), expected);
  EXPECT_EQ(canonical({"--Drop_Score", "0.5", "x.png"}), expected);
  EXPECT_EQ(canonical({"-drop_score", "0.5", "x.png"}), expected);
  EXPECT_EQ(canonical({"-d", "0.5"}), (Words{"-d", "0.5"}));
}

TEST(Spelling, ValuesKeepTheirOwnSpelling) {
  EXPECT_EQ(canonical({"--opt=A-b.C=d=e"}), (Words{"--opt", "A-b.C=d=e"}));
  EXPECT_EQ(canonical({"--drop_score="}), (Words{"--drop_score", ""}));
  EXPECT_EQ(canonical({"--drop_score", "-0.5"}), (Words{"--drop_score", "-0.5"}));
  EXPECT_EQ(canonical({"--drop_score", "-"}), (Words{"--drop_score", "-"}));
  EXPECT_EQ(canonical_arguments({"a", "--", "--Drop-Score", "-x"}, kKnown).rest,
            (Words{"--Drop-Score", "-x"}));
}

TEST(Spelling, BooleansStandWithAndWithoutAValue) {
  EXPECT_EQ(canonical({"--use_dilation", "x.png"}), (Words{"--use_dilation", "true", "x.png"}));
  EXPECT_EQ(canonical({"--use_dilation", "False"}), (Words{"--use_dilation", "False"}));
  EXPECT_EQ(canonical({"--use_dilation=1"}), (Words{"--use_dilation", "1"}));
  EXPECT_EQ(canonical({"--no-use-dilation", "0"}), (Words{"--use_dilation", "false", "0"}));
  EXPECT_EQ(canonical({"--no_use_dilation=false"}), (Words{"--use_dilation", "true"}));
  EXPECT_EQ(canonical({"--no-cache", "1"}), (Words{"--no_cache", "1"}));  // its own name
}

TEST(Spelling, MistakesAreAnsweredWithTheNearestName) {
  EXPECT_EQ(refusal({"--drop_scroe", "1"}),
            "unknown flag --drop_scroe; did you mean --drop_score?");
  EXPECT_EQ(refusal({"--drop_score"}), "--drop_score needs a value");
  EXPECT_EQ(refusal({"--Drop-Score", "--use_dilation"}), "--Drop-Score needs a value");
  EXPECT_EQ(refusal({"--no_drop_score"}).substr(0, 12), "unknown flag");
  EXPECT_EQ(refusal({"-z"}), "unknown flag -z; --help lists them");
}

// A program with one command, whose options the tests look at.
ConfigOptions config;
std::vector<std::string> seen;

void declare_toy(Command& c) {
  config = {};
  seen.clear();
  c.arguments("INPUT", 2, [](const Given& g) { seen.push_back("input " + g.text); });
  c.flag("fast", "quickly", [](const Given& g) { seen.push_back(g.truth() ? "fast" : "slow"); });
  c.option("runs,n,times", "N", "how often",
           [](const Given& g) { seen.push_back(g.spelt + " " + std::to_string(g.whole(1, 9))); });
  add_config_options(c, config);
  c.run([] { return 7; });
}

int toy(Words args) {
  const Program program{"A toy.", "", "", "toy 1", {{"toy", "a toy", declare_toy}}};
  args.insert(args.begin(), "toy");
  return run_program(program, std::move(args));
}

TEST(Command, OptionsArriveInTheirOrderAndAsTyped) {
  EXPECT_EQ(toy({"--times=3", "a", "--no-fast", "-n", "2", "[b,c]"}), 7);
  EXPECT_EQ(seen, (Words{"--times 3", "slow", "--times 2", "input a", "input [b,c]"}));
  EXPECT_EQ(toy({"--fast", "true", "--", "toy"}), 7);
  EXPECT_EQ(seen, (Words{"fast", "input toy"}));
}

TEST(Command, WrongValuesAndTooManyArgumentsAreRefused) {
  EXPECT_THROW(toy({"--runs", "10"}), train::ConfigError);
  EXPECT_THROW(toy({"--runs", "2x"}), train::ConfigError);
  EXPECT_THROW(toy({"--fast=maybe"}), train::ConfigError);
  EXPECT_THROW(toy({"a", "b", "c"}), train::ConfigError);
}

TEST(Command, OverridesRepeatComeSeveralAtATimeAndSplitAtTheFirstEqualsSign) {
  EXPECT_EQ(toy({"-c", "a.yml", "-o", "Global.epoch_num=10", "Train.list=[1, 2]", "--fast", "--opt",
                 "Global.path=x=y", "Global.none="}),
            7);
  EXPECT_EQ(config.config, "a.yml");
  ASSERT_EQ(config.overrides.size(), 4u);
  const auto pair = [](int i) {
    return config.overrides[i].key + " <- " + config.overrides[i].value;
  };
  EXPECT_EQ(pair(0), "Global.epoch_num <- 10");
  EXPECT_EQ(pair(1), "Train.list <- [1, 2]");
  EXPECT_EQ(pair(2), "Global.path <- x=y");
  EXPECT_EQ(pair(3), "Global.none <- ");
}

TEST(Command, OverridesThatAreNoneAreRefused) {
  for (const char* text : {"Global", "=3", ".a=1", "a.=1", "a..b=1"})
    EXPECT_THROW(toy({"-o", text}), train::ConfigError) << text;
  EXPECT_THROW(require_config({}, "train"), train::ConfigError);
  EXPECT_NO_THROW(require_config({"a.yml", {}}, "train"));
}

TEST(Log, FilesGetEveryMessageWithTimeAndLevel) {
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / ("ocr_log_" + std::to_string(getpid()));
  const std::string path = folder / "job/train.log";
  log_to_file(path);
  ::testing::internal::CaptureStderr();
  log_info("epoch: [1/2], loss: {}");  // braces are text
  log_warning("odd");
  set_log_level("error");
  log_warning("left out");
  log_error("bad");
  set_log_level("info");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "epoch: [1/2], loss: {}\nocr: warning: odd\nocr: error: bad\n");
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  std::string bare = text.str();
  for (size_t at = 0; (at = bare.find('[', at)) != std::string::npos && at + 21 < bare.size();)
    if (bare.compare(at + 20, 2, "] ") == 0)
      bare.erase(at, 22);  // [2026/01/31 12:00:00]
    else
      ++at;
  EXPECT_EQ(bare, "ocr INFO: epoch: [1/2], loss: {}\nocr WARNING: odd\nocr ERROR: bad\n");
  EXPECT_THROW(set_log_level("loud"), train::ConfigError);
  EXPECT_THROW(log_to_file("/proc/no/such.log"), train::DeviceError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace app
