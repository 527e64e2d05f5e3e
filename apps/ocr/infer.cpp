// `ocr infer`: reads images and documents.
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/ocr/arguments.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/infer_help.h"
#include "apps/ocr/outputs.h"
#include "apps/ocr/pictures.h"
#include "apps/ocr/progress.h"
#include "libocr/image/byte_source.h"
#include "libocr/image/collect.h"
#include "libocr/pipeline/batch.h"
#include "libocr/pipeline/ignored.h"
#include "libocr/pipeline/pipeline.h"
#include "libtrain/core/error.h"
#include "libtrain/cpu/isa.h"

namespace app {
namespace {

using train::cat;

std::atomic<bool> interrupted{false};

void on_signal(int) {
  if (interrupted.exchange(true)) _exit(kExitInterrupted);  // the second time at once
}

// What the command line asks for besides the pipeline's own settings.
struct Request {
  ocr::Options options;
  ocr::CollectOptions inputs;
  std::vector<std::string> configs, notes;
  std::string format = "text", output, visualize, save_crops;
  bool strict = false, resume = false, progress = true, help = false, save_crop_res = false;
};

std::vector<Flag> known_flags() {
  std::vector<Flag> flags;
  for (const ocr::OptionSpec& s : ocr::option_specs()) {
    const bool boolean = std::string_view(s.value) == "BOOL";
    flags.push_back({s.name, boolean});
    for (const char* a : s.aliases) flags.push_back({a, boolean});
  }
  for (const ocr::IgnoredOption& i : ocr::ignored_options()) flags.push_back({i.name, i.boolean});
  for (const char* name :
       {"config", "c", "image_dir", "input", "i", "list", "output", "o", "save_path", "format", "f",
        "visualize", "draw_img_save_dir", "save_crops", "crop_res_save_dir", "page_num"})
    flags.push_back({name, false});
  for (const char* name :
       {"help", "h", "strict", "resume", "progress", "quiet", "q", "save_crop_res", "recursive"})
    flags.push_back({name, true});
  return flags;
}

bool bool_of(const Argument& a) {
  const int b = ocr::parse_bool(a.value);
  if (b < 0)
    throw train::ConfigError("", 0, 0, cat(a.spelt, " is true or false, not '", a.value, "'"));
  return b == 1;
}

// PaddleOCR's number of PDF pages to read, 0 for all.
std::string pages_of_count(const Argument& a) {
  const long n = std::strtol(a.value.c_str(), nullptr, 10);
  return n > 0 ? cat("1-", n) : "";
}

void take(Request& r, const Argument& a) {
  const std::string& n = a.name;
  if (n == "help" || n == "h")
    r.help = bool_of(a);
  else if (n == "strict")
    r.strict = bool_of(a);
  else if (n == "resume")
    r.resume = bool_of(a);
  else if (n == "progress")
    r.progress = bool_of(a);
  else if (n == "quiet" || n == "q")
    r.progress = !bool_of(a);
  else if (n == "recursive")
    r.inputs.recursive = bool_of(a);
  else if (n == "save_crop_res")
    r.save_crop_res = bool_of(a);
  else if (n == "config" || n == "c")
    r.configs.push_back(a.value);
  else if (n == "image_dir" || n == "input" || n == "i")
    r.inputs.arguments.push_back(a.value);
  else if (n == "list")
    r.inputs.lists.push_back(a.value);
  else if (n == "output" || n == "o" || n == "save_path")
    r.output = a.value;
  else if (n == "format" || n == "f")
    r.format = a.value;
  else if (n == "visualize" || n == "draw_img_save_dir")
    r.visualize = a.value;
  else if (n == "save_crops" || n == "crop_res_save_dir")
    r.save_crops = a.value;
  else if (n == "page_num")
    ocr::set_option(r.options, "pages", pages_of_count(a), ocr::Source::kFlag, a.spelt);
  else if (!ocr::set_option(r.options, n, a.value, ocr::Source::kFlag, a.spelt))
    r.notes.push_back(cat(a.spelt, " has no effect: ", ocr::ignored_option(n)));
}

Request read_request(const std::vector<std::string>& args) {
  Request r;
  const Arguments parsed = parse_arguments(args, known_flags());
  for (const Argument& a : parsed.flags) take(r, a);
  r.inputs.arguments.insert(r.inputs.arguments.end(), parsed.positional.begin(),
                            parsed.positional.end());
  if (r.save_crop_res && r.save_crops.empty()) r.save_crops = "./output";
  return r;
}

// The batch of one run: collects results, prints errors, keeps the counts.
class Run {
 public:
  Run(const Request& request, const ocr::Pipeline& pipeline, const ocr::RunInfo& info,
      ocr::Inputs inputs)
      : request_(request),
        pipeline_(pipeline),
        inputs_(std::move(inputs)),
        outputs_({ocr::parse_format(request.format), request.output, request.resume,
                  inputs_.jobs.size()},
                 info),
        pictures_(request.visualize, request.save_crops) {}

  int execute() {
    const auto start = std::chrono::steady_clock::now();
    for (const ocr::InputError& e : inputs_.errors) fail(e.path, e.message);
    select();
    Progress progress(request_.progress && !outputs_.to_terminal(),
                      static_cast<int64_t>(batch_.size()));
    progress_ = &progress;
    ocr::BatchOptions options;
    options.stop = &interrupted;
    ocr::BatchEvents events;
    events.on_open = [&](size_t, int pages) { progress.add_pages(pages - 1); };
    events.on_page = [&](size_t, const ocr::PageResult& page) {
      ++summary_.pages;
      summary_.lines += static_cast<int64_t>(page.lines.size());
      progress.step();
    };
    events.on_document = [&](size_t i, ocr::DocumentResult& d, bool complete) {
      document(jobs_[i], d, complete);
    };
    if (pictures_.wanted())
      events.with_pixels = [&](size_t i, int page_count, const ocr::ImageView& page,
                               ocr::PageResult& result) {
        pictures_.page(jobs_[i], page_count, page, result);
      };
    ocr::run_batch(pipeline_, batch_, options, events);
    progress.clear();
    progress_ = nullptr;
    summary_.interrupted = interrupted;
    summary_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    outputs_.finish(summary_);
    return conclude();
  }

 private:
  // Leaves out what an earlier run has finished.
  void select() {
    for (const ocr::InputJob& job : inputs_.jobs) {
      if (outputs_.finished(job)) {
        ++summary_.skipped;
        continue;
      }
      ocr::BatchInput input{job.path == "-" ? "stdin" : job.path, {}};
      if (job.path == "-") {
        try {
          input.bytes = ocr::read_stdin(int64_t{2} << 30);
          if (input.bytes.empty()) throw train::DataError("stdin", 0, "nothing came in");
        } catch (const train::Error& e) {
          fail("-", e.what());
          continue;
        }
      }
      jobs_.push_back(job);
      batch_.push_back(std::move(input));
    }
  }

  void document(const ocr::InputJob& job, ocr::DocumentResult& d, bool complete) {
    if (!d.error.empty())
      fail(d.path, d.error);
    else
      ++summary_.documents;
    for (const ocr::PageResult& page : d.pages)
      for (const std::string& w : page.warnings)
        say(cat("warning: ", d.path, d.page_count > 1 ? cat(", page ", page.index + 1) : "", ": ",
                w));
    outputs_.write(job, d, complete);
    pictures_.document(job);
  }

  void say(const std::string& line) {
    if (progress_) progress_->clear();
    std::fprintf(stderr, "ocr: %s\n", line.c_str());
  }

  void fail(const std::string& path, const std::string& message) {
    ++summary_.failed;
    summary_.errors.emplace_back(path, message);
    say("error: " + message);
  }

  int conclude() {
    const int64_t all = static_cast<int64_t>(inputs_.jobs.size() + inputs_.errors.size());
    if (isatty(STDERR_FILENO) && request_.progress && (all > 1 || summary_.pages > 1)) {
      std::fprintf(stderr, "%lld pages, %lld lines in %s (%.2f pages/s)",
                   static_cast<long long>(summary_.pages), static_cast<long long>(summary_.lines),
                   clock_text(summary_.seconds).c_str(),
                   static_cast<double>(summary_.pages) / std::max(summary_.seconds, 1e-3));
      if (summary_.skipped)
        std::fprintf(stderr, ", %lld done before", static_cast<long long>(summary_.skipped));
      if (summary_.failed)
        std::fprintf(stderr, ", %lld of %lld failed", static_cast<long long>(summary_.failed),
                     static_cast<long long>(all));
      std::fputc('\n', stderr);
    }
    if (interrupted) {
      std::fprintf(stderr, "ocr: interrupted; %lld of %lld inputs are finished%s\n",
                   static_cast<long long>(summary_.documents + summary_.skipped),
                   static_cast<long long>(all),
                   request_.output.empty() ? "" : ", --resume goes on from here");
      return kExitInterrupted;
    }
    if (summary_.failed == 0) return kExitOk;
    return summary_.failed == all ? kExitFailed : kExitSome;
  }

  const Request& request_;
  const ocr::Pipeline& pipeline_;
  ocr::Inputs inputs_;
  Outputs outputs_;
  Pictures pictures_;
  std::vector<ocr::InputJob> jobs_;
  std::vector<ocr::BatchInput> batch_;
  ocr::RunSummary summary_;
  Progress* progress_ = nullptr;
};

}  // namespace

int run_infer(const std::vector<std::string>& args) {
  Request request = read_request(args);
  if (request.help) {
    std::fputs(infer_help().c_str(), stdout);
    return kExitOk;
  }
  if (request.inputs.arguments.empty() && request.inputs.lists.empty())
    throw train::ConfigError("", 0, 0,
                             "nothing to read: name images, folders or PDF files, e.g. "
                             "`ocr infer page.jpg` (`ocr infer --help` has more)");
  if (request.resume && (request.output.empty() || request.output == "-"))
    throw train::ConfigError("", 0, 0, "--resume needs -o, the place of the earlier results");
  ocr::parse_format(request.format);
  ocr::parse_bytes(request.options.max_memory.value);
  std::vector<std::string> warnings;
  for (const std::string& c : request.configs)
    ocr::load_config(request.options, c, request.strict, warnings);
  ocr::Inputs inputs = ocr::collect_inputs(request.inputs);
  if (inputs.jobs.empty() && inputs.errors.empty())
    throw train::DataError(
        request.inputs.arguments.empty() ? request.inputs.lists[0] : request.inputs.arguments[0], 0,
        "no images, PDF or TIFF files in it");
  // Nothing but wrong names: no need to load models before saying so.
  std::shared_ptr<const ocr::Pipeline> pipeline;
  if (inputs.jobs.empty()) {
    for (const ocr::InputError& e : inputs.errors)
      std::fprintf(stderr, "ocr: error: %s\n", e.message.c_str());
    return kExitFailed;
  }
  pipeline = ocr::Pipeline::open(request.options, &warnings);
  for (const std::string& note : request.notes)
    std::fprintf(stderr, "ocr: note: %s\n", note.c_str());
  for (const std::string& w : warnings) std::fprintf(stderr, "ocr: warning: %s\n", w.c_str());
  ocr::RunInfo info = pipeline->info();
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return Run(request, *pipeline, info, std::move(inputs)).execute();
}

}  // namespace app
