// The optimiser, schedule and trainer options that a configuration asks for.
#pragma once
#include <memory>

#include "libtrain/config/training.h"
#include "libtrain/optim/optimizer.h"
#include "libtrain/optim/schedule.h"
#include "libtrain/train/trainer.h"

namespace ocr {

/// From `Optimizer`: Adam, AdamW, Momentum (also SGD). An L2 regularizer is coupled, as Paddle's.
/// Throws ConfigError with the place for a name that is not known.
std::unique_ptr<train::optim::Optimizer> make_optimizer(
    const train::config::OptimizerConfig& config, std::vector<train::nn::Parameter> parameters);

/// From `Optimizer.lr`: Const, Cosine, Linear, Polynomial, Piecewise, Step, OneCycle (also spelled
/// as Paddle's *Decay classes), with warm-up; epochs become updates. Throws ConfigError likewise.
train::optim::Schedule make_schedule(const train::config::OptimizerConfig& config,
                                     int64_t updates_per_epoch, int64_t epochs);

/// From `Global` and `Optimizer`: folder, epochs, how often to print, save and evaluate, clipping.
train::TrainerOptions trainer_options(const train::config::TrainingConfig& config);

}  // namespace ocr
