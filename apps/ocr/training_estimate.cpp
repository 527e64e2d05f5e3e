#include "apps/ocr/training_estimate.h"

#include <cstdio>

#include "apps/ocr/log.h"
#include "libtrain/core/child.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/train/run_log.h"

namespace app {
namespace {

using train::cat;

std::string remedy(const train::config::SplitConfig& split) {
  const std::string batch =
      split.sampler.name == "MultiScaleSampler"
          ? cat("Train.sampler.first_bs (now ", split.sampler.first_bs, ")")
          : cat("Train.loader.batch_size_per_card (now ", split.loader.batch_size_per_card, ")");
  return cat("make ", batch,
             " or the size of the pictures smaller, or begin all the same: --memory-limit 0");
}

std::string formatted(const char* pattern, double v) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, v);
  return buffer;
}

std::string mebibytes(double bytes) { return formatted("%.0f MiB", bytes / (1 << 20)); }

// Seconds as a person says them.
std::string span(double seconds) {
  if (seconds >= 90) return train::duration_text(static_cast<int64_t>(seconds + .5));
  return formatted(seconds < 10 ? "%.2g s" : "%.0f s", seconds);
}

void tell(const ocr::Estimate& e, int epochs) {
  log_info(cat("estimate: ", e.trained, " parameters are trained, ",
               e.frozen > 0 ? cat(e.frozen, " are not, ") : "", e.buffers,
               " numbers are statistics; memory at most about ",
               mebibytes(static_cast<double>(e.memory))));
  log_info(cat("estimate: a batch of ", formatted("%.4g", e.samples), " samples takes ",
               formatted("%.3g", e.flops / 1e9), " GFLOP and ", span(e.batch_seconds),
               "; reading it takes one thread ", span(e.read_seconds),
               e.tried < .99 ? cat("; drawn on from batches of ",
                                   formatted("%.3g", e.tried * e.samples), " samples")
                             : ""));
  if (e.batches == 0) {
    log_info(cat("estimate: 1000 samples take ", span(1000 * e.batch_seconds / e.samples),
                 "; there are no data, so these were made up"));
    return;
  }
  const double epoch = static_cast<double>(e.batches) * e.batch_seconds;
  const std::string evaluation =
      e.evaluation_seconds > 0 ? cat(", an evaluation ", span(e.evaluation_seconds)) : "";
  log_info(cat("estimate: an epoch of ", e.batches, " batches takes ", span(epoch), evaluation,
               "; ", epochs, " epochs ", span(epoch * epochs),
               evaluation.empty() ? "" : " without evaluations"));
}

}  // namespace

void tell_estimate(const ocr::EstimateParts& parts, std::optional<int> limit_mib) {
  const int64_t limit = limit_mib ? int64_t{*limit_mib} << 20 : train::usable_memory();
  const std::string advice = remedy(parts.config.train);
  ocr::Estimate e;
  try {
    e = ocr::estimate_training(parts, {.memory = limit});
  } catch (const train::CopyKilled& killed) {
    throw train::Error(cat("trying a few updates failed: ", killed.what(),
                           ", probably for want of memory; ", advice));
  } catch (const train::Error& error) {
    log_warning(cat("no estimate of memory and time: ", error.what()));
    return;
  }
  tell(e, parts.config.global.epoch_num);
  if (limit == 0 || e.memory <= limit) return;
  throw train::Error(cat("this training takes about ", mebibytes(static_cast<double>(e.memory)),
                         " of memory, and ", mebibytes(static_cast<double>(limit)),
                         limit_mib ? " are allowed (--memory-limit)" : " can be used", "; ",
                         advice));
}

}  // namespace app
