// A classifier of texts: embedding 5000 x 128, mean over the words, dropout, linear; Adam over 5
// epochs of 1,000 texts.
// usage: text_classifier [--device cpu] [--threads N]; exits with 1 below 95 % on unseen texts.
#include <cstdio>

#include "apps/examples/digits.h"
#include "apps/examples/example.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/adam.h"

using namespace train;

namespace {

constexpr int64_t kWords = 5000, kLength = 20, kBatch = 50, kTexts = 1000;
constexpr int kClasses = 4, kEpochs = 5;

struct Classifier : nn::Module {
  nn::Embedding embedding{kWords, 128};
  nn::Dropout dropout{.2f};
  nn::Linear out{128, kClasses};
  Classifier() {
    add_module("embedding", embedding);
    add_module("dropout", dropout);
    add_module("out", out);
  }
  // words: i64 [N, T] -> logits [N, classes]
  Variable operator()(Tape& tape, const Variable& words) const {
    return out(tape, dropout(tape, mean(tape, embedding(tape, words), {1})));
  }
};

// Half of a text's words come from its class's own 200, the rest from anywhere.
void draw_texts(uint64_t first, Tensor& words, Tensor& labels) {
  for (int64_t r = 0; r < words.shape()[0]; ++r) {
    const RandomStream random(7, first + static_cast<uint64_t>(r));
    const uint32_t label = labels.data<int64_t>()[r] = random.below(0, kClasses);
    for (uint64_t t = 0; t < kLength; ++t)
      words.data<int64_t>()[r * kLength + static_cast<int64_t>(t)] =
          t % 2 ? label * 200 + random.below(t + 1, 200) : random.below(t + 1, kWords);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const examples::Options options(argc, argv);
  ThreadPool pool(options.threads);
  const PoolScope scope(&pool);
  Classifier model;
  model.initialize(/*seed=*/1);
  const nn::SoftmaxCrossEntropy loss_of;
  optim::Adam adam(model.parameters(), {.learning_rate = .005});
  Eager eager;
  Tensor words({kBatch, kLength}, DType::kI64), labels({kBatch}, DType::kI64);
  const examples::Clock clock;
  for (uint64_t step = 0; step < kEpochs * kTexts / kBatch; ++step) {
    draw_texts(step * kBatch % kTexts, words, labels);
    Tape tape(eager, /*record=*/true, /*seed=*/step);
    adam.clear_grad();
    tape.backward(loss_of(tape, model(tape, Variable::input(words)), Variable::input(labels)));
    adam.step();
  }
  std::printf("%d epochs of %d texts in %.3f s, ", kEpochs, static_cast<int>(kTexts),
              clock.seconds());
  model.train(false);
  Tensor unseen({500, kLength}, DType::kI64), answers({500}, DType::kI64);
  draw_texts(1'000'000, unseen, answers);
  Tape tape(eager, /*record=*/false);
  const double accuracy = examples::accuracy(model(tape, Variable::input(unseen)).value(), answers);
  std::printf("accuracy on unseen texts %.1f %%\n", 100 * accuracy);
  return accuracy >= .95 ? 0 : 1;
} catch (const Error& e) {
  std::fprintf(stderr, "text_classifier: %s\n", e.what());
  return 2;
}
