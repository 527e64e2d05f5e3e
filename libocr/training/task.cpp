#include "libocr/training/task.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "libocr/data/multi_scale_sampler.h"
#include "libocr/metrics/classification_metric.h"
#include "libocr/metrics/detection_metric.h"
#include "libocr/metrics/recognition_metric.h"
#include "libocr/postprocess/ctc.h"
#include "libocr/postprocess/db.h"
#include "libocr/training/export.h"
#include "libocr/training/losses.h"
#include "libocr/training/own_widths.h"
#include "libocr/training/section.h"
#include "libtrain/autograd/map_loss.h"
#include "libtrain/core/error.h"

namespace ocr {

using models::Outputs;
using train::cat;
using train::Eager;
using train::Metrics;
using train::Tape;
using train::Tensor;
using train::Variable;
namespace config = train::config;

namespace {

// Where each field of a batch is, by the names that KeepKeys gives them.
class Fields {
 public:
  explicit Fields(const OcrDataset& data) : data_(data) {}
  /// The first of `names` that the samples have. Throws ConfigError when they have none.
  size_t find(std::initializer_list<const char*> names) const {
    const std::vector<std::string>& keys = data_.keys();
    for (const char* name : names)
      for (size_t i = 0; i < keys.size(); ++i)
        if (keys[i] == name) return i;
    throw train::ConfigError("", 0, 0,
                             cat("Train.dataset.transforms: KeepKeys must keep '", *names.begin(),
                                 "', which the loss reads"));
  }

 private:
  const OcrDataset& data_;
};

class OcrTask : public train::Task {
 public:
  explicit OcrTask(const TaskParts& p)
      : model_(p.model),
        eval_(p.eval),
        communicator_(p.communicator),
        image_(Fields(p.train).find({"image"})) {}
  train::nn::Module& model() override { return model_; }

  Metrics evaluate(Eager& eager) override {
    if (!eval_ || eval_->size() == 0) return {};
    begin_evaluation();
    const train::RandomStream none(0, 0);
    for (int64_t i = rank(); i < eval_->size(); i += ranks()) {
      Sample sample;
      try {
        sample = eval_->load({.index = i, .random = none});
      } catch (const train::Error&) {
        ++unread_;  // `ocr data check` says which and why
        continue;
      }
      Tensor image = field_of(sample, "image");
      const train::Shape s = image.shape();
      Tape tape(eager, /*record=*/false);
      const Outputs out = model_(tape, Variable::input(image.reshaped({1, s[0], s[1], s[2]})));
      score(sample, out.begin()->second);
    }
    return end_evaluation();
  }

 protected:
  virtual void begin_evaluation() = 0;
  virtual void score(const Sample& sample, const Variable& output) = 0;
  virtual Metrics end_evaluation() = 0;

  Outputs forward(Tape& tape, const train::data::Batch& batch) {
    return model_(tape, Variable::input(batch.fields[image_]));
  }
  static Variable field(const train::data::Batch& batch, size_t i) {
    return Variable::input(batch.fields[i]);
  }
  // Of the evaluation's samples this rank takes each whose index is `rank` modulo `ranks`.
  int rank() const { return communicator_ ? communicator_->rank() : 0; }
  int ranks() const { return communicator_ ? communicator_->size() : 1; }
  /// Adds up over the ranks what each counted: whole numbers below 2^53 stay exact.
  template <class... N>
  void add_up(N&... counts) {
    std::array<double, sizeof...(N) + 1> all{static_cast<double>(counts)...,
                                             static_cast<double>(unread_)};
    if (ranks() > 1) communicator_->all_reduce(std::span<double>(all));
    size_t i = 0;
    ((counts = static_cast<N>(all[i++])), ...);
    unread_ = static_cast<int64_t>(all[i]);
  }
  /// Adds how many samples could not be evaluated, when there were any.
  Metrics with_unread(Metrics metrics) {
    if (unread_ > 0) metrics.emplace_back("unread", static_cast<double>(unread_));
    unread_ = 0;
    return metrics;
  }

  models::Model& model_;
  const OcrDataset* eval_;
  train::dist::Communicator* communicator_;  // may be null
  size_t image_;
  int64_t unread_ = 0;
};

class RecognitionTask final : public OcrTask {
 public:
  RecognitionTask(const TaskParts& p, const RecognitionLossOptions& loss,
                  const RecognitionOptions& metric)
      : OcrTask(p),
        encoder_(*p.train.encoder()),
        loss_(loss),
        metric_options_(metric),
        own_widths_(own_width_resize(p.config, input_size(p.config, p.model))),
        label_(Fields(p.train).find({"label", "label_ctc"})),
        length_(Fields(p.train).find({"length"})),
        guide_(loss.nrtr ? Fields(p.train).find({"label_gtc", "label_sar"}) : 0) {}

  Variable loss(Tape& tape, const train::data::Batch& batch, Metrics& parts) override {
    const RecognitionBatch b{.images = batch.fields[image_],
                             .labels = batch.fields[label_],
                             .lengths = batch.fields[length_],
                             .guide = loss_.options.nrtr ? batch.fields[guide_] : Tensor()};
    return loss_(tape, loss_.forward(tape, model_, b), b, parts);
  }

  // Lines of their own widths in training, so here: a net that never saw padding reads it badly.
  Metrics evaluate(Eager& eager) override {
    if (!own_widths_ || !eval_ || eval_->size() == 0) return OcrTask::evaluate(eager);
    begin_evaluation();
    unread_ = read_at_own_widths(
        model_, eager, *eval_, *own_widths_, encoder_.dictionary(), rank(), ranks(),
        [this](const Sample& sample, const CtcLine& line) { add(sample, line); });
    return end_evaluation();
  }

 private:
  void begin_evaluation() override { metric_ = RecognitionMetric(metric_options_); }
  void score(const Sample& sample, const Variable& output) override {
    const Tensor& probs = output.value();  // [1, T, C]
    const int64_t steps = probs.shape()[1], classes = probs.shape()[2];
    std::vector<CtcStep> best(static_cast<size_t>(steps));
    const Dictionary& dictionary = encoder_.dictionary();
    ctc_steps(probs.data<float>(), classes, steps, classes, dictionary.space(), best);
    add(sample, ctc_decode(best, dictionary));
  }
  void add(const Sample& sample, const CtcLine& line) {
    metric_.add({.name = sample.image_name,
                 .target = sample.label,
                 .prediction = line.text,
                 .seen_target = encoder_.seen_text(sample.label),
                 .score = line.score,
                 .width = sample.source_width,
                 .height = sample.source_height});
  }
  Metrics end_evaluation() override {
    TextScore strict = metric_.strict(), lenient = metric_.lenient();
    add_up(strict.lines, strict.exact, strict.characters, strict.char_edits, lenient.lines,
           lenient.exact, lenient.similarity);
    Metrics all{{"strict_acc", strict.accuracy()},
                {"acc", lenient.accuracy()},
                {"norm_edit_dis", lenient.norm_edit_dis()},
                {"cer", strict.cer()}};
    // A dictionary without capitals cannot write the raw label: there PaddleOCR's acc decides.
    if (encoder_.lower()) std::swap(all[0], all[1]);
    return with_unread(std::move(all));
  }

  const TextEncoder& encoder_;
  RecognitionLoss loss_;
  RecognitionOptions metric_options_;
  std::optional<RecognitionResizeOptions> own_widths_;  // nothing: at the transforms' one width
  size_t label_, length_, guide_;
  RecognitionMetric metric_;
};

class DetectionTask final : public OcrTask {
 public:
  DetectionTask(const TaskParts& p, const DetectionLossOptions& loss, const DbOptions& post)
      : OcrTask(p),
        loss_(loss),
        post_(post),
        threshold_map_(Fields(p.train).find({"threshold_map"})),
        threshold_mask_(Fields(p.train).find({"threshold_mask"})),
        shrink_map_(Fields(p.train).find({"shrink_map"})),
        shrink_mask_(Fields(p.train).find({"shrink_mask"})) {}

  Variable loss(Tape& tape, const train::data::Batch& batch, Metrics& parts) override {
    const DetectionTargets targets{field(batch, threshold_map_), field(batch, threshold_mask_),
                                   field(batch, shrink_map_), field(batch, shrink_mask_)};
    return detection_loss(tape, forward(tape, batch), targets, loss_, parts);
  }

 private:
  void begin_evaluation() override { metric_ = DetectionMetric(); }
  void score(const Sample& sample, const Variable& output) override {
    const Tensor& map = output.value();  // [1, 1, H, W]: one channel, so any layout reads alike
    const int h = static_cast<int>(map.shape()[2]), w = static_cast<int>(map.shape()[3]);
    std::vector<Polygon> boxes;
    for (const Detection& d : db_postprocess(map.data<float>(), w, h, w, sample.source_height,
                                             sample.source_width, post_))
      boxes.push_back(d.points);
    std::vector<PageText> targets;
    for (size_t i = 0; i < sample.polys.size(); ++i) {
      PageText& t = targets.emplace_back();
      for (const cv::Point2d& p : sample.polys[i])
        t.points.push_back({static_cast<float>(p.x), static_cast<float>(p.y)});
      t.ignore = sample.ignore[i] != 0;
    }
    metric_.add(sample.image_name, targets, boxes);
  }
  Metrics end_evaluation() override {
    PrecisionRecall t = metric_.total();
    add_up(t.targets, t.found, t.matched);
    return with_unread(
        {{"hmean", t.hmean()}, {"precision", t.precision()}, {"recall", t.recall()}});
  }

  DetectionLossOptions loss_;
  DbOptions post_;
  size_t threshold_map_, threshold_mask_, shrink_map_, shrink_mask_;
  DetectionMetric metric_;
};

class ClassificationTask final : public OcrTask {
 public:
  explicit ClassificationTask(const TaskParts& p)
      : OcrTask(p), label_(Fields(p.train).find({"label"})) {}

  Variable loss(Tape& tape, const train::data::Batch& batch, Metrics&) override {
    const Outputs out = forward(tape, batch);
    const Tensor& label = batch.fields[label_];
    return criterion_(tape, out.at("cls"), Variable::input(label.reshaped({label.numel()})));
  }

 private:
  void begin_evaluation() override { right_ = all_ = 0; }
  void score(const Sample& sample, const Variable& output) override {
    const std::span<float> p = output.value().span<float>();
    ++all_;
    right_ += std::max_element(p.begin(), p.end()) - p.begin() == sample.ids.at(0);
  }
  Metrics end_evaluation() override {
    add_up(right_, all_);
    return with_unread(
        {{"acc", all_ ? static_cast<double>(right_) / static_cast<double>(all_) : 0}});
  }

  train::nn::SoftmaxCrossEntropy criterion_;
  size_t label_;
  int64_t right_ = 0, all_ = 0;
};

}  // namespace

DbOptions db_options(const config::NamedSection& post, config::ReadContext& context) {
  DbOptions o;
  if (!post.present()) return o;
  double thresh = o.thresh;
  std::string score = "fast", box = "quad";
  read_section(post, "PostProcess", context, [&](config::Reader& r) {
    r.field("thresh", thresh);
    r.field("box_thresh", o.box_thresh);
    r.field("max_candidates", o.max_candidates);
    r.field("unclip_ratio", o.unclip_ratio);
    r.field("use_dilation", o.use_dilation);
    r.field("score_mode", score);
    r.field("box_type", box);
  });
  o.thresh = static_cast<float>(thresh);
  o.score_mode = score == "slow" ? ScoreMode::kSlow : ScoreMode::kFast;
  o.box_type = box == "poly" ? BoxType::kPoly : BoxType::kQuad;
  return o;
}

int64_t classes_of(const OcrDataset& data) {
  return data.encoder() ? data.encoder()->dictionary().classes() : 0;
}

std::unique_ptr<train::data::BatchSampler> make_sampler(const SamplerParts& p) {
  const config::SplitConfig& split = p.config.train;
  const auto seed = static_cast<uint64_t>(p.config.global.seed);
  if (split.sampler.name == "MultiScaleSampler")
    return std::make_unique<MultiScaleSampler>(
        split.sampler, p.samples, p.train.aspects(),
        MultiScaleSampler::Options{.seed = seed, .rank = p.rank, .ranks = p.ranks});
  return std::make_unique<train::data::SimpleBatchSampler>(
      p.samples, train::data::BatchOptions{.batch_size = split.loader.batch_size_per_card,
                                           .shuffle = split.loader.shuffle,
                                           .drop_last = split.loader.drop_last,
                                           .seed = seed,
                                           .rank = p.rank,
                                           .ranks = p.ranks});
}

std::unique_ptr<train::Task> make_task(const TaskParts& p, config::ReadContext& context) {
  const config::TrainingConfig& c = p.config;
  const std::string& type = c.architecture.model_type;
  if (!c.loss.present()) c.root.fail("the configuration has no Loss");
  if (type == "det")
    return std::make_unique<DetectionTask>(p, detection_loss_options(c.loss, context),
                                           db_options(c.post_process, context));
  if (type == "rec") {
    if (!p.train.encoder())
      c.root.fail(
          "Train.dataset.transforms has no label encoder (CTCLabelEncode, MultiLabelEncode)");
    RecognitionOptions metric;
    if (c.metric.present())
      read_section(c.metric, "Metric", context, [&](config::Reader& r) {
        r.field("ignore_space", metric.ignore_space);
        r.field("is_filter", metric.is_filter);
        r.ignore("main_indicator");
      });
    return std::make_unique<RecognitionTask>(
        p, recognition_loss_options(c.loss, p.model.has_guide(), context), metric);
  }
  if (c.loss.name != "ClsLoss")
    c.loss.node.fail(
        cat("Loss.name '", c.loss.name, "' is not built for classification: there is ClsLoss"));
  return std::make_unique<ClassificationTask>(p);
}

}  // namespace ocr
