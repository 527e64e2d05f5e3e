#include "libocr/models/nrtr.h"

#include <cmath>

#include "libocr/models/svtr_block.h"
#include "libtrain/core/error.h"

namespace ocr::models {

using train::Tensor;

namespace {

constexpr int64_t kHeadSize = 32;  // channels of a head

// [t, width]: sines in the even columns, cosines in the odd ones, of wavelengths from 2 pi to 10000
// times that.
Tensor positions(int64_t t, int64_t width) {
  Tensor table({t, width});
  float* row = table.data<float>();
  for (int64_t p = 0; p < t; ++p)
    for (int64_t c = 0; c < width; ++c) {
      const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(width);
      const double angle = static_cast<double>(p) / std::pow(10000., exponent);
      *row++ = static_cast<float>(c % 2 ? std::cos(angle) : std::sin(angle));
    }
  return table;
}

// Attention of a sequence to itself, or to another one.
class Attention final : public Block {
 public:
  Attention(int64_t width, bool to_itself)
      : heads_(width / kHeadSize),
        query_(add<nn::Linear>(to_itself ? "qkv" : "q", width, to_itself ? 3 * width : width)),
        memory_(to_itself ? nullptr : &add<nn::Linear>("kv", width, 2 * width)),
        out_(add<nn::Linear>("out_proj", width, width)) {}
  Variable to_itself(Tape& tape, const Variable& x, const Variable& mask) const {
    return out_(tape, train::self_attention(tape, query_(tape, x), heads_, mask));
  }
  Variable to(Tape& tape, const Variable& x, const Variable& memory) const {
    return out_(tape,
                train::cross_attention(tape, query_(tape, x), (*memory_)(tape, memory), heads_));
  }

 private:
  int64_t heads_;
  nn::Linear &query_, *memory_, &out_;
};

}  // namespace

// Attention to the text so far, attention to the image, perceptron; each is added and the sum
// normalised.
class NrtrDecoder::Step final : public Block {
 public:
  Step(int64_t width, double drop)
      : text_(add<Attention>("self_attn", width, true)),
        norm1_(add<LayerNorm>("norm1", width)),
        image_(add<Attention>("cross_attn", width, false)),
        norm2_(add<LayerNorm>("norm2", width)),
        mlp_(add<Mlp>("mlp", width, 4 * width, Act::kRelu, drop)),
        norm3_(add<LayerNorm>("norm3", width)),
        drop_(add<Dropout>("dropout", static_cast<float>(drop))) {}

  Variable operator()(Tape& tape, const Variable& x, const Variable& memory,
                      const Variable& mask) const {
    const auto with = [&](const Variable& a, const Variable& b) {
      return train::add(tape, a, drop_(tape, b));
    };
    const Variable y = norm1_(tape, with(x, text_.to_itself(tape, x, mask)));
    const Variable z = norm2_(tape, with(y, image_.to(tape, y, memory)));
    return norm3_(tape, with(z, mlp_(tape, z)));
  }

 private:
  Attention& text_;
  LayerNorm& norm1_;
  Attention& image_;
  LayerNorm& norm2_;
  Mlp& mlp_;
  LayerNorm& norm3_;
  Dropout& drop_;
};

// PaddleOCR wraps its table of characters once more.
class NrtrDecoder::Embeddings final : public Block {
 public:
  Embeddings(int64_t count, int64_t width)
      : table_(add<nn::Embedding>("embedding", count, width, /*padding=*/0)) {
    const double deviation = 1 / std::sqrt(static_cast<double>(width));
    each_parameter([&](nn::Parameter& p) { p.init = {nn::Init::Kind::kNormal, deviation}; });
  }
  Variable operator()(Tape& tape, const Variable& tokens) const { return table_(tape, tokens); }

 private:
  nn::Embedding& table_;
};

namespace {

const NrtrOptions& checked(const NrtrOptions& o) {
  if (o.nrtr_dim < kHeadSize || o.nrtr_dim % kHeadSize)
    throw train::Error(train::cat("nrtr_dim ", o.nrtr_dim, " is not a multiple of ", kHeadSize,
                                  ", the size of a head"));
  if (o.num_decoder_layers < 1) throw train::Error("num_decoder_layers must be at least 1");
  if (o.classes < 5) throw train::Error("an NRTR head needs its marks and one character");
  return o;
}

}  // namespace

NrtrDecoder::NrtrDecoder(const NrtrOptions& o)
    : width_(checked(o).nrtr_dim),
      embedding_(add<Embeddings>("embedding", o.classes + 1, width_)),
      drop_(add<Dropout>("dropout", static_cast<float>(o.residual_dropout_rate))),
      steps_(add<List<Step>>("decoder")),
      project_(add<nn::Linear>("tgt_word_prj", width_, o.classes + 1, /*bias=*/false)) {
  for (int i = 0; i < o.num_decoder_layers; ++i) steps_.append(width_, o.residual_dropout_rate);
  start_glorot_normal(steps_);
  start_glorot_normal(project_);
}

Variable NrtrDecoder::operator()(Tape& tape, const Variable& tokens, const Variable& memory) const {
  const int64_t t = tokens.shape()[1];
  const Variable embedded =
      train::scale(tape, embedding_(tape, tokens), std::sqrt(static_cast<float>(width_)));
  Variable x = drop_(tape, train::add(tape, embedded, Variable::input(positions(t, width_))));
  const Variable mask = Variable::input(train::causal_mask(t));
  for (const Step* step : steps_) x = (*step)(tape, x, memory, mask);
  return project_(tape, x);
}

}  // namespace ocr::models
