// YAML as PaddleOCR's configurations use it, typed reading, overrides, and the wording of errors.
#include <gtest/gtest.h>

#include "libtrain/config/training.h"
#include "libtrain/config/yaml.h"
#include "libtrain/core/error.h"

namespace train::config {
namespace {

std::string error_of(const std::string& text, TrainingReadOptions options = {}) {
  try {
    parse_training_config(text, "c.yml", options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

const std::string kBase = "Architecture: {algorithm: DB}\n";

TEST(Expression, NumbersAndArithmetic) {
  EXPECT_DOUBLE_EQ(*evaluate("1./255."), 1. / 255);
  EXPECT_DOUBLE_EQ(*evaluate("1.0 / 255.0"), 1. / 255);
  EXPECT_DOUBLE_EQ(*evaluate("-(2 + 3) * 4 ** 2"), -80);
  EXPECT_DOUBLE_EQ(*evaluate("2 ** -1"), 0.5);
  EXPECT_DOUBLE_EQ(*evaluate("1e-3"), 1e-3);
  EXPECT_DOUBLE_EQ(*evaluate(".5"), 0.5);
  for (const char* bad : {"", "1 2", "nan", "inf", "a", "1/", "(1", "1 +* 2", "__import__('os')"})
    EXPECT_FALSE(evaluate(bad)) << bad;
  EXPECT_FALSE(evaluate(std::string(200, '(')));
  EXPECT_FALSE(evaluate(std::string(200, '-') + "1"));
}

TEST(Yaml, ScalarsAsTypes) {
  const auto node = [](const char* t) { return parse_yaml(t, "t"); };
  EXPECT_EQ(node("1_000").as_int(), 1000);
  EXPECT_EQ(node("0x1f").as_int(), 31);
  EXPECT_EQ(node("1e3").as_int(), 1000);
  EXPECT_EQ(node("1.5").as_int(), std::nullopt);
  EXPECT_EQ(node("1e-3").as_number(), 1e-3);
  EXPECT_EQ(node("1/0").as_number(), std::nullopt);
  EXPECT_EQ(node("True").as_bool(), true);
  EXPECT_EQ(node("off").as_bool(), false);
  EXPECT_EQ(node("maybe").as_bool(), std::nullopt);
  EXPECT_TRUE(node("~").is_null());
  EXPECT_TRUE(node("None").is_null());
  EXPECT_TRUE(node("").is_null());
  EXPECT_TRUE(node("'null'").is_scalar());
}

TEST(Yaml, AnchorsMergesAndPlaces) {
  const Node n = parse_yaml("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\nc: *x\n", "f.yml");
  EXPECT_EQ(n.find("b")->find("k")->as_int(), 1);
  EXPECT_EQ(n.find("b")->find("l")->as_int(), 3);
  EXPECT_EQ(n.find("c")->find("l")->as_int(), 2);
  EXPECT_EQ(n.find("c")->where(), "f.yml:5:4");
  EXPECT_EQ(n.find("c")->find("l")->where(), "f.yml:1:17");
}

TEST(Yaml, DuplicateKeysWarnAndTheLastCounts) {
  std::vector<std::string> warnings;
  const Node n = parse_yaml("a: 1\nb: 2\na: 3\n", "f.yml", &warnings);
  EXPECT_EQ(n.find("a")->as_int(), 3);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "f.yml:3:1: 'a' stands twice; this one counts, that of line 1 is ignored");
}

TEST(Yaml, BadFilesAreOneErrorWithAPlace) {
  const auto error = [](const std::string& t) {
    try {
      parse_yaml(t, "f.yml");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("a: [1, 2\n").substr(0, 6), "f.yml:");
  EXPECT_EQ(error("b: 1\n  \na: *nothing\n"),
            "f.yml:3:4: not valid YAML: the referenced anchor is not defined in `a: *nothing`");
  EXPECT_NE(error("? [1, 2]\n: 3\n").find("a key must be a single value"), std::string::npos);
  EXPECT_NE(error(std::string(70, '[')).find("nested too deeply"), std::string::npos);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += cat("a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) bomb += cat(k ? ", " : "", "*a", i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(error(bomb).find("once aliases are in"), std::string::npos);
}

TEST(Yaml, WritesWhatItReads) {
  const std::string text =
      "Global: {a: 1, b: '1', c: [1, 2], d: }\nT:\n- X:\n- Y: {k: [[1, 2], [3]]}\nu: \"\\u00e9 "
      "#\"\n";
  const Node n = parse_yaml(text, "t");
  const Node again = parse_yaml(to_yaml(n), "t");
  EXPECT_EQ(to_yaml(again), to_yaml(n));
  EXPECT_TRUE(again.find("Global")->find("b")->quoted());
  EXPECT_TRUE(again.find("Global")->find("d")->is_null());
  EXPECT_TRUE(again.find("T")->items()[0].find("X")->is_null());
}

TEST(TrainingConfig, ReadsPaddleStyle) {
  const TrainingConfig c = parse_training_config(R"(Global:
  epoch_num: &epoch_num 500
  eval_batch_step: [0, 1500]
  pretrained_model:
  character_dict_path: None
  use_gpu: True
Architecture:
  model_type: det
  algorithm: DB
  Transform: null
  Backbone:
    name: PPLCNetV3
    scale: 0.75
Optimizer:
  name: Adam
  lr:
    name: Cosine
    learning_rate: 0.001 #(8*8c)
    warmup_epoch: 2
  regularizer:
    name: L2
    factor: '1e-6'
Train:
  dataset:
    name: SimpleDataSet
    data_dir: ./d
    label_file_list:
    - a.txt
    ratio_list: 0.5
    transforms:
    - DecodeImage:
        img_mode: BGR
    - CopyPaste: null
    - MakeBorderMap: {total_epoch: *epoch_num}
  loader:
    batch_size_per_card: 8
profiler_options: null
)",
                                                 "c.yml");
  EXPECT_EQ(c.global.epoch_num, 500);
  EXPECT_EQ(c.global.eval_batch_step, (std::vector<int64_t>{0, 1500}));
  EXPECT_EQ(c.global.pretrained_model, "");
  EXPECT_EQ(c.global.character_dict_path, "");
  EXPECT_EQ(c.architecture.backbone.name, "PPLCNetV3");
  EXPECT_FALSE(c.architecture.neck.present());
  EXPECT_EQ(c.optimizer.regularizer.factor, 1e-6);
  EXPECT_EQ(c.optimizer.lr.learning_rate, 1e-3);
  ASSERT_EQ(c.train.dataset.transforms.size(), 3u);
  EXPECT_EQ(c.train.dataset.transforms[1].name, "CopyPaste");
  EXPECT_TRUE(c.train.dataset.transforms[1].arguments.is_null());
  EXPECT_EQ(c.train.dataset.transforms[2].arguments.find("total_epoch")->as_int(), 500);
  EXPECT_EQ(c.train.dataset.ratio_list, std::vector<double>{0.5});
  EXPECT_FALSE(c.eval.present());
  EXPECT_TRUE(c.warnings.empty());
}

TEST(TrainingConfig, ErrorsNameThePlaceAndTheNearestKey) {
  EXPECT_EQ(error_of(kBase + "Global:\n  epoch_nmu: 3\n"),
            "c.yml:3:3: unknown key 'Global.epoch_nmu'; did you mean 'epoch_num'?");
  EXPECT_EQ(error_of(kBase + "Global:\n  epoch_num: ten\n"),
            "c.yml:3:14: 'Global.epoch_num' takes a whole number, got 'ten'");
  EXPECT_EQ(error_of(kBase + "Global: 3\n"),
            "c.yml:2:9: 'Global' takes lines of `name: value`, got a single value");
  EXPECT_EQ(error_of("Architectur: {}\n"),
            "c.yml:1:1: unknown key 'Architectur'; did you mean 'Architecture'?");
  EXPECT_EQ(error_of("Global: {}\n"), "c.yml:1:1: 'Architecture' is missing");
  EXPECT_EQ(error_of(""), "c.yml:1:1: the configuration is empty");
  EXPECT_EQ(error_of(kBase + "Train:\n  dataset:\n    transforms:\n    - {A: 1, B: 2}\n"),
            "c.yml:5:7: Train.dataset.transforms[0] takes entries such as `- Name: {key: value}` "
            "with one name each, got a map of 2 keys");
  EXPECT_EQ(error_of(kBase + "Train:\n  loader: {batch_size_per_card: 0}\n"),
            "c.yml:3:33: 'Train.loader.batch_size_per_card' takes a number of at least 1, got 0");
}

TEST(TrainingConfig, UnknownKeysWarnUnlessStrict) {
  const std::string text = kBase + "Global:\n  use_early_stopping: true\n";
  const TrainingConfig c = parse_training_config(text, "c.yml");
  ASSERT_EQ(c.warnings.size(), 1u);
  EXPECT_EQ(c.warnings[0], "c.yml:3:3: unknown key 'Global.use_early_stopping' ignored");
  EXPECT_EQ(error_of(text, {{}, true}), "c.yml:3:3: unknown key 'Global.use_early_stopping'");
}

TEST(TrainingConfig, Overrides) {
  const std::string text =
      kBase +
      "Global: {epoch_num: 3}\nTrain:\n  dataset:\n    label_file_list: [a, b]\n"
      "    transforms:\n    - DecodeImage:\n    - RecAug:\n";
  const TrainingConfig c = parse_training_config(
      text, "c.yml",
      {{"Global.epoch_num=7", "Global.save_model_dir=out=1", "Global.eval_batch_step=[0, 5]",
        "Train.dataset.label_file_list.1=c", "Train.dataset.transforms.RecAug.tia_prob=0",
        "Global.pretrained_model="},
       false});
  EXPECT_EQ(c.global.epoch_num, 7);
  EXPECT_EQ(c.global.save_model_dir, "out=1");
  EXPECT_EQ(c.global.eval_batch_step, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(c.train.dataset.label_file_list, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(c.train.dataset.transforms[1].arguments.find("tia_prob")->as_int(), 0);

  EXPECT_EQ(
      error_of(text, {{"Globl.epoch_num=7"}, false}),
      "-o Globl.epoch_num=7: there is no 'Globl' in the configuration; did you mean 'Global'?");
  EXPECT_EQ(error_of(text, {{"Global.epoch_num"}, false}),
            "-o Global.epoch_num: write it as Section.key=value");
  EXPECT_EQ(error_of(text, {{"Global.epoch_mun=7"}, false}),
            "-o Global.epoch_mun=7: unknown key 'Global.epoch_mun'; did you mean 'epoch_num'?");
  EXPECT_EQ(error_of(text, {{"Global.epoch_num=x"}, false}),
            "-o Global.epoch_num=x: 'Global.epoch_num' takes a whole number, got 'x'");
  EXPECT_EQ(error_of(text, {{"Train.dataset.label_file_list.5=x"}, false}),
            "-o Train.dataset.label_file_list.5=x: there is no '5' in "
            "'Train.dataset.label_file_list'");
}

}  // namespace
}  // namespace train::config
