// `ocr train` and `ocr export` from the outside, on the lines of the sample receipt.
#include "tests/cli/cli.h"

namespace cli {
namespace {

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
  const std::string text = line.substr(line.find('\t'));
  const std::string name = fs::path(line.substr(0, line.find('\t'))).stem().string() + ".jpg";
  std::vector<std::string> copies;
  for (const char* number : {"1", "2"}) {
    ASSERT_TRUE(std::getline(labels, copy));
    EXPECT_TRUE(copy.starts_with(std::string("degraded/") + number + "/")) << copy;
    EXPECT_TRUE(copy.ends_with("/" + name + text)) << copy;
    copies.push_back(folder + "/" + copy.substr(0, copy.find('\t')));
  }
  const std::string first = slurp(copies[0]);
  EXPECT_NE(first, slurp(copies[1]));
  ASSERT_EQ(ocr(lines).rc, 0);
  EXPECT_EQ(first, slurp(copies[0]));  // the same seed, the same bytes

  const Result page = ocr({"data", "degrade", OCR_SOURCE_DIR "/datasets/sample/det.txt", "--save",
                           (dir_ / "page").string()});
  ASSERT_EQ(page.rc, 0) << page.err;
  const Result cut =
      ocr({"data", "crop", (dir_ / "page/labels.txt").string(), "--save", (dir_ / "cut").string()});
  EXPECT_EQ(cut.rc, 0) << cut.err;
  EXPECT_NE(cut.out.find("23 samples of 1 pictures"), std::string::npos) << cut.out;
  // Lines of a page and of its copy fall into the same part of a split, which goes by file names.
  std::istringstream again(slurp((dir_ / "cut/rec.txt").string()));
  ASSERT_TRUE(std::getline(again, copy));
  for (const std::string& l : {line, copy})
    EXPECT_EQ(fs::path(l.substr(0, l.find('\t'))).filename(), "receipt_crop_0.png");
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
  std::ofstream(data_ + "/rec.txt", std::ios::app) << "crops/nowhere.png\ncrops/none.png\tTOTAL\n";
  const Result r = train("run", {"--dry-run"});
  EXPECT_EQ(r.rc, 1);
  EXPECT_NE(r.err.find("rec.txt:24: no tab between path and label"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("crops/none.png: No such file"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("4 of 50 samples"), std::string::npos) << r.err;  // of Train and of Eval
  EXPECT_NE(r.err.find("--skip-bad 4"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(dir_ / "run"));
  EXPECT_EQ(train("run", {"-o", "Global.epoch_num=2"}).rc, 1);  // before the first step
  EXPECT_FALSE(fs::exists(dir_ / "run/train.log"));
  EXPECT_EQ(train("run", {"--dry-run", "--skip-bad", "3"}).rc, 1);
  EXPECT_EQ(train("run", {"--dry-run", "--skip-bad", "4"}).rc, 0);
  // What was allowed ends no later epoch either.
  const Result on = train("run", {"--skip-bad", "4", "-o", "Global.epoch_num=2"});
  EXPECT_EQ(on.rc, 0) << on.err;
  const Result slip = train("run", {"--dry-run", "--skip-bad", "1", "-o", "Optimizer.nam=SGD"});
  EXPECT_EQ(slip.rc, 2);
  EXPECT_NE(slip.err.find("did you mean 'name'"), std::string::npos) << slip.err;
}

TEST_F(Training, LooksAtTheDataOnceWhileTheyStayTheSame) {
  const auto checked = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"-o", "Global.epoch_num=1", "Global.eval_batch_step=[0,1000]"});
    const Result r = train("run", more);
    EXPECT_EQ(r.rc, 0) << r.err;
    return r.err.find("Train: ") != std::string::npos;
  };
  EXPECT_TRUE(checked({}));
  EXPECT_TRUE(fs::exists(dir_ / "run/data_check.json"));
  EXPECT_EQ(json::parse(ocr({"runs", at("run"), "--json"}).out)[0]["state"], "finished");
  EXPECT_FALSE(checked({}));
  EXPECT_FALSE(checked({"Optimizer.lr.learning_rate=0.001"}));
  EXPECT_TRUE(checked({"Global.max_text_length=45"}));
  std::ofstream(data_ + "/rec.txt", std::ios::app) << "\n";
  EXPECT_TRUE(checked({"Global.max_text_length=45"}));
  std::ofstream(dir_ / "run/data_check.json") << "{\"key\": 1";
  EXPECT_TRUE(checked({"Global.max_text_length=45"}));
}

TEST_F(Training, ADryRunNeedsNoData) {
  fs::remove_all(data_);
  const Result r = train("run", {"--dry-run"});
  EXPECT_EQ(r.rc, 0) << r.err;
  EXPECT_NE(r.err.find("data/rec.txt is not there"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("parameters"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("GFLOP"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("these were made up"), std::string::npos) << r.err;
  EXPECT_EQ(train("run", {}).rc, 1);
}

// What is tried before is tried in copies of the process: of it the training shows nothing.
TEST_F(Training, SaysBeforeWhatItTakes) {
  const std::vector<std::string> one{"-o", "Global.epoch_num=1", "Global.eval_batch_step=[0,3]"};
  const auto with = [&one](std::string option) {
    std::vector<std::string> all = one;
    all.insert(all.begin(), std::move(option));
    return all;
  };
  const Result r = train("run", one), blind = train("blind", with("--no-estimate"));
  ASSERT_EQ(r.rc, 0) << r.err;
  ASSERT_EQ(blind.rc, 0) << blind.err;
  EXPECT_EQ(blind.err.find("estimate:"), std::string::npos) << blind.err;
  EXPECT_TRUE(slurp(dir_ / "run/latest.safetensors") == slurp(dir_ / "blind/latest.safetensors"));
  const std::string said = "memory at most about ";
  const size_t at = r.err.find(said);
  ASSERT_NE(at, std::string::npos) << r.err;
  const double estimate = std::stod(r.err.substr(at + said.size())) * (1 << 20);
  EXPECT_NEAR(estimate, static_cast<double>(blind.peak_memory), .15 * estimate);
  EXPECT_NE(r.err.find("an epoch of 3 batches takes "), std::string::npos) << r.err;
}

TEST_F(Training, RefusesWhatCannotFit) {
  for (const char* run : {"--dry-run", "--strict"}) {
    const Result r = train("run", {"--memory-limit", "20", run});
    EXPECT_EQ(r.rc, 1);
    EXPECT_NE(r.err.find("MiB of memory, and 20 MiB are allowed (--memory-limit)"),
              std::string::npos)
        << r.err;
    EXPECT_NE(r.err.find("Train.loader.batch_size_per_card (now "), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(dir_ / "run"));
  }
  EXPECT_EQ(train("run", {"--memory-limit", "0", "--dry-run"}).rc, 0);
}

// A net that learns lines of their own widths is evaluated on lines of their own widths: with the
// numbers, whatever they are, that its exported file gets from the same lines.
TEST_F(Training, OwnWidthsAreEvaluatedAsTheExportedModelReadsThem) {
  std::ifstream in(data_ + "/rec.txt");
  std::ofstream sized(data_ + "/sized.txt");
  for (std::string line; std::getline(in, line);) {
    const std::string png = slurp(data_ + "/" + line.substr(0, line.find('\t')));
    const auto side = [&png](size_t at) {
      return static_cast<uint8_t>(png[at]) * 256 + static_cast<uint8_t>(png[at + 1]);
    };
    sized << line << '\t' << side(18) << '\t' << side(22) << '\n';
  }
  sized.close();
  std::ofstream(data_ + "/rec.txt", std::ios::app) << "crops/nowhere.png\tx\n";
  const Result r = train(
      "run",
      {"--skip-bad", "1", "-o", "Global.epoch_num=50", "Global.eval_batch_step=[0,100000]",
       "Train.dataset.label_file_list=[" + data_ + "/sized.txt]", "Train.dataset.ds_width=true",
       "Train.dataset.name=MultiScaleDataSet",
       "Train.dataset.transforms=[DecodeImage: {img_mode: BGR}, CTCLabelEncode: , KeepKeys: "
       "{keep_keys: [image, label, length]}]",
       "Train.sampler={name: MultiScaleSampler, scales: [[320, 32]], first_bs: 8, fix_bs: false, "
       "divided_factor: [8, 16], is_training: true}"});
  ASSERT_EQ(r.rc, 0) << r.err;
  const std::vector<json> evaluated = metrics("run", "eval");
  ASSERT_FALSE(evaluated.empty());
  EXPECT_EQ(evaluated.back()["unread"], 1);
  const std::string config = (dir_ / "run/config.yml").string(), folder = (dir_ / "rec").string();
  const Result exported =
      ocr({"export", "-c", config, "-o", "Global.pretrained_model=" + at("run/latest"),
           "Global.save_inference_dir=" + folder});
  ASSERT_EQ(exported.rc, 0) << exported.err;
  const Result eval = ocr({"eval", "-c", config, "--model", folder, "--json", at("e.json")});
  ASSERT_EQ(eval.rc, 3) << eval.err;
  const json j = json::parse(slurp(dir_ / "e.json"));
  const json &deployed = j["deployed"], &padded = j["as PaddleOCR evaluates"];
  EXPECT_EQ(deployed["strict"]["lines"], 23);
  EXPECT_NEAR(evaluated.back()["strict_acc"], deployed["strict"]["acc"], 1e-8);
  EXPECT_NEAR(evaluated.back()["cer"], deployed["strict"]["cer"], 1e-8);
  EXPECT_NEAR(evaluated.back()["acc"], deployed["lenient"]["acc"], 1e-8);
  EXPECT_NEAR(evaluated.back()["norm_edit_dis"], deployed["lenient"]["norm_edit_dis"], 1e-8);
  // Numbers of neither end of the scale, and others than with padding: the comparison means
  // something.
  EXPECT_GT(deployed["strict"]["cer"], 0);
  EXPECT_LT(deployed["strict"]["cer"], 1);
  EXPECT_NE(deployed["strict"]["cer"], padded["strict"]["cer"]);
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
    labels[line.substr(0, line.find('\t'))] = line.substr(line.find('\t') + 1);
  int read = 0;
  for (const auto& [name, text] : labels) {
    const std::string png = slurp(data_ + "/" + name);
    const auto side = [&png](size_t at) {
      return static_cast<uint8_t>(png[at]) * 256 + static_cast<uint8_t>(png[at + 1]);
    };
    if (side(18) * 32 > side(22) * 310 || read == 6) continue;
    const Result line =
        ocr({"infer", "--task", "rec", "--rec_model_dir", folder, data_ + "/" + name});
    EXPECT_EQ(line.rc, 0) << line.err;
    EXPECT_NE(line.out.find('\t' + text + '\t'), std::string::npos) << line.out << text;
    ++read;
  }
  EXPECT_EQ(read, 6);
  const Result eval = ocr({"eval", "-c", config, "--model", folder, "--mode", "paddle", "--json",
                           (dir_ / "e.json").string()});
  ASSERT_EQ(eval.rc, 0) << eval.err;  // as the training measured: every line right
  EXPECT_EQ(json::parse(slurp(dir_ / "e.json"))["as PaddleOCR evaluates"]["strict"]["acc"], 1.0);
  // Without a model: the configuration's own, with the same numbers.
  const auto evaluated = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"eval", "-c", config, "--json", at("own.json")};
    args.insert(args.end(), more.begin(), more.end());
    return ocr(args);
  };
  const Result own = evaluated({"--mode", "paddle"});
  ASSERT_EQ(own.rc, 0) << own.err;
  EXPECT_NE(own.err.find("run/best_accuracy"), std::string::npos) << own.err;
  EXPECT_EQ(slurp(dir_ / "own.json"), slurp(dir_ / "e.json"));
  const Result latest = evaluated({"-o", "Global.pretrained_model=" + at("run/latest")});
  EXPECT_EQ(latest.rc, 0) << latest.err;
  EXPECT_NE(latest.err.find("run/latest"), std::string::npos) << latest.err;
  const Result none = evaluated({"-o", "Global.pretrained_model=nowhere/best"});
  EXPECT_EQ(none.rc, 1);
  EXPECT_NE(none.err.find("no checkpoint nowhere/best.safetensors"), std::string::npos) << none.err;

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
}  // namespace cli
