#include "libtrain/ops/rnn.h"

#include <algorithm>
#include <cstring>

#include "libtrain/cpu/elementwise.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

struct Sizes {
  int64_t steps, batch, input, hidden, gates, directions;
  bool batch_first;

  int64_t width() const { return gates * hidden; }
  int64_t x_row(int64_t t, int64_t n) const { return batch_first ? n * steps + t : t * batch + n; }
  int64_t y_at(int64_t t, int64_t d, int64_t n) const {
    return (batch_first ? (n * steps + t) * directions + d : (t * directions + d) * batch + n) *
           hidden;
  }
  int64_t state_at(int64_t d, int64_t n) const {
    return (batch_first ? n * directions + d : d * batch + n) * hidden;
  }
};

// The matrices of one direction. `u` is GRU's product of the reset state, apart from the others
// where the reset gate acts before it.
struct Weights {
  std::shared_ptr<const cpu::PackedMatrix> w, r, u;
};

Weights pack_direction(const RnnOp& op, const Sizes& s, int64_t d, const float* w, const float* r,
                       const float* b) {
  const int64_t width = s.width(), h = s.hidden;
  const bool split = op.cell == RnnCell::kGru && !op.linear_before_reset;
  std::vector<float> wb(static_cast<size_t>(width), 0.f), rb(static_cast<size_t>(width), 0.f);
  if (b) {
    std::copy_n(b + d * 2 * width, width, wb.begin());
    std::copy_n(b + d * 2 * width + width, width, rb.begin());
  }
  w += d * width * s.input;
  r += d * width * h;
  Weights out;
  const auto pack = [](const float* m, int64_t k, int64_t n, const float* bias) {
    return std::make_shared<const cpu::PackedMatrix>(m, k, true, k, n, bias);
  };
  out.w = pack(w, s.input, width, wb.data());
  out.r = pack(r, h, split ? 2 * h : width, rb.data());
  if (split) out.u = pack(r + 2 * h * h, h, h, rb.data() + 2 * h);
  return out;
}

// The state of one direction while it runs.
struct Pass {
  const RnnOp& op;
  const Sizes& s;
  const Weights& m;
  const std::array<cpu::Activation, 3>& act;
  const float* peephole;    // [3, H] or null
  const float* xg;          // [T N, G H]
  float *hg, *tmp, *h, *c;  // [N, G H], [N, H] each

  void clip(float* v, int64_t n) const {
    if (op.clip > 0) cpu::unary(cpu::clip(-op.clip, op.clip), v, v, n);
  }
  void apply(const cpu::Activation& a, float* v, int64_t n) const {
    clip(v, n);
    cpu::unary(a, v, v, n);
  }
  // Each takes g: the recurrent products of row n, and x: its input products; updates h (and c).
  void rnn(int64_t n, float* g, const float* x) const {
    for (int64_t i = 0; i < s.hidden; ++i) g[i] += x[i];
    apply(act[0], g, s.hidden);
    std::copy_n(g, s.hidden, h + n * s.hidden);
  }
  void lstm(int64_t n, float* g, const float* x) const {
    const int64_t H = s.hidden;
    float *hn = h + n * H, *cn = c + n * H;
    for (int64_t i = 0; i < 4 * H; ++i) g[i] += x[i];
    if (peephole) {
      for (int64_t i = 0; i < H; ++i) {
        g[i] += peephole[i] * cn[i];
        g[2 * H + i] += peephole[2 * H + i] * cn[i];
      }
    }
    apply(act[0], g, H);                     // i
    if (!peephole) apply(act[0], g + H, H);  // o
    apply(act[0], g + 2 * H, H);             // f
    apply(act[1], g + 3 * H, H);             // c
    for (int64_t i = 0; i < H; ++i) cn[i] = g[2 * H + i] * cn[i] + g[i] * g[3 * H + i];
    if (peephole) {
      for (int64_t i = 0; i < H; ++i) g[H + i] += peephole[H + i] * cn[i];
      apply(act[0], g + H, H);
    }
    cpu::unary(act[2], cn, hn, H);
    for (int64_t i = 0; i < H; ++i) hn[i] *= g[H + i];
  }
  // First half of a GRU step: the gates z and r, and r's share of the state.
  void gru_gates(int64_t n, float* g, const float* x) const {
    const int64_t H = s.hidden;
    for (int64_t i = 0; i < 2 * H; ++i) g[i] += x[i];
    apply(act[0], g, 2 * H);
    float* t = tmp + n * H;
    if (op.linear_before_reset)
      for (int64_t i = 0; i < H; ++i) t[i] = g[H + i] * g[2 * H + i];
    else
      for (int64_t i = 0; i < H; ++i) t[i] = g[H + i] * h[n * H + i];
  }
  // Second half: t is the recurrent part of the new state.
  void gru_state(int64_t n, const float* g, const float* x, float* t) const {
    const int64_t H = s.hidden;
    float* hn = h + n * H;
    for (int64_t i = 0; i < H; ++i) t[i] += x[2 * H + i];
    apply(act[1], t, H);
    for (int64_t i = 0; i < H; ++i) hn[i] = (1 - g[i]) * t[i] + g[i] * hn[i];
  }
  void step(const std::vector<int64_t>& time) const {
    const int64_t H = s.hidden, width = s.width(), gru = op.cell == RnnCell::kGru;
    cpu::gemm(h, H, s.batch, *m.r, {}, hg, width);
    const auto x = [&](int64_t n) { return xg + s.x_row(time[n], n) * width; };
    for (int64_t n = 0; n < s.batch; ++n) {
      if (time[n] < 0) continue;
      float* g = hg + n * width;
      if (op.cell == RnnCell::kRnn) rnn(n, g, x(n));
      if (op.cell == RnnCell::kLstm) lstm(n, g, x(n));
      if (gru) gru_gates(n, g, x(n));
    }
    if (!gru) return;
    float* recurrent = tmp;
    if (!op.linear_before_reset) {
      recurrent = tmp + s.batch * H;
      cpu::gemm(tmp, H, s.batch, *m.u, {}, recurrent, H);
    }
    for (int64_t n = 0; n < s.batch; ++n)
      if (time[n] >= 0) gru_state(n, hg + n * width, x(n), recurrent + n * H);
  }
};

// Where the parts of the workspace start, in floats.
struct Workspace {
  int64_t xg, hg, tmp, h, c, total;
  explicit Workspace(const Sizes& s) {
    const auto up = [](int64_t n) { return (n + 15) / 16 * 16; };
    xg = 0;
    hg = up(s.steps * s.batch * s.width());
    tmp = hg + up(s.batch * s.width());
    h = tmp + up(2 * s.batch * s.hidden);
    c = h + up(s.batch * s.hidden);
    total = c + up(s.batch * s.hidden);
  }
};

class RnnPlan final : public Plan {
 public:
  RnnPlan(const RnnOp& op, const Sizes& s, std::vector<Weights> weights)
      : op_(op), s_(s), weights_(std::move(weights)) {
    workspace_bytes = static_cast<size_t>(Workspace(s).total) * sizeof(float);
  }

  void run(Views in, Views out, void* workspace) const override {
    const auto given = [&](size_t i) {
      return i < in.size() ? static_cast<const float*>(in[i].data) : nullptr;
    };
    std::vector<int64_t> lengths(static_cast<size_t>(s_.batch), s_.steps);
    if (in.size() > 4 && in[4].data)
      convert_elements(in[4].info->dtype, in[4].data, DType::kI64, lengths.data(), s_.batch);
    for (int64_t l : lengths)
      if (l < 0 || l > s_.steps)
        throw ShapeError(
            cat(op_.type(), ": a sequence length of ", l, " for ", s_.steps, " steps"));
    float* const y = !out.empty() ? out[0].as<float>() : nullptr;
    if (y) std::fill_n(y, s_.steps * s_.batch * s_.directions * s_.hidden, 0.f);
    auto* const ws = static_cast<float*>(workspace);
    const Workspace at(s_);
    for (int64_t d = 0; d < s_.directions; ++d) {
      Weights fresh;
      if (weights_.empty())
        fresh = pack_direction(op_, s_, d, in[1].as<float>(), in[2].as<float>(), given(3));
      const Weights& m = weights_.empty() ? fresh : weights_[d];
      const float* p = op_.cell == RnnCell::kLstm ? given(7) : nullptr;
      const Pass pass{
          op_, s_,         m,           op_.activations[d], p ? p + d * 3 * s_.hidden : nullptr,
          ws,  ws + at.hg, ws + at.tmp, ws + at.h,          ws + at.c};
      load_state(given(5), d, pass.h);
      load_state(op_.cell == RnnCell::kLstm ? given(6) : nullptr, d, pass.c);
      cpu::gemm(in[0].as<float>(), s_.input, s_.steps * s_.batch, *m.w, {}, ws, s_.width());
      run_direction(pass, d, lengths, y);
      store_state(pass.h, d, out.size() > 1 ? out[1].as<float>() : nullptr);
      store_state(pass.c, d, out.size() > 2 ? out[2].as<float>() : nullptr);
    }
  }

 private:
  void run_direction(const Pass& pass, int64_t d, const std::vector<int64_t>& lengths,
                     float* y) const {
    const bool reverse = op_.direction == RnnDirection::kReverse || d == 1;
    std::vector<int64_t> time(lengths.size());
    for (int64_t t = 0; t < s_.steps; ++t) {
      for (size_t n = 0; n < time.size(); ++n)
        time[n] = t >= lengths[n] ? -1 : reverse ? lengths[n] - 1 - t : t;
      pass.step(time);
      for (size_t n = 0; y && n < time.size(); ++n)
        if (time[n] >= 0)
          std::copy_n(pass.h + static_cast<int64_t>(n) * s_.hidden, s_.hidden,
                      y + s_.y_at(time[n], d, static_cast<int64_t>(n)));
    }
  }
  void load_state(const float* from, int64_t d, float* to) const {
    for (int64_t n = 0; n < s_.batch; ++n) {
      if (from)
        std::copy_n(from + s_.state_at(d, n), s_.hidden, to + n * s_.hidden);
      else
        std::fill_n(to + n * s_.hidden, s_.hidden, 0.f);
    }
  }
  void store_state(const float* from, int64_t d, float* to) const {
    for (int64_t n = 0; to && n < s_.batch; ++n)
      std::copy_n(from + n * s_.hidden, s_.hidden, to + s_.state_at(d, n));
  }

  RnnOp op_;
  Sizes s_;
  std::vector<Weights> weights_;
};

Sizes sizes_of(const RnnOp& op, Infos inputs) {
  const Shape& x = inputs[0].shape;
  require(x.rank() == 3, "the input of a recurrent layer has three axes");
  Sizes s{x[0], x[1], x[2], op.hidden, op.gates(), op.directions(), op.batch_first};
  if (op.batch_first) std::swap(s.steps, s.batch);
  return s;
}

}  // namespace

std::string_view RnnOp::type() const {
  return cell == RnnCell::kRnn ? "RNN" : cell == RnnCell::kGru ? "GRU" : "LSTM";
}

std::string RnnOp::describe() const {
  return cat(type(), " hidden=", hidden, " directions=", directions());
}

void RnnOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(hidden > 0 && hidden < (int64_t{1} << 24), "the hidden size is out of range");
  require(inputs.size() >= 3, "a recurrent layer needs an input and two weights");
  const Sizes s = sizes_of(*this, inputs);
  const Shape state =
      batch_first ? Shape{s.batch, s.directions, hidden} : Shape{s.directions, s.batch, hidden};
  const auto check = [&](size_t i, const Shape& want) {
    if (!has_input(inputs, i)) return;
    if (!(inputs[i].shape == want))
      throw ShapeError(
          cat(type(), ": input ", i, " is ", inputs[i].shape.str(), " instead of ", want.str()));
    if (i != 4) require_f32(inputs[i]);
  };
  require_f32(inputs[0]);
  check(1, {s.directions, s.width(), s.input});
  check(2, {s.directions, s.width(), hidden});
  check(3, {s.directions, 2 * s.width()});
  check(4, {s.batch});
  check(5, state);
  if (cell == RnnCell::kLstm) {
    check(6, state);
    check(7, {s.directions, 3 * hidden});
  }
  if (has_input(inputs, 4))
    require(!is_float(inputs[4].dtype), "the sequence lengths must be integers");
  require(outputs.size() <= (cell == RnnCell::kLstm ? 3u : 2u), "too many outputs");
  if (!outputs.empty())
    outputs[0] = ValueInfo(batch_first ? Shape{s.batch, s.steps, s.directions, hidden}
                                       : Shape{s.steps, s.directions, s.batch, hidden},
                           DType::kF32);
  for (size_t i = 1; i < outputs.size(); ++i) outputs[i] = ValueInfo(state, DType::kF32);
}

double RnnOp::flops(Infos inputs, Infos) const {
  const Sizes s = sizes_of(*this, inputs);
  return 2.0 * static_cast<double>(s.steps * s.batch * s.directions) *
         static_cast<double>(s.width()) * static_cast<double>(s.input + hidden);
}

std::unique_ptr<Plan> RnnOp::plan(Infos inputs, Infos, PackCache& packs) const {
  const Sizes s = sizes_of(*this, inputs);
  std::vector<Weights> weights;
  if (inputs[1].constant && inputs[2].constant && (!has_input(inputs, 3) || inputs[3].constant)) {
    const float* b = has_input(inputs, 3) ? inputs[3].constant->data<float>() : nullptr;
    for (int64_t d = 0; d < s.directions; ++d)
      weights.push_back(*packs.get<Weights>(static_cast<int>(d), [&] {
        return std::make_shared<const Weights>(pack_direction(
            *this, s, d, inputs[1].constant->data<float>(), inputs[2].constant->data<float>(), b));
      }));
  }
  return std::make_unique<RnnPlan>(*this, s, std::move(weights));
}

}  // namespace train
