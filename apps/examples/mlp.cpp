// A multi-layer perceptron, 784-512-10: 100 steps of SGD with batches of 64.
// usage: mlp [--device cpu] [--threads N]; exits with 1 when the loss has not fallen to a tenth.
#include <cstdio>

#include "apps/examples/example.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/core/philox.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/sgd.h"

using namespace train;

namespace {

struct Mlp : nn::Module {
  nn::Linear hidden{784, 512}, out{512, 10};
  Mlp() {
    add_module("hidden", hidden);
    add_module("out", out);
  }
  // x: [N, 784] -> logits [N, 10]
  Variable operator()(Tape& tape, const Variable& x) const {
    return out(tape, relu(tape, hidden(tape, x)));
  }
};

// Ten points in space with noise around them: each sample's class is the nearest point.
void draw_batch(uint64_t step, Tensor& x, Tensor& labels) {
  const RandomStream random(1, step), points(2, 0);
  for (int64_t r = 0; r < x.shape()[0]; ++r) {
    const uint64_t at = static_cast<uint64_t>(r) * 1024;
    const uint32_t label = labels.data<int64_t>()[r] = random.below(at, 10);
    for (uint64_t i = 0; i < 784; ++i)
      x.data<float>()[r * 784 + static_cast<int64_t>(i)] =
          points.uniform(label * 784 + i, -1, 1) + random.uniform(at + 1 + i, -1, 1);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const examples::Options options(argc, argv);
  ThreadPool pool(options.threads);
  const PoolScope scope(&pool);
  constexpr int kSteps = 100;

  Mlp model;
  model.initialize(/*seed=*/1);
  const nn::SoftmaxCrossEntropy loss_of;
  optim::Sgd sgd(model.parameters(), {.learning_rate = .01});
  Eager eager;
  Tensor x({64, 784}), labels({64}, DType::kI64);
  float first = 0, last = 0;
  double seconds = 0;
  for (int step = 0; step < kSteps; ++step) {
    draw_batch(static_cast<uint64_t>(step), x, labels);
    const examples::Clock clock;
    Tape tape(eager);
    const Variable loss = loss_of(tape, model(tape, Variable::input(x)), Variable::input(labels));
    sgd.clear_grad();
    tape.backward(loss);
    sgd.step();
    seconds += clock.seconds();
    last = loss.value().data<float>()[0];
    if (step == 0) first = last;
  }
  std::printf("%d steps in %.3f s, loss %.4f -> %.4f\n", kSteps, seconds, first, last);
  return last < .1f * first ? 0 : 1;
} catch (const Error& e) {
  std::fprintf(stderr, "mlp: %s\n", e.what());
  return 2;
}
