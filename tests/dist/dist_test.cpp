// Ranks as threads: sums, failures, and gradients averaged while backward runs.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "libtrain/autograd/functional.h"
#include "libtrain/core/philox.h"
#include "libtrain/dist/collect.h"
#include "libtrain/dist/launch.h"
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
  EXPECT_NE(hung.find("for rank 1"), std::string::npos) << hung;
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

// Ranks with batches of different sizes against plain loops in f64 over all samples: the output,
// the gradients of x (each rank's own) and of scale and bias (each rank's share), the buffers.
TEST(SynchronizedBatchNorm, EqualsTheFormulasOverAllRanks) {
  constexpr int kRanks = 3, kChannels = 5, kPixels = 6;
  constexpr int kSamples[kRanks] = {2, 3, 1};
  constexpr int kAll = 6;
  struct Net : nn::Module {
    nn::BatchNorm2d norm{kChannels};
    Net() { add_module("norm", norm); }
  };
  const RandomStream random(7, 3);
  // Element i of sample n, channel c; means far from 0.
  const auto at = [](int n, int c, int i) {
    return static_cast<uint64_t>((n * kChannels + c) * kPixels + i);
  };
  const auto x = [&](int n, int c, int i) { return 3 * c + random.normal(at(n, c, i)); };
  const auto dy = [&](int n, int c, int i) { return random.normal(10000 + at(n, c, i)); };
  const auto scale = [](int c) { return .5 + .25 * c; };
  const auto bias = [](int c) { return .1 * c - .2; };
  run_ranks(kRanks, [&](Communicator& comm) {
    int first = 0;
    for (int r = 0; r < comm.rank(); ++r) first += kSamples[r];
    const int n = kSamples[comm.rank()];
    Net net;
    net.initialize(1);
    synchronize_batch_norms(comm, net);
    EXPECT_TRUE(net.norm.is_synchronized());
    auto parameters = net.parameters();
    const Shape shape{n, kChannels, 2, kPixels / 2};
    Tensor input(shape), seed(shape);
    for (int s = 0; s < n; ++s)
      for (int c = 0; c < kChannels; ++c) {
        parameters[0].variable.writable().data<float>()[c] = static_cast<float>(scale(c));
        parameters[1].variable.writable().data<float>()[c] = static_cast<float>(bias(c));
        for (int i = 0; i < kPixels; ++i) {
          input.data<float>()[at(s, c, i)] = static_cast<float>(x(first + s, c, i));
          seed.data<float>()[at(s, c, i)] = static_cast<float>(dy(first + s, c, i));
        }
      }
    Eager eager;
    Tape tape(eager);
    const Variable v = Variable::parameter(input);
    const Variable y = net.norm(tape, v);
    const Tensor out = eager.to_layout(y.array(), Layout::kLinear).tensor.clone();
    tape.backward(y, seed);
    for (int c = 0; c < kChannels; ++c) {
      double mean = 0, var = 0, dz = 0, dzx = 0, mine = 0, mine_x = 0;
      const double count = kAll * kPixels;
      for (int s = 0; s < kAll; ++s)
        for (int i = 0; i < kPixels; ++i) mean += x(s, c, i) / count;
      for (int s = 0; s < kAll; ++s)
        for (int i = 0; i < kPixels; ++i) var += (x(s, c, i) - mean) * (x(s, c, i) - mean) / count;
      const double inv = 1 / std::sqrt(var + 1e-5);
      for (int s = 0; s < kAll; ++s)
        for (int i = 0; i < kPixels; ++i) {
          const double d = dy(s, c, i), h = (x(s, c, i) - mean) * inv;
          dz += d / count;
          dzx += d * h / count;
          if (s < first || s >= first + n) continue;
          mine += d;
          mine_x += d * h;
        }
      EXPECT_NEAR(net.norm.running_mean().value().data<float>()[c], .1 * mean, 1e-5);
      EXPECT_NEAR(net.norm.running_var().value().data<float>()[c], .9 + .1 * var, 1e-5);
      EXPECT_NEAR(parameters[0].variable.grad().data<float>()[c], mine_x, 1e-4);
      EXPECT_NEAR(parameters[1].variable.grad().data<float>()[c], mine, 1e-4);
      for (int s = 0; s < n; ++s)
        for (int i = 0; i < kPixels; ++i) {
          const double h = (x(first + s, c, i) - mean) * inv;
          EXPECT_NEAR(out.data<float>()[at(s, c, i)], scale(c) * h + bias(c), 2e-5);
          EXPECT_NEAR(v.grad().data<float>()[at(s, c, i)],
                      scale(c) * inv * (dy(first + s, c, i) - dz - h * dzx), 2e-5);
        }
    }
  });
}

TEST(Collect, RankZerosTextReachesAll) {
  run_ranks(3, [](Communicator& c) {
    for (const std::string& sent : {std::string("latest\0x", 8), std::string()}) {
      std::string text = c.rank() == 0 ? sent : "something longer than that";
      broadcast_text(c, text);
      EXPECT_EQ(text, sent);
    }
  });
}

TEST(Launch, IsReadFromTheEnvironment) {
  const auto with = [](std::vector<std::pair<std::string, const char*>> variables) {
    return find_launch([variables](const char* name) -> const char* {
      for (const auto& [key, value] : variables)
        if (key == name) return value;
      return nullptr;
    });
  };
  EXPECT_FALSE(with({}));
  const auto open = with({{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMI_RANK", "3"},
                          {"PMI_SIZE", "9"}});
  ASSERT_TRUE(open);
  EXPECT_EQ(open->rank, 1);
  EXPECT_EQ(open->size, 4);
  EXPECT_EQ(open->local_size, 2);
  EXPECT_FALSE(open->bound);
  const auto mpich = with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->by, "MPICH's mpiexec");
  EXPECT_FALSE(with({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}));
  EXPECT_FALSE(with({{"SLURM_PROCID", "0"}}));  // a batch script
  EXPECT_FALSE(with({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}));
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
