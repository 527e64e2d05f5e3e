// Trains a small CNN on rendered digits, with libtrain alone: model, loss, optimiser, evaluation.
// usage: cnn_digits [STEPS] [THREADS]; exits with 1 below 97 % on unseen digits.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "apps/examples/digits.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/sgd.h"

using namespace train;

namespace {

struct Cnn : nn::Module {
  nn::Conv2d conv1{1, 8, 3}, conv2{8, 16, 3};
  nn::MaxPool2d pool{2};
  nn::Linear fc{16 * 4 * 4, 10};

  Cnn() {
    add_module("conv1", conv1);
    add_module("conv2", conv2);
    add_module("fc", fc);
  }
  // images: [N, 1, 16, 16] -> logits [N, 10]
  Variable operator()(Tape& tape, const Variable& images) const {
    Variable x = pool(tape, relu(tape, conv1(tape, images)));
    x = pool(tape, relu(tape, conv2(tape, x)));
    return fc(tape, flatten(tape, x));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  ThreadPool pool(argc > 2 ? std::atoi(argv[2]) : usable_cpus());
  const PoolScope scope(&pool);
  constexpr int kBatch = 64;

  Cnn model;
  model.initialize(/*seed=*/1);
  const nn::SoftmaxCrossEntropy loss_of;
  optim::Sgd sgd(model.parameters(), {.learning_rate = .05f, .momentum = .9f});
  Eager eager;
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    const auto batch = examples::render_digits("train", uint64_t(step) * kBatch, kBatch);
    Tape tape(eager);
    const Variable logits = model(tape, Variable::input(batch.images));
    const Variable loss = loss_of(tape, logits, Variable::input(batch.labels));
    sgd.clear_grad();
    tape.backward(loss);
    sgd.step();
    if (step % 50 == 0) std::printf("step %4d  loss %.4f\n", step, loss.value().data<float>()[0]);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  const auto test = examples::render_digits("test", 0, 1000);
  Tape tape(eager, /*record=*/false);
  const Variable logits = model(tape, Variable::input(test.images));
  const double accuracy = examples::accuracy(logits.value(), test.labels);
  std::printf("%d steps in %.2f s, accuracy on 1000 unseen digits %.1f %%\n", steps,
              seconds.count(), 100 * accuracy);
  return accuracy >= .97 ? 0 : 1;
} catch (const Error& e) {
  std::fprintf(stderr, "cnn_digits: %s\n", e.what());
  return 2;
}
