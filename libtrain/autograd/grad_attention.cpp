// Attention and its gradient, one (batch, head) pair after another on each thread.
#include <cmath>
#include <limits>

#include "libtrain/autograd/attention.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/core/philox.h"
#include "libtrain/cpu/attention.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/cpu/packed.h"

namespace train {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Sizes, and where q, k and v lie: input, offset in a token, floats between tokens.
struct Problem {
  int64_t n, tq, tk, heads, d;
  struct Place {
    size_t input;
    int64_t offset, stride;
  };
  std::array<Place, 3> places;
  bool has_mask, mask_per_sample;
  float dropout;
  size_t sources;

  Problem(const AttentionOp& op, Infos in) : heads(op.heads), dropout(op.dropout) {
    sources = static_cast<size_t>(op.sources);
    const int64_t width = in[0].shape[2], c = sources == 1 ? width / 3 : width;
    n = in[0].shape[0], tq = in[0].shape[1], tk = in[sources - 1].shape[1], d = c / heads;
    if (sources == 1) places = {{{0, 0, width}, {0, c, width}, {0, 2 * c, width}}};
    if (sources == 2) places = {{{0, 0, c}, {1, 0, 2 * c}, {1, c, 2 * c}}};
    if (sources == 3) places = {{{0, 0, c}, {1, 0, c}, {2, 0, c}}};
    has_mask = has_input(in, sources);
    mask_per_sample = has_mask && in[sources].shape.rank() == 3;
  }
  int64_t tokens(int which) const { return which ? tk : tq; }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(d))); }
  int64_t c() const { return heads * d; }
  // Where q, k or v of pair (b, h) starts in `data`, the array of its input.
  template <class T>
  T* at(int which, T* data, int64_t b, int64_t h) const {
    const Place& p = places[which];
    return data + b * tokens(which) * p.stride + p.offset + h * d;
  }
  bool plain() const { return !has_mask && dropout == 0; }
  int64_t scores() const { return tq * tk; }
  size_t product_bytes() const {
    const int64_t k = std::max({tq, tk, d});
    return cpu::align64(
        std::max({cpu::matmul_workspace_bytes(d, tk), cpu::matmul_workspace_bytes(tk, d),
                  cpu::matmul_workspace_bytes(tq, d), cpu::matmul_workspace_bytes(d, k)}));
  }
};

// p[tq, tk] = softmax(scale q k^T + mask) of one pair.
void weights(const Problem& g, const float* q, const float* k, const float* mask, float* p,
             void* ws) {
  cpu::matmul(q, g.places[0].stride, k, g.places[1].stride, true, g.tq, g.tk, g.d, p, g.tk,
              g.scale(), ws);
  if (mask)
    for (int64_t i = 0; i < g.tq; ++i) {
      float* row = p + i * g.tk;
      float top = kMinusInfinity;
      for (int64_t j = 0; j < g.tk; ++j) top = std::max(top, row[j] += mask[i * g.tk + j]);
      // A softmax of nothing but -inf would be NaN. 0 scores make it uniform; it is cleared below.
      if (top == kMinusInfinity) std::fill_n(row, g.tk, kMinusInfinity);
    }
  const cpu::KernelTable& t = cpu::kernels();
  for (int64_t i = 0; i < g.tq; ++i) {
    float* row = p + i * g.tk;
    if (mask && std::all_of(row, row + g.tk, [](float v) { return v == kMinusInfinity; }))
      std::fill_n(row, g.tk, 0.f);
    else
      t.softmax(row, g.tk, row, g.tk, 1, g.tk, false);
  }
}

// p *= the random zeros of pair number `pair`, scaled.
void drop(const Problem& g, const int64_t* key, int64_t pair, float* p) {
  const RandomStream random(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]));
  const float scale = 1 / (1 - g.dropout);
  for (int64_t i = 0; i < g.scores(); ++i)
    p[i] = random.uniform(static_cast<uint64_t>(pair * g.scores() + i)) < g.dropout ? 0.f
                                                                                    : p[i] * scale;
}

// Runs fn(pair, batch, head, this thread's scratch of `bytes`) for all pairs.
template <class F>
void for_pairs(const Problem& g, void* workspace, size_t bytes, F&& fn) {
  cpu::parallel_parts(g.n * g.heads, std::max<int64_t>(1, 65536 / (g.scores() * g.d + 1)),
                      [&](int64_t part, int64_t i0, int64_t i1) {
                        auto* scratch =
                            static_cast<char*>(workspace) + static_cast<size_t>(part) * bytes;
                        for (int64_t i = i0; i < i1; ++i) fn(i, i / g.heads, i % g.heads, scratch);
                      });
}

const float* mask_of(const Problem& g, Views in, int64_t b) {
  if (!g.has_mask) return nullptr;
  return in[g.sources].as<float>() + (g.mask_per_sample ? b * g.scores() : 0);
}
const int64_t* key_of(const Problem& g, Views in) {
  return g.dropout > 0 ? in[g.sources + 1].as<int64_t>() : nullptr;
}

std::unique_ptr<Plan> plain_plan(const Problem& g) {
  return make_plan(
      [g](Views in, Views out, void* ws) {
        const auto tensor = [&](int which) {
          const Problem::Place& p = g.places[which];
          return cpu::AttentionTensor{in[p.input].as<float>() + p.offset,
                                      g.tokens(which) * p.stride, p.stride, g.d};
        };
        auto* y = out[0].as<float>();
        cpu::attention(tensor(0), tensor(1), tensor(2), g.n, g.heads, g.tq, g.tk, g.d, g.d,
                       g.scale(), {y, g.tq * g.c(), g.c(), g.d}, y, ws);
      },
      cpu::attention_workspace_bytes(g.tk, g.d, g.d, current_threads()));
}

std::unique_ptr<Plan> masked_plan(const Problem& g) {
  const size_t scores = cpu::align64(static_cast<size_t>(g.scores()) * sizeof(float));
  const size_t bytes = scores + g.product_bytes();
  return make_plan(
      [g, scores, bytes](Views in, Views out, void* workspace) {
        const auto src = [&](int which, int64_t b, int64_t h) {
          return g.at(which, in[g.places[which].input].as<const float>(), b, h);
        };
        for_pairs(g, workspace, bytes, [&](int64_t pair, int64_t b, int64_t h, char* scratch) {
          auto* p = reinterpret_cast<float*>(scratch);
          void* ws = scratch + scores;
          weights(g, src(0, b, h), src(1, b, h), mask_of(g, in, b), p, ws);
          if (const int64_t* key = key_of(g, in)) drop(g, key, pair, p);
          cpu::matmul(p, g.tk, src(2, b, h), g.places[2].stride, false, g.tq, g.d, g.tk,
                      out[0].as<float>() + b * g.tq * g.c() + h * g.d, g.c(), 1, ws);
        });
      },
      bytes * static_cast<size_t>(current_threads()));
}

// What one pair of the backward pass needs.
struct GradScratch {
  size_t scores, values, product;
  explicit GradScratch(const Problem& g)
      : scores(cpu::align64(static_cast<size_t>(g.scores()) * sizeof(float))),
        values(0),
        product(g.product_bytes()) {}
  size_t bytes() const { return 4 * scores + product; }
};

// Gradients of one pair: dy [tq, d] with stride c; dq, dk, dv strided as q, k, v.
struct PairGrad {
  const float *q, *k, *v, *dy, *mask;
  float *dq, *dk, *dv;
};

void pair_grad(const Problem& g, const PairGrad& a, const int64_t* key, int64_t pair,
               char* scratch) {
  const GradScratch s(g);
  auto* p = reinterpret_cast<float*>(scratch);
  auto* dp = reinterpret_cast<float*>(scratch + s.scores);
  auto* dropped = reinterpret_cast<float*>(scratch + 2 * s.scores);
  auto* transposed = reinterpret_cast<float*>(scratch + 3 * s.scores);  // [tk, tq]
  void* ws = scratch + 4 * s.scores;
  const cpu::KernelTable& t = cpu::kernels();
  const int64_t sq = g.places[0].stride, sk = g.places[1].stride, sv = g.places[2].stride;
  weights(g, a.q, a.k, a.mask, p, ws);
  const float* used = p;  // what multiplied v
  if (key) {
    std::copy_n(p, g.scores(), dropped);
    drop(g, key, pair, dropped);
    used = dropped;
  }
  t.transpose2d(used, g.tk, transposed, g.tq, g.tq, g.tk);
  cpu::matmul(transposed, g.tq, a.dy, g.c(), false, g.tk, g.d, g.tq, a.dv, sv, 1, ws);
  cpu::matmul(a.dy, g.c(), a.v, sv, true, g.tq, g.tk, g.d, dp, g.tk, 1, ws);
  if (key) drop(g, key, pair, dp);
  grad_kernels().softmax_grad(p, dp, dp, g.tq, g.tk, false);
  cpu::matmul(dp, g.tk, a.k, sk, false, g.tq, g.d, g.tk, a.dq, sq, g.scale(), ws);
  t.transpose2d(dp, g.tk, transposed, g.tq, g.tq, g.tk);
  cpu::matmul(transposed, g.tq, a.q, sq, false, g.tk, g.d, g.tq, a.dk, sk, g.scale(), ws);
}

// Inputs: those of the op, then dy. Outputs: the gradients of the sources.
std::shared_ptr<const Op> attention_grad_op(const AttentionOp& op) {
  const auto forward = std::make_shared<AttentionOp>(op.heads, op.sources, op.dropout);
  return make_op(
      "AttentionGrad", OpLayout::kLinear,
      [](Infos in, std::span<ValueInfo> out) {
        for (size_t i = 0; i < out.size(); ++i) out[i] = ValueInfo(in[i].shape, DType::kF32);
      },
      [forward](Infos in, Infos) {
        const Problem g(*forward, in);
        const size_t bytes = GradScratch(g).bytes();
        return make_plan(
            [g, bytes](Views in, Views out, void* workspace) {
              const auto src = [&](int which, int64_t b, int64_t h) {
                return g.at(which, in[g.places[which].input].as<const float>(), b, h);
              };
              const auto dst = [&](int which, int64_t b, int64_t h) {
                return g.at(which, out[g.places[which].input].as<float>(), b, h);
              };
              for_pairs(
                  g, workspace, bytes, [&](int64_t pair, int64_t b, int64_t h, char* scratch) {
                    const float* dy = in[g.sources + 2].as<float>();
                    pair_grad(
                        g,
                        {src(0, b, h), src(1, b, h), src(2, b, h), dy + b * g.tq * g.c() + h * g.d,
                         mask_of(g, in, b), dst(0, b, h), dst(1, b, h), dst(2, b, h)},
                        key_of(g, in), pair, scratch);
                  });
            },
            bytes * static_cast<size_t>(current_threads()));
      });
}

class AttentionGradient final : public Gradient {
 public:
  explicit AttentionGradient(const AttentionOp& op)
      : Gradient({.inputs = 0b11111}),
        sources_(static_cast<size_t>(op.sources)),
        grad_(attention_grad_op(op)) {}
  void run(GradContext& c) const override {
    std::vector<Array> inputs(sources_ + 3);
    for (size_t i = 0; i < c.inputs(); ++i) inputs[i] = c.input(i);
    inputs[sources_ + 2] = c.grad();
    const auto d = c.eager().run(grad_, inputs, sources_);
    for (size_t i = 0; i < sources_; ++i)
      if (c.needs(i)) c.set(i, d[i]);
  }

 private:
  size_t sources_;
  std::shared_ptr<const Op> grad_;
};

Variable attend(Tape& tape, std::initializer_list<Variable> sources, int64_t heads,
                const Variable& mask, float dropout) {
  const int count = static_cast<int>(sources.size());
  const auto op = tape.eager().shared<Op>(cat("attention ", heads, ' ', count, ' ', dropout), [&] {
    return std::make_shared<AttentionOp>(heads, count, dropout);
  });
  std::vector<Variable> inputs(sources);
  inputs.push_back(mask);
  if (dropout > 0) inputs.push_back(tape.random_key());
  return tape.apply(op, inputs, 1)[0];
}

}  // namespace

AttentionOp::AttentionOp(int64_t heads, int sources, float dropout)
    : heads(heads), sources(sources), dropout(dropout) {
  require(heads > 0 && sources >= 1 && sources <= 3 && dropout >= 0 && dropout < 1,
          "attention needs heads, one to three sources and a dropout in [0, 1)");
}

void AttentionOp::infer(Infos in, std::span<ValueInfo> outputs) const {
  require(in.size() >= static_cast<size_t>(sources), "attention: a source is missing");
  for (int i = 0; i < sources; ++i)
    if (in[i].shape.rank() != 3 || in[i].dtype != DType::kF32 || in[i].shape[0] != in[0].shape[0])
      throw ShapeError(cat("expected tokens [N, T, C], got ", in[i].shape.str()));
  const int64_t width = in[0].shape[2], c = sources == 1 ? width / 3 : width;
  if (c <= 0 || c % heads || (sources == 1 && width != 3 * c) ||
      (sources == 2 && in[1].shape[2] != 2 * c) ||
      (sources == 3 && (in[1].shape[2] != c || in[2].shape != in[1].shape)))
    throw ShapeError(cat("channels do not fit ", heads, " heads: ", in[0].shape.str()));
  const int64_t tq = in[0].shape[1], tk = in[sources - 1].shape[1];
  if (const size_t m = static_cast<size_t>(sources); has_input(in, m)) {
    const Shape& s = in[m].shape;
    if (s != Shape{tq, tk} && s != Shape{in[0].shape[0], tq, tk})
      throw ShapeError(cat("mask of shape ", s.str(), " for ", tq, " x ", tk, " scores"));
  }
  require(dropout == 0 || has_input(in, static_cast<size_t>(sources) + 1),
          "dropout needs a random key");
  outputs[0] = ValueInfo(Shape{in[0].shape[0], tq, c}, DType::kF32);
}

double AttentionOp::flops(Infos in, Infos outputs) const {
  return 4.0 * static_cast<double>(outputs[0].shape.numel()) *
         static_cast<double>(in[sources - 1].shape[1]);
}

std::unique_ptr<Plan> AttentionOp::plan(Infos in, Infos, PackCache&) const {
  const Problem g(*this, in);
  return g.plain() ? plain_plan(g) : masked_plan(g);
}

Tensor local_window_mask(int64_t h, int64_t w, int64_t kh, int64_t kw) {
  Tensor mask({h * w, h * w});
  float* m = mask.data<float>();
  for (int64_t a = 0; a < h * w; ++a)
    for (int64_t b = 0; b < h * w; ++b) {
      const bool seen = std::abs(a / w - b / w) <= kh / 2 && std::abs(a % w - b % w) <= kw / 2;
      *m++ = seen ? 0.f : kMinusInfinity;
    }
  return mask;
}

Tensor causal_mask(int64_t t) {
  Tensor mask({t, t});
  for (int64_t i = 0; i < t * t; ++i) mask.data<float>()[i] = i % t <= i / t ? 0.f : kMinusInfinity;
  return mask;
}

Variable self_attention(Tape& tape, const Variable& qkv, int64_t heads, const Variable& mask,
                        float dropout) {
  return attend(tape, {qkv}, heads, mask, dropout);
}
Variable cross_attention(Tape& tape, const Variable& q, const Variable& kv, int64_t heads,
                         const Variable& mask, float dropout) {
  return attend(tape, {q, kv}, heads, mask, dropout);
}

std::shared_ptr<const Gradient> attention_gradient(const Op& op) {
  return std::make_shared<AttentionGradient>(dynamic_cast<const AttentionOp&>(op));
}

}  // namespace train
