// `ocr eval`: how well models read, find or classify labelled data, as deployed and as PaddleOCR's
// own evaluation would run them.
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/log.h"
#include "apps/ocr/trained_net.h"
#include "apps/ocr/training_config.h"
#include "libocr/data/dataset.h"
#include "libocr/data/image_io.h"
#include "libocr/data/show.h"
#include "libocr/image/encode.h"
#include "libocr/metrics/classification_metric.h"
#include "libocr/metrics/detection_metric.h"
#include "libocr/metrics/gallery.h"
#include "libocr/metrics/recognition_metric.h"
#include "libocr/pipeline/batch.h"
#include "libocr/pipeline/pipeline.h"
#include "libocr/training/export.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/train/archive.h"

namespace app {
namespace {

using train::cat;
using train::config::Node;
using train::config::TrainingConfig;

constexpr const char* kExamples = R"(Examples:
  ocr eval -c output/rec/config.yml                       what was trained, on its Eval section
  ocr eval -c rec.yml -o Global.pretrained_model=output/rec/latest
  ocr eval -c rec.yml --model rec.onnx                    a model file on that section
  ocr eval --task rec --model rec.onnx --labels dev.txt   label files
  ocr eval --task det --model det.onnx --labels det.txt --images pages --gallery worst.html
  ocr eval --task e2e --set models=fast --labels det.txt   whole pages: boxes and their text
)";

constexpr const char* kClosing =
    R"(Without a model a configuration's own is measured: the checkpoint that -o names, else save_model_dir/best_accuracy.
Deployed: pages and lines enter the net as `ocr infer` gives them. PaddleOCR: lines at one width, longer ones
squashed; pages by the configuration's DetResizeForTest and PostProcess. Strict numbers take the raw label, each
sample once; see docs/eval.md.
)";

struct Request {
  ConfigOptions config;
  std::string task, model, images, mode = "both", json, gallery;
  std::vector<std::string> labels;
  std::vector<Given> settings;  // of the pipeline
  bool strict = false, fold = false;
  int count = 0;
};

// One way of running the models.
struct Mode {
  std::string name;
  ocr::Options options;
  int squash_width = 0, squash_height = 0;  // lines wider than that are brought to it; 0: none
  bool squash_all = false;
};

// A folder of its own among the temporary files, removed with this.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ocr_eval_XXXXXX").string();
    if (!::mkdtemp(name.data()))
      throw train::DeviceError(cat(name, ": ", std::strerror(errno), " (TMPDIR names a folder)"));
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class Evaluation {
 public:
  explicit Evaluation(const Request& r) : r_(r) {
    if (!r.config.config.empty()) config_ = read_training_config(r.config, r.strict);
    choose_task();
    open_data();
    if (config_ && task_ != Task::kE2e && !names_model()) deploy();
  }

  int run() {
    std::string json;
    for (const Mode& mode : modes()) {
      std::printf("%s\n", mode.name.c_str());
      const std::string result = evaluate(mode);
      json += cat(json.empty() ? "" : ",\n", "\"", mode.name, "\": ", result);
    }
    if (!r_.json.empty()) write(r_.json, cat("{", json, "}\n"));
    if (const std::string s = skips_.summary(set_->size() + set_->skips().total()); !s.empty())
      log_warning(s);
    return skips_.total() > 0 ? kExitSome : kExitOk;
  }

 private:
  enum class Task { kDet, kRec, kCls, kE2e };

  void choose_task() {
    const std::vector<std::string> names{"det", "rec", "cls", "e2e"};
    if (r_.task.empty() && !config_)
      throw train::ConfigError("", 0, 0, "name a configuration (-c) or a --task");
    const std::string name =
        !r_.task.empty() ? r_.task : names[static_cast<size_t>(task_of(*config_))];
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end())
      throw train::ConfigError("", 0, 0, cat("--task is det, rec, cls or e2e, not ", name));
    task_ = static_cast<Task>(it - names.begin());
    task_name_ = name;
  }

  bool names_model() const {
    return !r_.model.empty() ||
           std::any_of(r_.settings.begin(), r_.settings.end(), [this](const Given& g) {
             const std::string key = parse_override(g.text, g.spelt).key;
             return key == "models" || key == task_name_ + "_model_dir";
           });
  }

  // The pipeline runs files, so the configuration's own net becomes one for as long as this lasts.
  void deploy() {
    const auto [graph, info] = TrainedNet(r_.config, *config_, r_.strict, "measured").deployed();
    folder_.emplace();
    train::write_file_atomically((folder_->path() / "inference.onnx").string(),
                                 ocr::export_onnx(graph, info));
  }

  // Only the places of samples are taken from the data set; the pipeline does the rest.
  void open_data() {
    train::config::SplitConfig split;
    if (config_ && r_.labels.empty()) {
      if (!config_->eval.present())
        config_->root.fail("the configuration has no 'Eval'; name --labels");
      split = config_->eval;
    } else {
      if (r_.labels.empty())
        throw train::ConfigError("", 0, 0, "name --labels FILE, or -c config.yml");
      split.dataset.label_file_list = r_.labels;
      split.dataset.data_dir = {r_.images.empty()
                                    ? std::filesystem::path(r_.labels[0]).parent_path().string()
                                    : r_.images};
    }
    split.dataset.transforms = {{"DecodeImage", Node(), Node()}};
    split.dataset.ext_op_transform_idx.reset();
    split.dataset.ext_op_transform_idx = 1;
    train::config::GlobalConfig global;
    if (config_) global = config_->global;
    train::config::ReadContext context;
    set_ = std::make_unique<ocr::OcrDataset>(split, global, context);
    skips_.merge(set_->skips());
    if (config_ && task_ == Task::kRec)
      encoder_.emplace(ocr::TextEncoder::from_settings(
          global.character_dict_path, global.use_space_char, global.max_text_length));
  }

  ocr::Options base_options() const {
    ocr::Options o;
    const auto set = [&](const char* name, const std::string& text, const std::string& where) {
      if (!ocr::set_option(o, name, text, ocr::Source::kFlag, where))
        throw train::ConfigError("", 0, 0,
                                 cat(where, ": the pipeline has no setting '", name, "'"));
    };
    set("task", task_name_, "--task");
    set("use_angle_cls", task_ == Task::kCls ? "true" : "false", "--task");
    set("return_word_box", "false", "");
    set("threads", "1", "");
    if (task_ == Task::kE2e || task_ == Task::kDet) set("drop_score", "0", "");
    if (config_ && task_ == Task::kRec && !config_->global.character_dict_path.empty()) {
      const std::string where = r_.config.config;
      set("rec_char_dict_path", config_->global.character_dict_path, where);
      set("use_space_char", config_->global.use_space_char ? "true" : "false", where);
    }
    if (!r_.model.empty()) set((task_name_ + "_model_dir").c_str(), r_.model, "--model");
    if (folder_) set((task_name_ + "_model_dir").c_str(), folder_->path().string(), "the training");
    for (const Given& g : r_.settings) {
      const Override given = parse_override(g.text, g.spelt);
      set(given.key.c_str(), given.value, g.spelt);
    }
    return o;
  }

  const Node* transform(const char* name) const {
    if (!config_) return nullptr;
    for (const train::config::NamedNode& t : config_->eval.dataset.transforms)
      if (t.name == name) return &t.arguments;
    return nullptr;
  }

  std::vector<Mode> modes() const {
    std::vector<Mode> all;
    if (r_.mode != "both" && r_.mode != "deployed" && r_.mode != "paddle")
      throw train::ConfigError("", 0, 0, cat("--mode is both, deployed or paddle, not ", r_.mode));
    if (r_.mode != "paddle") all.push_back({"deployed", base_options()});
    if (r_.mode == "deployed" || (task_ != Task::kRec && task_ != Task::kDet)) {
      if (all.empty())
        throw train::ConfigError("", 0, 0, "--mode paddle is of the tasks det and rec");
      return all;
    }
    Mode paddle{"as PaddleOCR evaluates", base_options()};
    if (task_ == Task::kRec) {
      set_line_mode(paddle);
    } else if (config_) {
      set_page_mode(paddle);
    } else {
      if (r_.mode == "paddle")
        throw train::ConfigError("", 0, 0, "--mode paddle of a detector needs -c config.yml");
      return all;
    }
    all.push_back(std::move(paddle));
    return all;
  }

  static void take(Mode& mode, const char* name, const std::string& text) {
    ocr::set_option(mode.options, name, text, ocr::Source::kFlag);
  }

  void set_line_mode(Mode& mode) const {
    mode.squash_width = 320, mode.squash_height = 48;
    for (const char* name : {"RecResizeImg", "SVTRRecResizeImg"})
      if (const Node* resize = transform(name)) {
        if (const Node* shape = resize->find("image_shape"); shape && shape->items().size() == 3) {
          mode.squash_height = static_cast<int>(shape->items()[1].as_int().value_or(48));
          mode.squash_width = static_cast<int>(shape->items()[2].as_int().value_or(320));
          take(mode, "rec_image_shape", cat("3,", mode.squash_height, ",", mode.squash_width));
        }
        const Node* padding = resize->find("padding");
        mode.squash_all = padding && padding->as_bool() == false;
      }
    take(mode, "rec_min_width", std::to_string(mode.squash_width));
    take(mode, "rec_recover_spaces", "false");
  }

  void set_page_mode(Mode& mode) const {
    take(mode, "det_tile", "off");
    if (const Node* resize = transform("DetResizeForTest")) {
      bool given = false;
      for (const auto& [key, option] : {std::pair("limit_side_len", "det_limit_side_len"),
                                        {"limit_type", "det_limit_type"},
                                        {"resize_long", "det_resize_long"},
                                        {"max_side_limit", "det_max_side_limit"},
                                        {"keep_ratio", "det_keep_ratio"}})
        if (const Node* n = resize->find(key); n && n->is_scalar())
          take(mode, option, n->text()), given = true;
      if (const Node* shape = resize->find("image_shape"); shape && shape->items().size() == 2) {
        take(mode, "det_image_shape", shape->items()[0].text() + "," + shape->items()[1].text());
        given = true;
      }
      if (!given) {  // the default of DetResizeForTest
        take(mode, "det_limit_side_len", "736");
        take(mode, "det_limit_type", "min");
      }
    }
    for (const auto& [option, value] : ocr::db_settings(config_->post_process))
      take(mode, option.c_str(), value);
  }

  struct Answer {
    ocr::PageResult result;
    std::string label, name;
    int width = 0, height = 0;
    bool skipped = false;
    ocr::Skip reason = ocr::Skip::kImageUnreadable;
    std::string message;
  };

  cv::Mat picture(int64_t index, ocr::Sample& s) const {
    s = set_->raw(index);
    return ocr::decode_sample(s, true);
  }

  void answer(const ocr::Pipeline& pipeline, const Mode& mode, int64_t index, ocr::Scratch& scratch,
              Answer& a) const {
    ocr::Sample s;
    cv::Mat image = picture(index, s);
    a.label = s.label;
    a.name = s.line > 0 ? cat(s.image_name, " (", s.file, ":", s.line, ")") : s.image_name;
    a.width = image.cols;
    a.height = image.rows;
    if (mode.squash_width > 0)
      image = ocr::squash_line(image, mode.squash_width, mode.squash_height, mode.squash_all);
    a.result = pipeline.run(
        ocr::ImageView{image.data, image.cols, image.rows, static_cast<ptrdiff_t>(image.step)},
        scratch);
  }

  std::vector<Answer> answers(const ocr::Pipeline& pipeline, const Mode& mode) {
    const int64_t wanted = r_.count > 0 ? std::min<int64_t>(r_.count, set_->size()) : set_->size();
    std::vector<Answer> all(static_cast<size_t>(wanted));
    std::atomic<int64_t> next = 0;
    std::exception_ptr failure;
    std::mutex mutex;
    const auto work = [&] {
      const auto scratch = pipeline.make_scratch(1);
      for (int64_t i; (i = next++) < wanted;) {
        Answer& a = all[static_cast<size_t>(i)];
        try {
          answer(pipeline, mode, i, *scratch, a);
        } catch (const ocr::SkippedSample& e) {
          a.skipped = true, a.reason = e.reason, a.message = e.what();
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
          next = wanted;
        }
      }
    };
    std::vector<std::thread> threads;
    for (int t = 1; t < train::usable_cpus(); ++t) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    if (failure) std::rethrow_exception(failure);
    return all;
  }

  std::string evaluate(const Mode& mode) {
    std::vector<std::string> warnings;
    const auto pipeline = ocr::Pipeline::open(mode.options, &warnings);
    if (first_)
      for (const std::string& w : warnings) log_warning(w);
    std::vector<Answer> all = answers(*pipeline, mode);
    for (const Answer& a : all)
      if (a.skipped && first_) skips_.add(a.reason, a.message);
    std::string json;
    switch (task_) {
      case Task::kRec:
        json = lines(all);
        break;
      case Task::kCls:
        json = classes(all);
        break;
      case Task::kDet:
        json = pages(all);
        break;
      case Task::kE2e:
        json = pages_read(all);
        break;
    }
    first_ = false;
    return json;
  }

  ocr::RecognitionOptions recognition_options() const {
    ocr::RecognitionOptions o;
    if (!config_) return o;
    const Node& metric = config_->metric.node;
    if (const Node* n = metric.find("ignore_space")) o.ignore_space = n->as_bool().value_or(true);
    if (const Node* n = metric.find("is_filter")) o.is_filter = n->as_bool().value_or(false);
    return o;
  }

  std::string lines(const std::vector<Answer>& all) {
    ocr::RecognitionMetric metric(recognition_options());
    for (size_t i = 0; i < all.size(); ++i) {
      const Answer& a = all[i];
      if (a.skipped) continue;
      index_of_[a.name] = static_cast<int64_t>(i);
      const ocr::TextLine* line = a.result.lines.empty() ? nullptr : &a.result.lines[0];
      metric.add({a.name, a.label, line ? line->text : "",
                  encoder_ ? encoder_->seen_text(a.label) : a.label, line ? line->score : 0,
                  a.width, a.height});
    }
    std::fputs(metric.text().c_str(), stdout);
    if (!r_.gallery.empty() && first_) {
      std::vector<ocr::GalleryItem> items;
      for (const ocr::ReadLine& l : metric.worst()) {
        char note[48];
        std::snprintf(note, sizeof note, "score %.3f", l.score);
        items.push_back({l.name, encoded(index_of_.at(l.name)), l.target, l.prediction, note});
      }
      write(r_.gallery, ocr::gallery_html("Worst lines", metric.text(), items));
    }
    return metric.json();
  }

  std::vector<uint8_t> encoded(int64_t index) const {
    ocr::Sample s;
    const cv::Mat image = picture(index, s);
    if (s.encoded.starts_with("\x89PNG") || s.encoded.starts_with("\xff\xd8"))
      return {s.encoded.begin(), s.encoded.end()};
    return ocr::encode_png(
        {image.data, image.cols, image.rows, static_cast<ptrdiff_t>(image.step)});
  }

  std::string classes(const std::vector<Answer>& all) {
    const std::vector<std::string> names = config_ && !config_->global.label_list.empty()
                                               ? config_->global.label_list
                                               : std::vector<std::string>{"0", "180"};
    if (names.size() != 2)
      throw train::ConfigError("", 0, 0, "eval knows classifiers of lines, which have 2 classes");
    ocr::ClassificationMetric metric(names);
    for (const Answer& a : all) {
      if (a.skipped) continue;
      const int target = ocr::class_of(a.label, names);
      if (target < 0) {
        skips_.add(ocr::Skip::kBadLabel, cat(a.name, ": '", a.label, "' is not in label_list"));
        continue;
      }
      const ocr::TextLine& line = a.result.lines.at(0);
      metric.add(target, line.angle == 180, line.angle_score);
    }
    std::fputs(metric.text().c_str(), stdout);
    return metric.json();
  }

  // The boxes of a label; a label that cannot be understood is counted once.
  bool targets_of(const Answer& a, std::vector<ocr::PageText>& targets) {
    targets.clear();
    if (a.skipped) return false;
    try {
      for (ocr::TextBoxLabel& b : ocr::parse_detection_label(a.label)) {
        ocr::PageText t{{}, b.text, b.ignore()};
        for (const cv::Point2d& p : b.points)
          t.points.push_back({static_cast<float>(p.x), static_cast<float>(p.y)});
        targets.push_back(std::move(t));
      }
      return true;
    } catch (const train::FormatError& e) {
      if (first_) skips_.add(ocr::Skip::kBadLabel, cat(a.name, ": ", e.what()));
      return false;
    }
  }

  std::string pages(const std::vector<Answer>& all) {
    ocr::DetectionMetric metric;
    std::vector<ocr::PageText> targets;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!targets_of(all[i], targets)) continue;
      index_of_[all[i].name] = static_cast<int64_t>(i);
      metric.add(all[i].name, targets, all[i].result.detected);
    }
    std::fputs(metric.text().c_str(), stdout);
    if (!r_.gallery.empty() && first_) {
      std::vector<ocr::GalleryItem> items;
      for (const ocr::PageDetection& p : metric.worst(20)) {
        const Answer& a = all[static_cast<size_t>(index_of_.at(p.name))];
        targets_of(a, targets);
        char note[80];
        std::snprintf(note, sizeof note, "hmean %.3f; labels green, ignored grey, found red",
                      p.counts.hmean());
        items.push_back(
            {p.name, drawn(index_of_.at(p.name), targets, a.result.detected), "", "", note});
      }
      write(r_.gallery, ocr::gallery_html("Worst pages", metric.text(), items));
    }
    return metric.json();
  }

  std::vector<uint8_t> drawn(int64_t index, const std::vector<ocr::PageText>& targets,
                             const std::vector<ocr::Polygon>& boxes) const {
    ocr::Sample s;
    std::vector<ocr::Outline> outlines;
    for (const ocr::PageText& t : targets)
      outlines.push_back({t.points, t.ignore ? ocr::Bgr{160, 160, 160} : ocr::Bgr{0, 180, 0}});
    for (const ocr::Polygon& p : boxes) outlines.push_back({p, ocr::Bgr{0, 0, 255}});
    const cv::Mat small = ocr::draw_outlines(picture(index, s), outlines, 1400);
    return ocr::encode_jpeg(
        {small.data, small.cols, small.rows, static_cast<ptrdiff_t>(small.step)});
  }

  std::string pages_read(const std::vector<Answer>& all) {
    ocr::EndToEndMetric metric(r_.fold);
    ocr::DetectionMetric found;
    std::vector<ocr::PageText> targets;
    for (const Answer& a : all) {
      if (!targets_of(a, targets)) continue;
      std::vector<ocr::PageText> read;
      for (const ocr::TextLine& l : a.result.lines) read.push_back({l.points, l.text, false});
      metric.add(targets, read);
      found.add(a.name, targets, a.result.detected);
    }
    std::fputs(metric.text().c_str(), stdout);
    std::fputs(found.text().c_str(), stdout);
    return cat("{\"end_to_end\": ", metric.json(), ",\n\"detection\": ", found.json(), "}");
  }

  static void write(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary);
    out << text;
    if (!out.flush()) throw train::DeviceError(cat(path, ": cannot be written"));
  }

  const Request& r_;
  std::optional<TrainingConfig> config_;
  std::optional<TemporaryFolder> folder_;  // of the configuration's own net
  Task task_ = Task::kRec;
  std::string task_name_;
  std::unique_ptr<ocr::OcrDataset> set_;
  std::optional<ocr::TextEncoder> encoder_;
  ocr::SkipReport skips_;
  std::map<std::string, int64_t> index_of_;
  bool first_ = true;
};

}  // namespace

void declare_eval(Command& command) {
  const auto request = std::make_shared<Request>();
  Request& r = *request;
  command.describe("Measures models on labelled data.");
  command.examples(kExamples);
  command.closing(kClosing);
  add_config_options(command, r.config);
  command.flag("strict", "unknown keys of the configuration are errors",
               [&r](const Given& g) { r.strict = g.truth(); });
  command.heading("Data and models");
  command.option(
      "task", "TASK", "det, rec, cls or e2e", [&r](const Given& g) { r.task = g.text; },
      "of the configuration");
  command.option("model", "FILE", "the model, or its folder",
                 [&r](const Given& g) { r.model = g.text; });
  command.values("labels", "FILE...", "label files in place of the Eval section",
                 [&r](const Given& g) { r.labels.push_back(g.text); });
  command.option(
      "images", "FOLDER", "what paths of the labels are relative to",
      [&r](const Given& g) { r.images = g.text; }, "the first label file's folder");
  command.values("set", "NAME=VALUE...",
                 "settings of `ocr infer`, e.g. --set models=fast drop_score=0.5",
                 [&r](const Given& g) { r.settings.push_back(g); });
  command.option(
      "mode", "MODE", "deployed, paddle or both", [&r](const Given& g) { r.mode = g.text; },
      "both");
  command.option("count,n", "N", "only the first N samples",
                 [&r](const Given& g) { r.count = g.whole(1, 1'000'000'000); });
  command.heading("Results");
  command.option("json", "FILE", "all numbers", [&r](const Given& g) { r.json = g.text; });
  command.option("gallery", "FILE", "worst cases as one HTML page",
                 [&r](const Given& g) { r.gallery = g.text; });
  command.flag("fold_case", "e2e: compare texts without case",
               [&r](const Given& g) { r.fold = g.truth(); });
  add_log_options(command);
  command.run([request] { return Evaluation(*request).run(); });
}

}  // namespace app
