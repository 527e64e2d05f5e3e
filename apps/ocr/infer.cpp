// `ocr infer`: reads images and documents.
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/infer_options.h"
#include "apps/ocr/log.h"
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

// The batch of one run: collects results, prints errors, keeps the counts.
class Run {
 public:
  Run(const InferRequest& request, const ocr::Pipeline& pipeline, const ocr::RunInfo& info,
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
      for (const std::string& w : page.warnings) {
        clear_bar();
        log_warning(cat(d.path, d.page_count > 1 ? cat(", page ", page.index + 1) : "", ": ", w));
      }
    outputs_.write(job, d, complete);
    pictures_.document(job);
  }

  // The bar goes away before a message and comes back with the next page.
  void clear_bar() {
    if (progress_) progress_->clear();
  }

  void fail(const std::string& path, const std::string& message) {
    ++summary_.failed;
    summary_.errors.emplace_back(path, message);
    clear_bar();
    log_error(message);
  }

  int conclude() {
    const int64_t all = static_cast<int64_t>(inputs_.jobs.size() + inputs_.errors.size());
    if (isatty(STDERR_FILENO) && request_.progress && (all > 1 || summary_.pages > 1)) {
      std::string text = cat(summary_.pages, " pages, ", summary_.lines, " lines in ",
                             clock_text(summary_.seconds), " (", rate_text(), " pages/s)");
      if (summary_.skipped) text += cat(", ", summary_.skipped, " done before");
      if (summary_.failed) text += cat(", ", summary_.failed, " of ", all, " failed");
      log_info(text);
    }
    if (interrupted) {
      log_fatal(cat("interrupted; ", summary_.documents + summary_.skipped, " of ", all,
                    " inputs are finished",
                    request_.output.empty() ? "" : ", --resume goes on from here"));
      return kExitInterrupted;
    }
    if (summary_.failed == 0) return kExitOk;
    return summary_.failed == all ? kExitFailed : kExitSome;
  }

  std::string rate_text() const {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f",
                  static_cast<double>(summary_.pages) / std::max(summary_.seconds, 1e-3));
    return text;
  }

  const InferRequest& request_;
  const ocr::Pipeline& pipeline_;
  ocr::Inputs inputs_;
  Outputs outputs_;
  Pictures pictures_;
  std::vector<ocr::InputJob> jobs_;
  std::vector<ocr::BatchInput> batch_;
  ocr::RunSummary summary_;
  Progress* progress_ = nullptr;
};

// Checks what cannot be checked option by option.
void check(InferRequest& r) {
  if (r.inputs.arguments.empty() && r.inputs.lists.empty())
    throw train::ConfigError("", 0, 0,
                             "nothing to read: name images, folders or PDF files, e.g. "
                             "`ocr infer page.jpg` (`ocr infer --help` has more)");
  if (r.resume && (r.output.empty() || r.output == "-"))
    throw train::ConfigError("", 0, 0, "--resume needs -o, the place of the earlier results");
  if (r.save_crop_res && r.save_crops.empty()) r.save_crops = "./output";
  if (r.format.empty()) r.format = format_of_name(r.output);
  ocr::parse_format(r.format);
  ocr::parse_bytes(r.options.max_memory.value);
}

int infer(InferRequest& request) {
  check(request);
  std::vector<std::string> warnings;
  for (const std::string& c : request.configs)
    ocr::load_config(request.options, c, request.strict, warnings);
  ocr::Inputs inputs = ocr::collect_inputs(request.inputs);
  if (inputs.jobs.empty() && inputs.errors.empty())
    throw train::DataError(
        request.inputs.arguments.empty() ? request.inputs.lists[0] : request.inputs.arguments[0], 0,
        "no images, PDF or TIFF files in it");
  // Nothing but wrong names: no need to load models before saying so.
  if (inputs.jobs.empty()) {
    for (const ocr::InputError& e : inputs.errors) log_error(e.message);
    return kExitFailed;
  }
  const auto pipeline = ocr::Pipeline::open(request.options, &warnings);
  for (const std::string& note : request.notes) log_note(note);
  for (const std::string& w : warnings) log_warning(w);
  const ocr::RunInfo info = pipeline->info();
  for (const ocr::ModelNote& m : info.models) log_debug(cat(m.kind, " model: ", m.path));
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return Run(request, *pipeline, info, std::move(inputs)).execute();
}

}  // namespace

void declare_infer(Command& command) {
  const auto request = std::make_shared<InferRequest>();
  add_infer_options(command, *request);
  command.run([request] { return infer(*request); });
}

}  // namespace app
