#include "libocr/training/export.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "libocr/text/rtl.h"
#include "libtrain/autograd/record.h"
#include "libtrain/core/error.h"
#include "libtrain/graph/merge_branches.h"

namespace ocr {

namespace config = train::config;
using config::Node;
using config::TrainingConfig;
using train::cat;

namespace {

// The arguments of the first of the transforms called one of `names`; those of evaluation count
// first.
const Node* arguments_of(const TrainingConfig& c, std::initializer_list<const char*> names) {
  for (const auto* split : {&c.eval, &c.train})
    for (const config::NamedNode& t : split->dataset.transforms)
      if (std::ranges::find(names, t.name) != names.end()) return &t.arguments;
  return nullptr;
}

// [3, height, width] of a line's resize; nothing where no transform says it.
std::optional<std::array<int, 2>> line_shape(const TrainingConfig& c) {
  const auto of = [](const Node* shape) -> std::optional<std::array<int, 2>> {
    if (!shape || shape->items().size() != 3) return std::nullopt;
    const auto h = shape->items()[1].as_int(), w = shape->items()[2].as_int();
    if (!h || !w || *h < 1 || *w < 1) return std::nullopt;
    return std::array{static_cast<int>(*h), static_cast<int>(*w)};
  };
  if (const Node* resize = arguments_of(c, {"RecResizeImg", "SVTRRecResizeImg", "ClsResizeImg"}))
    if (const auto shape = of(resize->find("image_shape"))) return shape;
  const std::vector<int>& d2s = c.global.d2s_train_image_shape;
  if (d2s.size() == 3 && d2s[1] > 0 && d2s[2] > 0) return std::array{d2s[1], d2s[2]};
  return std::nullopt;
}

std::string numbers(const Node& node) {
  if (node.is_scalar()) return node.text();
  std::string all;
  for (const Node& n : node.items()) {
    const auto v = n.as_number();
    all += (all.empty() ? "" : ",") + (v ? cat(*v) : n.text());
  }
  return all;
}

class Metadata {
 public:
  Metadata(const TrainingConfig& c, std::vector<std::string>& warnings)
      : c_(c), warnings_(warnings) {}

  std::map<std::string, std::string> all;

  void common() {
    all["kind"] = c_.architecture.model_type;
    all["algorithm"] = c_.architecture.algorithm;
    const Node* decode = arguments_of(c_, {"DecodeImage"});
    const Node* mode = decode ? decode->find("img_mode") : nullptr;
    all["channel_order"] = mode ? mode->text() : "RGB";
  }

  // What every other program needs; `ocr infer` has these rules built in for lines.
  void normalisation(const std::string& mean, const std::string& std) {
    all["scale"] = "1/255";
    all["mean"] = mean;
    all["std"] = std;
  }

  void detection() {
    std::string mean = "0.485,0.456,0.406", std = "0.229,0.224,0.225";
    if (const Node* n = arguments_of(c_, {"NormalizeImage"})) {
      if (const Node* v = n->find("mean")) mean = numbers(*v);
      if (const Node* v = n->find("std")) std = numbers(*v);
      const Node* scale = n->find("scale");
      const auto s = scale ? scale->as_number() : std::optional(1. / 255);
      if (!s || std::abs(*s - 1. / 255) > 1e-9)
        warnings_.push_back(cat((scale ? scale->where() : ""),
                                ": `ocr infer` scales pixels by 1/255, not as here"));
    }
    normalisation(mean, std);
    all["ocr.det_mean"] = mean;
    all["ocr.det_std"] = std;
    const Node* resize = nullptr;
    for (const config::NamedNode& t : c_.eval.dataset.transforms)
      if (t.name == "DetResizeForTest") resize = &t.arguments;
    bool sized = false;
    if (resize)
      for (const auto& [key, option] : {std::pair("limit_side_len", "det_limit_side_len"),
                                        {"limit_type", "det_limit_type"},
                                        {"resize_long", "det_resize_long"},
                                        {"image_shape", "det_image_shape"},
                                        {"keep_ratio", "det_keep_ratio"},
                                        {"max_side_limit", "det_max_side_limit"}})
        if (const Node* v = resize->find(key); v && !v->is_null()) {
          all[std::string("ocr.") + option] = numbers(*v);
          sized = true;
        }
    if (!sized) {  // DetResizeForTest's default
      all["ocr.det_limit_side_len"] = "736";
      all["ocr.det_limit_type"] = "min";
    }
    for (const auto& [option, value] : db_settings(c_.post_process)) all["ocr." + option] = value;
    expect_bgr();
  }

  void recognition(const TextEncoder* encoder, const InputSize& size) {
    normalisation("0.5,0.5,0.5", "0.5,0.5,0.5");
    shape("ocr.rec_image_shape", size);
    // A net that saw lines of one width alone, padded, is given no narrower ones: averages over the
    // whole line, and recurrent layers, feel the padding.
    const config::SplitConfig& train = c_.train;
    const bool many_widths =
        train.sampler.name == "MultiScaleSampler" || train.dataset.name == "MultiScaleDataSet";
    const auto line = line_shape(c_);
    if (const auto own = own_width_resize(c_, size))
      all["ocr.rec_min_width"] = cat(own->min_width);
    else if (line && !many_widths)
      all["ocr.rec_min_width"] = cat(size.width > 0 ? size.width : (*line)[1]);
    const Node* resize = arguments_of(c_, {"RecResizeImg", "SVTRRecResizeImg"});
    const Node* padding = resize ? resize->find("padding") : nullptr;
    if (padding && padding->as_bool() == false) all["ocr.rec_keep_ratio"] = "false";
    if (!encoder) return;
    const Dictionary& d = encoder->dictionary();
    const size_t listed = d.entries().size() - (d.appended_space() ? 1 : 0);
    std::string text;
    for (size_t i = 0; i < listed; ++i) text += d.entries()[i] + '\n';
    all["character"] = text;
    all["ocr.use_space_char"] = d.appended_space() ? "true" : "false";
    all["ocr.rec_right_to_left"] = is_right_to_left_dictionary(d.name()) ? "true" : "false";
    expect_bgr();
  }

  void classification() {
    std::string labels;
    for (const std::string& l : c_.global.label_list) labels += (labels.empty() ? "" : ",") + l;
    if (labels.empty()) labels = "0,180";
    all["labels"] = labels;
    all["ocr.label_list"] = labels;
    const bool whole_numbers =
        std::ranges::all_of(labels, [](char c) { return (c >= '0' && c <= '9') || c == ','; });
    if (!whole_numbers) {
      all.erase("ocr.label_list");
      warnings_.push_back(
          "label_list holds other labels than angles: `ocr infer` turns lines by 0 "
          "and 180 degrees only");
    }
    const bool half = !arguments_of(c_, {"NormalizeImage"});
    normalisation(half ? "0.5,0.5,0.5" : "0.485,0.456,0.406",
                  half ? "0.5,0.5,0.5" : "0.229,0.224,0.225");
    shape("ocr.cls_image_shape", {});
    const std::string& s = all["image_shape"];
    if (!half && s != "3,80,160")
      warnings_.push_back(cat("lines of ", s,
                              " normalised by ImageNet's numbers: `ocr infer` "
                              "has these at 3,80,160 only"));
  }

 private:
  void shape(const char* option, const InputSize& size) {
    const auto shape = line_shape(c_);
    if (!shape && size.height == 0) return;
    const int h = size.height > 0 ? size.height : (*shape)[0];
    const int w = size.width > 0 ? size.width : shape ? (*shape)[1] : 320;
    all["image_shape"] = cat("3,", h, ",", w);
    all[option] = all["image_shape"];
  }

  void expect_bgr() {
    if (all["channel_order"] == "BGR") return;
    warnings_.push_back(cat("DecodeImage gives ", all["channel_order"],
                            "; `ocr infer` gives the net BGR (img_mode: BGR trains for it)"));
  }

  const TrainingConfig& c_;
  std::vector<std::string>& warnings_;
};

}  // namespace

InputSize input_size(const TrainingConfig& config, const models::Model& model) {
  if (const auto fixed = model.image_size()) return {fixed->h, fixed->w};
  if (config.architecture.model_type != "rec") return {};
  const auto shape = line_shape(config);
  if (model.has_transform()) {  // learnt at one size, and squashed to it
    if (!shape)
      config.architecture.transform.node.fail(
          "lines have no size of their own here: Eval.dataset.transforms needs a resize with "
          "image_shape");
    return {(*shape)[0], (*shape)[1]};
  }
  return {shape ? (*shape)[0] : 48, 0};
}

std::optional<RecognitionResizeOptions> own_width_resize(const TrainingConfig& config,
                                                         const InputSize& size) {
  const auto line = line_shape(config);
  if (config.architecture.model_type != "rec" || !config.train.dataset.ds_width || !line ||
      size.width > 0)
    return std::nullopt;
  RecognitionResizeOptions resize;
  resize.height = resize.min_width = size.height > 0 ? size.height : (*line)[0];
  return resize;
}

train::Graph inference_graph(models::Model& model, const InputSize& size) {
  model.train(false);
  // Sizes that every stride divides; free ones change by different factors from run to run.
  constexpr int64_t heights[] = {64, 96, 160}, widths[] = {160, 64, 96};
  std::vector<train::Tensor> examples;
  for (size_t i = 0; i < 3; ++i)
    examples.push_back(train::Tensor::zeros({static_cast<int64_t>(i) + 1, 3,
                                             size.height > 0 ? size.height : heights[i],
                                             size.width > 0 ? size.width : widths[i]}));
  std::vector<train::NamedVariable> names;
  for (const train::nn::StateEntry& e : model.state_dict()) names.push_back({e.name, e.variable});
  train::Eager eager;
  train::Graph graph = train::record_graph(
      eager,
      [&](train::Tape& tape, const train::Variable& x) { return model(tape, x).begin()->second; },
      examples, names);
  train::merge_branches(graph);
  return graph;
}

std::map<std::string, std::string> model_metadata(const TrainingConfig& config,
                                                  const TextEncoder* encoder, const InputSize& size,
                                                  std::vector<std::string>& warnings) {
  Metadata m(config, warnings);
  m.common();
  const std::string& type = config.architecture.model_type;
  if (type == "det") m.detection();
  if (type == "rec") m.recognition(encoder, size);
  if (type == "cls") m.classification();
  return m.all;
}

std::vector<std::pair<std::string, std::string>> db_settings(
    const config::NamedSection& post_process) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [key, option] : {std::pair("thresh", "det_db_thresh"),
                                    {"box_thresh", "det_db_box_thresh"},
                                    {"unclip_ratio", "det_db_unclip_ratio"},
                                    {"max_candidates", "det_max_candidates"},
                                    {"use_dilation", "use_dilation"},
                                    {"score_mode", "det_db_score_mode"},
                                    {"box_type", "det_box_type"}})
    if (const Node* v = post_process.node.find(key); v && v->is_scalar())
      settings.emplace_back(option, v->text());
  return settings;
}

ExportInfo export_info(const std::string& model_type, std::map<std::string, std::string> metadata) {
  ExportInfo info;
  info.graph_name = model_type;
  info.output = model_type == "det" ? "maps" : "probs";
  info.input_dims = {"batch", "", "height", "width"};
  info.output_dims = model_type == "det"
                         ? std::vector<std::string>{"batch", "", "map_height", "map_width"}
                         : std::vector<std::string>{"batch", "steps", ""};
  info.metadata = std::move(metadata);
  return info;
}

}  // namespace ocr
