#include "libtrain/cpu/packed.h"

#include <algorithm>
#include <cstring>

#include "libtrain/core/dtype.h"
#include "libtrain/core/error.h"

namespace train::cpu {
namespace {

constexpr int64_t kMostLanes = 64;  // of a panel, any instruction set

// Vectors per panel of n columns. With 16 registers three vectors by four rows load least per
// multiply-add (7 for 12); what is left over goes into panels of two by six rows. With 32 registers
// panels are as equal as possible.
std::vector<int> panel_widths(const KernelTable& t, int64_t n) {
  int64_t vectors = (n + t.width - 1) / t.width;
  std::vector<int> r;
  if (t.width == 16) {
    const int64_t count = (vectors + t.panel_max - 1) / t.panel_max;
    for (int64_t i = 0; i < count; ++i)
      r.push_back(static_cast<int>(vectors / count + (i < vectors % count)));
    return r;
  }
  for (; vectors > 4 || vectors == 3; vectors -= 3) r.push_back(3);
  for (; vectors > 0; vectors -= 2) r.push_back(static_cast<int>(std::min<int64_t>(vectors, 2)));
  return r;
}

size_t packed_floats(const KernelTable& t, int64_t k, int64_t n) {
  const int64_t lanes = (n + t.width - 1) / t.width * t.width;
  if (k < 0 || n <= 0 || k > (int64_t{1} << 40) / lanes)
    throw ShapeError(cat("a weight matrix of ", k, " x ", n, " is impossible"));
  return static_cast<size_t>(lanes * k);
}

int64_t words_of(const KernelTable& t, int64_t k) {
  return t.precision == Precision::kBf16 ? (k + 1) / 2 : k;
}

// A panel of words that each hold two rows' bf16; training packs the weights again at every step.
void pack_pairs(const KernelTable& t, const Panel& p, const float* b, int64_t row_stride,
                int64_t col_stride, int64_t k, float* out) {
  const int64_t lanes = p.lanes, words = words_of(t, k);
  if (p.width < lanes || (col_stride != 1 && row_stride != 1)) std::fill_n(out, words * lanes, 0.f);
  if (col_stride == 1) {
    b += p.n0;
    for (int64_t i = 0; i < k; i += 2, b += 2 * row_stride)
      t.pair_rows(b, i + 1 < k ? b + row_stride : nullptr, p.width, out + i / 2 * lanes);
    return;
  }
  if (row_stride == 1) {  // columns are runs of k: rounded, and the words transposed, in L1
    constexpr int64_t kRun = 64;
    float rounded[kMostLanes * kRun];
    for (int64_t i = 0; i < words; i += kRun) {
      const int64_t run = std::min(kRun, words - i), floats = std::min(2 * run, k - 2 * i);
      for (int64_t j = 0; j < p.width; ++j) {
        float* const to = rounded + j * kRun;
        to[run - 1] = 0;  // where k is odd
        t.round_words(b + (p.n0 + j) * col_stride + 2 * i, floats, to);
      }
      t.transpose2d(rounded, kRun, out + i * lanes, lanes, p.width, run);
    }
    return;
  }
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < p.width; ++j) {
      const uint16_t half = f32_to_bf16(b[i * row_stride + (p.n0 + j) * col_stride]);
      float* word = out + i / 2 * lanes + j;
      std::memcpy(reinterpret_cast<char*>(word) + i % 2 * 2, &half, 2);
    }
}

// A panel [k][lanes]; training packs the weights again at every step.
void pack_floats(const KernelTable& t, const Panel& p, const float* b, int64_t row_stride,
                 int64_t col_stride, int64_t k, float* out) {
  const int64_t lanes = p.lanes;
  if (p.width < lanes)
    for (int64_t i = 0; i < k; ++i)
      std::fill(out + i * lanes + p.width, out + (i + 1) * lanes, 0.f);
  b += p.n0 * col_stride;
  if (row_stride == 1 && col_stride >= k)
    return t.transpose2d(b, col_stride, out, lanes, p.width, k);
  for (int64_t i = 0; i < k; ++i, b += row_stride)
    if (col_stride == 1)
      std::copy_n(b, p.width, out + i * lanes);
    else
      for (int64_t j = 0; j < p.width; ++j) out[i * lanes + j] = b[j * col_stride];
}

}  // namespace

std::vector<Panel> panels_of(const KernelTable& t, int64_t k, int64_t n) {
  std::vector<Panel> panels;
  Panel p{};
  for (const int nr : panel_widths(t, n)) {
    const int64_t whole = int64_t{nr} * t.width, half = t.width / 2;
    p.nr = nr;
    p.width = std::min(whole, n - p.n0);
    p.lanes = t.halves && p.width <= whole - half ? whole - half : whole;
    panels.push_back(p);
    p.n0 += p.width;
    p.w_off += k * p.lanes;
    p.b_off += whole;
  }
  return panels;
}

PackedWeights::PackedWeights(const KernelTable& t, const float* b, int64_t row_stride,
                             int64_t col_stride, int64_t k_, int64_t n_, const float* bias_in)
    : table(&t),
      k(k_),
      n(n_),
      w((packed_floats(t, words_of(t, k_), n_) + 64) *
        sizeof(float)),  // kernels may load past the end
      bias(static_cast<size_t>((n_ + t.width - 1) / t.width * t.width) * sizeof(float)) {
  std::memset(bias.data(), 0, bias.bytes());
  if (bias_in) std::memcpy(bias.data(), bias_in, static_cast<size_t>(n) * sizeof(float));
  float* out = static_cast<float*>(w.data());
  panels = panels_of(t, words_of(t, k), n);
  std::fill(out + w.bytes() / sizeof(float) - 64, out + w.bytes() / sizeof(float), 0.f);
  for (const Panel& p : panels)
    if (t.precision == Precision::kBf16)
      pack_pairs(t, p, b, row_stride, col_stride, k, out + p.w_off);
    else
      pack_floats(t, p, b, row_stride, col_stride, k, out + p.w_off);
}

namespace {
size_t gemm_slot(const PackedWeights& w) {
  return align64(static_cast<size_t>(w.table->gemm_scratch(w.k)) * sizeof(float));
}
}  // namespace

size_t gemm_workspace_bytes(const PackedWeights& w, int threads) {
  return gemm_slot(w) * static_cast<size_t>(threads);
}

void run_gemm(const PackedWeights& w, GemmArgs g, int64_t m, void* workspace) {
  g.b = w.view();
  const int64_t grain = grain_for(w.k * w.n);
  const size_t slot = gemm_slot(w);
  if (slot == 0)
    return parallel_for(m, grain, [&](int64_t m0, int64_t m1) { w.table->gemm(g, m0, m1); });
  parallel_parts(m, grain, [&](int64_t part, int64_t m0, int64_t m1) {
    GemmArgs own = g;
    own.scratch =
        reinterpret_cast<float*>(static_cast<char*>(workspace) + static_cast<size_t>(part) * slot);
    w.table->gemm(own, m0, m1);
  });
}

EpilogueArgs epilogue_args(const Epilogue& e, bool has_residual) {
  return {e.act.kind,   e.act.alpha, e.act.beta,
          e.post_scale, e.post_bias, has_residual && e.residual == Residual::kBeforeAct};
}

void check_residual(const Epilogue& e, const float* res) {
  if ((e.residual != Residual::kNone) != (res != nullptr))
    throw ShapeError(res ? "a residual is given but the epilogue has none"
                         : "the epilogue adds a residual but none is given");
}

}  // namespace train::cpu
