#include "libocr/pipeline/options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "libocr/pipeline/precision.h"
#include "libtrain/core/error.h"
#include "libtrain/cpu/isa.h"

namespace ocr {
namespace {

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const train::Error& e) {
    return e.what();
  }
  return "";
}

TEST(Options, StrongerSourcesWinInAnyOrder) {
  Options o;
  EXPECT_EQ(o.det_db_thresh.value, 0.3);
  EXPECT_TRUE(set_option(o, "det_db_thresh", "0.25", Source::kConfig, "p.yml:3:1"));
  EXPECT_TRUE(set_option(o, "det_db_thresh", "0.2", Source::kInferenceYml, "inference.yml:4:2"));
  EXPECT_EQ(o.det_db_thresh.value, 0.25);
  EXPECT_EQ(o.det_db_thresh.where, "p.yml:3:1");
  set_option(o, "text-det-thresh", "0.4", Source::kFlag, "--text-det-thresh");
  EXPECT_EQ(o.det_db_thresh.value, 0.4);
  EXPECT_EQ(o.det_db_thresh.source, Source::kFlag);
  EXPECT_FALSE(set_option(o, "no_such_setting", "1", Source::kFlag));
}

TEST(Options, ModelsBeatPresetsExceptWhereRapidocrIsImitated) {
  Options o;
  apply_preset(o, "ppocr2");
  EXPECT_EQ(o.det_limit_side_len.value, 960);
  EXPECT_EQ(o.det_limit_type.value, "max");
  set_option(o, "drop_score", "0.3", Source::kMetadata);
  EXPECT_EQ(o.drop_score.value, 0.3);

  Options r;
  set_option(r, "det_db_thresh", "0.2", Source::kInferenceYml);
  apply_preset(r, "rapidocr");
  EXPECT_EQ(r.det_db_thresh.value, 0.3);
  EXPECT_TRUE(r.use_dilation.value);
  set_option(r, "det_db_thresh", "0.35", Source::kConfig);
  EXPECT_EQ(r.det_db_thresh.value, 0.35);
  EXPECT_THROW(apply_preset(r, "ppocr9"), train::ConfigError);
}

TEST(Options, ReadsBooleansAsPaddleOcrWritesThem) {
  Options o;
  for (const char* yes : {"true", "True", "1", "YES"}) {
    o.use_dilation.value = false;
    set_option(o, "use_dilation", yes, Source::kFlag);
    EXPECT_TRUE(o.use_dilation.value) << yes;
    set_option(o, "use_angle_cls", yes, Source::kFlag);
    EXPECT_EQ(o.use_angle_cls.value, "true") << yes;
  }
  set_option(o, "use_angle_cls", "False", Source::kFlag);
  EXPECT_EQ(o.use_angle_cls.value, "false");
  EXPECT_THROW(set_option(o, "use_dilation", "maybe", Source::kFlag), train::ConfigError);
}

TEST(Options, RefusesWhatDoesNotFit) {
  Options o;
  EXPECT_NE(message_of([&] {
              set_option(o, "det_db_thresh", "1.5", Source::kFlag, "--det_db_thresh");
            }).find("between 0 and 1"),
            std::string::npos);
  EXPECT_THROW(set_option(o, "rec_batch_num", "6x", Source::kFlag), train::ConfigError);
  EXPECT_THROW(set_option(o, "rec_batch_num", "0", Source::kFlag), train::ConfigError);
  EXPECT_THROW(set_option(o, "det_limit_type", "middle", Source::kFlag), train::ConfigError);
  EXPECT_THROW(set_option(o, "rec_image_shape", "3,48", Source::kFlag), train::ConfigError);
  set_option(o, "rec_image_shape", "3, 32, 320", Source::kFlag);
  EXPECT_EQ(o.rec_image_shape.value, (std::vector<int>{3, 32, 320}));
}

TEST(Options, ParsesBytes) {
  EXPECT_EQ(parse_bytes("1500M"), int64_t{1500} << 20);
  EXPECT_EQ(parse_bytes("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_THROW(parse_bytes("many"), train::ConfigError);
  EXPECT_THROW(parse_bytes("-1"), train::ConfigError);
}

TEST(Options, SuggestsTheNearestName) {
  std::vector<std::string> names;
  for (const OptionSpec& s : option_specs()) names.push_back(s.name);
  EXPECT_EQ(nearest_name("det_limit_sidelen", names), "det_limit_side_len");
  EXPECT_EQ(nearest_name("drop_scroe", names), "drop_score");
  EXPECT_EQ(nearest_name("limit_side_len", names), "det_limit_side_len");
  EXPECT_EQ(nearest_name("bananas", names), "");
}

// What the CPU cannot do is computed in fp32 and said in one line.
TEST(Options, PrecisionIsWhatTheCpuHas) {
  const bool bf16 = train::cpu::has_bf16();
  EXPECT_STREQ(choose_precision("fp32").name, "fp32");
  EXPECT_STREQ(choose_precision("auto").name, "fp32");  // of a model that nobody has compared
  EXPECT_STREQ(choose_precision("auto", std::string(64, '0')).name, "fp32");
  constexpr const char* kTinyRecogniser =
      "9ef676d6ed3c88256a2d92c640c44f25b0c40947e111b14b8be8f594091563e6";
  EXPECT_STREQ(choose_precision("auto", kTinyRecogniser).name, bf16 ? "bf16" : "fp32");
  EXPECT_STREQ(choose_precision("fp32", kTinyRecogniser).name, "fp32");
  EXPECT_EQ(choose_precision("auto", kTinyRecogniser).note, "");
  EXPECT_STREQ(choose_precision("bf16").name, bf16 ? "bf16" : "fp32");
  EXPECT_EQ(choose_precision("bf16").note.empty(), bf16);
  for (const char* other : {"fp16", "int8"}) {
    EXPECT_STREQ(choose_precision(other).name, "fp32");
    EXPECT_NE(choose_precision(other).note.find(other), std::string::npos);
  }
  EXPECT_THROW(choose_precision("fp8"), train::ConfigError);
  Options o;
  EXPECT_TRUE(set_option(o, "precision", "int8", Source::kFlag));
  EXPECT_THROW(set_option(o, "precision", "fp8", Source::kFlag), train::ConfigError);
}

TEST(Config, ReadsFlatAndGroupedKeys) {
  const std::string path = write_file("good.yml",
                                      "det_db_thresh: 0.25\ndet:\n  limit_side_len: 640\n  "
                                      "box_thresh: .5\nrec:\n  batch_num: 3\ndrop_score:\n");
  Options o;
  std::vector<std::string> warnings;
  load_config(o, path, true, warnings);
  EXPECT_EQ(o.det_db_thresh.value, 0.25);
  EXPECT_EQ(o.det_limit_side_len.value, 640);
  EXPECT_EQ(o.det_db_box_thresh.value, 0.5);
  EXPECT_EQ(o.rec_batch_num.value, 3);
  EXPECT_EQ(o.drop_score.value, 0.5);  // a key without a value sets nothing
  EXPECT_EQ(o.det_limit_side_len.source, Source::kConfig);
  EXPECT_EQ(o.det_limit_side_len.where, path + ":3:19");
  EXPECT_TRUE(warnings.empty());
}

TEST(Config, NamesThePlaceOfAMistypedKey) {
  const std::string path =
      write_file("typo.yml", "drop_score: .4\ndet:\n  limit_side_length: 640\n");
  Options o;
  std::vector<std::string> warnings;
  const std::string message = message_of([&] { load_config(o, path, false, warnings); });
  EXPECT_NE(message.find(path + ":3:3"), std::string::npos) << message;
  EXPECT_NE(message.find("det_limit_side_len"), std::string::npos) << message;
}

TEST(Config, WarnsOfForeignKeysUnlessStrict) {
  const std::string path = write_file("foreign.yml", "colour_of_the_sky: blue\nuse_gpu: false\n");
  Options o;
  std::vector<std::string> warnings;
  load_config(o, path, false, warnings);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find(":1:1"), std::string::npos) << warnings[0];
  EXPECT_THROW(load_config(o, path, true, warnings), train::ConfigError);
}

TEST(Config, RefusesBrokenFiles) {
  Options o;
  std::vector<std::string> w;
  EXPECT_THROW(load_config(o, "/no/such/file.yml", false, w), train::Error);
  EXPECT_NE(message_of([&] {
              load_config(o, write_file("b.yml", "a: [1, 2\nb: }"), false, w);
            }).find("b.yml:2:"),
            std::string::npos);
  EXPECT_THROW(load_config(o, write_file("deep.yml", std::string(10000, '[')), false, w),
               train::Error);
  EXPECT_THROW(
      load_config(o, write_file("dash.yml", std::string(20000, '-').replace(0, 0, "a: ")), true, w),
      train::Error);
  EXPECT_NE(message_of([&] {
              load_config(o, write_file("t.yml", "Global: {}\nArchitecture: {}\n"), false, w);
            }).find("training configuration"),
            std::string::npos);
}

TEST(InferenceYml, GivesTheModelsOwnSettings) {
  const std::string path = write_file("inference.yml", R"(
PostProcess:
  box_thresh: 0.45
  max_candidates: 3000
  name: DBPostProcess
  thresh: 0.2
  unclip_ratio: 1.4
PreProcess:
  transform_ops:
  - DetResizeForTest: null
  - NormalizeImage:
      mean: [0.5, 0.5, 0.5]
      scale: 1./255.
      std: [0.5, 0.5, 0.5]
)");
  Options o;
  set_option(o, "det_db_unclip_ratio", "1.7", Source::kFlag);
  load_inference_yml(o, path, "det");
  EXPECT_EQ(o.det_db_thresh.value, 0.2);
  EXPECT_EQ(o.det_db_box_thresh.value, 0.45);
  EXPECT_EQ(o.det_max_candidates.value, 3000);
  EXPECT_EQ(o.det_db_unclip_ratio.value, 1.7);
  EXPECT_EQ(o.det_mean.value, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(o.det_db_thresh.source, Source::kInferenceYml);
  EXPECT_EQ(o.det_limit_side_len.source, Source::kDefault);
}

TEST(InferenceYml, GivesSizesAndLabels) {
  Options o;
  load_inference_yml(o,
                     write_file("det.yml",
                                "PreProcess:\n  transform_ops:\n  - DetResizeForTest:\n      "
                                "image_shape: [736, 1280]\n      keep_ratio: true\n      "
                                "resize_long: 960\n"),
                     "det");
  EXPECT_EQ(o.det_image_shape.value, (std::vector<int>{736, 1280}));
  EXPECT_TRUE(o.det_keep_ratio.value);
  EXPECT_EQ(o.det_resize_long.value, 960);
  // As PaddleX exports its textline and page classifiers.
  const std::string cls = write_file("cls.yml",
                                     "PreProcess:\n  transform_ops:\n  - ResizeImage:\n      "
                                     "size: [160, 80]\nPostProcess:\n  Topk:\n    topk: 1\n    "
                                     "label_list: ['180_degree', '0_degree']\n");
  load_inference_yml(o, cls, "cls");
  EXPECT_EQ(o.cls_image_shape.value, (std::vector<int>{3, 80, 160}));
  EXPECT_EQ(o.label_list.value, (std::vector<int>{180, 0}));
  load_inference_yml(
      o, write_file("doc.yml", "PostProcess: {Topk: {label_list: ['0', '270', '180', '90']}}\n"),
      "doc");
  EXPECT_EQ(o.doc_label_list.value, (std::vector<int>{0, 270, 180, 90}));
  set_option(o, "label_list", "['0','180']", Source::kFlag);  // as predict_system is given it
  EXPECT_EQ(o.label_list.value, (std::vector<int>{0, 180}));
  EXPECT_THROW(set_option(o, "label_list", "['up','down']", Source::kFlag), train::ConfigError);
}

TEST(InferenceYml, KeepsEveryCharacterOfTheDictionary) {
  const std::string path = write_file("rec_inference.yml",
                                      "PostProcess:\n  character_dict:\n  - '!'\n  - '\"'\n  - "
                                      "'1'\n  - \"\\u3000\"\n  - a\n  - a\n");
  Options o;
  EXPECT_EQ(load_inference_yml(o, path, "rec"),
            (std::vector<std::string>{"!", "\"", "1", "\u3000", "a", "a"}));
}

}  // namespace
}  // namespace ocr
