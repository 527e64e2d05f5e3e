// `ocr bench INPUT...`: whole pages, from the file to the text.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/ocr/bench.h"
#include "libocr/pipeline/batch.h"
#include "libocr/pipeline/pipeline.h"
#include "libtrain/core/error.h"
#include "libtrain/cpu/isa.h"

namespace app {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One pass over all inputs.
struct Pass {
  double seconds = 0, cpu = 0;
  int64_t pages = 0, lines = 0;
};

Pass read_all(const ocr::Pipeline& pipeline, const std::vector<ocr::BatchInput>& inputs,
              const ocr::BatchOptions& options) {
  Pass pass;
  ocr::BatchEvents events;
  events.on_page = [&](size_t, const ocr::PageResult& page) {
    ++pass.pages;
    pass.lines += static_cast<int64_t>(page.lines.size());
  };
  events.on_document = [](size_t, ocr::DocumentResult& d, bool) {
    if (!d.error.empty()) throw train::Error(d.error);  // half a set measures something else
  };
  const auto start = Clock::now();
  const std::clock_t cpu = std::clock();
  ocr::run_batch(pipeline, inputs, options, events);
  pass.seconds = since(start);
  pass.cpu = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  return pass;
}

std::vector<ocr::BatchInput> page_inputs(const BenchRequest& r) {
  const ocr::Inputs found = ocr::collect_inputs(r.pages);
  if (!found.errors.empty()) throw train::Error(found.errors[0].message);
  std::vector<ocr::BatchInput> inputs;
  for (const ocr::InputJob& job : found.jobs) inputs.push_back({job.path});
  if (inputs.empty())
    throw train::DataError(r.pages.arguments.empty() ? r.pages.lists[0] : r.pages.arguments[0], 0,
                           "no images, PDF or TIFF files in it");
  return inputs;
}

double number(const Json& j, const char* key) { return j.at(key).get<double>(); }

}  // namespace

Json measure_pages(const BenchRequest& r) {
  const std::vector<ocr::BatchInput> inputs = page_inputs(r);
  const auto start = Clock::now();
  const auto pipeline = ocr::Pipeline::open(r.options);
  const double opening = since(start);
  ocr::BatchOptions options{r.options.jobs, r.options.threads};
  ocr::choose_workers(*pipeline, inputs.size(), options);
  const Pass first = read_all(*pipeline, inputs, options);  // touches memory and files
  if (first.pages == 0) throw train::Error("no page was read");
  std::vector<Pass> passes;
  double spent = 0;
  while (r.runs ? static_cast<int>(passes.size()) < r.runs : spent < 2 || passes.size() < 3) {
    passes.push_back(read_all(*pipeline, inputs, options));
    spent += passes.back().seconds;
  }
  std::sort(passes.begin(), passes.end(),
            [](const Pass& a, const Pass& b) { return a.seconds < b.seconds; });
  const Pass& median = passes[passes.size() / 2];
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const double cores = options.jobs * options.threads;
  return Json{{"pages", median.pages},
              {"lines", median.lines},
              {"isa", train::cpu::isa_name()},
              {"jobs", options.jobs},
              {"threads", options.threads},
              {"passes", passes.size()},
              {"open_ms", opening * 1e3},
              {"first_s", first.seconds},
              {"median_s", median.seconds},
              {"best_s", passes[0].seconds},
              {"pages_per_s", static_cast<double>(median.pages) / median.seconds},
              {"cpu_s", median.cpu},
              {"idle", std::max(0.0, 1 - median.cpu / (median.seconds * cores))},
              {"peak_mib", use.ru_maxrss / 1024}};
}

void print_pages(const Json& m) {
  std::printf("pages: %d, lines: %d  %s  jobs: %d, threads of each: %d  peak %d MiB\n",
              m.at("pages").get<int>(), m.at("lines").get<int>(),
              m.at("isa").get<std::string>().c_str(), m.at("jobs").get<int>(),
              m.at("threads").get<int>(), m.at("peak_mib").get<int>());
  std::printf("models ready in %.0f ms; first pass %.3f s; median %.3f s of %d (%.3f best)\n",
              number(m, "open_ms"), number(m, "first_s"), number(m, "median_s"),
              m.at("passes").get<int>(), number(m, "best_s"));
  std::printf("%.2f pages/s, %.1f ms a page; the cores in use idle %.0f %% of the time\n",
              number(m, "pages_per_s"), 1e3 / number(m, "pages_per_s"), 100 * number(m, "idle"));
}

}  // namespace app
