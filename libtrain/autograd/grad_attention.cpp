// Attention and its gradient, one (batch, head) pair after another on each thread, a block of
// queries at a time: their weights stay in the caches, and hidden keys cost nothing where the mask
// leaves a short range of them (attention_blocks.h).
#include <cmath>
#include <limits>
#include <utility>

#include "libtrain/autograd/attention.h"
#include "libtrain/autograd/attention_blocks.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/core/philox.h"
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
  std::array<Place, 3> places{};
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
  int64_t scores() const { return tq * tk; }
};

// p [rows, cols] *= the random zeros of pair number `pair`, scaled.
void drop(const Problem& g, const AttentionBlocks& blocks, const AttentionBlocks::Block& b,
          const int64_t* key, int64_t pair, float* p) {
  const RandomStream random(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]));
  const float scale = 1 / (1 - g.dropout);
  for (int64_t i = b.q0; i < b.q1; ++i)
    for (int64_t j = b.k0; j < b.k1; ++j, ++p) {
      const int64_t at = pair * g.scores() + blocks.token(i) * g.tk + blocks.token(j);
      *p = random.uniform(static_cast<uint64_t>(at)) < g.dropout ? 0.f : *p * scale;
    }
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

// The blocks of every mask: one for all samples, or one each.
std::vector<AttentionBlocks> blocks_of(const Problem& g, Views in) {
  std::vector<AttentionBlocks> all;
  for (int64_t b = 0; b < (g.mask_per_sample ? g.n : 1); ++b)
    all.emplace_back(g.tq, g.tk, mask_of(g, in, b));
  return all;
}

// One head's rows, dense: [tokens, d] in the blocks' order, and [d, tokens].
class Head {
 public:
  Head(const Problem& g, const AttentionBlocks& blocks) : d_(g.d), blocks_(blocks) {}
  void gather(const float* x, int64_t stride, int64_t tokens, float* rows) const {
    for (int64_t i = 0; i < tokens; ++i)
      std::copy_n(x + blocks_.token(i) * stride, d_, rows + i * d_);
  }
  // Places [begin, end) of rows, which lie at `rows`, back to their tokens.
  void scatter(const float* rows, int64_t begin, int64_t end, int64_t stride, float* x) const {
    for (int64_t i = begin; i < end; ++i)
      std::copy_n(rows + (i - begin) * d_, d_, x + blocks_.token(i) * stride);
  }
  void transpose(const float* rows, int64_t tokens, float* to) const {
    cpu::kernels().transpose2d(rows, d_, to, tokens, tokens, d_);
  }

 private:
  int64_t d_;
  const AttentionBlocks& blocks_;
};

// c = alpha a b, or a^T b: a [m, k] or [k, m] dense with rows of `lda`.
void product(const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb, float* c,
             int64_t ldc, int64_t m, int64_t n, int64_t k, float alpha = 1, bool add = false) {
  grad_kernels().small_product(
      {a, trans_a ? 1 : lda, trans_a ? lda : 1, b, ldb, c, ldc, m, n, k, alpha, add});
}

// Cuts pieces out of a thread's scratch.
struct Scratch {
  float* next;
  float* take(int64_t floats) { return std::exchange(next, next + (floats + 15) / 16 * 16); }
};
constexpr int64_t kBlockRows = AttentionBlocks::kRows;

// p = the weights of a block of queries, softmax(scale q k^T + mask); kt: [d, tk].
void weights(const Problem& g, const AttentionBlocks& blocks, const AttentionBlocks::Block& b,
             const float* q, const float* kt, float* p) {
  const int64_t rows = b.q1 - b.q0, cols = b.k1 - b.k0;
  product(q + b.q0 * g.d, g.d, false, kt + b.k0, g.tk, p, cols, rows, cols, g.d, g.scale());
  grad_kernels().masked_softmax(p, b.mask < 0 ? nullptr : blocks.masks.data() + b.mask, rows, cols);
}

// y [tq, d] of one pair, strided by token.
struct PairForward {
  const float *q, *k, *v;
  float* y;

  static size_t bytes(const Problem& g) {
    return static_cast<size_t>((g.tq + 3 * g.tk + kBlockRows) * g.d + kBlockRows * g.tk + 6 * 16) *
           sizeof(float);
  }
  void run(const Problem& g, const AttentionBlocks& blocks, const int64_t* key, int64_t pair,
           Scratch s) const {
    const Head head(g, blocks);
    float *qs = s.take(g.tq * g.d), *ks = s.take(g.tk * g.d), *vs = s.take(g.tk * g.d);
    float *kt = s.take(g.tk * g.d), *ys = s.take(kBlockRows * g.d), *p = s.take(kBlockRows * g.tk);
    head.gather(q, g.places[0].stride, g.tq, qs);
    head.gather(k, g.places[1].stride, g.tk, ks);
    head.gather(v, g.places[2].stride, g.tk, vs);
    head.transpose(ks, g.tk, kt);
    for (const auto& b : blocks.blocks) {
      weights(g, blocks, b, qs, kt, p);
      if (key) drop(g, blocks, b, key, pair, p);
      product(p, b.k1 - b.k0, false, vs + b.k0 * g.d, g.d, ys, g.d, b.q1 - b.q0, g.d, b.k1 - b.k0);
      head.scatter(ys, b.q0, b.q1, g.c(), y);
    }
  }
};

// Gradients of one pair: dy [tq, d] with stride c; dq, dk, dv strided as q, k, v.
struct PairGrad {
  const float *q, *k, *v, *dy;
  float *dq, *dk, *dv;

  static size_t bytes(const Problem& g) {
    return static_cast<size_t>((2 * g.tq + 6 * g.tk + kBlockRows) * g.d + 3 * kBlockRows * g.tk +
                               12 * 16) *
           sizeof(float);
  }
  void run(const Problem& g, const AttentionBlocks& blocks, const int64_t* key, int64_t pair,
           Scratch s) const {
    const Head head(g, blocks);
    float *qs = s.take(g.tq * g.d), *dys = s.take(g.tq * g.d), *ks = s.take(g.tk * g.d);
    float *vs = s.take(g.tk * g.d), *kt = s.take(g.tk * g.d), *vt = s.take(g.tk * g.d);
    float *dks = s.take(g.tk * g.d), *dvs = s.take(g.tk * g.d), *dqs = s.take(kBlockRows * g.d);
    float *p = s.take(kBlockRows * g.tk), *dp = s.take(kBlockRows * g.tk);
    float* used = key ? s.take(kBlockRows * g.tk) : p;  // what multiplied v
    head.gather(q, g.places[0].stride, g.tq, qs);
    head.gather(k, g.places[1].stride, g.tk, ks);
    head.gather(v, g.places[2].stride, g.tk, vs);
    head.gather(dy, g.c(), g.tq, dys);
    head.transpose(ks, g.tk, kt);
    head.transpose(vs, g.tk, vt);
    std::fill_n(dks, g.tk * g.d, 0.f);
    std::fill_n(dvs, g.tk * g.d, 0.f);
    for (const auto& b : blocks.blocks) {
      const int64_t rows = b.q1 - b.q0, cols = b.k1 - b.k0, at_q = b.q0 * g.d, at_k = b.k0 * g.d;
      weights(g, blocks, b, qs, kt, p);
      if (key) {
        std::copy_n(p, rows * cols, used);
        drop(g, blocks, b, key, pair, used);
      }
      product(used, cols, true, dys + at_q, g.d, dvs + at_k, g.d, cols, g.d, rows, 1, true);
      product(dys + at_q, g.d, false, vt + b.k0, g.tk, dp, cols, rows, cols, g.d);
      if (key) drop(g, blocks, b, key, pair, dp);
      grad_kernels().softmax_grad(p, dp, dp, rows, cols, false);
      product(dp, cols, false, ks + at_k, g.d, dqs, g.d, rows, g.d, cols, g.scale());
      product(dp, cols, true, qs + at_q, g.d, dks + at_k, g.d, cols, g.d, rows, g.scale(), true);
      head.scatter(dqs, b.q0, b.q1, g.places[0].stride, dq);
    }
    head.scatter(dks, 0, g.tk, g.places[1].stride, dk);
    head.scatter(dvs, 0, g.tk, g.places[2].stride, dv);
  }
};

std::unique_ptr<Plan> forward_plan(const Problem& g) {
  const size_t bytes = PairForward::bytes(g);
  return make_plan(
      [g, bytes](Views in, Views out, void* workspace) {
        const auto src = [&](int which, int64_t b, int64_t h) {
          return g.at(which, in[g.places[which].input].as<const float>(), b, h);
        };
        const auto blocks = blocks_of(g, in);
        for_pairs(g, workspace, bytes, [&](int64_t pair, int64_t b, int64_t h, char* scratch) {
          const PairForward f{src(0, b, h), src(1, b, h), src(2, b, h),
                              out[0].as<float>() + b * g.tq * g.c() + h * g.d};
          f.run(g, blocks[g.mask_per_sample ? static_cast<size_t>(b) : 0], key_of(g, in), pair,
                {reinterpret_cast<float*>(scratch)});
        });
      },
      bytes * static_cast<size_t>(current_threads()));
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
        const size_t bytes = PairGrad::bytes(g);
        return make_plan(
            [g, bytes](Views in, Views out, void* workspace) {
              const auto src = [&](int which, int64_t b, int64_t h) {
                return g.at(which, in[g.places[which].input].as<const float>(), b, h);
              };
              const auto dst = [&](int which, int64_t b, int64_t h) {
                return g.at(which, out[g.places[which].input].as<float>(), b, h);
              };
              const auto blocks = blocks_of(g, in);
              for_pairs(
                  g, workspace, bytes, [&](int64_t pair, int64_t b, int64_t h, char* scratch) {
                    const float* dy = in[g.sources + 2].as<float>();
                    const PairGrad p{
                        src(0, b, h), src(1, b, h), src(2, b, h), dy + b * g.tq * g.c() + h * g.d,
                        dst(0, b, h), dst(1, b, h), dst(2, b, h)};
                    p.run(g, blocks[g.mask_per_sample ? static_cast<size_t>(b) : 0], key_of(g, in),
                          pair, {reinterpret_cast<float*>(scratch)});
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
  return forward_plan(g);
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
