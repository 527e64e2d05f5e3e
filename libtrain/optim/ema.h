// EMA: an exponential moving average of a model's weights, for evaluation and export.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "libtrain/core/state.h"
#include "libtrain/nn/module.h"

namespace train::optim {

struct EmaOptions {
  enum class Type : uint8_t {
    kThreshold,    // min(decay, (1 + n) / (10 + n)) after n updates: short memory at first
    kExponential,  // decay (1 - exp(-(n + 1) / 2000))
    kNormal,       // decay
  };
  double decay = .9998;
  Type type = Type::kThreshold;
};

/// average += weight (w - average), where the weight makes the average the exactly normalised
/// weighted mean of what was seen: no bias towards a start, no correction when it is read.
class Ema {
 public:
  /// Averages parameters and buffers.
  Ema(const nn::Module& model, const EmaOptions& options);
  /// Takes the present weights in; after every optimiser step.
  void update();
  int64_t updates() const { return updates_; }
  /// Exchanges the model's weights with the averages: call it before and after an evaluation. The
  /// versions of the weights count up. Before the first update it does nothing.
  void swap();
  void visit_state(StateVisitor& visitor);

 private:
  double decay_now() const;
  std::vector<nn::StateEntry> state_;
  std::vector<Tensor> averages_;
  EmaOptions options_;
  int64_t updates_ = 0;
  double total_ = 0;  // the sum of the weights of all that was seen
};

/// The averages in place of the weights during its life.
class EmaScope {
 public:
  explicit EmaScope(Ema* ema) : ema_(ema) {
    if (ema_) ema_->swap();
  }
  ~EmaScope() {
    if (ema_) ema_->swap();
  }
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema* ema_;
};

}  // namespace train::optim
