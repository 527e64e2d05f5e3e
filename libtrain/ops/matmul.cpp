#include <algorithm>
#include <vector>

#include "libtrain/cpu/elementwise.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// The operands of a MatMul as [batch..., m, k] x [batch..., k, n]; rank-1 operands gain an axis.
struct Product {
  Shape batch_a, batch_b, batch;
  int64_t m, n, k;
  Shape result;
};

Product product_of(const Shape& a, const Shape& b, bool trans_b) {
  require(a.rank() >= 1 && b.rank() >= 1, "MatMul of a scalar");
  Product p;
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  p.m = vector_a ? 1 : a.dim(-2);
  p.k = a.dim(-1);
  const int64_t kb = vector_b ? b[0] : trans_b ? b.dim(-1) : b.dim(-2);
  p.n = vector_b ? 1 : trans_b ? b.dim(-2) : b.dim(-1);
  if (p.k != kb) throw ShapeError("the shapes " + a.str() + " and " + b.str() + " do not multiply");
  for (int i = 0; i + 2 < a.rank(); ++i) p.batch_a.push_back(a[i]);
  for (int i = 0; i + 2 < b.rank(); ++i) p.batch_b.push_back(b[i]);
  p.batch = broadcast(p.batch_a, p.batch_b);
  p.result = p.batch;
  if (!vector_a) p.result.push_back(p.m);
  if (!vector_b) p.result.push_back(p.n);
  return p;
}

// Index of batch entry `i` of `full` in an operand whose batch dimensions are `own`.
int64_t batch_index(int64_t i, const Shape& full, const Shape& own) {
  int64_t index = 0, step = 1;
  for (int d = full.rank() - 1; d >= 0; --d) {
    const int o = d - (full.rank() - own.rank());
    const int64_t at = i % full[d];
    i /= full[d];
    if (o < 0) continue;
    if (own[o] != 1) index += at * step;
    step *= own[o];
  }
  return index;
}

bool packs_b(Infos inputs) { return inputs[1].constant && inputs[1].shape.rank() == 2; }

}  // namespace

std::string MatMulOp::describe() const {
  return cat("MatMul", trans_b ? " B^T" : "", epilogue.act.kind != cpu::Act::kNone ? " +act" : "",
             precision == cpu::Precision::kBf16 ? " bf16" : "");
}

void MatMulOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  require_f32(inputs[1]);
  outputs[0] = ValueInfo(product_of(inputs[0].shape, inputs[1].shape, trans_b).result, DType::kF32);
  if (has_input(inputs, 3) && inputs[3].shape != outputs[0].shape)
    throw ShapeError(
        cat("residual of shape ", inputs[3].shape.str(), " for output ", outputs[0].shape.str()));
}

double MatMulOp::flops(Infos inputs, Infos outputs) const {
  return 2.0 * static_cast<double>(outputs[0].shape.numel()) *
         static_cast<double>(inputs[0].shape.dim(-1));
}

std::unique_ptr<Plan> MatMulOp::plan(Infos inputs, Infos, PackCache& packs) const {
  const Product p = product_of(inputs[0].shape, inputs[1].shape, trans_b);
  if (packs_b(inputs) && alpha == 1 && inputs[0].shape.rank() >= 2) {
    auto b = packs.get<cpu::PackedMatrix>(0, [&] {
      return std::make_shared<const cpu::PackedMatrix>(
          inputs[1].constant->data<float>(), inputs[1].shape[1], trans_b, p.k, p.n,
          constant_f32(inputs, 2, "MatMul bias"), precision);
    });
    const int64_t rows = inputs[0].shape.count(0, inputs[0].shape.rank() - 1);
    return make_plan(
        [b, rows, p, e = epilogue](Views in, Views out, void* ws) {
          const bool res = in.size() > 3 && in[3].data;
          cpu::gemm(in[0].as<float>(), p.k, rows, *b, e, out[0].as<float>(), p.n,
                    res ? in[3].as<float>() : nullptr, p.n, ws);
        },
        b->workspace_bytes(current_threads()));
  }
  require(!has_input(inputs, 2) && epilogue.act.kind == cpu::Act::kNone,
          "a fused MatMul needs a constant B");
  const int64_t batch = p.batch.numel();
  // Where both operands step evenly (all but partial broadcasts) one batched call does it.
  const bool even_a = p.batch_a.numel() == 1 || p.batch_a.numel() == batch;
  const bool even_b = p.batch_b.numel() == 1 || p.batch_b.numel() == batch;
  const size_t workspace =
      cpu::matmul_workspace_bytes(p.k, p.n) * static_cast<size_t>(current_threads());
  return make_plan(
      [p, batch, even = even_a && even_b, tb = trans_b, alpha = alpha](Views in, Views out,
                                                                       void* ws) {
        const auto *a = in[0].as<float>(), *b = in[1].as<float>();
        auto* y = out[0].as<float>();
        const int64_t ldb = tb ? p.k : p.n, mk = p.m * p.k, kn = p.k * p.n, mn = p.m * p.n;
        if (mn * batch == 0) return;
        if (p.k == 0) {
          std::fill_n(y, mn * batch, 0.f);
          return;
        }
        if (even) {
          const int64_t sa = p.batch_a.numel() == 1 ? 0 : mk, sb = p.batch_b.numel() == 1 ? 0 : kn;
          return cpu::batched_matmul(a, p.k, sa, b, ldb, sb, tb, batch, p.m, p.n, p.k, y, p.n, mn,
                                     alpha, ws);
        }
        for (int64_t i = 0; i < batch; ++i)
          cpu::matmul(a + batch_index(i, p.batch, p.batch_a) * mk, p.k,
                      b + batch_index(i, p.batch, p.batch_b) * kn, ldb, tb, p.m, p.n, p.k,
                      y + i * mn, p.n, alpha, ws);
      },
      workspace);
}

std::shared_ptr<const Op> MatMulOp::in_bf16() const {
  auto op = std::make_shared<MatMulOp>(*this);
  op->precision = cpu::Precision::kBf16;
  return op;
}

std::string GemmOp::describe() const {
  return cat("Gemm", trans_a ? " A^T" : "", trans_b ? " B^T" : "");
}

void GemmOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_rank(inputs[0], 2);
  require_rank(inputs[1], 2);
  require_f32(inputs[0]);
  require_f32(inputs[1]);
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  if (a[trans_a ? 0 : 1] != b[trans_b ? 1 : 0])
    throw ShapeError("the shapes " + a.str() + " and " + b.str() + " do not multiply");
  const Shape y{a[trans_a ? 1 : 0], b[trans_b ? 0 : 1]};
  if (has_input(inputs, 2) && broadcast(inputs[2].shape, y) != y)
    throw ShapeError("C of shape " + inputs[2].shape.str() + " does not fit " + y.str());
  outputs[0] = ValueInfo(y, DType::kF32);
}

double GemmOp::flops(Infos inputs, Infos outputs) const {
  return 2.0 * static_cast<double>(outputs[0].shape.numel()) *
         static_cast<double>(inputs[0].shape[trans_a ? 0 : 1]);
}

std::unique_ptr<Plan> GemmOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const int64_t m = outputs[0].shape[0], n = outputs[0].shape[1],
                k = inputs[0].shape[trans_a ? 0 : 1];
  const size_t product = cpu::matmul_workspace_bytes(k, n);
  const size_t transposed = trans_a ? static_cast<size_t>(m * k) * sizeof(float) : 0;
  return make_plan(
      [m, n, k, product, ta = trans_a, tb = trans_b, alpha = alpha, beta = beta](
          Views in, Views out, void* ws) {
        const auto* a = in[0].as<float>();
        auto* y = out[0].as<float>();
        if (ta) {
          auto* t = reinterpret_cast<float*>(static_cast<char*>(ws) + product);
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < k; ++j) t[i * k + j] = a[j * m + i];
          a = t;
        }
        cpu::matmul(a, k, in[1].as<float>(), tb ? k : n, tb, m, n, k, y, n, alpha, ws);
        if (in.size() < 3 || !in[2].data || beta == 0) return;
        const Shape& c = in[2].shape();
        const int64_t row = c.rank() >= 2 && c.dim(-2) != 1 ? c.dim(-1) : 0,
                      col = c.rank() >= 1 && c.dim(-1) != 1;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j)
            y[i * n + j] += beta * in[2].as<float>()[i * row + j * col];
      },
      product + transposed);
}

}  // namespace train
