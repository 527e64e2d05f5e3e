// Learning-rate schedules with warm-up, as pure functions of the step.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace train::optim {

/// Steps are optimiser updates, counted from 0. The meaning is that of PaddleOCR's `Optimizer.lr`
/// with its epochs multiplied out.
struct ScheduleOptions {
  enum class Kind : uint8_t {
    kConst,       // learning_rate
    kPiecewise,   // values[i] before boundaries[i], then the last value
    kCosine,      // to end_lr over total_steps, half a cosine wave
    kLinear,      // to end_lr over total_steps
    kPolynomial,  // to end_lr over total_steps with (1 - t)^power
    kOneCycle,    // up from learning_rate / div_factor, down to that / final_div_factor
  };
  Kind kind = Kind::kConst;
  double learning_rate = 1e-3;  // the peak for kOneCycle
  int64_t total_steps = 1;      // all steps of the run, warm-up included
  double end_lr = 0;
  double power = 1;
  std::vector<int64_t> boundaries = {};  // steps, ascending
  std::vector<double> values = {};       // one more than boundaries
  double pct_start = .3, div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false, linear_anneal = false;  // kOneCycle
  /// Steps over which the rate rises from 0 to learning_rate (values[0] for kPiecewise). The
  /// schedule itself starts after them but still has total_steps: like Paddle's, a cosine with
  /// warm-up therefore never reaches its end.
  int64_t warmup_steps = 0;
};

class Schedule {
 public:
  /// Throws ConfigError when the options contradict each other.
  explicit Schedule(ScheduleOptions options);
  /// The rate of update number `step` (0, 1, ...).
  double at(int64_t step) const;
  const ScheduleOptions& options() const { return options_; }

 private:
  double after_warmup(int64_t step) const;
  double one_cycle(int64_t step) const;
  ScheduleOptions options_;
};

/// "const", "piecewise", "cosine", "linear", "polynomial", "one_cycle".
const char* name_of(ScheduleOptions::Kind kind);

}  // namespace train::optim
