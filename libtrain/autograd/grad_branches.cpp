// PointwiseBranches, forward and backward. With P pixels, m and cov the mean and covariance of x's
// channels, f_i = scale_i inv_i, G = sum over pixels of dy (x - m)^T and g = sum of dy:
//   mean_i = W_i m, var_i = diag(W_i cov W_i^T), W = sum_i diag(f_i) W_i;
//   dscale_i = S_i = inv_i rowsum(W_i G), dbias_i = g,
//   dW_i = f_i (G - S_i inv_i W_i cov),
//   dx = W^T dy - A (x - m) - W^T g / P, A = sum_i W_i^T diag(f_i inv_i S_i / P) W_i.
// The identity is a branch whose W_i is the unit matrix.
#include <cmath>
#include <vector>

#include "libtrain/autograd/branches.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/row_product.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/cpu/packed.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

struct Size {
  int64_t pixels, c, o, branches;
  bool identity;

  int64_t matrix() const { return o * c; }
  int64_t rows() const { return branches + (identity ? 1 : 0); }  // of the statistics
  // Places of a branch's inputs, the identity's included.
  static size_t weight(int64_t i) { return static_cast<size_t>(1 + 3 * i); }
  size_t scale(int64_t i) const { return weight(i) + (i < branches ? 1 : 0); }
  size_t bias(int64_t i) const { return scale(i) + 1; }
  size_t inputs() const { return static_cast<size_t>(1 + 3 * branches + (identity ? 2 : 0)); }
};

Size size_of(const Shape& x, int64_t o, int64_t branches, bool identity) {
  return {x[0] * x[2] * x[3], x[1], o, branches, identity};
}

// sums[c] = sum over rows of x, in blocks; partial: row_blocks(rows) * cols floats.
void channel_sums(const float* x, int64_t rows, int64_t cols, float* partial, double* sums) {
  for_row_blocks(rows, cols, [&](int64_t b, int64_t r0, int64_t r1) {
    cpu::kernels().reduce_rows(cpu::ReduceOp::kSum, x + r0 * cols, cols, r1 - r0, cols,
                               partial + b * cols);
  });
  std::fill_n(sums, cols, 0.);
  for (int64_t b = 0; b < row_blocks(rows); ++b)
    for (int64_t c = 0; c < cols; ++c) sums[c] += partial[b * cols + c];
}

// All branches' weights below one another, [branches * O, C].
void stack_weights(const Size& s, Views in, size_t first, size_t step, float* stacked) {
  for (int64_t i = 0; i < s.branches; ++i)
    std::copy_n(in[first + step * static_cast<size_t>(i)].as<float>(), s.matrix(),
                stacked + i * s.matrix());
}

double dot(const float* a, const float* b, int64_t n) {
  float part = 0;
  double sum = 0;
  constexpr int64_t kChunk = 512;
  for (int64_t j = 0; j < n; j += kChunk) {
    grad_kernels().dot_cols(a + j, b + j, 1, std::min(kChunk, n - j), &part);
    sum += part;
  }
  return sum;
}

// merged [O, C] += diag(factor) w; the identity's w is null.
void add_scaled(const Size& s, const float* w, const float* factor, std::vector<double>& merged) {
  for (int64_t o = 0; o < s.o; ++o) {
    double* to = merged.data() + o * s.c;
    const double f = factor[o];
    if (!w)
      to[o] += f;
    else
      for (int64_t c = 0; c < s.c; ++c) to[c] += f * w[o * s.c + c];
  }
}

// ---- Forward

struct ForwardBuffers {
  int64_t product, partial, stacked, cov, merged, bias;  // floats
  explicit ForwardBuffers(const Size& s)
      : product(static_cast<int64_t>(RowProduct{s.pixels, s.c, s.c}.workspace_bytes() / 4)),
        partial(row_blocks(s.pixels) * s.c),
        stacked(s.branches * s.matrix()),
        cov(s.c * s.c),
        merged(s.matrix()),
        bias(s.o) {}
  size_t bytes() const {
    return static_cast<size_t>(product + partial + stacked + cov + merged + bias) * sizeof(float);
  }
};

// Mean, 1 / sqrt(var + eps) and var of branch i: sums over the channels of x.
void branch_statistics(const Size& s, int64_t i, const float* w, const float* cov, double eps,
                       Views out) {
  const float *m = out[5].as<float>(), *wcov = out[4].as<float>() + i * s.matrix();
  for (int64_t o = 0; o < s.o; ++o) {
    const int64_t at = i * s.o + o;
    const double mean = w ? dot(w + o * s.c, m, s.c) : m[o];
    const double var = w ? dot(w + o * s.c, wcov + o * s.c, s.c) : cov[o * s.c + o];
    out[1].as<float>()[at] = static_cast<float>(mean);
    out[2].as<float>()[at] = static_cast<float>(1 / std::sqrt(std::max(0., var) + eps));
    out[3].as<float>()[at] = static_cast<float>(std::max(0., var));
  }
}

void forward(const Size& s, double eps, Views in, Views out, float* workspace) {
  const ForwardBuffers sizes(s);
  float *partial = workspace + sizes.product, *stacked = partial + sizes.partial;
  float *cov = stacked + sizes.stacked, *merged = cov + sizes.cov, *bias = merged + sizes.merged;
  const auto* x = in[0].as<float>();
  auto* m = out[5].as<float>();
  const double pixels = static_cast<double>(s.pixels);
  std::vector<double> sums(static_cast<size_t>(s.c));
  channel_sums(x, s.pixels, s.c, partial, sums.data());
  for (int64_t c = 0; c < s.c; ++c) m[c] = static_cast<float>(sums[c] / pixels);
  RowProduct{s.pixels, s.c, s.c}.run(x, x, cov, false, workspace, m, m);
  for (int64_t i = 0; i < s.c * s.c; ++i) cov[i] = static_cast<float>(cov[i] / pixels);
  stack_weights(s, in, Size::weight(0), 3, stacked);
  cpu::gemm(stacked, s.c, s.branches * s.o, cpu::PackedMatrix(cov, s.c, false, s.c, s.c, nullptr),
            {}, out[4].as<float>(), s.c);

  std::vector<double> all(static_cast<size_t>(s.matrix()), 0), offset(static_cast<size_t>(s.o), 0);
  std::vector<float> factor(static_cast<size_t>(s.o));
  for (int64_t i = 0; i < s.rows(); ++i) {
    const float* w = i < s.branches ? in[Size::weight(i)].as<float>() : nullptr;
    branch_statistics(s, i, w, cov, eps, out);
    for (int64_t o = 0; o < s.o; ++o) {
      const double f = double{in[s.scale(i)].as<float>()[o]} * out[2].as<float>()[i * s.o + o];
      factor[o] = static_cast<float>(f);
      offset[o] += in[s.bias(i)].as<float>()[o] - f * out[1].as<float>()[i * s.o + o];
    }
    add_scaled(s, w, factor.data(), all);
  }
  for (int64_t i = 0; i < s.matrix(); ++i) merged[i] = static_cast<float>(all[i]);
  for (int64_t o = 0; o < s.o; ++o) bias[o] = static_cast<float>(offset[o]);
  cpu::gemm(x, s.c, s.pixels, cpu::PackedMatrix(merged, s.c, true, s.c, s.o, bias), {},
            out[0].as<float>(), s.o);
}

// ---- Backward

// Places of the gradient op's inputs; what follows are the weights, then the scales.
enum GradInput : size_t { kX, kDy, kInv, kWcov, kMean, kParameters };

struct BackwardBuffers {
  int64_t product, partial, stacked, weighted, g, a, merged, bias;  // floats
  explicit BackwardBuffers(const Size& s)
      : product(static_cast<int64_t>(
            std::max(RowProduct{s.pixels, s.o, s.c}.workspace_bytes(),
                     RowProduct{s.branches * s.o, s.c, s.c}.workspace_bytes()) /
            4)),
        partial(row_blocks(s.pixels) * s.o),
        stacked(s.branches * s.matrix()),
        weighted(s.branches * s.matrix()),
        g(s.matrix()),
        a(s.c * s.c),
        merged(s.matrix()),
        bias(s.c) {}
  size_t bytes() const {
    return static_cast<size_t>(product + partial + stacked + weighted + g + a + merged + bias) *
           sizeof(float);
  }
};

// dx = dy W - x A + bias, a few rows at a time, so that what the first product writes is still in
// the cache when the second adds to it. `a` holds -A.
void input_gradient(const Size& s, const float* x, const float* dy, const float* a,
                    const float* bias, const float* merged, float* dx) {
  const cpu::PackedMatrix by_x(a, s.c, false, s.c, s.c, bias);
  const cpu::PackedMatrix by_dy(merged, s.c, false, s.o, s.c, nullptr);
  cpu::Epilogue plus;
  plus.residual = cpu::Residual::kBeforeAct;
  for_row_blocks(s.pixels, s.c + s.o, [&](int64_t, int64_t r0, int64_t r1) {
    float* y = dx + r0 * s.c;
    cpu::gemm(x + r0 * s.c, s.c, r1 - r0, by_x, {}, y, s.c);
    cpu::gemm(dy + r0 * s.o, s.o, r1 - r0, by_dy, plus, y, s.c, y, s.c);
  });
}

// Outputs: dx, then for each input after x its gradient.
void backward(const Size& s, bool wants_dx, Views in, Views out, float* workspace) {
  const BackwardBuffers sizes(s);
  float *partial = workspace + sizes.product, *stacked = partial + sizes.partial;
  float *weighted = stacked + sizes.stacked, *g = weighted + sizes.weighted, *a = g + sizes.g;
  float *merged = a + sizes.a, *bias = merged + sizes.merged;
  const auto *x = in[kX].as<float>(), *dy = in[kDy].as<float>(), *m = in[kMean].as<float>();
  const double pixels = static_cast<double>(s.pixels);
  std::vector<double> sum_dy(static_cast<size_t>(s.o));
  channel_sums(dy, s.pixels, s.o, partial, sum_dy.data());
  RowProduct{s.pixels, s.o, s.c}.run(dy, x, g, false, workspace, nullptr, m);
  stack_weights(s, in, kParameters, 1, stacked);

  std::vector<double> all(static_cast<size_t>(s.matrix()), 0);
  std::vector<float> factor(static_cast<size_t>(s.o));
  std::vector<double> diagonal(static_cast<size_t>(s.c), 0);
  for (int64_t i = 0; i < s.rows(); ++i) {
    const bool unit = i == s.branches;
    const float* w = unit ? nullptr : stacked + i * s.matrix();
    const auto* scale = in[kParameters + static_cast<size_t>(s.branches + i)].as<float>();
    const float* inv = in[kInv].as<float>() + i * s.o;
    const float* wcov = in[kWcov].as<float>() + i * s.matrix();
    auto *dscale = out[s.scale(i)].as<float>(), *dbias = out[s.bias(i)].as<float>();
    for (int64_t o = 0; o < s.o; ++o) {
      const int64_t row = o * s.c;
      const double product = unit ? g[row + o] : dot(w + row, g + row, s.c);
      const double sum = inv[o] * product, f = double{scale[o]} * inv[o];
      const double rate = f * inv[o] * sum / pixels;  // of x^ in dz
      dscale[o] = static_cast<float>(sum);
      dbias[o] = static_cast<float>(sum_dy[o]);
      factor[o] = static_cast<float>(f);
      if (unit) {
        diagonal[o] = rate;
        continue;
      }
      float *dw = out[Size::weight(i)].as<float>() + row, *to = weighted + i * s.matrix() + row;
      const auto ff = static_cast<float>(f), back = static_cast<float>(sum * inv[o]);
      const auto r = static_cast<float>(rate);
      for (int64_t c = 0; c < s.c; ++c) {
        dw[c] = ff * (g[row + c] - back * wcov[row + c]);
        to[c] = -r * w[row + c];
      }
    }
    add_scaled(s, w, factor.data(), all);
  }
  if (!wants_dx) return;
  for (int64_t i = 0; i < s.matrix(); ++i) merged[i] = static_cast<float>(all[i]);
  RowProduct{s.branches * s.o, s.c, s.c}.run(weighted, stacked, a, false, workspace);
  for (int64_t c = 0; c < s.c; ++c) a[c * s.c + c] -= static_cast<float>(diagonal[c]);
  std::vector<double> constant(static_cast<size_t>(s.c), 0);
  for (int64_t o = 0; o < s.o; ++o)
    for (int64_t c = 0; c < s.c; ++c) constant[c] -= all[o * s.c + c] * sum_dy[o] / pixels;
  for (int64_t k = 0; k < s.c; ++k)
    for (int64_t c = 0; c < s.c; ++c) constant[c] -= double{m[k]} * a[k * s.c + c];
  for (int64_t c = 0; c < s.c; ++c) bias[c] = static_cast<float>(constant[c]);
  input_gradient(s, x, dy, a, bias, merged, out[0].as<float>());
}

std::shared_ptr<const Op> branches_grad_op(int64_t branches, bool identity, bool wants_dx) {
  return make_op(
      "PointwiseBranchesGrad", OpLayout::kImages,
      [=](Infos in, std::span<ValueInfo> out) {
        const Size s = size_of(in[kX].shape, in[kDy].shape[1], branches, identity);
        out[0] = ValueInfo(in[kX].shape, DType::kF32);
        for (int64_t i = 0; i < s.rows(); ++i) {
          if (i < s.branches)  // as a matrix: a 4-D value would be laid out as an image
            out[Size::weight(i)] = ValueInfo(Shape{s.o, s.c}, DType::kF32);
          out[s.scale(i)] = out[s.bias(i)] = ValueInfo(Shape{s.o}, DType::kF32);
        }
      },
      [=](Infos in, Infos) {
        const Size s = size_of(in[kX].shape, in[kDy].shape[1], branches, identity);
        return make_plan(
            [s, wants_dx](Views in, Views out, void* workspace) {
              backward(s, wants_dx, in, out, static_cast<float*>(workspace));
            },
            BackwardBuffers(s).bytes());
      });
}

class PointwiseBranchesGradient final : public Gradient {
 public:
  explicit PointwiseBranchesGradient(const PointwiseBranchesOp& op)
      : Gradient({.inputs = (1u << op.inputs()) - 1, .outputs = 0b110100}),
        branches_(op.branches),
        identity_(op.identity),
        with_dx_(branches_grad_op(op.branches, op.identity, true)),
        without_dx_(branches_grad_op(op.branches, op.identity, false)) {}

  void run(GradContext& c) const override {
    const Shape& x = c.input(0).shape;
    const Size s = size_of(x, c.grad().shape[1], branches_, identity_);
    std::vector<Array> inputs{c.input(0), c.grad(), c.output(2), c.output(4), c.output(5)};
    for (int64_t i = 0; i < branches_; ++i)
      inputs.push_back(Array(c.input(Size::weight(i)).tensor.reshaped({s.o, s.c})));
    for (int64_t i = 0; i < s.rows(); ++i) inputs.push_back(c.input(s.scale(i)));
    std::vector<Array> d = c.eager().run(c.needs(0) ? with_dx_ : without_dx_, inputs, s.inputs());
    for (int64_t i = 0; i < branches_; ++i) {
      Array& dw = d[Size::weight(i)];
      dw = Array(dw.tensor.reshaped({s.o, s.c, 1, 1}));
    }
    for (size_t i = 0; i < d.size(); ++i)
      if (c.needs(i)) c.set(i, d[i]);
  }

 private:
  int64_t branches_;
  bool identity_;
  std::shared_ptr<const Op> with_dx_, without_dx_;
};

}  // namespace

std::string PointwiseBranchesOp::describe() const {
  return cat("PointwiseBranches ", branches, identity ? " and identity" : "");
}

void PointwiseBranchesOp::infer(Infos in, std::span<ValueInfo> out) const {
  require(branches > 0 && in.size() == inputs() && out.size() == kOutputs,
          "the op has three inputs per branch, two more for the identity, and six outputs");
  require_rank(in[0], 4);
  for (const ValueInfo& v : in) require_f32(v);
  const Shape& x = in[0].shape;
  const int64_t o = in[1].shape[0];
  require(x.numel() > 0, "an empty batch has no statistics");
  require(!identity || o == x[1], "an identity keeps the number of channels");
  const Size s = size_of(x, o, branches, identity);
  for (int64_t i = 0; i < s.rows(); ++i) {
    require(i == branches || in[Size::weight(i)].shape == Shape{o, x[1], 1, 1},
            "a branch's weights have another shape");
    require(in[s.scale(i)].shape == Shape{o} && in[s.bias(i)].shape == Shape{o},
            "scale and bias need one value per channel");
  }
  out[0] = ValueInfo(Shape{x[0], o, x[2], x[3]}, DType::kF32);
  for (int i = 1; i < 4; ++i) out[i] = ValueInfo(Shape{s.rows(), o}, DType::kF32);
  out[4] = ValueInfo(Shape{branches, o, x[1]}, DType::kF32);
  out[5] = ValueInfo(Shape{x[1]}, DType::kF32);
}

LayoutChoice PointwiseBranchesOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs);
}

double PointwiseBranchesOp::flops(Infos inputs, Infos outputs) const {  // y and the covariance
  const auto c = static_cast<double>(inputs[0].shape[1]);
  return 2 * c *
         (static_cast<double>(inputs[0].shape.numel()) +
          static_cast<double>(outputs[0].shape.numel()));
}

std::unique_ptr<Plan> PointwiseBranchesOp::plan(Infos in, Infos, PackCache&) const {
  const Size s = size_of(in[0].shape, in[1].shape[0], branches, identity);
  return make_plan(
      [s, eps = double{epsilon}](Views in, Views out, void* workspace) {
        forward(s, eps, in, out, static_cast<float*>(workspace));
      },
      ForwardBuffers(s).bytes());
}

std::shared_ptr<const Gradient> pointwise_branches_gradient(const Op& op) {
  return std::make_shared<PointwiseBranchesGradient>(dynamic_cast<const PointwiseBranchesOp&>(op));
}

}  // namespace train
