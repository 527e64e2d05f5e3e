#include "libtrain/cpu/pyramid_conv.h"

#include <array>
#include <cstring>

#include "libtrain/core/error.h"
#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

// Neighbouring output phases along one axis whose kernel taps fall on the same input pixels, and
// therefore have the same kernel: input pixels [offset, offset + taps), tap t on pixel at[t].
struct PhaseGroup {
  int first, count;  // phases
  int offset, taps;
  std::vector<int> at;
};

std::vector<PhaseGroup> phase_groups(int k, int factor) {
  std::vector<PhaseGroup> groups;
  for (int p = 0; p < factor; ++p) {
    PhaseGroup g{p, 1, 0, 0, {}};
    const auto floor_div = [&](int a) { return (a + k * factor) / factor - k; };
    g.offset = floor_div(p - k / 2);
    for (int t = 0; t < k; ++t) g.at.push_back(floor_div(p + t - k / 2) - g.offset);
    g.taps = g.at.back() + 1;
    if (!groups.empty() && groups.back().offset == g.offset && groups.back().at == g.at)
      ++groups.back().count;
    else
      groups.push_back(std::move(g));
  }
  return groups;
}

// index[o]: the pixel of a source's lines that output pixel o takes; the lines of its phase groups
// follow each other.
void fill_index(const std::vector<PhaseGroup>& groups, int64_t w, int64_t factor, int32_t* index) {
  const int64_t width = w / factor;
  for (size_t g = 0; g < groups.size(); ++g)
    for (int p = groups[g].first; p < groups[g].first + groups[g].count; ++p)
      for (int64_t q = 0; q < width; ++q)
        index[q * factor + p] = static_cast<int32_t>(static_cast<int64_t>(g) * width + q);
}

// Where a source of one image lies.
struct Map {
  const float* x;
  int64_t ldx;
  const float* packed;
  const int32_t* index;
};
using Maps = std::array<Map, kMaxPyramidSources>;

}  // namespace

double PyramidConv::taps(int k, int factor) {
  double sum = 0;
  for (const PhaseGroup& g : phase_groups(k, factor)) sum += g.taps;
  return sum * sum / factor / factor;
}

struct PyramidConv::Impl {
  // The kernel of one pair of phase groups, as the convolution reads it.
  struct Kernel {
    std::vector<Panel> panels;
    int64_t k, w_off;  // floats into the packed weights of the source
  };
  struct Source {
    PyramidSource s;  // weights and lateral are not kept
    size_t input;     // its place among the caller's
    std::vector<PhaseGroup> groups;
    std::vector<Kernel> kernels;          // [group of rows][group of columns]
    int64_t floats = 0;                   // of all kernels
    std::unique_ptr<PackedWeights> wide;  // dynamic: [mid][k * k * cout], k * k first
    std::vector<float> side;              // dynamic: the lateral, transposed: [channels][mid]
    std::vector<float> taps;              // gated without lateral: [channels][k * k * cout]
    std::unique_ptr<Storage> packed;      // static
  };

  PyramidDesc d;
  const KernelTable* table;
  Storage bias, zeros;
  std::vector<Source> sources;

  Impl(const PyramidDesc& desc, const std::vector<PyramidSource>& in, const float* bias_in);
  void add_source(const PyramidSource& s, size_t input);
  int64_t wide_cols() const { return int64_t{d.k} * d.k * d.cout; }
  int64_t lanes() const { return (d.cout + table->width - 1) / table->width * table->width; }
  void pack(const Source& s, const float* composed, float* packed) const;
  void compose(const Source& s, const float* gate, float* side, float* composed) const;
  ConvArgs conv_args(const Source& s, const Kernel& k, const float* packed) const;
  int64_t scratch_floats() const;
  int64_t side_floats() const;
  int64_t composed_floats() const;
  int64_t line_floats(int64_t w) const;

  int64_t work() const {  // multiply-adds per output pixel
    double sum = 0;
    for (const Source& s : sources)
      sum += taps(d.k, s.s.factor) * static_cast<double>(s.s.channels * d.cout);
    return static_cast<int64_t>(sum);
  }

  struct Rows;  // one image being computed
};

PyramidConv::Impl::Impl(const PyramidDesc& desc, const std::vector<PyramidSource>& in,
                        const float* bias_in)
    : d(desc),
      table(&kernels()),
      bias(static_cast<size_t>(lanes()) * sizeof(float)),
      zeros(static_cast<size_t>(lanes()) * sizeof(float)) {
  std::memset(bias.data(), 0, bias.bytes());
  std::memset(zeros.data(), 0, zeros.bytes());
  if (bias_in) std::memcpy(bias.data(), bias_in, static_cast<size_t>(d.cout) * sizeof(float));
  // Enlarged maps first: the last term of a pixel brings the activation.
  for (const bool whole : {false, true})
    for (size_t i = 0; i < in.size(); ++i)
      if ((in[i].factor == 1) == whole) add_source(in[i], i);
}

void PyramidConv::Impl::add_source(const PyramidSource& in, size_t input) {
  Source s;
  s.s = in;
  s.input = input;
  s.groups = phase_groups(d.k, in.factor);
  if (!in.weights && !in.lateral) {  // only added
    sources.push_back(std::move(s));
    return;
  }
  for (const PhaseGroup& y : s.groups)
    for (const PhaseGroup& x : s.groups) {
      const int64_t k = int64_t{y.taps} * x.taps * in.channels;
      s.kernels.push_back({panels_of(*table, k, d.cout), k, s.floats});
      s.floats += k * lanes();
    }
  s.floats += 64;  // kernels may load past the end
  const int64_t taps = int64_t{d.k} * d.k, cols = wide_cols();
  std::vector<float> wide;  // [mid][taps][cout]
  if (in.weights) wide.resize(static_cast<size_t>(in.mid * cols));
  for (int64_t o = 0; o < (in.weights ? d.cout : 0); ++o)
    for (int64_t m = 0; m < in.mid; ++m)
      for (int64_t t = 0; t < taps; ++t)
        wide[static_cast<size_t>(m * cols + t * d.cout + o)] =
            in.weights[(o * in.mid + m) * taps + t];
  if (in.lateral) {
    s.side.resize(static_cast<size_t>(in.channels * in.mid));
    for (int64_t m = 0; m < in.mid; ++m)
      for (int64_t c = 0; c < in.channels; ++c)
        s.side[static_cast<size_t>(c * in.mid + m)] = in.lateral[m * in.channels + c];
    if (in.weights)
      s.wide = std::make_unique<PackedWeights>(*table, wide.data(), cols, 1, in.mid, cols, nullptr);
  } else {
    s.taps = std::move(wide);
  }
  if (!in.gated) {
    s.packed = std::make_unique<Storage>(static_cast<size_t>(s.floats) * sizeof(float));
    std::vector<float> composed(static_cast<size_t>(in.channels * cols));
    std::vector<float> side(s.side.size());
    compose(s, nullptr, side.data(), composed.data());
    pack(s, composed.data(), static_cast<float*>(s.packed->data()));
    s.wide.reset();
    s.side = s.taps = {};
  }
  s.s.weights = s.s.lateral = nullptr;
  sources.push_back(std::move(s));
}

// The kernel as it reads x: composed[c][tap][o] = sum over m of lateral[m][c] gate[m]
// weights[m][tap][o].
void PyramidConv::Impl::compose(const Source& s, const float* gate, float* side,
                                float* composed) const {
  const int64_t cols = wide_cols();
  if (!s.wide && !s.side.empty()) side = composed;  // no weights: the lateral is the kernel
  if (!s.wide && s.side.empty()) {
    for (int64_t c = 0; c < s.s.channels; ++c)
      for (int64_t i = 0; i < cols; ++i)
        composed[c * cols + i] = s.taps[static_cast<size_t>(c * cols + i)] * (gate ? gate[c] : 1.f);
    return;
  }
  for (int64_t c = 0; c < s.s.channels; ++c)
    for (int64_t m = 0; m < s.s.mid; ++m)
      side[c * s.s.mid + m] = s.side[static_cast<size_t>(c * s.s.mid + m)] * (gate ? gate[m] : 1.f);
  if (!s.wide) return;
  GemmArgs g{};
  g.x = side, g.ldx = s.s.mid;
  g.b = s.wide->view();
  g.y = composed, g.ldy = cols;
  g.e = epilogue_args({}, false);
  table->gemm(g, 0, s.s.channels);
}

// Sums the taps that fall on the same input pixel, per pair of phase groups, in panel order.
void PyramidConv::Impl::pack(const Source& s, const float* composed, float* packed) const {
  const int64_t cols = wide_cols(), channels = s.s.channels;
  std::memset(packed, 0, static_cast<size_t>(s.floats) * sizeof(float));
  size_t at = 0;
  for (const PhaseGroup& gy : s.groups)
    for (const PhaseGroup& gx : s.groups) {
      const Kernel& kernel = s.kernels[at++];
      for (const Panel& p : kernel.panels) {
        const int64_t step = p.lanes;
        float* const panel = packed + kernel.w_off + p.w_off;
        for (int ty = 0; ty < d.k; ++ty)
          for (int tx = 0; tx < d.k; ++tx) {
            const float* from = composed + (ty * d.k + tx) * d.cout + p.n0;
            float* to = panel + (gy.at[static_cast<size_t>(ty)] * gx.taps +
                                 gx.at[static_cast<size_t>(tx)]) *
                                    channels * step;
            for (int64_t c = 0; c < channels; ++c, from += cols, to += step)
              for (int64_t o = 0; o < p.width; ++o) to[o] += from[o];
          }
      }
    }
}

ConvArgs PyramidConv::Impl::conv_args(const Source& s, const Kernel& k, const float* packed) const {
  const size_t at = static_cast<size_t>(&k - s.kernels.data());
  const PhaseGroup &y = s.groups[at / s.groups.size()], &x = s.groups[at % s.groups.size()];
  ConvArgs a{};
  a.g.c = s.s.channels;
  a.g.kh = y.taps, a.g.kw = x.taps;
  a.g.sh = a.g.sw = a.g.dh = a.g.dw = 1;
  a.g.pt = -y.offset, a.g.pl = -x.offset;
  a.b = {packed + k.w_off, static_cast<const float*>(zeros.data()), k.panels.data(),
         static_cast<int64_t>(k.panels.size()), k.k};
  a.e = epilogue_args({}, false);
  return a;
}

int64_t PyramidConv::Impl::scratch_floats() const {
  int64_t floats = 0;
  for (const Source& s : sources)
    for (const Kernel& k : s.kernels)
      floats = std::max(floats, table->conv_scratch(conv_args(s, k, nullptr)));
  return (floats + 31) / 16 * 16;
}
int64_t PyramidConv::Impl::side_floats() const {
  int64_t floats = 0;
  for (const Source& s : sources) floats = std::max(floats, static_cast<int64_t>(s.side.size()));
  return (floats + 15) / 16 * 16;
}
int64_t PyramidConv::Impl::composed_floats() const {
  int64_t floats = 0;
  for (const Source& s : sources)
    if (s.s.gated) floats = std::max(floats, s.s.channels * wide_cols());
  return (floats + 15) / 16 * 16;
}
// One line of every phase group of every enlarged source.
int64_t PyramidConv::Impl::line_floats(int64_t w) const {
  int64_t floats = 0;
  for (const Source& s : sources)
    if (s.s.factor > 1 && !s.kernels.empty())
      floats += static_cast<int64_t>(s.groups.size()) * (w / s.s.factor) * d.cout;
  return (floats + 15) / 16 * 16;
}

PyramidConv::PyramidConv(const PyramidDesc& d, const std::vector<PyramidSource>& sources,
                         const float* bias) {
  bool whole = false;
  for (const PyramidSource& s : sources) {
    whole = whole || s.factor == 1;
    const bool identity =
        !s.weights && d.k == 1 && s.mid == d.cout && (s.lateral || (s.factor > 1 && !s.gated));
    if (s.factor < 1 || s.factor > 64 || s.channels < 1 || s.mid < 1 || (!s.weights && !identity) ||
        (!s.lateral && s.mid != s.channels))
      throw ShapeError("a pyramid convolution with an impossible source");
  }
  if (!whole || sources.size() > kMaxPyramidSources || d.k < 1 || d.k % 2 == 0 || d.k > 31 ||
      d.cout < 1)
    throw ShapeError("a pyramid convolution needs an odd kernel and one map of full size");
  impl_ = std::make_unique<Impl>(d, sources, bias);
}
PyramidConv::~PyramidConv() = default;

size_t PyramidConv::packed_bytes() const {
  size_t sum = impl_->bias.bytes();
  for (const Impl::Source& s : impl_->sources)
    sum += (s.packed ? s.packed->bytes() : 0) + (s.wide ? s.wide->bytes() : 0) +
           (s.side.size() + s.taps.size()) * sizeof(float);
  return sum;
}

size_t PyramidConv::workspace_bytes(int64_t, int64_t w, int threads) const {
  int64_t floats = impl_->side_floats() + impl_->composed_floats() +
                   threads * (impl_->scratch_floats() + impl_->line_floats(w));
  for (const Impl::Source& s : impl_->sources) {
    if (s.s.gated) floats += (s.floats + 15) / 16 * 16;
    if (s.s.factor > 1) floats += (w + 15) / 16 * 16;  // indices
  }
  return align64(static_cast<size_t>(floats) * sizeof(float));
}

// Computes rows of one image; one per thread.
struct PyramidConv::Impl::Rows {
  const Impl& impl;
  const Maps& maps;
  int64_t h, w;
  float* y;
  int64_t ldy;
  float *scratch, *lines;

  void run(int64_t r0, int64_t r1) const {
    for (int64_t r = r0; r < r1; ++r) {
      float* const row = y + r * w * ldy;
      float* line = lines;
      bool begun = false;
      for (size_t i = 0; i < impl.sources.size(); ++i) {
        const Source& s = impl.sources[i];
        if (s.s.factor > 1)
          line = enlarged(i, r, r == r0, begun, line, row);
        else
          full(i, r, begun, i + 1 == impl.sources.size(), row);
        begun = true;
      }
    }
  }

 private:
  ConvArgs args(size_t i, size_t kernel) const {
    const Source& s = impl.sources[i];
    ConvArgs a = impl.conv_args(s, s.kernels[kernel], maps[i].packed);
    a.g.x = maps[i].x, a.g.ldx = maps[i].ldx;
    a.g.h = a.g.oh = h / s.s.factor, a.g.w = a.g.ow = w / s.s.factor;
    a.scratch = scratch;
    return a;
  }
  // Adds a map of full size to the row; the last one brings bias and activation.
  void full(size_t i, int64_t r, bool begun, bool last, float* row) const {
    ConvArgs a = args(i, 0);
    a.g.y = row, a.g.ldy = ldy;
    a.g.res = begun ? row : nullptr, a.g.ldr = ldy;
    Epilogue e;
    if (last) {
      e.act = impl.d.act;
      a.b.bias = static_cast<const float*>(impl.bias.data());
    }
    e.residual = begun ? Residual::kBeforeAct : Residual::kNone;
    a.e = epilogue_args(e, begun);
    if (impl.d.k > 1) return impl.table->conv(a, r, r + 1);
    GemmArgs g{};
    g.x = a.g.x + r * w * a.g.ldx, g.ldx = a.g.ldx;
    g.b = a.b;
    g.y = row, g.ldy = ldy;
    g.res = a.g.res, g.ldr = ldy;
    g.e = a.e;
    impl.table->gemm(g, 0, w);
  }
  // Adds an enlarged map to the row. Its lines serve all rows of a group of phases. Returns where
  // the lines of the next map lie.
  float* enlarged(size_t i, int64_t r, bool first, bool begun, float* line, float* row) const {
    const Source& s = impl.sources[i];
    const int64_t f = s.s.factor, q = r / f, phase = r % f, cout = impl.d.cout,
                  width = w / f * cout;
    if (s.kernels.empty()) {
      impl.table->gather_add(maps[i].x + q * (w / f) * maps[i].ldx, maps[i].ldx, maps[i].index,
                             begun, row, ldy, w, cout);
      return line;
    }
    size_t gy = 0;
    while (phase >= s.groups[gy].first + s.groups[gy].count) ++gy;
    const size_t groups = s.groups.size();
    if (first || phase == s.groups[gy].first)
      for (size_t gx = 0; gx < groups; ++gx) {
        ConvArgs a = args(i, gy * groups + gx);
        a.g.y = line + static_cast<int64_t>(gx) * width, a.g.ldy = cout;
        impl.table->conv(a, q, q + 1);
      }
    impl.table->gather_add(line, cout, maps[i].index, begun, row, ldy, w, cout);
    return line + static_cast<int64_t>(groups) * width;
  }
};

void PyramidConv::run(const Input* in, int64_t n, int64_t h, int64_t w, float* y, int64_t ldy,
                      void* workspace) const {
  const Impl& p = *impl_;
  float* memory = static_cast<float*>(workspace);
  const auto take = [&](int64_t floats) {
    float* const m = memory;
    memory += (floats + 15) / 16 * 16;
    return m;
  };
  float *const side = take(p.side_floats()), *const composed = take(p.composed_floats());
  Maps maps{};
  std::array<float*, kMaxPyramidSources> own{};
  for (size_t i = 0; i < p.sources.size(); ++i) {
    const Impl::Source& s = p.sources[i];
    if (s.s.gated)
      own[i] = take(s.floats);
    else if (s.packed)
      maps[i].packed = static_cast<const float*>(s.packed->data());
    if (s.s.factor > 1) {
      int32_t* const index = reinterpret_cast<int32_t*>(take(w));
      fill_index(s.groups, w, s.s.factor, index);
      maps[i].index = index;
    }
  }
  const int64_t scratch = p.scratch_floats(), lines = p.line_floats(w);
  for (int64_t image = 0; image < n; ++image) {
    for (size_t i = 0; i < p.sources.size(); ++i) {
      const Impl::Source& s = p.sources[i];
      const Input& source = in[s.input];
      maps[i].ldx = source.ldx;
      maps[i].x = source.x + image * (h / s.s.factor) * (w / s.s.factor) * source.ldx;
      if (!own[i]) continue;
      p.compose(s, source.gate + image * s.s.mid, side, composed);
      p.pack(s, composed, own[i]);
      maps[i].packed = own[i];
    }
    parallel_parts(h, grain_for(w * p.work()), [&](int64_t part, int64_t r0, int64_t r1) {
      float* const mine = memory + part * (scratch + lines);
      Impl::Rows{p, maps, h, w, y + image * h * w * ldy, ldy, mine, mine + scratch}.run(r0, r1);
    });
  }
}

}  // namespace train::cpu
