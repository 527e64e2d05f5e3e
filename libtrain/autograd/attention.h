// Scaled dot-product attention of several heads as one op; the weights are never kept.
#pragma once
#include "libtrain/autograd/tape.h"

namespace train {

/// y = dropout(softmax(q k^T / sqrt(D) + mask)) v for every head. Inputs by `sources`: 1: qkv [N,
/// T, 3 C]; 2: q [N, Tq, C], kv [N, Tk, 2 C]; 3: q, k, v. C = heads x D, a token's heads one after
/// another. Then mask [Tq, Tk] or [N, Tq, Tk], added to the scores (optional; -inf hides), and key
/// i64 [2] when dropout > 0 (Tape::random_key). Output [N, Tq, C].
///
/// The gradient computes the weights again from q and k. A row whose every score is -inf gives 0.
class AttentionOp final : public Op {
 public:
  AttentionOp(int64_t heads, int sources, float dropout = 0);
  std::string_view type() const override { return "Attention"; }
  std::string describe() const override { return cat("Attention heads ", heads); }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t heads;
  int sources;
  float dropout;
};

/// 0 where a token of an h x w grid lies in the window of kh x kw around another, -inf elsewhere:
/// [h w, h w] (SVTR's local mixing).
Tensor local_window_mask(int64_t h, int64_t w, int64_t kh, int64_t kw);
/// 0 for a token and those before it, -inf for later ones: [t, t].
Tensor causal_mask(int64_t t);

/// Self-attention of qkv [N, T, 3 C], attention of q [N, Tq, C] to kv [N, Tk, 2 C]; `mask` may be
/// undefined; `dropout` while training.
Variable self_attention(Tape& tape, const Variable& qkv, int64_t heads, const Variable& mask = {},
                        float dropout = 0);
Variable cross_attention(Tape& tape, const Variable& q, const Variable& kv, int64_t heads,
                         const Variable& mask = {}, float dropout = 0);

}  // namespace train
