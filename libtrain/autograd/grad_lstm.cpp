// LSTM: forward with what the gradient needs, and backward through time.
#include <vector>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/lstm.h"
#include "libtrain/autograd/row_product.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/cpu/packed.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

struct Sizes {
  int64_t n, t, in, h, d;

  Sizes(Infos inputs, int64_t directions)
      : n(inputs[0].shape[0]),
        t(inputs[0].shape[1]),
        in(inputs[0].shape[2]),
        h(inputs[2].shape[1]),
        d(directions) {}
  int64_t rows() const { return n * t; }
  // The time that direction `dir` reaches at step `s`.
  int64_t time(int64_t dir, int64_t s) const { return dir ? t - 1 - s : s; }
};

enum { kWih, kWhh, kBih, kBhh };
size_t input_of(int64_t dir, int which) { return static_cast<size_t>(1 + 4 * dir + which); }

std::vector<float> summed_bias(Views in, int64_t dir, int64_t n) {
  std::vector<float> b(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    b[i] = in[input_of(dir, kBih)].as<float>()[i] + in[input_of(dir, kBhh)].as<float>()[i];
  return b;
}

// Steps of one direction for the samples [n0, n1): z holds w_ih x + b and becomes the gates.
void run_forward(const Sizes& s, int64_t dir, const cpu::PackedMatrix& whh, int64_t n0, int64_t n1,
                 float* z, float* cells, float* y) {
  const cpu::GradTable& k = grad_kernels();
  const int64_t gates = 4 * s.h, wide = s.d * s.h;
  cpu::Epilogue add;
  add.residual = cpu::Residual::kBeforeAct;
  for (int64_t step = 0; step < s.t; ++step) {
    const int64_t now = s.time(dir, step), before = s.time(dir, step - 1);
    const auto row = [&](int64_t n, int64_t t) { return n * s.t + t; };
    float* zt = z + row(n0, now) * gates;
    if (step > 0)
      cpu::gemm(y + row(n0, before) * wide + dir * s.h, s.t * wide, n1 - n0, whh, add, zt,
                s.t * gates, zt, s.t * gates);
    for (int64_t n = n0; n < n1; ++n)
      k.lstm_cell(z + row(n, now) * gates, step > 0 ? cells + row(n, before) * s.h : nullptr, s.h,
                  cells + row(n, now) * s.h, y + row(n, now) * wide + dir * s.h);
  }
}

// The same backwards: dz [N, T, 4 H] from dy.
void run_backward(const Sizes& s, int64_t dir, const cpu::PackedMatrix& whh, int64_t n0, int64_t n1,
                  const float* gates_of, const float* cells, const float* dy, float* dz) {
  const cpu::GradTable& k = grad_kernels();
  const int64_t gates = 4 * s.h, wide = s.d * s.h, count = n1 - n0;
  std::vector<float> dh(static_cast<size_t>(count * s.h)), dc(dh.size(), 0.f);
  const auto row = [&](int64_t n, int64_t t) { return n * s.t + t; };
  for (int64_t step = s.t; step-- > 0;) {
    const int64_t now = s.time(dir, step), before = s.time(dir, step - 1);
    if (step + 1 < s.t)  // what the next step asks of this state
      cpu::gemm(dz + row(n0, s.time(dir, step + 1)) * gates, s.t * gates, count, whh, {}, dh.data(),
                s.h);
    for (int64_t n = n0; n < n1; ++n) {
      float* d = dh.data() + (n - n0) * s.h;
      const float* from = dy + row(n, now) * wide + dir * s.h;
      for (int64_t i = 0; i < s.h; ++i) d[i] = step + 1 < s.t ? d[i] + from[i] : from[i];
      k.lstm_cell_grad(gates_of + row(n, now) * gates,
                       step > 0 ? cells + row(n, before) * s.h : nullptr, cells + row(n, now) * s.h,
                       d, s.h, dc.data() + (n - n0) * s.h, dz + row(n, now) * gates);
    }
  }
}

// The state before each step, [N T, H]: y moved by one step.
void states_before(const Sizes& s, int64_t dir, const float* y, float* before) {
  parallel_for(s.rows(), row_grain(s.h), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t t = r % s.t;
      const bool first = dir ? t == s.t - 1 : t == 0;
      const int64_t from = dir ? r + 1 : r - 1;
      if (first)
        std::fill_n(before + r * s.h, s.h, 0.f);
      else
        std::copy_n(y + from * s.d * s.h + dir * s.h, s.h, before + r * s.h);
    }
  });
}

// Bytes that products of rows of k floats need with the threads at hand.
size_t product_bytes(int64_t k, cpu::Precision precision) {
  return cpu::align64(static_cast<size_t>(cpu::kernels(precision).gemm_scratch(k)) *
                      sizeof(float)) *
         static_cast<size_t>(current_threads());
}

// Products over all steps of the backward pass, and its workspace in floats.
struct GradBuffers {
  RowProduct wih, whh;
  int64_t dz, before, sums, product;
  GradBuffers(const Sizes& s, cpu::Precision precision)
      : wih{s.rows(), 4 * s.h, s.in, precision},
        whh{s.rows(), 4 * s.h, s.h, precision},
        dz(s.rows() * 4 * s.h),
        before(s.rows() * s.h),
        sums(row_blocks(s.rows()) * 4 * s.h),
        product(static_cast<int64_t>(std::max(wih.workspace_bytes(), whh.workspace_bytes()) /
                                     sizeof(float))) {
    const size_t input = product_bytes(4 * s.h, precision) / sizeof(float);
    product = std::max(product, static_cast<int64_t>(input));
  }
  int64_t floats() const { return dz + before + sums + product; }
};

// Inputs: those of the op, y, gates, cells, dy. Outputs: gradients of the op's inputs.
void backward(const Sizes& s, const GradBuffers& sizes, Views in, Views out, void* workspace) {
  auto *dz = static_cast<float*>(workspace), *before = dz + sizes.dz, *sums = before + sizes.before;
  void* const scratch = sums + sizes.sums;
  const size_t first = static_cast<size_t>(1 + 4 * s.d);
  const auto *y = in[first].as<float>(), *gates = in[first + 1].as<float>(),
             *cells = in[first + 2].as<float>(), *dy = in[first + 3].as<float>();
  const int64_t g = 4 * s.h;
  for (int64_t dir = 0; dir < s.d; ++dir) {
    const cpu::PackedMatrix whh(in[input_of(dir, kWhh)].as<float>(), s.h, false, g, s.h, nullptr);
    parallel_for(s.n, 1, [&](int64_t n0, int64_t n1) {
      run_backward(s, dir, whh, n0, n1, gates + dir * s.rows() * g, cells + dir * s.rows() * s.h,
                   dy, dz);
    });
    const cpu::PackedMatrix wih(in[input_of(dir, kWih)].as<float>(), s.in, false, g, s.in, nullptr,
                                sizes.wih.precision);
    cpu::Epilogue add;
    if (dir) add.residual = cpu::Residual::kBeforeAct;
    auto* dx = out[0].as<float>();
    cpu::gemm(dz, g, s.rows(), wih, add, dx, s.in, dir ? dx : nullptr, s.in, scratch);
    sizes.wih.run(dz, in[0].as<float>(), out[input_of(dir, kWih)].as<float>(), false, scratch);
    states_before(s, dir, y, before);
    sizes.whh.run(dz, before, out[input_of(dir, kWhh)].as<float>(), false, scratch);
    for_row_blocks(s.rows(), g, [&](int64_t b, int64_t r0, int64_t r1) {
      float* sum = sums + b * g;
      std::fill_n(sum, g, 0.f);
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t i = 0; i < g; ++i) sum[i] += dz[r * g + i];
    });
    add_blocks(sums, row_blocks(s.rows()), g, out[input_of(dir, kBih)].as<float>());
    std::copy_n(out[input_of(dir, kBih)].as<float>(), g, out[input_of(dir, kBhh)].as<float>());
  }
}

class LstmGradient final : public Gradient {
 public:
  LstmGradient(int64_t directions, cpu::Precision precision)
      : Gradient({.inputs = (1u << (1 + 4 * directions)) - 1, .outputs = 0b111}),
        inputs_(static_cast<size_t>(1 + 4 * directions)),
        grad_(make_op(
            "LstmGrad", OpLayout::kLinear,
            [](Infos in, std::span<ValueInfo> out) {
              for (size_t i = 0; i < out.size(); ++i) out[i] = ValueInfo(in[i].shape, DType::kF32);
            },
            [directions, precision](Infos in, Infos) {
              const Sizes s(in, directions);
              const GradBuffers b(s, precision);
              return make_plan(
                  [s, b](Views in, Views out, void* ws) { backward(s, b, in, out, ws); },
                  static_cast<size_t>(b.floats()) * sizeof(float));
            })) {}
  void run(GradContext& c) const override {
    std::vector<Array> inputs;
    for (size_t i = 0; i < inputs_; ++i) inputs.push_back(c.input(i));
    for (size_t i = 0; i < 3; ++i) inputs.push_back(c.output(i));
    inputs.push_back(c.grad());
    const auto d = c.eager().run(grad_, inputs, inputs_);
    for (size_t i = 0; i < inputs_; ++i)
      if (c.needs(i)) c.set(i, d[i]);
  }

 private:
  size_t inputs_;
  std::shared_ptr<const Op> grad_;
};

}  // namespace

void LstmOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs.size() == static_cast<size_t>(1 + 4 * directions), "LSTM: parameters are missing");
  require_rank(inputs[0], 3);
  for (const ValueInfo& v : inputs) require_f32(v);
  const int64_t in = inputs[0].shape[2], h = inputs[2].shape.rank() == 2 ? inputs[2].shape[1] : 0;
  for (int64_t d = 0; d < directions; ++d)
    require(h > 0 && inputs[input_of(d, kWih)].shape == Shape{4 * h, in} &&
                inputs[input_of(d, kWhh)].shape == Shape{4 * h, h} &&
                inputs[input_of(d, kBih)].shape == Shape{4 * h} &&
                inputs[input_of(d, kBhh)].shape == Shape{4 * h},
            "LSTM: expected w_ih [4 H, I], w_hh [4 H, H], b_ih [4 H], b_hh [4 H]");
  require(outputs.size() == 3, "the op has three outputs");
  const int64_t n = inputs[0].shape[0], t = inputs[0].shape[1];
  outputs[0] = ValueInfo(Shape{n, t, directions * h}, DType::kF32);
  outputs[1] = ValueInfo(Shape{directions, n, t, 4 * h}, DType::kF32);
  outputs[2] = ValueInfo(Shape{directions, n, t, h}, DType::kF32);
}

double LstmOp::flops(Infos inputs, Infos) const {
  const Sizes s(inputs, directions);
  return 8.0 * static_cast<double>(s.rows() * s.d * s.h) * static_cast<double>(s.in + s.h);
}

std::unique_ptr<Plan> LstmOp::plan(Infos inputs, Infos, PackCache&) const {
  const Sizes s(inputs, directions);
  return make_plan(
      [s, p = precision](Views in, Views out, void* ws) {
        const int64_t g = 4 * s.h;
        for (int64_t dir = 0; dir < s.d; ++dir) {
          float* z = out[1].as<float>() + dir * s.rows() * g;
          const auto bias = summed_bias(in, dir, g);
          const cpu::PackedMatrix wih(in[input_of(dir, kWih)].as<float>(), s.in, true, s.in, g,
                                      bias.data(), p);
          cpu::gemm(in[0].as<float>(), s.in, s.rows(), wih, {}, z, g, nullptr, 0, ws);
          const cpu::PackedMatrix whh(in[input_of(dir, kWhh)].as<float>(), s.h, true, s.h, g,
                                      nullptr);
          parallel_for(s.n, 1, [&](int64_t n0, int64_t n1) {
            run_forward(s, dir, whh, n0, n1, z, out[2].as<float>() + dir * s.rows() * s.h,
                        out[0].as<float>());
          });
        }
      },
      product_bytes(s.in, precision));
}

std::string LstmOp::describe() const {
  return precision == cpu::Precision::kBf16 ? "LstmTrain bf16" : "LstmTrain";
}

std::shared_ptr<const Op> LstmOp::in_bf16() const {
  return std::make_shared<LstmOp>(directions == 2, cpu::Precision::kBf16);
}

std::shared_ptr<const Gradient> lstm_gradient(const Op& op) {
  const auto& lstm = dynamic_cast<const LstmOp&>(op);
  return std::make_shared<LstmGradient>(lstm.directions, lstm.precision);
}

}  // namespace train
