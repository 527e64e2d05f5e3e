// The transformer block of SVTR (Du et al. 2022): attention over all tokens or a window of them, or
// a convolution, and a perceptron.
#pragma once
#include "libocr/models/layers.h"

namespace ocr::models {

enum class Mixer : uint8_t { kGlobal, kLocal, kConv };

struct SvtrBlockOptions {
  int64_t channels = 0;
  int heads = 8;
  Mixer mixer = Mixer::kGlobal;
  Size grid = 0;          // of the tokens; local and convolutional mixers need it
  Size window = {7, 11};  // of those mixers
  double mlp_ratio = 4;
  bool qkv_bias = true;
  double drop = 0, attention_drop = 0, drop_path = 0;
  Act act = Act::kGelu;
  float epsilon = 1e-6f;
  /// PaddleOCR's `prenorm`, which despite its name normalises behind each sum.
  bool norm_after = false;
};

/// fc1, activation, fc2, with dropout behind both.
class Mlp final : public Layer {
 public:
  Mlp(int64_t channels, int64_t hidden, Act act, double drop);
  Variable operator()(Tape& tape, const Variable& x) const override;

 private:
  nn::Linear &fc1_, &fc2_;
  Dropout& drop_;
  Act act_;
};

class ConvMixer;

/// tokens [N, T, C] -> [N, T, C]
class SvtrBlock final : public Layer {
 public:
  explicit SvtrBlock(const SvtrBlockOptions& options);
  Variable operator()(Tape& tape, const Variable& x) const override;

 private:
  Variable mix(Tape& tape, const Variable& x) const;
  LayerNorm& norm1_;
  nn::SelfAttention* attention_ = nullptr;
  ConvMixer* convolution_ = nullptr;
  Variable mask_;  // undefined where every token sees every other
  LayerNorm* norm2_;
  Mlp* mlp_;
  DropPath* path_;
  bool norm_after_;
};

}  // namespace ocr::models
