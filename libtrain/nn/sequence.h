// Layers over sequences [N, T, C]: LSTM and multi-head attention.
#pragma once
#include <vector>

#include "libtrain/autograd/attention.h"
#include "libtrain/nn/layers.h"

namespace train::nn {

/// Layers of an LSTM, [N, T, in] -> [N, T, hidden], or [N, T, 2 hidden] when bidirectional (forward
/// then backward). Parameters of layer k, as in PyTorch and Paddle: weight_ih_lk [4 H, I],
/// weight_hh_lk [4 H, H], bias_ih_lk, bias_hh_lk [4 H], gates in the order i f g o; those of the
/// backward direction end in _reverse.
class Lstm final : public Module {
 public:
  Lstm(int64_t in, int64_t hidden, int layers = 1, bool bidirectional = false);
  Variable operator()(Tape& tape, const Variable& x) const;

 private:
  std::shared_ptr<const Op> op_;
  std::vector<std::vector<Variable>> layers_;  // per layer: 4 parameters per direction
};

struct AttentionOptions {
  int64_t channels = 0, heads = 1;
  bool qkv_bias = true;
  float attention_dropout = 0, output_dropout = 0;
};

/// Self-attention (Vaswani et al. 2017) with parameters qkv.weight [3 C, C], qkv.bias, proj.weight,
/// proj.bias, as SVTR's mixer. `mask` (optional) is added to the scores: [T, T] or [N, T, T].
class SelfAttention final : public Module {
 public:
  explicit SelfAttention(const AttentionOptions& options);
  Variable operator()(Tape& tape, const Variable& x, const Variable& mask = {}) const;

 private:
  AttentionOptions options_;
  Linear qkv_, proj_;
};

}  // namespace train::nn
