// Scaled dot-product attention of short sequences, without a T x T tensor beyond a block of rows.
#pragma once
#include <cstddef>
#include <cstdint>

namespace train::cpu {

/// Element (batch, token, head, i) of a tensor is at data[batch * batch_stride + token *
/// token_stride + head * head_stride + i].
struct AttentionTensor {
  const float* data = nullptr;
  int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
};

size_t attention_workspace_bytes(int64_t tk, int64_t d, int64_t dv, int threads);
/// y[b, t, h, :] = softmax over s of (scale q[b, t, h] . k[b, s, h]) times v[b, s, h, :]; q: tq
/// tokens of d floats, k: tk of d, v: tk of dv. `y` describes the output (its data is written
/// through).
void attention(const AttentionTensor& q, const AttentionTensor& k, const AttentionTensor& v,
               int64_t batch, int64_t heads, int64_t tq, int64_t tk, int64_t d, int64_t dv,
               float scale, const AttentionTensor& y, float* y_data, void* workspace);

}  // namespace train::cpu
