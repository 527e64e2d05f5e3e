#include "libocr/models/heads.h"

#include <cmath>

#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

const nn::ConvOptions kTwice{.kernel = {2, 2}, .stride = {2, 2}};
const train::cpu::Activation kRelu = activation(Act::kRelu);

// One map of DB: two transposed convolutions bring the features to full resolution.
class MapHead final : public Block {
 public:
  explicit MapHead(int64_t in)
      : conv_(add<Conv>("conv1", in, in / 4, window(3), 1, false)),
        norm1_(add<BatchNorm>("conv_bn1", in / 4)),
        up1_(add<nn::ConvTranspose2d>("conv2", in / 4, in / 4, kTwice)),
        norm2_(add<BatchNorm>("conv_bn2", in / 4)),
        up2_(add<nn::ConvTranspose2d>("conv3", in / 4, 1, kTwice)) {
    using Kind = nn::Init::Kind;
    const double bound = 1 / std::sqrt(static_cast<double>(in / 4));
    const auto biases = [](nn::Module& m, const nn::Init& init) {
      m.each_parameter([&](nn::Parameter& p) {
        if (p.name == "bias") p.init = init;
      });
    };
    for (BatchNorm* norm : {&norm1_, &norm2_}) biases(*norm, {Kind::kConstant, 1e-4});
    for (nn::ConvTranspose2d* up : {&up1_, &up2_}) biases(*up, {Kind::kUniform, bound});
  }

  Variable operator()(Tape& tape, const Variable& x) const { return map(tape, half(tape, x)); }
  /// The features at half the image's size, and the map that they become.
  Variable half(Tape& tape, const Variable& x) const {
    const Variable y = norm1_(tape, conv_(tape, x), kRelu);
    return norm2_(tape, up1_(tape, y), kRelu);
  }
  Variable map(Tape& tape, const Variable& features) const {
    return train::sigmoid(tape, up2_(tape, features));
  }

 private:
  Conv& conv_;
  BatchNorm& norm1_;
  nn::ConvTranspose2d& up1_;
  BatchNorm& norm2_;
  nn::ConvTranspose2d& up2_;
};

// Shrink or refined map, threshold map, and the binary map of a shrink map and that threshold.
Variable three_maps(Tape& tape, const Variable& first, const Variable& threshold,
                    const Variable& binary) {
  const Variable maps[] = {first, threshold, binary};
  return train::concat(tape, maps, 1);
}

Variable binary_map(Tape& tape, const Variable& shrink, const Variable& threshold, double k) {
  return train::sigmoid(
      tape, train::scale(tape, train::sub(tape, shrink, threshold), static_cast<float>(k)));
}

class DbHead final : public Head {
 public:
  DbHead(int64_t in, const DbHeadOptions& o)
      : k_(o.k), shrink_(add<MapHead>("binarize", in)), threshold_(add<MapHead>("thresh", in)) {
    if (o.aux_in_channels == 0) return;
    for (const char* level : kAuxLevels)
      aux_.push_back({&add<MapHead>(train::cat("aux_binarize_", level), o.aux_in_channels),
                      &add<MapHead>(train::cat("aux_thresh_", level), o.aux_in_channels)});
  }

  Outputs operator()(Tape& tape, const Features& x) const override {
    const Variable shrink = shrink_(tape, x.main);
    if (!training()) return {{"maps", shrink}};
    Outputs out{{"maps", all(tape, shrink, threshold_(tape, x.main))}};
    if (!aux_.empty() && x.levels.empty())
      throw train::Error("aux_in_channels wants a neck with levels: RepLKFPN, LKPAN or RepLKPAN");
    for (size_t i = 0; i < aux_.size(); ++i) {
      const train::Shape& s = x.main.shape();
      const Variable level =
          i == 0 ? x.levels[i] : train::resize_bilinear(tape, x.levels[i], s[2], s[3]);
      out[train::cat("aux_maps_", kAuxLevels[i])] =
          all(tape, (*aux_[i].shrink)(tape, level), (*aux_[i].threshold)(tape, level));
    }
    return out;
  }

 private:
  struct Aux {
    MapHead *shrink, *threshold;
  };
  Variable all(Tape& tape, const Variable& shrink, const Variable& threshold) const {
    return three_maps(tape, shrink, threshold, binary_map(tape, shrink, threshold, k_));
  }
  double k_;
  MapHead &shrink_, &threshold_;
  std::vector<Aux> aux_;
};

// The shrink map refined from its own features: PP-OCRv4 and v5 server.
class Refiner final : public Block {
 public:
  Refiner(int64_t in, int64_t mid)
      : conv_(add<ConvBn>("last_3", in + 1, mid, window(3), 1, Act::kRelu)),
        last_(add<Conv>("last_1", mid, 1, window(1))) {}

  Variable operator()(Tape& tape, const Variable& shrink, const Variable& features) const {
    const Variable parts[] = {shrink, features};
    return train::sigmoid(tape, last_(tape, conv_(tape, train::concat(tape, parts, 1))));
  }

 private:
  ConvBn& conv_;
  Conv& last_;
};

class PfHeadLocal final : public Head {
 public:
  PfHeadLocal(int64_t in, const PfHeadOptions& o)
      : k_(o.k),
        shrink_(add<MapHead>("binarize", in)),
        threshold_(add<MapHead>("thresh", in)),
        refine_(add<Refiner>("cbn_layer", in / 4, o.mode == "large" ? in / 4 : in / 8)) {
    if (o.mode != "large" && o.mode != "small")
      throw train::Error("mode '" + o.mode + "': it is 'large' or 'small'");
  }

  Outputs operator()(Tape& tape, const Features& x) const override {
    const Variable half = shrink_.half(tape, x.main);
    const Variable shrink = shrink_.map(tape, half);
    const Variable refined = refine_(tape, shrink, train::upsample_nearest(tape, half, 2));
    if (!training()) return {{"maps", train::scale(tape, train::add(tape, shrink, refined), .5f)}};
    const Variable threshold = threshold_(tape, x.main);
    const Variable binary = binary_map(tape, shrink, threshold, k_);
    return {{"maps", three_maps(tape, refined, threshold, binary)}, {"cbn_maps", binary}};
  }

 private:
  double k_;
  MapHead &shrink_, &threshold_;
  Refiner& refine_;
};

class ClsHead final : public Head {
 public:
  ClsHead(int64_t in, const ClsHeadOptions& o) : fc_(add<nn::Linear>("fc", in, o.class_dim)) {
    if (o.class_dim < 2)
      throw train::Error(train::cat("class_dim must be at least 2, not ", o.class_dim));
    fc_.each_parameter([](nn::Parameter& p) {
      if (p.name == "bias") p.init = {};
    });
  }

  Outputs operator()(Tape& tape, const Features& x) const override {
    const Variable mean = train::flatten(tape, train::global_average_pool(tape, x.main));
    const Variable logits = fc_(tape, mean);
    return {{"cls", training() ? logits : train::softmax(tape, logits, 1)}};
  }

 private:
  nn::Linear& fc_;
};

// Depthwise and pointwise convolution along the sequence [N, T, C]: of PP-OCRv6 tiny, or with
// biases and one activation.
class Guide final : public Block {
 public:
  Guide(int64_t channels, bool v6)
      : depthwise_(add<Conv>("0", channels, channels, window({1, 5}), channels, !v6)),
        norm1_(add<BatchNorm>("1", channels)),
        pointwise_(add<Conv>("3", channels, channels, window(1), 1, !v6)),
        norm2_(add<BatchNorm>("4", channels)),
        between_(v6 ? Act::kHardSwish : Act::kRelu),
        last_(v6 ? Act::kHardSwish : Act::kNone) {
    start_over_all_channels(*this);
  }

  Variable operator()(Tape& tape, const Variable& x) const {
    const Variable y = norm1_(tape, depthwise_(tape, to_image(tape, x, 1)), activation(between_));
    return train::image_to_sequence(tape, norm2_(tape, pointwise_(tape, y), activation(last_)));
  }

 private:
  Conv& depthwise_;
  BatchNorm& norm1_;
  Conv& pointwise_;
  BatchNorm& norm2_;
  Act between_, last_;
};

class CtcHead final : public Head {
 public:
  CtcHead(int64_t in, const CtcHeadOptions& o) {
    if (o.out_channels < 2)
      throw train::Error(train::cat("a CTC head needs at least a blank and one character, not ",
                                    o.out_channels, " classes"));
    if (o.guide_layer_type != "default" && o.guide_layer_type != "ppocrv6_tiny")
      throw train::Error("guide_layer_type '" + o.guide_layer_type +
                         "': it is 'default' or 'ppocrv6_tiny'");
    if (o.use_guide) guide_ = &add<Guide>("guide_layer", in, o.guide_layer_type != "default");
    if (o.mid_channels > 0) {
      fc1_ = &add<nn::Linear>("fc1", in, o.mid_channels);
      fc_ = &add<nn::Linear>("fc2", o.mid_channels, o.out_channels);
    } else {
      fc_ = &add<nn::Linear>("fc", in, o.out_channels);
    }
    for (nn::Linear* fc : {fc1_, fc_})
      if (fc) fc->set_weight_decay(static_cast<float>(o.fc_decay));
  }

  Outputs operator()(Tape& tape, const Features& x) const override {
    Variable y = guide_ ? (*guide_)(tape, x.main) : x.main;
    if (fc1_) y = (*fc1_)(tape, y);
    const Variable logits = (*fc_)(tape, y);
    return {{"ctc", training() ? logits : train::softmax(tape, logits, 2)}};
  }

 private:
  Guide* guide_ = nullptr;
  nn::Linear *fc1_ = nullptr, *fc_;
};

// Positions along the sequence that are learnt.
class LearntPositions final : public Layer {
 public:
  explicit LearntPositions(int64_t channels)
      : positions_(add_parameter("dec_pos_embed", {1, kLongest, channels},
                                 {nn::Init::Kind::kTruncatedNormal, .02})) {}
  Variable operator()(Tape& tape, const Variable& x) const override {
    const int64_t t = x.shape()[1];
    if (t > kLongest)
      throw train::ShapeError(
          train::cat("use_pos has positions for ", kLongest, " columns, these features have ", t));
    return train::add(tape, x, train::slice(tape, positions_, 1, 0, t));
  }

 private:
  static constexpr int64_t kLongest = 80;
  Variable positions_;
};

// The row of features as the decoder reads it: [N, C, H, W] -> [N, H W, dim].
class ToMemory final : public Layer {
 public:
  ToMemory(int64_t in, int64_t dim) : fc_(add<nn::Linear>("fc", in, dim, /*bias=*/false)) {
    start_glorot_uniform(fc_);
  }
  Variable operator()(Tape& tape, const Variable& x) const override {
    return fc_(tape, train::image_to_sequence(tape, x));
  }

 private:
  nn::Linear& fc_;
};

class MultiHead final : public Head {
 public:
  MultiHead(int64_t in, const MultiHeadOptions& o)
      : encoder_(adopt("ctc_encoder", make_sequence_encoder(in, o.ctc_neck))),
        ctc_(adopt("ctc_head", make_ctc_head(encoder_.channels(), o.ctc))),
        apart_(o.nrtr && o.ctc_neck.use_guide) {
    if (!o.nrtr) return;
    before_ = &add<Sequential>("before_gtc");
    before_->append_as<ToMemory>("1", in, o.nrtr->nrtr_dim);
    if (o.use_pos) before_->append_as<LearntPositions>("2", o.nrtr->nrtr_dim);
    decoder_ = &add<NrtrDecoder>("gtc_head", *o.nrtr);
  }

  Outputs operator()(Tape& tape, const Features& x) const override {
    const bool cut = apart_ && training();
    return ctc_(tape,
                encoder_(tape, {cut ? Variable::input(x.main.value(), x.main.layout()) : x.main}));
  }
  Outputs guided(Tape& tape, const Features& x, const Variable& tokens) const override {
    Outputs out = (*this)(tape, x);
    if (decoder_) out["nrtr"] = (*decoder_)(tape, tokens, (*before_)(tape, x.main));
    return out;
  }
  bool has_guide() const override { return decoder_ != nullptr; }

 private:
  Neck& encoder_;
  Head& ctc_;
  bool apart_;  // the CTC branch's gradient ends at its neck
  Sequential* before_ = nullptr;
  NrtrDecoder* decoder_ = nullptr;
};

}  // namespace

std::unique_ptr<Head> make_db_head(int64_t in, const DbHeadOptions& options) {
  return std::make_unique<DbHead>(in, options);
}

std::unique_ptr<Head> make_pf_head(int64_t in, const PfHeadOptions& options) {
  return std::make_unique<PfHeadLocal>(in, options);
}

std::unique_ptr<Head> make_cls_head(int64_t in, const ClsHeadOptions& options) {
  return std::make_unique<ClsHead>(in, options);
}

std::unique_ptr<Head> make_ctc_head(int64_t in, const CtcHeadOptions& options) {
  return std::make_unique<CtcHead>(in, options);
}

std::unique_ptr<Head> make_multi_head(int64_t in, const MultiHeadOptions& options) {
  return std::make_unique<MultiHead>(in, options);
}

}  // namespace ocr::models
