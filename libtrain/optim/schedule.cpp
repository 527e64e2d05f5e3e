#include "libtrain/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "libtrain/core/error.h"

namespace train::optim {
namespace {

void check(bool ok, const std::string& message) {
  if (!ok) throw ConfigError("", 0, 0, "learning rate: " + message);
}

}  // namespace

const char* name_of(ScheduleOptions::Kind kind) {
  constexpr const char* names[] = {"const",  "piecewise",  "cosine",
                                   "linear", "polynomial", "one_cycle"};
  return names[static_cast<int>(kind)];
}

Schedule::Schedule(ScheduleOptions options) : options_(std::move(options)) {
  const ScheduleOptions& o = options_;
  check(o.total_steps > 0, cat("total_steps must be positive, not ", o.total_steps));
  check(o.warmup_steps >= 0, cat("warmup_steps must not be negative, as ", o.warmup_steps));
  if (o.kind == ScheduleOptions::Kind::kPiecewise) {
    check(o.values.size() == o.boundaries.size() + 1,
          cat("piecewise needs one value more than boundaries, not ", o.values.size(), " and ",
              o.boundaries.size()));
    check(std::ranges::is_sorted(o.boundaries), "piecewise boundaries must ascend");
  } else {
    check(std::isfinite(o.learning_rate) && o.learning_rate >= 0,
          cat("must be a number >= 0, not ", o.learning_rate));
  }
  if (o.kind == ScheduleOptions::Kind::kOneCycle)
    check(o.pct_start > 0 && o.pct_start < (o.three_phase ? .5 : 1) && o.div_factor > 0 &&
              o.final_div_factor > 0,
          "one_cycle needs 0 < pct_start < 1 (three_phase: .5) and positive factors");
}

double Schedule::at(int64_t step) const {
  const ScheduleOptions& o = options_;
  const double peak = o.kind == ScheduleOptions::Kind::kPiecewise ? o.values[0] : o.learning_rate;
  if (step < o.warmup_steps)
    return peak * static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  return after_warmup(step - o.warmup_steps);
}

double Schedule::after_warmup(int64_t step) const {
  const ScheduleOptions& o = options_;
  const double t =
      static_cast<double>(std::min(step, o.total_steps)) / static_cast<double>(o.total_steps);
  switch (o.kind) {
    case ScheduleOptions::Kind::kConst:
      return o.learning_rate;
    case ScheduleOptions::Kind::kPiecewise: {
      const auto past = std::ranges::upper_bound(o.boundaries, step) - o.boundaries.begin();
      return o.values[static_cast<size_t>(past)];
    }
    case ScheduleOptions::Kind::kCosine:
      return o.end_lr + (o.learning_rate - o.end_lr) * (1 + std::cos(std::numbers::pi * t)) / 2;
    case ScheduleOptions::Kind::kLinear:
      return o.end_lr + (o.learning_rate - o.end_lr) * (1 - t);
    case ScheduleOptions::Kind::kPolynomial:
      return o.end_lr + (o.learning_rate - o.end_lr) * std::pow(1 - t, o.power);
    case ScheduleOptions::Kind::kOneCycle:
      return one_cycle(step);
  }
  return o.learning_rate;
}

// Smith & Topin 2018, with the phases of PyTorch's OneCycleLR.
double Schedule::one_cycle(int64_t step) const {
  const ScheduleOptions& o = options_;
  const auto total = static_cast<double>(o.total_steps);
  const double start = o.learning_rate / o.div_factor, end = start / o.final_div_factor;
  struct Phase {
    double end_step, from, to;
  };
  std::vector<Phase> phases{{o.pct_start * total - 1, start, o.learning_rate}};
  if (o.three_phase) {
    phases.push_back({2 * o.pct_start * total - 2, o.learning_rate, start});
    phases.push_back({total - 1, start, end});
  } else {
    phases.push_back({total - 1, o.learning_rate, end});
  }
  const double at = std::min(static_cast<double>(step), total - 1);
  double begin = 0;
  for (const Phase& p : phases) {
    if (at <= p.end_step || &p == &phases.back()) {
      const double length = p.end_step - begin;
      const double t = length > 0 ? (at - begin) / length : 1;
      if (o.linear_anneal) return p.from + (p.to - p.from) * t;
      return p.to + (p.from - p.to) * (1 + std::cos(std::numbers::pi * t)) / 2;
    }
    begin = p.end_step;
  }
  return end;
}

}  // namespace train::optim
