// NRTR's decoder (Sheng et al. 2019): the attention branch that guides a recogniser's training and
// is not deployed.
#pragma once
#include "libocr/models/layers.h"

namespace ocr::models {

struct NrtrOptions {
  int64_t nrtr_dim = 256;        // width; heads have 32 channels each
  int64_t max_text_length = 25;  // of decoding, which training does not need
  int num_decoder_layers = 4;
  double residual_dropout_rate = .1;
  int64_t classes = 0;  // of the labels; the net has one more, as PaddleOCR's
  template <class V>
  void describe(V& v) {
    v.field("nrtr_dim", nrtr_dim);
    v.field("max_text_length", max_text_length);
    v.field("num_decoder_layers", num_decoder_layers);
    v.field("residual_dropout_rate", residual_dropout_rate);
  }
};

/// A transformer decoder: reads the characters so far, looks at the image's features, and says
/// which character is next. State dict names are those of PaddleOCR's Transformer, save its buffer
/// `positional_encoding.pe`, which is a formula.
class NrtrDecoder final : public Block {
 public:
  explicit NrtrDecoder(const NrtrOptions& options);
  /// tokens i64 [N, T], 0 where the text has ended; memory [N, S, nrtr_dim] -> logits [N, T,
  /// classes + 1]. Step t sees tokens 0 ... t alone.
  Variable operator()(Tape& tape, const Variable& tokens, const Variable& memory) const;

 private:
  class Step;
  class Embeddings;
  int64_t width_;
  Embeddings& embedding_;
  Dropout& drop_;
  List<Step>& steps_;
  nn::Linear& project_;
};

}  // namespace ocr::models
