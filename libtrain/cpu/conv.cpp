#include "libtrain/cpu/conv.h"

#include <cstring>
#include <vector>

#include "libtrain/core/error.h"
#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

int64_t out_size(int64_t in, int k, int s, int d, int before, int after) {
  const int64_t room = in + before + after - (int64_t{k} - 1) * d - 1;
  return room < 0 ? 0 : room / s + 1;
}

void check(const ConvDesc& d) {
  const auto in = [](int v, int lo) { return v >= lo && v <= (1 << 20); };
  if (d.cin <= 0 || d.cout <= 0 || d.groups <= 0 || d.cin % d.groups || d.cout % d.groups)
    throw ShapeError(cat("a convolution of ", d.cin, " to ", d.cout, " channels in ", d.groups,
                         " groups is impossible"));
  if (!in(d.kh, 1) || !in(d.kw, 1) || !in(d.sh, 1) || !in(d.sw, 1) || !in(d.dh, 1) || !in(d.dw, 1))
    throw ShapeError("kernel size, stride and dilation of a convolution must be at least 1");
  if (!in(d.pt, 0) || !in(d.pl, 0) || !in(d.pb, 0) || !in(d.pr, 0))
    throw ShapeError("a convolution with negative padding is not supported");
}

WindowArgs window(const ConvDesc& d, const float* x, int64_t ldx, int64_t h, int64_t w, float* y,
                  int64_t ldy, int64_t oh, int64_t ow, const float* res, int64_t ldr) {
  return {x,    ldx,  h,    w,        d.cin,         y,        ldy,          oh,
          ow,   res,  ldr,  d.kh,     d.kw,          d.sh,     d.sw,         d.dh,
          d.dw, d.pt, d.pl, ow * ldy, oh * ow * ldy, ow * ldr, oh * ow * ldr};
}

// 1x1, stride 1, no padding: a GEMM over all pixels.
class PointwiseConv : public Conv {
 public:
  PointwiseConv(const ConvDesc& d, const float* weights, const float* bias)
      : Conv(d), w_(kernels(d.precision), weights, 1, d.cin, d.cin, d.cout, bias) {}
  size_t workspace_bytes(int64_t, int64_t, int64_t, int threads) const override {
    return gemm_workspace_bytes(w_, threads);
  }
  size_t packed_bytes() const override { return w_.bytes(); }
  void run(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y, int64_t ldy,
           const float* res, int64_t ldr, void* workspace) const override {
    check_residual(desc_.epilogue, res);
    GemmArgs g{};
    g.x = x;
    g.ldx = ldx;
    g.y = y;
    g.ldy = ldy;
    g.res = res;
    g.ldr = ldr;
    g.e = epilogue_args(desc_.epilogue, res != nullptr);
    run_gemm(w_, g, n * h * w, workspace);
  }

 private:
  PackedWeights w_;
};

// Any kernel, stride, padding and dilation; groups one after the other.
class DenseConv : public Conv {
 public:
  DenseConv(const ConvDesc& d, const float* weights, const float* bias) : Conv(d) {
    const int64_t ci = d.cin / d.groups, co = d.cout / d.groups, taps = int64_t{d.kh} * d.kw;
    // Channels of a tap: an even number in bf16, where a word holds two.
    const int64_t run = d.precision == Precision::kBf16 ? (ci + 1) / 2 * 2 : ci;
    std::vector<float> ohwi(static_cast<size_t>(co * run * taps));
    for (int64_t g = 0; g < d.groups; ++g) {
      const float* src = weights + g * co * ci * taps;  // [co, ci, kh, kw]
      for (int64_t o = 0; o < co; ++o)
        kernels().transpose2d(src + o * ci * taps, taps, ohwi.data() + o * taps * run, run, ci,
                              taps);
      w_.push_back(std::make_unique<PackedWeights>(kernels(d.precision), ohwi.data(), 1, taps * run,
                                                   taps * run, co, bias ? bias + g * co : nullptr));
    }
  }
  size_t workspace_bytes(int64_t, int64_t, int64_t, int threads) const override {
    return slot_bytes() * static_cast<size_t>(threads);
  }
  size_t packed_bytes() const override {
    size_t sum = 0;
    for (const auto& w : w_) sum += w->bytes();
    return sum;
  }
  void run(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y, int64_t ldy,
           const float* res, int64_t ldr, void* workspace) const override {
    check_residual(desc_.epilogue, res);
    const int64_t oh = out_h(h), ow = out_w(w), ci = desc_.cin / desc_.groups,
                  co = desc_.cout / desc_.groups;
    const size_t slot = slot_bytes();
    const auto rows = [&](int64_t part, int64_t r0, int64_t r1) {
      ConvArgs a{};
      a.g = window(desc_, x, ldx, h, w, y, ldy, oh, ow, res, ldr);
      a.g.c = ci;
      a.e = epilogue_args(desc_.epilogue, res != nullptr);
      a.scratch = reinterpret_cast<float*>(static_cast<char*>(workspace) +
                                           static_cast<size_t>(part) * slot);
      for (size_t i = 0; i < w_.size(); ++i) {
        const int64_t g = static_cast<int64_t>(i);
        a.g.x = x + g * ci;
        a.g.y = y + g * co;
        a.g.res = res ? res + g * co : nullptr;
        a.b = w_[i]->view();
        w_[i]->table->conv(a, r0, r1);
      }
    };
    parallel_parts(n * oh, grain_for(ow * desc_.cout * ci * desc_.kh * desc_.kw), rows);
  }

 private:
  ConvArgs args() const {
    ConvArgs a{};
    a.g = window(desc_, nullptr, 0, 0, 0, nullptr, 0, 0, 0, nullptr, 0);
    a.g.c = desc_.cin / desc_.groups;
    a.b = w_[0]->view();
    return a;
  }
  size_t slot_bytes() const {
    return align64(static_cast<size_t>(w_[0]->table->conv_scratch(args())) * sizeof(float) + 64);
  }
  std::vector<std::unique_ptr<PackedWeights>> w_;
};

// groups == cin == cout.
class DepthwiseConv : public Conv {
 public:
  DepthwiseConv(const ConvDesc& d, const float* weights, const float* bias)
      : Conv(d),
        table_(&kernels()),
        w_(static_cast<size_t>(lanes() * d.kh * d.kw) * sizeof(float)),
        bias_(static_cast<size_t>(lanes()) * sizeof(float)) {
    std::memset(w_.data(), 0, w_.bytes());
    std::memset(bias_.data(), 0, bias_.bytes());
    if (bias) std::memcpy(bias_.data(), bias, static_cast<size_t>(d.cout) * sizeof(float));
    const int64_t taps = int64_t{d.kh} * d.kw, width = table_->width;
    float* w = static_cast<float*>(w_.data());
    for (int64_t c = 0; c < d.cin; ++c)
      for (int64_t t = 0; t < taps; ++t)
        w[(c / width * taps + t) * width + c % width] = weights[c * taps + t];
  }
  size_t workspace_bytes(int64_t, int64_t, int64_t, int) const override { return 0; }
  size_t packed_bytes() const override { return w_.bytes() + bias_.bytes(); }
  void run(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y, int64_t ldy,
           const float* res, int64_t ldr, void*) const override {
    check_residual(desc_.epilogue, res);
    const int64_t oh = out_h(h), ow = out_w(w);
    if (oh <= 0 || ow <= 0) return;
    DepthwiseArgs a{};
    a.g = window(desc_, x, ldx, h, w, y, ldy, oh, ow, res, ldr);
    a.w = static_cast<const float*>(w_.data());
    a.bias = static_cast<const float*>(bias_.data());
    a.e = epilogue_args(desc_.epilogue, res != nullptr);
    parallel_for(n * oh, grain_for(ow * desc_.cin * desc_.kh * desc_.kw),
                 [&](int64_t r0, int64_t r1) { table_->depthwise(a, r0, r1); });
  }

 private:
  int64_t lanes() const { return (desc_.cin + table_->width - 1) / table_->width * table_->width; }
  const KernelTable* table_;
  Storage w_, bias_;
};

}  // namespace

int64_t Conv::out_h(int64_t h) const {
  return out_size(h, desc_.kh, desc_.sh, desc_.dh, desc_.pt, desc_.pb);
}
int64_t Conv::out_w(int64_t w) const {
  return out_size(w, desc_.kw, desc_.sw, desc_.dw, desc_.pl, desc_.pr);
}

std::unique_ptr<Conv> Conv::create(const ConvDesc& d, const float* weights, const float* bias) {
  check(d);
  const bool padded = d.pt || d.pl || d.pb || d.pr;
  if (d.kh == 1 && d.kw == 1 && d.sh == 1 && d.sw == 1 && !padded && d.groups == 1)
    return std::make_unique<PointwiseConv>(d, weights, bias);
  if (d.groups == d.cin && d.cin == d.cout && d.groups > 1)
    return std::make_unique<DepthwiseConv>(d, weights, bias);
  return std::make_unique<DenseConv>(d, weights, bias);
}

}  // namespace train::cpu
