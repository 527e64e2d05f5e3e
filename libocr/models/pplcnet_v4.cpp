// PP-LCNetV4, the backbone of PP-OCRv6: a depthwise token mixer whose branches an export merges,
// and a channel mixer that expands, activates and compresses.
#include <map>

#include "libocr/models/backbones.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

// Three branches that become one 3 x 3 convolution: normalised 3 x 3, 1 x 1, and x itself.
class RepDepthwise final : public Layer {
 public:
  explicit RepDepthwise(int64_t channels)
      : conv_(add<ConvBn>("conv", channels, channels, window(3), channels)),
        pointwise_(add<Conv>("conv1", channels, channels, window(1), channels, false)),
        norm_(add<BatchNorm>("bn", channels)) {}

  Variable operator()(Tape& tape, const Variable& x) const override {
    const Variable sum = train::add(tape, conv_(tape, x), pointwise_(tape, x));
    return norm_(tape, train::add(tape, sum, x));
  }

 private:
  ConvBn& conv_;
  Conv& pointwise_;
  BatchNorm& norm_;
};

class MixerBlock final : public Layer {
 public:
  MixerBlock(int64_t in, int64_t out, Size stride, bool gate, double gate_rate)
      : residual_(in == out && stride == Size(1)),
        tokens_(add<Sequential>("token_mixer")),
        channels_(add<Sequential>("channel_mixer")) {
    if (residual_)
      tokens_.append_as<RepDepthwise>("rep_dw", in);
    else
      tokens_.append_as<ConvBn>("dw_conv", in, in, window(3, stride), in);
    if (gate)
      tokens_.append_as<SqueezeExcite>("se", in, kPaddleSlope)
          .scale_learning_rate(static_cast<float>(gate_rate));
    channels_.append_as<ConvBn>("expand", in, 2 * in, window(1), 1, Act::kGelu);
    auto& compress = channels_.append_as<ConvBn>("compress", 2 * in, out, window(1));
    if (residual_) compress.start_at_zero();  // a block begins as its token mixer
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    const Variable y = tokens_(tape, x);
    return residual_ ? train::add(tape, y, channels_(tape, y)) : channels_(tape, y);
  }

 private:
  bool residual_;
  Sequential &tokens_, &channels_;
};

// A window of two pixels that looks ahead: the even kernel's "same".
train::Window ahead() {
  train::Window w = padded_window(2, 1, 0);
  w.pads = {0, 0, 1, 1};
  return w;
}

// A quarter of the resolution by two branches: convolutions, and a maximum.
class BranchStem final : public Layer {
 public:
  BranchStem(int64_t mid, int64_t out)
      : stem1_(add<ConvBn>("stem1", 3, mid, window(3, 2), 1, Act::kRelu)),
        stem2a_(add<ConvBn>("stem2a", mid, mid / 2, ahead(), 1, Act::kRelu)),
        stem2b_(add<ConvBn>("stem2b", mid / 2, mid, ahead(), 1, Act::kRelu)),
        stem3_(add<ConvBn>("stem3", 2 * mid, mid, window(3, 2), 1, Act::kRelu)),
        stem4_(add<ConvBn>("stem4", mid, out, window(1), 1, Act::kRelu)) {
    for (ConvBn* conv : {&stem1_, &stem2a_, &stem2b_, &stem3_, &stem4_}) conv->spare_norm();
  }

  Variable operator()(Tape& tape, const Variable& images) const override {
    const Variable x = stem1_(tape, images);
    const Variable parts[] = {train::max_pool(tape, x, ahead()), stem2b_(tape, stem2a_(tape, x))};
    return stem4_(tape, stem3_(tape, train::concat(tape, parts, 1)));
  }

 private:
  ConvBn &stem1_, &stem2a_, &stem2b_, &stem3_, &stem4_;
};

struct Row {
  int in, out;
  Size stride;
  bool gate;
};

struct Layout {
  int stem_mid, stem_out;
  bool branch_stem;
  std::vector<std::vector<Row>> stages;
};

// `count` blocks of a stage; the first changes the channels, and every other one after it has a
// gate, beginning with the second.
std::vector<Row> stage(int in, int out, Size stride, int count) {
  std::vector<Row> rows{{in, out, stride, false}};
  for (int i = 1; i < count; ++i) rows.push_back({out, out, 1, i % 2 == 1});
  return rows;
}

Layout det_layout(const std::string& size) {
  const auto of = [](int c1, int c2, int c3, int c4) {
    return Layout{c1 / 2,
                  c1,
                  true,
                  {{{c1, c1, 1, true}, {c1, c1, 1, false}},
                   stage(c1, c2, 2, 3),
                   stage(c2, c3, 2, 5),
                   stage(c3, c4, 2, 3)}};
  };
  if (size == "tiny") return of(32, 48, 64, 160);
  if (size == "small") return of(48, 96, 192, 384);
  return of(128, 256, 512, 896);
}

Layout rec_layout(const std::string& size) {
  const Size down(2, 1);
  if (size == "tiny") {
    std::vector<Row> last = stage(96, 160, down, 4);
    last[3].gate = false;
    return {
        24, 48, false, {{{48, 48, 1, true}}, {{48, 48, 1, false}}, stage(48, 96, down, 3), last}};
  }
  if (size == "small")
    return {48,
            96,
            true,
            {{{96, 96, 1, true}},
             {{96, 96, 1, false}, {96, 96, 1, false}},
             stage(96, 192, down, 7),
             stage(192, 384, down, 3)}};
  return {64,
          128,
          true,
          {{{128, 128, 1, true}},
           {{128, 256, 1, false}, {256, 256, 1, false}, {256, 256, 1, true}},
           stage(256, 512, down, 7),
           stage(512, 768, down, 3)}};
}

class PPLCNetV4 final : public Backbone {
 public:
  explicit PPLCNetV4(const PPLCNetV4Options& o) : det_(o.det) {
    if (o.model_size != "tiny" && o.model_size != "small" && o.model_size != "medium")
      throw train::Error("model_size '" + o.model_size +
                         "': PPLCNetV4 has the sizes 'tiny', 'small' and 'medium'");
    const Layout layout = det_ ? det_layout(o.model_size) : rec_layout(o.model_size);
    if (o.lr_mult_list.size() != 6)
      throw train::Error(
          train::cat("lr_mult_list must have 6 numbers, not ", o.lr_mult_list.size()));
    const auto rate = [&](size_t i) { return det_ ? 1 : o.lr_mult_list[i]; };
    add_stem(layout, rate(0));
    for (size_t i = 0; i < layout.stages.size(); ++i) {
      stages_.push_back(
          &add<Sequential>(det_ ? train::cat("blocks_s", i + 1) : train::cat("blocks", i + 2)));
      for (const Row& r : layout.stages[i])
        stages_.back()->append<MixerBlock>(r.in, r.out, r.stride, r.gate, rate(i + 1));
      if (det_ || i + 1 == layout.stages.size()) channels_.push_back(layout.stages[i].back().out);
    }
    start_over_all_channels(*this);
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    Variable x = (*stem_)(tape, images);
    std::vector<Variable> scales;
    for (const Sequential* stage : stages_) {
      x = (*stage)(tape, x);
      scales.push_back(x);
    }
    if (det_) return scales;
    return {row_of(tape, x, training())};
  }

 private:
  void add_stem(const Layout& layout, double rate) {
    const int mid = layout.stem_mid, out = layout.stem_out;
    if (layout.branch_stem) {
      auto& branches = add<BranchStem>(det_ ? "stem" : "conv1", mid, out);
      branches.scale_learning_rate(static_cast<float>(rate));
      stem_ = &branches;
      return;
    }
    auto& simple = add<Sequential>("conv1");
    simple.append<ConvBn>(3, mid, window(3, 2));
    simple.append_act(Act::kGelu);
    simple.append<ConvBn>(mid, out, window(3, 2));
    stem_ = &simple;
  }

  bool det_;
  const Layer* stem_ = nullptr;
  std::vector<Sequential*> stages_;
};

}  // namespace

std::unique_ptr<Backbone> make_pplcnet_v4(const PPLCNetV4Options& options) {
  return std::make_unique<PPLCNetV4>(options);
}

}  // namespace ocr::models
