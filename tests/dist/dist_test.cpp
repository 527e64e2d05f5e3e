// Ranks as threads: sums, failures, and gradients averaged while backward runs.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "libtrain/autograd/functional.h"
#include "libtrain/dist/reducer.h"
#include "libtrain/nn/layers.h"
#include "tests/support/error_of.h"
#include "tests/train/digits_run.h"

namespace train::dist {
namespace {

using test::error_of;
TEST(Communicator, SumsInTheOrderOfRanks) {
  for (const int ranks : {1, 2, 5}) {
    float expected = 0;
    for (int r = 0; r < ranks; ++r) expected += .1f * static_cast<float>(r + 1);
    run_ranks(ranks, [&](Communicator& c) {
      EXPECT_EQ(c.size(), ranks);
      for (int round = 0; round < 50; ++round) {
        std::vector<float> data(100, .1f * static_cast<float>(c.rank() + 1));
        auto request = c.start_all_reduce(data);
        std::vector<float> second(3, 1);
        auto other = c.start_all_reduce(second);  // two under way
        other->wait();
        request->wait();
        EXPECT_EQ(data[99], expected);
        EXPECT_EQ(second[2], static_cast<float>(ranks));
        EXPECT_EQ(c.sum(c.rank()), ranks * (ranks - 1) / 2.);
        char bytes[2] = {static_cast<char>(c.rank()), 7};
        c.broadcast(bytes);
        EXPECT_EQ(bytes[0], 0);
        c.barrier();
      }
    });
  }
}

TEST(Communicator, ADeadOrHungRankEndsTheOthers) {
  int told = 0;
  std::mutex mutex;
  const std::string message = error_of([&] {
    run_ranks(3, [&](Communicator& c) {
      c.barrier();
      if (c.rank() == 1) throw DataError("sample.jpg", 0, "no such file");
      const std::string e = error_of([&] { c.barrier(); });
      const std::lock_guard lock(mutex);
      told += e == "rank 1 failed: sample.jpg: no such file";
    });
  });
  EXPECT_EQ(message, "sample.jpg: no such file");
  EXPECT_EQ(told, 2);
  const std::string hung = error_of([] {
    run_ranks(2,
              [](Communicator& c) {
                if (c.rank() == 0) c.barrier();
              },
              {.timeout_seconds = .05});
  });
  EXPECT_NE(hung.find("rank 0 waited 0.05 s in barrier"), std::string::npos) << hung;
  const std::string mixed = error_of([] {
    run_ranks(2, [](Communicator& c) {
      std::vector<float> data(c.rank() ? 3 : 4);
      c.all_reduce(data);
    });
  });
  EXPECT_NE(mixed.find("elements while another called"), std::string::npos) << mixed;
}

// A chain of layers; backward finishes the last one first.
struct Chain : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  explicit Chain(int n, int64_t width = 32) {
    for (int i = 0; i < n; ++i) {
      layers.push_back(std::make_unique<nn::Linear>(width, width));
      add_module(std::to_string(i), *layers.back());
    }
    initialize(3);
  }
  Variable operator()(Tape& tape, Variable x) const {
    for (const auto& l : layers) x = (*l)(tape, x);
    return x;
  }
};

TEST(GradientReducer, GivesTheMeanOverRanks) {
  run_ranks(2, [](Communicator& c) {
    Chain model(6);
    auto parameters = model.parameters();
    Variable unused = parameters[3].variable;
    GradientReducer reducer(c, parameters, /*bucket_bytes=*/5000);
    EXPECT_EQ(reducer.buckets(), 6u);
    Eager eager;
    const Tensor seed = Tensor::from<float>({1, 32}, std::vector<float>(32, 1));
    const auto run = [&](float x, GradientReducer* r) {
      for (auto& p : parameters) p.variable.clear_grad();
      Tape tape(eager);
      const Tensor input = Tensor::from<float>({1, 32}, std::vector<float>(32, x));
      const Variable y = model(tape, Variable::input(input));
      if (r) r->attach(tape);
      tape.backward(y, seed);
      if (r) r->finish();
      std::vector<std::vector<float>> all;
      for (auto& p : parameters)
        all.emplace_back(p.variable.grad().span<float>().begin(),
                         p.variable.grad().span<float>().end());
      return all;
    };
    const auto zero = run(1, nullptr), one = run(3, nullptr);
    const auto mean = run(c.rank() ? 3 : 1, &reducer);
    for (size_t i = 0; i < mean.size(); ++i)
      for (size_t j = 0; j < mean[i].size(); ++j)
        EXPECT_EQ(mean[i][j], (zero[i][j] + one[i][j]) * .5f) << parameters[i].name;
  });
}

TEST(GradientReducer, SendsBucketsDuringBackward) {
  // Every sum takes 3 ms to arrive. Backward itself sent all six buckets off, so that after 30 ms
  // of other work, in which nobody waits for them, all are there.
  run_ranks(2,
            [](Communicator& c) {
              Chain model(6);
              auto parameters = model.parameters();
              GradientReducer reducer(c, parameters, 5000);
              Eager eager;
              Tape tape(eager);
              const Variable y = model(tape, Variable::input(Tensor::zeros({1, 32})));
              reducer.attach(tape);
              tape.backward(y, Tensor::zeros({1, 32}));
              std::this_thread::sleep_for(std::chrono::milliseconds(30));  // other work
              reducer.finish();
              EXPECT_EQ(reducer.overlapped(), 6);
            },
            {.latency_seconds = .003});
}

TEST(GradientReducer, AParameterWithoutGradientCountsAsZero) {
  run_ranks(2, [](Communicator& c) {
    Chain model(2, 4);
    auto parameters = model.parameters();
    GradientReducer reducer(c, parameters);
    Eager eager;
    Tape tape(eager);
    const Variable x = Variable::input(Tensor::from<float>({1, 4}, {1, 1, 1, 1}));
    const Variable y = c.rank() ? (*model.layers[1])(tape, x) : model(tape, x);
    reducer.attach(tape);
    tape.backward(y, Tensor::from<float>({1, 4}, {1, 1, 1, 1}));
    reducer.finish();
    const auto grad = parameters[1].variable.grad();  // the bias of the layer that rank 1 left out
    double sum = 0;
    for (const float g : grad.span<float>()) sum += std::abs(g);
    EXPECT_GT(sum, 0);
    EXPECT_EQ(c.sum(sum), 2 * sum);  // the same on both
  });
}

// Two ranks with half the batch each see the samples that one rank sees, and stay equal to each
// other.
TEST(GradientReducer, TwoRanksTrainAsOneWithTheirBatches) {
  struct Ends {
    std::vector<float> weights[2];
  } ends;
  run_ranks(2, [&](Communicator& c) {
    test::DigitOptions options{.samples = 64, .batch = 4, .epochs = 2, .communicator = &c};
    test::DigitRun run(options);
    run.trainer->run();
    ends.weights[c.rank()] = run.weights();
  });
  test::DigitRun alone({.samples = 64, .batch = 8, .epochs = 2});
  alone.trainer->run();
  const size_t parameters = 6 * 9 + 6 + 6 + 6;  // before the running statistics, which are per rank
  for (size_t i = 0; i < parameters; ++i) EXPECT_EQ(ends.weights[0][i], ends.weights[1][i]) << i;
  double difference = 0, norm = 0;
  const auto weights = alone.weights();
  for (size_t i = 0; i < parameters; ++i) {
    difference += std::abs(weights[i] - ends.weights[0][i]);
    norm += std::abs(weights[i]);
  }
  // Batch norm without synchronisation and dropout's own numbers per rank keep them from being
  // equal.
  EXPECT_LT(difference, .1 * norm);
}

}  // namespace
}  // namespace train::dist
