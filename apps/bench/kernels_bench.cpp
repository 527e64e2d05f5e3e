// Times the CPU kernels on the layers of real networks: GFLOP/s and the share of this CPU's
// measured peak, per layer.
//
//   kernels_bench LAYERS [NET] [--act none|relu|hardswish|gelu] [--threads N] [--filter TEXT]
//   kernels_bench --serve          one layer per line on stdin, its best time in ms on stdout (to
//   alternate with a peer)
//
// A line of LAYERS: net kind n h w cin cout kh kw sh sw pt pl pb pr groups count, kind conv, deconv
// or gemm.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "libtrain/core/tensor.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/conv.h"
#include "libtrain/cpu/conv_transpose.h"
#include "libtrain/cpu/gemm.h"
#include "libtrain/cpu/isa.h"

namespace {

using namespace train;
using namespace train::cpu;

bool wall_clock = false;

// Seconds. With one thread its CPU time: on a shared machine that leaves out the moments when
// others ran.
double now() {
  timespec t{};
  clock_gettime(wall_clock ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Buffer {
  Storage s;
  explicit Buffer(int64_t floats) : s(static_cast<size_t>(floats) * 4 + 256) {
    uint32_t r = 1;
    for (size_t i = 0; i < s.bytes() / 4; ++i) {
      r = r * 1664525 + 1013904223;
      data()[i] = static_cast<float>(static_cast<int32_t>(r)) * 4.6e-10f;
    }
  }
  float* data() const { return static_cast<float*>(s.data()); }
};

struct Layer {
  std::string net, kind;
  int64_t n = 1, h = 1, w = 1, ci = 1, co = 1;
  int kh = 1, kw = 1, sh = 1, sw = 1, pt = 0, pl = 0, pb = 0, pr = 0;
  int64_t groups = 1, count = 1;

  bool parse(const std::string& line) {
    std::istringstream in(line);
    return static_cast<bool>(in >> net >> kind >> n >> h >> w >> ci >> co >> kh >> kw >> sh >> sw >>
                             pt >> pl >> pb >> pr >> groups >> count);
  }
  std::string str() const {
    std::ostringstream s;
    s << kind << ' ' << n << 'x' << h << 'x' << w << 'x' << ci << "->" << co << " k" << kh << 'x'
      << kw << " s" << sh << ',' << sw << (groups > 1 ? " dw" : "");
    return s.str();
  }
  std::string type() const {
    if (kind != "conv") return kind;
    if (groups > 1) return "dw" + std::to_string(kw);
    if (ci == 3) return "stem";
    return h * w == 1 ? "se" : kh * kw > 1 ? "kxk" : "1x1";
  }
};

struct Prepared {
  std::function<void()> run;
  double flops = 0;
};

Prepared prepare(const Layer& l, const Activation& act, int threads) {
  const int64_t taps = int64_t{l.kh} * l.kw;
  Epilogue e;
  e.act = act;
  const auto w = std::make_shared<Buffer>(l.ci / l.groups * l.co * taps),
             b = std::make_shared<Buffer>(l.co);
  const auto x = std::make_shared<Buffer>(l.n * l.h * l.w * l.ci);
  Prepared p;
  const auto bind = [&](auto op, double flops) {
    const int64_t oh = op->out_h(l.h), ow = op->out_w(l.w);
    const auto y = std::make_shared<Buffer>(l.n * oh * ow * l.co);
    const auto ws = std::make_shared<Buffer>(
        static_cast<int64_t>(op->workspace_bytes(l.n, l.h, l.w, threads) / 4));
    p.flops = flops;
    p.run = [=] {
      op->run(x->data(), l.ci, l.n, l.h, l.w, y->data(), l.co, nullptr, 0, ws->data());
    };
  };
  const double pair = 2. * static_cast<double>(l.ci / l.groups * l.co * taps * l.n);
  if (l.kind == "gemm") {
    const auto m = std::make_shared<PackedMatrix>(w->data(), l.co, false, l.ci, l.co, b->data());
    const auto y = std::make_shared<Buffer>(l.w * l.co);
    p.flops = pair * static_cast<double>(l.w);
    p.run = [=] { gemm(x->data(), l.ci, l.w, *m, e, y->data(), l.co); };
  } else if (l.kind == "deconv") {
    ConvTransposeDesc d{l.ci, l.co, l.groups, l.kh, l.kw, l.sh, l.sw, 1,
                        1,    l.pt, l.pl,     l.pb, l.pr, 0,    0,    e};
    bind(std::shared_ptr<ConvTranspose>(ConvTranspose::create(d, w->data(), b->data())),
         pair * static_cast<double>(l.h * l.w));
  } else {
    ConvDesc d{l.ci, l.co, l.groups, l.kh, l.kw, l.sh, l.sw, 1, 1, l.pt, l.pl, l.pb, l.pr, e};
    std::shared_ptr<Conv> c(Conv::create(d, w->data(), b->data()));
    bind(c, pair * static_cast<double>(c->out_h(l.h) * c->out_w(l.w)));
  }
  return p;
}

// Best time of one run in seconds within about `budget` seconds.
double best_time(const Prepared& p, double budget) {
  p.run();
  double t0 = now();
  p.run();
  const double once = std::max(1e-7, now() - t0);
  const int inner = std::clamp(static_cast<int>(5e-4 / once), 1, 2000);
  double best = 1e30;
  const double end = now() + budget;
  for (int r = 0; r < 5 || now() < end; ++r) {
    t0 = now();
    for (int i = 0; i < inner; ++i) p.run();
    best = std::min(best, (now() - t0) / inner);
  }
  return best;
}

// A product whose operands stay in L1 is this CPU's peak as our kernels see it.
double peak_gflops() {
  Layer l;
  l.kind = "gemm", l.w = 48, l.ci = 256, l.co = 24;
  const Prepared p = prepare(l, {}, 1);
  return p.flops / best_time(p, .2) / 1e9;
}
double read_gbytes(int64_t bytes) {
  Layer l;
  const Buffer x(bytes / 4);
  double sum = 0, best = 1e30;
  for (int r = 0; r < 8; ++r) {
    const double t0 = now();
    const auto* p = reinterpret_cast<const uint64_t*>(x.data());
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (int64_t i = 0; i + 4 <= bytes / 8; i += 4)
      a += p[i], b += p[i + 1], c += p[i + 2], d += p[i + 3];
    sum += static_cast<double>(a + b + c + d);
    best = std::min(best, now() - t0);
  }
  return sum == 1 ? 0 : static_cast<double>(bytes) / best / 1e9;
}

Activation parse_act(const std::string& s) {
  if (s == "relu") return {Act::kRelu, 0, 0};
  if (s == "hardswish") return hard_swish();
  if (s == "gelu") return {Act::kGelu, 0, 0};
  return {};
}

struct Total {
  double seconds = 0, flops = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::string file, net, filter;
  Activation act;
  int threads = 1;
  bool serve = false;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--act" && i + 1 < argc)
      act = parse_act(argv[++i]);
    else if (a == "--threads" && i + 1 < argc)
      threads = std::max(1, std::atoi(argv[++i]));
    else if (a == "--filter" && i + 1 < argc)
      filter = argv[++i];
    else if (a == "--serve")
      serve = true;
    else
      (file.empty() ? file : net) = a;
  }
  wall_clock = threads > 1;
  ThreadPool pool(threads);
  const PoolScope scope(&pool);
  if (serve) {
    for (std::string line; std::getline(std::cin, line);) {
      Layer l;
      if (l.parse(line)) std::printf("%.6f\n", best_time(prepare(l, act, threads), .06) * 1e3);
      std::fflush(stdout);
    }
    return 0;
  }
  std::ifstream in(file);
  if (!in)
    return std::fprintf(stderr, "kernels_bench: cannot read the layer list '%s'\n", file.c_str()),
           1;
  std::printf(
      "%s, peak %.1f GFLOP/s, read GB/s: %.0f (16 KiB) %.0f (256 KiB) %.0f (4 MiB) %.0f (64 MiB)\n",
      isa_name(), peak_gflops(), read_gbytes(1 << 14), read_gbytes(1 << 18), read_gbytes(1 << 22),
      read_gbytes(1 << 26));
  std::map<std::string, Total> totals;
  for (std::string line; std::getline(in, line);) {
    Layer l;
    if (!l.parse(line) || line[0] == '#' || (!net.empty() && l.net != net)) continue;
    if (l.str().find(filter) == std::string::npos) continue;
    const Prepared p = prepare(l, act, threads);
    const double t = best_time(p, .08), peak = peak_gflops();
    std::printf("%-6s %-42s x%ld %8.3f ms %7.1f GFLOP/s %4.0f %%\n", l.net.c_str(), l.str().c_str(),
                static_cast<long>(l.count), t * 1e3, p.flops / t / 1e9, p.flops / t / 1e7 / peak);
    std::fflush(stdout);
    for (const std::string& key : {l.net + " " + l.type(), l.net + " all"}) {
      totals[key].seconds += t * static_cast<double>(l.count);
      totals[key].flops += p.flops * static_cast<double>(l.count);
    }
  }
  for (const auto& [key, t] : totals)
    std::printf("%-14s %8.3f ms %7.1f GFLOP/s\n", key.c_str(), t.seconds * 1e3,
                t.flops / t.seconds / 1e9);
}
