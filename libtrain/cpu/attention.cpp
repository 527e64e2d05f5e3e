#include "libtrain/cpu/attention.h"

#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

constexpr int64_t kScoreRows = 32;  // at least what the kernels keep alive

size_t slot_bytes(int64_t tk, int64_t d, int64_t dv) {
  const int64_t panel = 2 * kernels().width;
  const auto up = [panel](int64_t v) { return (v + panel - 1) / panel * panel; };
  return align64(static_cast<size_t>(d * up(tk) + tk * up(dv) + kScoreRows * tk + 64) *
                 sizeof(float));
}

}  // namespace

size_t attention_workspace_bytes(int64_t tk, int64_t d, int64_t dv, int threads) {
  return slot_bytes(tk, d, dv) * static_cast<size_t>(threads);
}

void attention(const AttentionTensor& q, const AttentionTensor& k, const AttentionTensor& v,
               int64_t batch, int64_t heads, int64_t tq, int64_t tk, int64_t d, int64_t dv,
               float scale, const AttentionTensor& y, float* y_data, void* workspace) {
  const KernelTable& t = kernels();
  const size_t slot = slot_bytes(tk, d, dv);
  parallel_parts(batch * heads, grain_for(tq * tk * (d + dv)),
                 [&](int64_t part, int64_t i0, int64_t i1) {
                   float* scratch = reinterpret_cast<float*>(static_cast<char*>(workspace) +
                                                             static_cast<size_t>(part) * slot);
                   for (int64_t i = i0; i < i1; ++i) {
                     const auto at = [&](const AttentionTensor& s) {
                       return i / heads * s.batch_stride + i % heads * s.head_stride;
                     };
                     t.attention({q.data + at(q), k.data + at(k), v.data + at(v), y_data + at(y),
                                  q.token_stride, k.token_stride, v.token_stride, y.token_stride,
                                  tq, tk, d, dv, scale, scratch});
                   }
                 });
}

}  // namespace train::cpu
