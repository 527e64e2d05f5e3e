// A convolutional net in mixed precision: conv, pool, linear under autocast in f16, with a loss
// scale. usage: cnn [--device cpu] [--threads N]; exits with 1 below 90 % on unseen digits.
#include <cstdio>

#include "apps/examples/digits.h"
#include "apps/examples/example.h"
#include "libtrain/amp/autocast.h"
#include "libtrain/amp/grad_scaler.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/sgd.h"

using namespace train;

namespace {

struct Cnn : nn::Module {
  nn::Conv2d conv{1, 16, 3};
  nn::MaxPool2d pool{2};
  nn::Linear fc{16 * 8 * 8, 10};
  Cnn() {
    add_module("conv", conv);
    add_module("fc", fc);
  }
  // images: [N, 1, 16, 16] -> logits [N, 10]
  Variable operator()(Tape& tape, const Variable& images) const {
    return fc(tape, flatten(tape, pool(tape, relu(tape, conv(tape, images)))));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const examples::Options options(argc, argv);
  ThreadPool pool(options.threads);
  const PoolScope scope(&pool);
  constexpr int kSteps = 200, kBatch = 64;

  Cnn model;
  model.initialize(/*seed=*/1);
  const nn::SoftmaxCrossEntropy loss_of;
  optim::Sgd sgd(model.parameters(), {.learning_rate = .05, .momentum = .9});
  const amp::Autocast autocast({.dtype = DType::kF16});
  amp::GradScaler scaler({});
  Eager eager;
  const examples::Clock clock;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const auto batch = examples::render_digits("train", step * kBatch, kBatch);
    Tape tape(eager);
    tape.set_autocast(&autocast);
    const Variable loss =
        loss_of(tape, model(tape, Variable::input(batch.images)), Variable::input(batch.labels));
    sgd.clear_grad();
    tape.backward(loss, Tensor::scalar(static_cast<float>(scaler.scale())));
    const bool finite = scaler.unscale(sgd.parameters());
    if (finite) sgd.step();
    scaler.update(finite);
  }
  std::printf("%d steps in %.3f s, ", kSteps, clock.seconds());
  const auto test = examples::render_digits("test", 0, 500);
  Tape tape(eager, /*record=*/false);
  tape.set_autocast(&autocast);
  const double accuracy =
      examples::accuracy(model(tape, Variable::input(test.images)).value(), test.labels);
  std::printf("loss scale %.0f, accuracy on unseen digits %.1f %%\n", scaler.scale(),
              100 * accuracy);
  return accuracy >= .9 ? 0 : 1;
} catch (const Error& e) {
  std::fprintf(stderr, "cnn: %s\n", e.what());
  return 2;
}
