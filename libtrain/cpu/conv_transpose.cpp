#include "libtrain/cpu/conv_transpose.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "libtrain/core/error.h"
#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

void check(const ConvTransposeDesc& d) {
  const auto in = [](int v, int lo) { return v >= lo && v <= (1 << 20); };
  if (d.cin <= 0 || d.cout <= 0 || d.groups <= 0 || d.cin % d.groups || d.cout % d.groups)
    throw ShapeError(cat("a transposed convolution of ", d.cin, " to ", d.cout, " channels in ",
                         d.groups, " groups is impossible"));
  if (!in(d.kh, 1) || !in(d.kw, 1) || !in(d.sh, 1) || !in(d.sw, 1) || !in(d.dh, 1) || !in(d.dw, 1))
    throw ShapeError(
        "kernel size, stride and dilation of a transposed convolution must be at least 1");
  if (!in(d.pt, 0) || !in(d.pl, 0) || !in(d.pb, 0) || !in(d.pr, 0) || !in(d.oph, 0) ||
      !in(d.opw, 0))
    throw ShapeError("padding of a transposed convolution must not be negative");
}

// 2x2 kernel, stride 2, no padding: every input pixel makes its own 2 x 2 output pixels.
class Upsample2x2 : public ConvTranspose {
 public:
  Upsample2x2(const ConvTransposeDesc& d, const float* weights, const float* bias)
      : ConvTranspose(d), quad_(4 * d.cout <= kernels().width) {
    const int64_t ci = d.cin, co = d.cout;
    std::vector<float> b(static_cast<size_t>(4 * co));
    for (int64_t i = 0; i < 4 * co; ++i) b[static_cast<size_t>(i)] = bias ? bias[i % co] : 0;
    std::vector<float> taps(static_cast<size_t>(ci * 4 * co));  // [ci][tap][co]
    for (int64_t c = 0; c < ci; ++c)
      for (int64_t o = 0; o < co; ++o)
        for (int64_t t = 0; t < 4; ++t)
          taps[static_cast<size_t>((c * 4 + t) * co + o)] = weights[(c * co + o) * 4 + t];
    const auto pack = [&](int64_t first, int64_t count) {
      return std::make_unique<PackedWeights>(kernels(d.precision), taps.data() + first * co, 4 * co,
                                             1, ci, count * co, b.data());
    };
    if (quad_)
      all_ = pack(0, 4);
    else
      for (int64_t i = 0; i < 2; ++i) pairs_.push_back(pack(2 * i, 2));
    for (int64_t t = 0; t < 4; ++t) taps_.push_back(pack(t, 1));
  }
  size_t workspace_bytes(int64_t, int64_t, int64_t w, int threads) const override {
    return static_cast<size_t>(threads) * slot_bytes(w);
  }
  size_t packed_bytes() const override {
    size_t sum = all_ ? all_->bytes() : 0;
    for (const auto& p : pairs_) sum += p->bytes();
    for (const auto& p : taps_) sum += p->bytes();
    return sum;
  }
  void run(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y, int64_t ldy,
           const float* res, int64_t ldr, void* workspace) const override {
    check_residual(desc_.epilogue, res);
    if (quad_ && !res) return run_quads(x, ldx, n, h, w, y, ldy, workspace);
    const bool paired = !quad_ && ldy == desc_.cout && (!res || ldr == desc_.cout);
    const auto lines = [&](int64_t part, int64_t l0, int64_t l1) {
      for (int64_t tap = 0; tap < 4; tap += paired ? 2 : 1) {
        const int64_t ky = tap / 2, kx = tap % 2;
        const PackedWeights& p =
            paired ? *pairs_[static_cast<size_t>(ky)] : *taps_[static_cast<size_t>(tap)];
        GemmArgs g = gemm_args(p, x, ldx, res != nullptr);
        g.scratch = slot(workspace, part, w);
        g.y = y + (ky * 2 * w + kx) * ldy;
        g.ldy = 2 * ldy;
        g.res = res ? res + (ky * 2 * w + kx) * ldr : nullptr;
        g.ldr = 2 * ldr;
        g.shuffle_w = w;
        g.line = 4 * w * ldy;
        g.res_line = 4 * w * ldr;
        p.table->gemm(g, l0 * w, l1 * w);
      }
    };
    parallel_parts(n * h, grain_for(w * desc_.cin * desc_.cout * 4), lines);
  }

 private:
  GemmArgs gemm_args(const PackedWeights& p, const float* x, int64_t ldx, bool has_res) const {
    GemmArgs g{};
    g.x = x;
    g.ldx = ldx;
    g.b = p.view();
    g.e = epilogue_args(desc_.epilogue, has_res);
    return g;
  }
  // Of a thread: what the products need, and where taps share a vector a line of results.
  size_t line_bytes(int64_t w) const {
    return quad_ ? align64(static_cast<size_t>(4 * desc_.cout * w) * sizeof(float) + 64) : 0;
  }
  size_t slot_bytes(int64_t w) const {
    return line_bytes(w) +
           align64(static_cast<size_t>(taps_[0]->table->gemm_scratch(desc_.cin)) * sizeof(float));
  }
  float* slot(void* workspace, int64_t part, int64_t w) const {
    return reinterpret_cast<float*>(static_cast<char*>(workspace) +
                                    static_cast<size_t>(part) * slot_bytes(w));
  }
  // Few channels: all four taps share a vector; a line of pixels goes through scratch to its two
  // output lines, where every lane is worth an activation.
  void run_quads(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y,
                 int64_t ldy, void* workspace) const {
    const int64_t co = desc_.cout;
    const Epilogue& e = desc_.epilogue;
    const bool later = e.post_scale == 1 && e.post_bias == 0;
    parallel_parts(n * h, grain_for(w * desc_.cin * co * 4),
                   [&](int64_t part, int64_t l0, int64_t l1) {
                     float* const line = slot(workspace, part, w);
                     for (int64_t l = l0; l < l1; ++l) {
                       GemmArgs g = gemm_args(*all_, x + l * w * ldx, ldx, false);
                       g.y = line;
                       g.ldy = 4 * co;
                       g.scratch = line + line_bytes(w) / sizeof(float);
                       if (later) g.e = epilogue_args({}, false);
                       all_->table->gemm(g, 0, w);
                       float *top = y + l * 4 * w * ldy, *bottom = top + 2 * w * ldy;
                       deal_line(line, w, top, bottom, ldy);
                       if (!later || e.act.kind == Act::kNone) continue;
                       const bool dense = ldy == co;  // both lines are one
                       all_->table->unary(e.act, top, ldy, top, ldy, dense ? 1 : 4 * w,
                                          dense ? 4 * w * co : co);
                     }
                   });
  }
  // [w][2][2][co] to two lines of 2 w pixels.
  void deal_line(const float* line, int64_t w, float* top, float* bottom, int64_t ldy) const {
    const int64_t co = desc_.cout;
    if (co == 1 && ldy == 1) {
      for (int64_t i = 0; i < w; ++i) {
        std::memcpy(top + 2 * i, line + 4 * i, 8);
        std::memcpy(bottom + 2 * i, line + 4 * i + 2, 8);
      }
      return;
    }
    for (int64_t i = 0; i < 2 * w; ++i)
      for (int64_t c = 0; c < co; ++c) {
        const float* s = line + (i / 2 * 4 + i % 2) * co + c;
        top[i * ldy + c] = s[0];
        bottom[i * ldy + c] = s[2 * co];
      }
  }

  bool quad_;
  std::unique_ptr<PackedWeights> all_;
  std::vector<std::unique_ptr<PackedWeights>> pairs_, taps_;
};

// The taps of one axis that reach output positions q * stride + phase: tap first + t * step reads
// input q + offset - t * dilation.
struct Phase {
  int64_t first, step, count, offset, dilation;
};
Phase phase_of(int64_t phase, int64_t k, int64_t s, int64_t d, int64_t pad) {
  const int64_t g = std::gcd(s, d);
  for (int64_t i = 0; i < std::min(k, s); ++i)
    if (((phase + pad - i * d) % s + s) % s == 0)
      return {i, s / g, (k - 1 - i) / (s / g) + 1, (phase + pad - i * d) / s, d / g};
  return {0, 1, 0, 0, 1};
}

// Any attributes: one ordinary convolution per output phase, over the kernel taps that reach it,
// mirrored.
class PhaseConvTranspose : public ConvTranspose {
 public:
  PhaseConvTranspose(const ConvTransposeDesc& d, const float* weights, const float* bias)
      : ConvTranspose(d) {
    for (int64_t py = 0; py < d.sh; ++py)
      for (int64_t px = 0; px < d.sw; ++px) {
        Part part{
            phase_of(py, d.kh, d.sh, d.dh, d.pt), phase_of(px, d.kw, d.sw, d.dw, d.pl), py, px, {}};
        for (int64_t g = 0; g < d.groups; ++g) part.weights.push_back(pack(part, g, weights, bias));
        parts_.push_back(std::move(part));
      }
  }
  size_t workspace_bytes(int64_t, int64_t, int64_t, int threads) const override {
    return slot_bytes() * static_cast<size_t>(threads);
  }
  size_t packed_bytes() const override {
    size_t sum = 0;
    for (const auto& p : parts_)
      for (const auto& w : p.weights) sum += w->bytes();
    return sum;
  }
  void run(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y, int64_t ldy,
           const float* res, int64_t ldr, void* workspace) const override {
    check_residual(desc_.epilogue, res);
    const ConvTransposeDesc& d = desc_;
    const int64_t oh = out_h(h), ow = out_w(w), ci = d.cin / d.groups, co = d.cout / d.groups;
    if (oh <= 0 || ow <= 0) return;
    for (const Part& p : parts_) {
      const int64_t rows = (oh - p.py + d.sh - 1) / d.sh, cols = (ow - p.px + d.sw - 1) / d.sw;
      if (rows <= 0 || cols <= 0) continue;
      const auto run_rows = [&](int64_t part, int64_t r0, int64_t r1) {
        ConvArgs a = args(p);
        a.g.h = h, a.g.w = w, a.g.ldx = ldx, a.g.oh = rows, a.g.ow = cols;
        a.g.ldy = d.sw * ldy, a.g.y_line = d.sh * ow * ldy, a.g.y_image = oh * ow * ldy;
        a.g.ldr = d.sw * ldr, a.g.res_line = d.sh * ow * ldr, a.g.res_image = oh * ow * ldr;
        a.e = epilogue_args(d.epilogue, res != nullptr);
        a.scratch = reinterpret_cast<float*>(static_cast<char*>(workspace) +
                                             static_cast<size_t>(part) * slot_bytes());
        for (int64_t g = 0; g < d.groups; ++g) {
          a.g.x = x + g * ci;
          a.g.y = y + (p.py * ow + p.px) * ldy + g * co;
          a.g.res = res ? res + (p.py * ow + p.px) * ldr + g * co : nullptr;
          const PackedWeights& pw = *p.weights[static_cast<size_t>(g)];
          a.b = pw.view();
          pw.table->conv(a, r0, r1);
        }
      };
      parallel_parts(n * rows, grain_for(cols * d.cout * ci * a_taps(p)), run_rows);
    }
  }

 private:
  struct Part {
    Phase y, x;
    int64_t py, px;
    std::vector<std::unique_ptr<PackedWeights>> weights;  // one per group
  };
  static int64_t a_taps(const Part& p) { return std::max<int64_t>(1, p.y.count * p.x.count); }

  std::unique_ptr<PackedWeights> pack(const Part& p, int64_t g, const float* w,
                                      const float* bias) const {
    const int64_t ci = desc_.cin / desc_.groups, co = desc_.cout / desc_.groups,
                  ny = std::max<int64_t>(1, p.y.count), nx = std::max<int64_t>(1, p.x.count);
    // [ty][tx][run][co], taps mirrored; run: channels, an even number in bf16 (a word holds two).
    const int64_t run = desc_.precision == Precision::kBf16 ? (ci + 1) / 2 * 2 : ci;
    std::vector<float> b(static_cast<size_t>(ny * nx * run * co));
    for (int64_t ty = 0; ty < p.y.count; ++ty)
      for (int64_t tx = 0; tx < p.x.count; ++tx) {
        const int64_t ky = p.y.first + (p.y.count - 1 - ty) * p.y.step,
                      kx = p.x.first + (p.x.count - 1 - tx) * p.x.step;
        for (int64_t i = 0; i < ci; ++i)
          for (int64_t o = 0; o < co; ++o)
            b[static_cast<size_t>(((ty * nx + tx) * run + i) * co + o)] =
                w[(((g * ci + i) * co + o) * desc_.kh + ky) * desc_.kw + kx];
      }
    return std::make_unique<PackedWeights>(kernels(desc_.precision), b.data(), co, 1, ny * nx * run,
                                           co, bias ? bias + g * co : nullptr);
  }
  ConvArgs args(const Part& p) const {
    constexpr int kOutside = 1 << 24;  // a phase that no tap reaches: every row is padding
    ConvArgs a{};
    WindowArgs& g = a.g;
    g.c = desc_.cin / desc_.groups;
    g.kh = static_cast<int>(std::max<int64_t>(1, p.y.count));
    g.kw = static_cast<int>(std::max<int64_t>(1, p.x.count));
    g.sh = g.sw = 1;
    g.dh = static_cast<int>(p.y.dilation);
    g.dw = static_cast<int>(p.x.dilation);
    g.pt = p.y.count && p.x.count ? static_cast<int>((p.y.count - 1) * p.y.dilation - p.y.offset)
                                  : kOutside;
    g.pl = static_cast<int>((p.x.count ? p.x.count - 1 : 0) * p.x.dilation - p.x.offset);
    a.b = p.weights[0]->view();
    return a;
  }
  size_t slot_bytes() const {
    int64_t floats = 0;
    for (const Part& p : parts_)
      floats = std::max(floats, p.weights[0]->table->conv_scratch(args(p)));
    return align64(static_cast<size_t>(floats) * sizeof(float) + 64);
  }
  std::vector<Part> parts_;
};

}  // namespace

int64_t ConvTranspose::out_h(int64_t h) const {
  return (h - 1) * desc_.sh - desc_.pt - desc_.pb + int64_t{desc_.dh} * (desc_.kh - 1) + 1 +
         desc_.oph;
}
int64_t ConvTranspose::out_w(int64_t w) const {
  return (w - 1) * desc_.sw - desc_.pl - desc_.pr + int64_t{desc_.dw} * (desc_.kw - 1) + 1 +
         desc_.opw;
}

std::unique_ptr<ConvTranspose> ConvTranspose::create(const ConvTransposeDesc& d,
                                                     const float* weights, const float* bias) {
  check(d);
  const bool padded = d.pt || d.pl || d.pb || d.pr || d.oph || d.opw;
  if (d.kh == 2 && d.kw == 2 && d.sh == 2 && d.sw == 2 && d.dh == 1 && d.dw == 1 && !padded &&
      d.groups == 1)
    return std::make_unique<Upsample2x2>(d, weights, bias);
  return std::make_unique<PhaseConvTranspose>(d, weights, bias);
}

}  // namespace train::cpu
