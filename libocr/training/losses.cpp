#include "libocr/training/losses.h"

#include <algorithm>

#include "libocr/training/section.h"
#include "libtrain/core/error.h"

namespace ocr {

using models::Outputs;
using train::cat;
using train::Tape;
using train::Tensor;
using train::Variable;
namespace config = train::config;

namespace {

constexpr int64_t kStartOfText = 2;  // NRTRLabelEncode's <s>

// Columns [begin, end) of i64 [N, L].
Tensor columns(const Tensor& ids, int64_t begin, int64_t end) {
  const int64_t n = ids.shape()[0], all = ids.shape()[1];
  Tensor part({n, end - begin}, train::DType::kI64);
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(ids.data<int64_t>() + i * all + begin, end - begin,
                part.data<int64_t>() + i * (end - begin));
  return part;
}

int64_t longest(const RecognitionBatch& batch) {
  const int64_t* lengths = batch.lengths.data<int64_t>();
  return *std::max_element(lengths, lengths + batch.lengths.numel());
}

double value_of(const Variable& v) { return static_cast<double>(v.value().data<float>()[0]); }

Variable ctc_loss(Tape& tape, const RecognitionBatch& batch, const Outputs& out,
                  const train::CtcOptions& options) {
  return train::ctc_loss(tape, out.at("ctc"), Variable::input(batch.labels),
                         Variable::input(batch.lengths.reshaped({batch.lengths.numel()})), options)
      .loss;
}

}  // namespace

RecognitionLoss::RecognitionLoss(const RecognitionLossOptions& o)
    : options(o),
      next_character_({.smoothing = o.nrtr_smoothing, .smooth_others = true, .ignore_index = 0}) {}

// The decoder reads <s>, c1, c2, ... and is to say c1, c2, ..., </s>.
Outputs RecognitionLoss::forward(Tape& tape, const models::Model& model,
                                 const RecognitionBatch& batch) const {
  const Variable images = Variable::input(batch.images);
  if (!options.nrtr) return model(tape, images);
  if (batch.guide.data<int64_t>()[0] != kStartOfText)
    throw train::DataError("NRTRLoss", 0,
                           "its labels are not those of NRTRLabelEncode (MultiLabelEncode: "
                           "{gtc_encode: NRTRLabelEncode})");
  return model.guided(tape, images, Variable::input(columns(batch.guide, 0, 1 + longest(batch))));
}

Variable RecognitionLoss::operator()(Tape& tape, const Outputs& out, const RecognitionBatch& batch,
                                     train::Metrics& parts) const {
  const Variable ctc = ctc_loss(tape, batch, out, options.ctc);
  if (!options.nrtr) return ctc;
  const Tensor next = columns(batch.guide, 1, 2 + longest(batch));
  const Variable& logits = out.at("nrtr");
  const Variable nrtr =
      next_character_(tape, train::reshape(tape, logits, {next.numel(), logits.shape()[2]}),
                      Variable::input(next.reshaped({next.numel()})));
  const Variable first = train::scale(tape, ctc, options.ctc_weight);
  const Variable second = train::scale(tape, nrtr, options.nrtr_weight);
  parts.emplace_back("CTCLoss", value_of(first));
  parts.emplace_back("NRTRLoss", value_of(second));
  return train::add(tape, first, second);
}

RecognitionLossOptions recognition_loss_options(const config::NamedSection& loss, bool has_guide,
                                                config::ReadContext& context) {
  RecognitionLossOptions options;
  if (loss.name == "CTCLoss") {
    read_section(loss, "Loss", context,
                 [&](config::Reader& r) { r.field("use_focal_loss", options.ctc.focal); });
    return options;
  }
  if (loss.name != "MultiLoss")
    loss.node.fail(cat("Loss.name '", loss.name,
                       "' is not built for recognition: there are CTCLoss and MultiLoss"));
  std::vector<config::NamedNode> parts;
  double ctc_weight = 1, guide_weight = 1;
  read_section(loss, "Loss", context, [&](config::Reader& r) {
    r.field("loss_config_list", parts);
    r.field("weight_1", ctc_weight);
    r.field("weight_2", guide_weight);
    r.ignore("gtc_loss");
  });
  options.ctc_weight = static_cast<float>(ctc_weight);
  options.nrtr_weight = static_cast<float>(guide_weight);
  bool ctc = false;
  for (const config::NamedNode& part : parts) {
    const std::string path = cat("Loss.loss_config_list.", part.name);
    if (part.name == "CTCLoss") {
      ctc = true;
      config::Reader r(part.arguments, path, context);
      r.field("use_focal_loss", options.ctc.focal);
      r.finish();
    } else if (part.name == "NRTRLoss" && has_guide) {
      options.nrtr = true;
      bool smoothing = true;
      config::Reader r(part.arguments, path, context);
      r.field("smoothing", smoothing);
      r.finish();
      if (!smoothing) options.nrtr_smoothing = 0;
    } else {
      context.warnings.push_back(
          cat(part.name_node.where(), ": ", part.name, " is left out, as its branch is"));
    }
  }
  if (!ctc) loss.node.fail("Loss.loss_config_list has no CTCLoss");
  if (has_guide && !options.nrtr)
    loss.node.fail("Loss.loss_config_list has no NRTRLoss, but Architecture.Head an NRTRHead");
  return options;
}

DetectionLossOptions detection_loss_options(const config::NamedSection& loss,
                                            config::ReadContext& context) {
  if (loss.name != "DBLoss")
    loss.node.fail(cat("Loss.name '", loss.name, "' is not built for detection: there is DBLoss"));
  DetectionLossOptions options;
  train::DbLossOptions& o = options.db;
  std::string main = "DiceLoss";
  read_section(loss, "Loss", context, [&](config::Reader& r) {
    r.field("alpha", o.alpha);
    r.field("beta", o.beta);
    r.field("ohem_ratio", o.ratio);
    r.field("eps", o.epsilon);
    r.field("main_loss_type", main);
    r.field("dice_weight", o.dice_weight);
    r.field("focal_weight", o.focal_weight);
    r.field("focal_alpha", o.focal_alpha);
    r.field("focal_gamma", o.focal_gamma);
    for (size_t i = 0; i < models::kAuxLevels.size(); ++i)
      r.field(cat("aux_weight_", models::kAuxLevels[i]).c_str(), options.aux_weights[i]);
    r.ignore("balance_loss");
  });
  o.focal = main == "DiceFocalLoss";
  if (!o.focal && main != "DiceLoss" && main != "BCELoss")
    loss.node.fail(
        cat("Loss.main_loss_type '", main, "': there are DiceLoss, DiceFocalLoss and BCELoss"));
  o.dice = main != "BCELoss";
  return options;
}

Variable detection_loss(Tape& tape, const Outputs& out, const DetectionTargets& t,
                        const DetectionLossOptions& options, train::Metrics& parts) {
  const auto loss_of = [&](const Variable& maps) {
    return train::db_loss(tape, maps, t.threshold_map, t.threshold_mask, t.shrink_map,
                          t.shrink_mask, options.db);
  };
  const train::DbLossResult main = loss_of(out.at("maps"));
  parts.emplace_back("loss_shrink_maps", value_of(main.shrink));
  parts.emplace_back("loss_threshold_maps", value_of(main.threshold));
  parts.emplace_back("loss_binary_maps", value_of(main.binary));
  Variable total = main.total;
  if (const auto cbn = out.find("cbn_maps"); cbn != out.end()) {
    const Variable loss =
        train::db_shrink_loss(tape, cbn->second, t.shrink_map, t.shrink_mask, options.db);
    parts.emplace_back("loss_cbn", value_of(loss));
    total = train::add(tape, total, loss);
  }
  for (size_t i = 0; i < models::kAuxLevels.size(); ++i) {
    const std::string name = cat("aux_maps_", models::kAuxLevels[i]);
    const auto maps = out.find(name);
    if (maps == out.end() || options.aux_weights[i] <= 0) continue;
    const Variable loss = loss_of(maps->second).total;
    parts.emplace_back("loss_" + name, value_of(loss));
    total = train::add(tape, total,
                       train::scale(tape, loss, static_cast<float>(options.aux_weights[i])));
  }
  return total;
}

}  // namespace ocr
