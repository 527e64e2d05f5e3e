#include "libocr/training/optimizer.h"

#include <cmath>
#include <sstream>

#include "libtrain/config/yaml.h"
#include "libtrain/core/error.h"
#include "libtrain/optim/adam.h"
#include "libtrain/optim/sgd.h"

namespace ocr {

using train::cat;
namespace optim = train::optim;
using train::config::LearningRateConfig;
using train::config::OptimizerConfig;

namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

int64_t rounded(double v) { return static_cast<int64_t>(std::llround(v)); }

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerConfig& c,
                                                 std::vector<train::nn::Parameter> parameters) {
  if (!c.regularizer.name.empty() && c.regularizer.name != "L2" &&
      c.regularizer.name != "L2Decay" && c.regularizer.factor != 0)
    c.node.fail(cat("Optimizer.regularizer '", c.regularizer.name, "' is not built: L2 is"));
  if (c.name == "Adam" || c.name == "AdamW") {
    const bool decoupled = c.name == "AdamW";
    return std::make_unique<optim::Adam>(
        std::move(parameters),
        optim::AdamOptions{
            .learning_rate = c.lr.learning_rate,
            .beta1 = c.beta1,
            .beta2 = c.beta2,
            .epsilon = c.epsilon.value_or(1e-8),
            .weight_decay = decoupled ? c.weight_decay.value_or(.01) : c.regularizer.factor,
            .decoupled = decoupled,
            .no_weight_decay_name = words(c.no_weight_decay_name),
            .one_dim_param_no_weight_decay = c.one_dim_param_no_weight_decay});
  }
  if (c.name == "Momentum" || c.name == "SGD")
    return std::make_unique<optim::Sgd>(
        std::move(parameters),
        optim::SgdOptions{.learning_rate = c.lr.learning_rate,
                          .momentum = c.momentum.value_or(c.name == "SGD" ? 0 : .9),
                          .weight_decay = c.regularizer.factor});
  c.node.fail(cat("Optimizer.name '", c.name,
                  "' is not built: there are Adam, AdamW, Momentum, SGD",
                  train::config::did_you_mean(c.name, {"Adam", "AdamW", "Momentum", "SGD"})));
}

optim::Schedule make_schedule(const OptimizerConfig& config, int64_t updates_per_epoch,
                              int64_t epochs) {
  const LearningRateConfig& c = config.lr;
  const auto steps = [&](double in_epochs) {
    return rounded(in_epochs * static_cast<double>(updates_per_epoch));
  };
  using Kind = optim::ScheduleOptions::Kind;
  optim::ScheduleOptions o;
  o.learning_rate = c.learning_rate;
  o.total_steps = std::max<int64_t>(1, steps(c.epochs.value_or(static_cast<double>(epochs))));
  o.warmup_steps = c.warmup_steps > 0 ? c.warmup_steps : steps(c.warmup_epoch);
  o.end_lr = c.end_lr.value_or(0);
  const std::string& name = c.name;
  if (name == "Const") {
    o.kind = Kind::kConst;
  } else if (name == "Cosine" || name == "CosineAnnealingDecay") {
    o.kind = Kind::kCosine;
  } else if (name == "Linear") {
    o.kind = Kind::kLinear;
  } else if (name == "Polynomial" || name == "PolynomialDecay") {
    o.kind = Kind::kPolynomial;
    o.power = c.power.value_or(1);
  } else if (name == "Piecewise" || name == "PiecewiseDecay") {
    o.kind = Kind::kPiecewise;
    for (const double epoch : c.decay_epochs) o.boundaries.push_back(steps(epoch));
    o.values = c.values;
  } else if (name == "Step" || name == "StepDecay") {
    o.kind = Kind::kPiecewise;
    double rate = c.learning_rate;
    o.values = {rate};
    if (c.step_size < 1) config.node.fail("Optimizer.lr: Step needs a step_size of epochs");
    for (double e = c.step_size; e < static_cast<double>(epochs); e += c.step_size) {
      o.boundaries.push_back(steps(e));
      o.values.push_back(rate *= c.gamma);
    }
  } else if (name == "OneCycle" || name == "OneCycleDecay") {
    o.kind = Kind::kOneCycle;
    o.learning_rate = c.max_lr.value_or(c.learning_rate);
  } else {
    config.node.fail(cat("Optimizer.lr.name '", name,
                         "' is not built: there are Const, Cosine, Linear, Polynomial, Piecewise, "
                         "Step, OneCycle"));
  }
  return optim::Schedule(o);
}

train::TrainerOptions trainer_options(const train::config::TrainingConfig& c) {
  const train::config::GlobalConfig& g = c.global;
  train::TrainerOptions o;
  o.epochs = g.epoch_num;
  o.seed = static_cast<uint64_t>(g.seed);
  o.folder = g.save_model_dir;
  o.config = train::config::to_yaml(c.root);
  o.print_every = g.print_batch_step;
  o.smooth_window = g.log_smooth_window;
  if (g.eval_batch_step.size() == 1) o.eval_every = g.eval_batch_step[0];
  if (g.eval_batch_step.size() > 1) {
    o.eval_from = g.eval_batch_step[0];
    o.eval_every = g.eval_batch_step[1];
  }
  o.save_every_epochs = g.save_epoch_step;
  o.clip_norm = c.optimizer.clip_norm;
  o.clip_norm_global = c.optimizer.clip_norm_global;
  return o;
}

}  // namespace ocr
