// The necks of recognisers: from a row of features to a sequence.
#include "libocr/models/necks.h"
#include "libocr/models/svtr_block.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

using train::cat;

// [N, C, 1, W] -> [N, W, C]
Variable to_sequence(Tape& tape, const Variable& row) {
  if (row.shape()[2] != 1)
    throw train::ShapeError(cat("the recogniser's features are ", row.shape()[2],
                                " pixels high where a sequence needs 1: the image height does not "
                                "fit the backbone's strides"));
  return train::image_to_sequence(tape, row);
}

/// What SequenceEncoder holds under "encoder".
class Encoder : public Block {
 public:
  virtual Variable operator()(Tape& tape, const Variable& row) const = 0;
  int64_t channels = 0;
};

class RnnEncoder final : public Encoder {
 public:
  RnnEncoder(int64_t in, int hidden) : lstm_(add<nn::Lstm>("lstm", in, hidden, 2, true)) {
    channels = 2 * hidden;
  }
  Variable operator()(Tape& tape, const Variable& row) const override {
    return lstm_(tape, to_sequence(tape, row));
  }

 private:
  nn::Lstm& lstm_;
};

class LinearEncoder final : public Encoder {
 public:
  LinearEncoder(int64_t in, int hidden) : fc_(add<nn::Linear>("fc", in, hidden)) {
    fc_.set_weight_decay(1e-5f);  // PaddleOCR's, beyond the configuration
    channels = hidden;
  }
  Variable operator()(Tape& tape, const Variable& row) const override {
    return fc_(tape, to_sequence(tape, row));
  }

 private:
  nn::Linear& fc_;
};

// The transformer blocks that both SVTR encoders hold, over an image's pixels.
class Blocks {
 public:
  Blocks(List<SvtrBlock>& blocks, LayerNorm& norm) : blocks_(blocks), norm_(norm) {}
  static SvtrBlockOptions options(int64_t channels, const SequenceOptions& o, double mlp_ratio) {
    return {.channels = channels,
            .heads = o.num_heads,
            .mlp_ratio = o.mlp_ratio.value_or(mlp_ratio),
            .qkv_bias = o.qkv_bias,
            .drop = o.drop_rate,
            .attention_drop = o.attn_drop_rate,
            .drop_path = o.drop_path,
            .act = Act::kSwish,
            .epsilon = 1e-5f};
  }
  Variable operator()(Tape& tape, const Variable& image) const {
    Variable x = train::image_to_sequence(tape, image);
    for (const SvtrBlock* block : blocks_) x = (*block)(tape, x);
    return to_image(tape, norm_(tape, x), image.shape()[2]);
  }

 private:
  const List<SvtrBlock>& blocks_;
  const LayerNorm& norm_;
};

// Reduces, attends, expands, and joins what came in.
class SvtrEncoder final : public Encoder {
 public:
  SvtrEncoder(int64_t in, const SequenceOptions& o)
      : reduce1_(swish("conv1", in, in / 8, kernel_of(o))),
        reduce2_(swish("conv2", in / 8, o.hidden_dims, 1)),
        list_(add<List<SvtrBlock>>("svtr_block")),
        blocks_(list_, add<LayerNorm>("norm", o.hidden_dims, 1e-6f)),
        expand_(swish("conv3", o.hidden_dims, in, 1)),
        join_(swish("conv4", 2 * in, in / 8, kernel_of(o))),
        last_(swish("conv1x1", in / 8, o.dims, 1)) {
    for (int i = 0; i < o.depth; ++i) list_.append(Blocks::options(o.hidden_dims, o, 2));
    start_truncated_normal(list_);
    for (ConvBn* conv : {&reduce1_, &reduce2_, &expand_, &join_, &last_}) start_he_uniform(*conv);
    channels = o.dims;
  }

  Variable operator()(Tape& tape, const Variable& row) const override {
    const Variable mixed = blocks_(tape, reduce2_(tape, reduce1_(tape, row)));
    const Variable both[] = {row, expand_(tape, mixed)};
    return to_sequence(tape, last_(tape, join_(tape, train::concat(tape, both, 1))));
  }

 private:
  ConvBn& swish(const char* name, int64_t in, int64_t out, Size kernel) {
    return add<ConvBn>(name, in, out, window(kernel), 1, Act::kSwish, kSvtrNames);
  }
  static Size kernel_of(const SequenceOptions& o) {
    if (o.kernel_size.size() != 2) throw train::Error("kernel_size must be [height, width]");
    return {o.kernel_size[0], o.kernel_size[1]};
  }
  ConvBn &reduce1_, &reduce2_;
  List<SvtrBlock>& list_;
  Blocks blocks_;
  ConvBn &expand_, &join_, &last_;
};

// Reduces, looks along the row, attends, and adds a 1 x 1 shortcut.
class LightSvtrEncoder final : public Encoder {
 public:
  LightSvtrEncoder(int64_t in, const SequenceOptions& o)
      : reduce_(add<ConvBn>("conv_reduce", in, o.dims, window(1), 1, Act::kSwish, kSvtrNames)),
        local_(add<ConvBn>("local_conv", o.dims, o.dims, window({1, o.local_kernel}), o.dims,
                           Act::kSwish, ConvBnNames{"0", "1"})),
        list_(add<List<SvtrBlock>>("svtr_block")),
        blocks_(list_, add<LayerNorm>("norm", o.dims, 1e-6f)),
        skip_(add<ConvBn>("skip_conv", in, o.dims, window(1), 1, Act::kSwish, kSvtrNames)) {
    for (int i = 0; i < o.depth; ++i) list_.append(Blocks::options(o.dims, o, 4));
    start_truncated_normal(list_);
    for (ConvBn* conv : {&reduce_, &skip_}) start_he_uniform(*conv);
    channels = o.dims;
  }

  Variable operator()(Tape& tape, const Variable& row) const override {
    const Variable reduced = reduce_(tape, row);
    const Variable mixed = blocks_(tape, train::add(tape, reduced, local_(tape, reduced)));
    return to_sequence(tape, train::add(tape, mixed, skip_(tape, row)));
  }

 private:
  ConvBn &reduce_, &local_;
  List<SvtrBlock>& list_;
  Blocks blocks_;
  ConvBn& skip_;
};

class SequenceEncoder final : public Neck {
 public:
  SequenceEncoder(int64_t in, const SequenceOptions& o) {
    channels_ = in;
    if (o.encoder_type == "rnn")
      encoder_ = &add<RnnEncoder>("encoder", in, o.hidden_size);
    else if (o.encoder_type == "fc")
      encoder_ = &add<LinearEncoder>("encoder", in, o.hidden_size);
    else if (o.encoder_type == "svtr")
      encoder_ = &add<SvtrEncoder>("encoder", in, o);
    else if (o.encoder_type == "lightsvtr")
      encoder_ = &add<LightSvtrEncoder>("encoder", in, o);
    else if (o.encoder_type != "reshape")
      throw train::Error("encoder_type '" + o.encoder_type +
                         "': it is 'reshape', 'fc', 'rnn', 'svtr' or 'lightsvtr'");
    if (encoder_) channels_ = encoder_->channels;
  }

  Features operator()(Tape& tape, const std::vector<Variable>& x) const override {
    return encoder_ ? (*encoder_)(tape, x[0]) : to_sequence(tape, x[0]);
  }

 private:
  Encoder* encoder_ = nullptr;
};

}  // namespace

std::unique_ptr<Neck> make_sequence_encoder(int64_t in, const SequenceOptions& options) {
  return std::make_unique<SequenceEncoder>(in, options);
}

}  // namespace ocr::models
