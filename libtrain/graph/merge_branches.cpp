// Branches of convolutions that a training keeps apart become the one convolution that they are
// (Ding et al. 2021), in f64.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "libtrain/graph/merge_branches.h"
#include "libtrain/graph/rewriter.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// A linear map of `source` as one convolution without dilation:
//   y[o] = bias[o] + sum over i, dy, dx of weight[o][i][dy][dx] source[g(o) + i][...]
struct Form {
  ValueId source = kNoValue;
  std::array<int64_t, 2> kernel{1, 1}, strides{1, 1};
  std::array<int64_t, 4> pads{0, 0, 0, 0};  // top, left, bottom, right
  int64_t groups = 1, in = 0, out = 0;
  std::vector<double> weight = {}, bias = {};  // [out, in / groups, kh, kw], [out]
  int nodes = 0, convs = 0;                    // of the graph that this stands for
  std::string name = {}, first = {};           // the module they make up; the first convolution

  int64_t width() const { return in / groups; }
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t count() const { return out * width() * taps(); }
  size_t at(int64_t o, int64_t i, int64_t y, int64_t x) const {
    return static_cast<size_t>(((o * width() + i) * kernel[0] + y) * kernel[1] + x);
  }
  // Nothing but a number per channel.
  bool diagonal() const {
    return groups == in && out == in && taps() == 1 && strides == std::array<int64_t, 2>{1, 1} &&
           padding() == 0;
  }
  int64_t padding() const { return std::accumulate(pads.begin(), pads.end(), int64_t{0}); }
  // Output size less input size, at stride 1: branches must agree.
  std::array<int64_t, 2> slack() const {
    return {pads[0] + pads[2] - kernel[0], pads[1] + pads[3] - kernel[1]};
  }
};

// The module that both are parts of: "blocks.0" for "blocks.0.conv" and "blocks.0.bn.lab".
std::string module_of(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const auto ends = [&](const std::string& s) { return at == s.size() || s[at] == '.'; };
  while (at > 0 && !(ends(a) && ends(b))) --at;
  return a.substr(0, at);
}

void join_names(Form& f, const std::string& name, const std::string& first) {
  f.name = module_of(f.name, name);
  if (f.first.empty()) f.first = first;
}

Form identity(ValueId source, int64_t channels) {
  Form f{.source = source, .groups = channels, .in = channels, .out = channels};
  f.weight.assign(static_cast<size_t>(channels), 1);
  f.bias.assign(static_cast<size_t>(channels), 0);
  return f;
}

// `f` over the window [-pads, -pads + kernel) and in groups as wide as given, where it is 0
// elsewhere.
Form widened(const Form& f, const std::array<int64_t, 2>& kernel,
             const std::array<int64_t, 4>& pads, int64_t groups) {
  Form w = f;
  w.kernel = kernel, w.pads = pads, w.groups = groups;
  w.weight.assign(static_cast<size_t>(w.count()), 0);
  const int64_t per_group = f.out / f.groups, new_per_group = f.out / groups;
  for (int64_t o = 0; o < f.out; ++o)
    for (int64_t i = 0; i < f.width(); ++i) {
      const int64_t channel = o / per_group * f.width() + i;
      const int64_t to = channel - o / new_per_group * w.width();
      for (int64_t y = 0; y < f.kernel[0]; ++y)
        for (int64_t x = 0; x < f.kernel[1]; ++x)
          w.weight[w.at(o, to, y + pads[0] - f.pads[0], x + pads[1] - f.pads[1])] =
              f.weight[f.at(o, i, y, x)];
    }
  return w;
}

// The sum as one convolution; nothing where it would compute more than both.
std::optional<Form> sum(const Form& a, const Form& b) {
  if (a.source != b.source || a.in != b.in || a.out != b.out || a.strides != b.strides ||
      a.slack() != b.slack())
    return std::nullopt;
  std::array<int64_t, 2> kernel{};
  std::array<int64_t, 4> pads{};
  for (size_t d = 0; d < 2; ++d) {
    pads[d] = std::max(a.pads[d], b.pads[d]);
    kernel[d] = pads[d] + std::max(a.kernel[d] - a.pads[d], b.kernel[d] - b.pads[d]);
    pads[d + 2] = a.slack()[d] - pads[d] + kernel[d];
  }
  const int64_t groups = std::gcd(a.groups, b.groups);
  if (a.out * (a.in / groups) * kernel[0] * kernel[1] > a.count() + b.count() ||
      std::ranges::min(pads) < 0)
    return std::nullopt;
  Form s = widened(a, kernel, pads, groups);
  const Form other = widened(b, kernel, pads, groups);
  for (size_t i = 0; i < s.weight.size(); ++i) s.weight[i] += other.weight[i];
  for (size_t i = 0; i < s.bias.size(); ++i) s.bias[i] += other.bias[i];
  s.nodes = a.nodes + b.nodes, s.convs = a.convs + b.convs;
  join_names(s, b.name, b.first);
  return s;
}

void scale(Form& f, const std::vector<double>& factor, const std::vector<double>& shift) {
  const auto row = static_cast<size_t>(f.width() * f.taps());
  for (size_t o = 0; o < factor.size(); ++o) {
    for (size_t k = 0; k < row; ++k) f.weight[o * row + k] *= factor[o];
    f.bias[o] = f.bias[o] * factor[o] + shift[o];
  }
}

// `f` of what the diagonal form `before` makes; nothing where padding would see its bias.
std::optional<Form> after(Form f, const Form& before) {
  const bool shifts = std::ranges::any_of(before.bias, [](double b) { return b != 0; });
  if (shifts && f.padding() > 0) return std::nullopt;
  const int64_t per_group = f.out / f.groups;
  for (int64_t o = 0; o < f.out; ++o)
    for (int64_t i = 0; i < f.width(); ++i) {
      const auto channel = static_cast<size_t>(o / per_group * f.width() + i);
      for (int64_t k = 0; k < f.taps(); ++k) {
        double& w = f.weight[f.at(o, i, 0, 0) + static_cast<size_t>(k)];
        f.bias[static_cast<size_t>(o)] += w * before.bias[channel];
        w *= before.weight[channel];
      }
    }
  f.source = before.source;
  f.nodes += before.nodes, f.convs += before.convs;
  return f;
}

class Merger {
 public:
  explicit Merger(Graph& graph)
      : rewriter_(graph), forms_(graph.values.size()), shapes_(probe_shapes(graph)) {
    for (const Node& n : graph.nodes) used_.insert(n.name);
  }

  /// Whether anything changed.
  bool run() {
    const size_t values = forms_.size();
    for (size_t i = 0; i < rewriter_.size(); ++i) {
      const Node& n = rewriter_.node(i);
      if (n.op && n.outputs.size() == 1) forms_[index(n.outputs[0])] = form_of(n);
    }
    bool changed = false;
    for (size_t v = 0; v < values; ++v)
      if (forms_[v] && forms_[v]->nodes > 1 && forms_[v]->convs > 0) {
        replace(static_cast<ValueId>(v), *forms_[v]);
        changed = true;
      }
    rewriter_.graph().remove_dead();
    return changed;
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }

  int64_t channels(ValueId v) const {
    const auto& s = shapes_[index(v)];
    return s && s->rank() == 4 ? (*s)[1] : 0;
  }

  // The form of an operand that nothing else reads, for the caller to take in; else what it is.
  std::optional<Form> operand(ValueId v) {
    if (v == kNoValue || channels(v) == 0) return std::nullopt;
    if (std::optional<Form>& f = forms_[index(v)]; f && rewriter_.uses(v) == 1) return f;
    return identity(v, channels(v));
  }
  void taken(ValueId v, const Form& by) {
    if (v != by.source) forms_[index(v)].reset();
  }

  std::optional<Form> form_of(const Node& n) {
    if (Rewriter::as<ConvOp>(n)) return convolution(n);
    if (Rewriter::as<BatchNormOp>(n)) return normalisation(n);
    const auto* op = Rewriter::as<BinaryOp>(n);
    if (!op || (op->kind != BinaryKind::kAdd && op->kind != BinaryKind::kMul)) return std::nullopt;
    for (const size_t i : {0, 1})
      if (rewriter_.graph_constant(n.inputs[i])) return affine(n, op->kind, n.inputs[1 - i], i);
    return op->kind == BinaryKind::kAdd ? addition(n) : std::nullopt;
  }

  std::optional<Form> convolution(const Node& n) {
    const auto* op = Rewriter::as<ConvOp>(n);
    const Tensor* w = rewriter_.graph_constant(n.inputs[1]);
    const bool biased = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
    const Tensor* b = biased ? rewriter_.graph_constant(n.inputs[2]) : nullptr;
    const cpu::Epilogue& e = op->epilogue;
    if (!w || (biased && !b) || op->window.auto_pad != AutoPad::kNotSet ||
        e.act.kind != cpu::Act::kNone || e.residual != cpu::Residual::kNone || e.post_scale != 1 ||
        e.post_bias != 0)
      return std::nullopt;
    Form f{.source = n.inputs[0]};
    f.groups = op->groups, f.out = w->shape()[0], f.in = w->shape()[1] * op->groups;
    const std::vector<double> weights = w->to_doubles();
    for (size_t d = 0; d < 2; ++d) {
      f.kernel[d] = (w->shape()[static_cast<int>(d) + 2] - 1) * op->window.dilations[d] + 1;
      f.strides[d] = op->window.strides[d];
    }
    std::ranges::copy(op->window.pads, f.pads.begin());
    f.weight.assign(static_cast<size_t>(f.count()), 0);
    size_t from = 0;
    for (int64_t o = 0; o < f.out; ++o)
      for (int64_t i = 0; i < f.width(); ++i)
        for (int64_t y = 0; y < f.kernel[0]; y += op->window.dilations[0])
          for (int64_t x = 0; x < f.kernel[1]; x += op->window.dilations[1])
            f.weight[f.at(o, i, y, x)] = weights[from++];
    f.bias = b ? b->to_doubles() : std::vector<double>(static_cast<size_t>(f.out), 0);
    f.nodes = f.convs = 1;
    f.name = f.first = n.name;
    const auto before = operand(n.inputs[0]);
    if (!before || before->nodes == 0 || !before->diagonal()) return f;
    const auto joined = after(f, *before);
    if (joined) taken(n.inputs[0], *joined);
    return joined ? joined : f;
  }

  // y = factor x + shift per channel, behind what makes x.
  std::optional<Form> scaled(const Node& n, ValueId x, const std::vector<double>& factor,
                             const std::vector<double>& shift) {
    auto f = operand(x);
    if (!f || f->out != static_cast<int64_t>(factor.size())) return std::nullopt;
    scale(*f, factor, shift);
    ++f->nodes;
    if (n.name.find('.') != n.name.npos) join_names(*f, n.name, "");
    taken(x, *f);
    return f;
  }

  std::optional<Form> normalisation(const Node& n) {
    const auto* op = Rewriter::as<BatchNormOp>(n);
    std::array<std::vector<double>, 4> p;
    for (size_t i = 0; i < 4; ++i) {
      const Tensor* t = rewriter_.graph_constant(n.inputs[i + 1]);
      if (!t) return std::nullopt;
      p[i] = t->to_doubles();
    }
    const auto& [weight, bias, mean, var] = p;
    std::vector<double> factor(weight.size()), shift(weight.size());
    for (size_t c = 0; c < weight.size(); ++c) {
      factor[c] = weight[c] / std::sqrt(var[c] + double{op->epsilon});
      shift[c] = bias[c] - mean[c] * factor[c];
    }
    return scaled(n, n.inputs[0], factor, shift);
  }

  std::optional<Form> affine(const Node& n, BinaryKind kind, ValueId x, size_t constant) {
    if (rewriter_.graph_constant(x) || channels(x) == 0) return std::nullopt;
    const Tensor& t = *rewriter_.graph_constant(n.inputs[constant]);
    std::optional<std::vector<double>> v;
    if (t.numel() == 1 && t.shape().rank() <= 4 && t.dtype() == DType::kF32)
      v.emplace(static_cast<size_t>(channels(x)), t.to_doubles()[0]);
    else
      v = rewriter_.per_channel(n.inputs[constant], channels(x));
    if (!v) return std::nullopt;
    const std::vector<double> ones(v->size(), 1), zeros(v->size(), 0);
    return kind == BinaryKind::kAdd ? scaled(n, x, ones, *v) : scaled(n, x, *v, zeros);
  }

  std::optional<Form> addition(const Node& n) {
    const ValueId a = n.inputs[0], b = n.inputs[1];
    if (a == b) return std::nullopt;
    auto fa = operand(a), fb = operand(b);
    if (!fa || !fb) return std::nullopt;
    // x + f(x): x itself, even where it is a form that could be taken in.
    if (fa->source == b) fb = identity(b, channels(b));
    if (fb->source == a) fa = identity(a, channels(a));
    auto s = sum(*fa, *fb);
    if (!s) return std::nullopt;
    ++s->nodes;
    taken(a, *s);
    taken(b, *s);
    return s;
  }

  void replace(ValueId v, const Form& f) {
    Node* n = rewriter_.producer(v);
    Window w;
    for (size_t d = 0; d < 2; ++d) {
      w.kernel[d] = static_cast<int>(f.kernel[d]);
      w.strides[d] = static_cast<int>(f.strides[d]);
    }
    for (size_t d = 0; d < 4; ++d) w.pads[d] = static_cast<int>(f.pads[d]);
    const auto rounded = [](const std::vector<double>& from, const Shape& shape) {
      Tensor t(shape);
      std::ranges::transform(from, t.data<float>(), [](double x) { return static_cast<float>(x); });
      return t;
    };
    n->name = !f.name.empty() && used_.insert(f.name).second ? f.name : f.first;
    const ValueId weight = rewriter_.add_constant(
        n->name + ".weight", rounded(f.weight, {f.out, f.width(), f.kernel[0], f.kernel[1]}));
    const ValueId bias = rewriter_.add_constant(n->name + ".bias", rounded(f.bias, {f.out}));
    rewriter_.become(*n, std::make_shared<ConvOp>(w, f.groups), {f.source, weight, bias});
  }

  Rewriter rewriter_;
  std::unordered_set<std::string> used_;    // names of nodes
  std::vector<std::optional<Form>> forms_;  // of values that no larger form took in
  std::vector<std::optional<Shape>> shapes_;
};

// Batch norms behind transposed convolutions.
void fold_transposed(Graph& graph) {
  Rewriter r(graph);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& n = r.node(i);
    const auto* bn = n.op ? Rewriter::as<BatchNormOp>(n) : nullptr;
    Node* conv = bn ? r.sole<ConvTransposeOp>(n.inputs[0]) : nullptr;
    const Tensor* w = conv ? r.graph_constant(conv->inputs[1]) : nullptr;
    std::array<const Tensor*, 4> p{};
    for (size_t k = 0; w && k < 4; ++k) p[k] = r.graph_constant(n.inputs[k + 1]);
    if (!w || std::ranges::count(p, nullptr) > 0) continue;
    const auto* op = Rewriter::as<ConvTransposeOp>(*conv);
    const bool biased = conv->inputs.size() > 2 && conv->inputs[2] != kNoValue;
    const Tensor* old_bias = biased ? r.graph_constant(conv->inputs[2]) : nullptr;
    if (biased && !old_bias) continue;
    const Shape& s = w->shape();
    const int64_t out = s[1] * op->groups;
    Tensor weight(s), bias(Shape{out});
    const auto at = [](const Tensor* t, int64_t c) { return double{t->data<float>()[c]}; };
    const auto factor = [&](int64_t o) {
      return at(p[0], o) / std::sqrt(at(p[3], o) + bn->epsilon);
    };
    for (int64_t c = 0; c < out; ++c)
      bias.data<float>()[c] = static_cast<float>(
          at(p[1], c) + ((old_bias ? at(old_bias, c) : 0) - at(p[2], c)) * factor(c));
    const int64_t taps = s[2] * s[3];
    for (int64_t a = 0; a < s[0] * s[1]; ++a) {
      const int64_t o = a / s[1] / (s[0] / op->groups) * s[1] + a % s[1];
      for (int64_t k = 0; k < taps; ++k)
        weight.data<float>()[a * taps + k] = static_cast<float>(at(w, a * taps + k) * factor(o));
    }
    const ValueId new_weight = r.add_constant(conv->name + ".weight", weight);
    const ValueId new_bias = r.add_constant(conv->name + ".bias", bias);
    const std::shared_ptr<const Op> shared = conv->op;
    n.name = conv->name;
    const ValueId x = conv->inputs[0];
    r.become(n, shared, {x, new_weight, new_bias});
  }
  graph.remove_dead();
}

}  // namespace

void merge_branches(Graph& graph) {
  fold_transposed(graph);
  // One convolution in place of several readers lets it take in the affine before it.
  while (Merger(graph).run()) {
  }
}

}  // namespace train
