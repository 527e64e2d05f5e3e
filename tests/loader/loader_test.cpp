// The data loader: order, seeds and bad samples do not depend on the workers.
#include "libtrain/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "libtrain/core/error.h"
#include "libtrain/data/cache.h"

namespace train::data {
namespace {

// Sample i: [2] floats (i, a random number), and its label. Samples take different times.
class Numbers final : public Dataset {
 public:
  explicit Numbers(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  std::string name(int64_t i) const override { return "list.txt:" + std::to_string(i + 1); }
  Sample get(const SampleRequest& r) const override {
    ++reads;
    std::this_thread::sleep_for(std::chrono::microseconds(r.random.below(9, 300)));
    if (bad.contains(r.index)) throw DataError("list.txt", r.index + 1, "no such image");
    if (r.index == broken) throw std::bad_alloc();
    return {{Tensor::from<float>({2}, {static_cast<float>(r.index), r.random.uniform(0)}),
             Tensor::from<int64_t>({}, {r.width})}};
  }
  std::set<int64_t> bad;
  int64_t broken = -1;
  mutable std::atomic<int64_t> reads = 0;

 private:
  int64_t n_;
};

struct Seen {
  std::vector<int64_t> indices;
  std::vector<float> values;
  std::vector<std::string> bad;
  bool operator==(const Seen&) const = default;
};

Seen run(const Dataset& data, const BatchSampler& sampler, const LoaderOptions& options,
         int64_t first_epoch = 0, int64_t first_batch = 0, int64_t epochs = 3) {
  DataLoader loader(data, sampler, options);
  Seen seen;
  for (int64_t e = first_epoch; e < epochs; ++e) {
    loader.start(e, e == first_epoch ? first_batch : 0);
    while (const auto batch = loader.next()) {
      EXPECT_EQ(batch->epoch, e);
      seen.indices.insert(seen.indices.end(), batch->indices.begin(), batch->indices.end());
      const auto v = batch->fields[0].span<float>();
      seen.values.insert(seen.values.end(), v.begin(), v.end());
    }
  }
  for (const BadSample& b : loader.bad()) seen.bad.push_back(b.name + "|" + b.reason);
  return seen;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(DataLoader, SameSamplesForAnyNumberOfWorkers) {
  Numbers data(103);
  data.bad = {5, 77};
  const SimpleBatchSampler sampler(103, {.batch_size = 8, .shuffle = true, .seed = 4});
  const LoaderOptions inline_options{.seed = 9, .max_bad = 6};
  const Seen expected = run(data, sampler, inline_options);
  EXPECT_EQ(expected.indices.size(), 3u * 101);
  ASSERT_EQ(expected.bad.size(), 2u);
  EXPECT_TRUE(expected.bad[0] == "list.txt:6|no such image" ||
              expected.bad[0] == "list.txt:78|no such image");
  for (const int workers : {1, 2, 5})
    for (const int prefetch : {1, 4})
      EXPECT_EQ(
          run(data, sampler, {.workers = workers, .prefetch = prefetch, .seed = 9, .max_bad = 6}),
          expected);
}

TEST(DataLoader, BeginsAnywhereInAnEpoch) {
  const Numbers data(40);
  const SimpleBatchSampler sampler(40, {.batch_size = 4, .shuffle = true, .seed = 1});
  const Seen whole = run(data, sampler, {.seed = 2});
  const Seen rest = run(data, sampler, {.workers = 3, .seed = 2}, 1, 3);
  const size_t skipped = 40 + 12;
  EXPECT_EQ(rest.indices,
            std::vector<int64_t>(whole.indices.begin() + skipped, whole.indices.end()));
  EXPECT_EQ(rest.values,
            std::vector<float>(whole.values.begin() + 2 * skipped, whole.values.end()));

  DataLoader loader(data, sampler, {.workers = 2, .seed = 2});
  loader.start(0);
  loader.next();
  loader.start(1, 3);  // in the middle of reading ahead
  EXPECT_EQ(loader.next()->indices[0], rest.indices[0]);
  EXPECT_NE(error_of([&] { loader.start(0, 11); }), "");
}

TEST(DataLoader, RandomNumbersChangeWithEpochAndIndexAndSeed) {
  EXPECT_EQ(sample_random(1, 2, 3).bits(0), sample_random(1, 2, 3).bits(0));
  std::set<uint32_t> all;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (int64_t epoch = 0; epoch < 8; ++epoch)
      for (int64_t index = 0; index < 64; ++index)
        all.insert(sample_random(seed, epoch, index).bits(0));
  EXPECT_GE(all.size(), 4u * 8 * 64 - 2);  // a chance hit among 2^32 is possible
}

TEST(DataLoader, ReadsNoMoreThanAskedAhead) {
  const Numbers data(1000);
  const SimpleBatchSampler sampler(1000, {.batch_size = 10});
  DataLoader loader(data, sampler, {.workers = 4, .prefetch = 2});
  loader.start(0);
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(data.reads, 30);
}

TEST(DataLoader, ABadSampleCountsOnceHoweverManyEpochsItFailsIn) {
  Numbers data(8);
  data.bad = {3};
  const SimpleBatchSampler sampler(8, {.batch_size = 4});
  DataLoader loader(data, sampler, {.workers = 2, .max_bad = 1});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    loader.start(epoch);
    EXPECT_EQ(loader.next()->indices, (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(loader.next()->size(), 4);
  }
  EXPECT_EQ(loader.bad().size(), 1u);
}

TEST(DataLoader, TooManyBadSamplesEndTheRunAndNameTheSample) {
  for (const int workers : {0, 3}) {
    Numbers data(20);
    data.bad = {3, 11};
    const SimpleBatchSampler sampler(20, {.batch_size = 4});
    DataLoader loader(data, sampler, {.workers = workers, .max_bad = 1});
    loader.start(0);
    EXPECT_EQ(loader.next()->indices, (std::vector<int64_t>{0, 1, 2}));
    loader.next();
    EXPECT_EQ(error_of([&] { loader.next(); }),
              "list.txt:12: no such image (bad sample 2, allowed 1)");
  }
  Numbers data(4);
  data.bad = {0, 1};
  const SimpleBatchSampler sampler(4, {.batch_size = 2});
  EXPECT_EQ(run(data, sampler, {.workers = 2, .max_bad = 2}, 0, 0, 1).indices,
            (std::vector<int64_t>{2, 3}));
  data.bad = {};
  data.broken = 3;
  EXPECT_NE(
      error_of([&] { run(data, sampler, {.workers = 2, .max_bad = 9}); }).find("list.txt:4: "),
      std::string::npos);
}

TEST(DataLoader, BatchesHoldStackedFields) {
  const Numbers data(3);
  struct OneSize final : BatchSampler {
    std::vector<BatchPlan> epoch(int64_t) const override { return {{{2, 0}, 32, 100}}; }
  } sampler;
  DataLoader loader(data, sampler, {.workers = 1});
  loader.start(0);
  const Batch batch = *loader.next();
  EXPECT_EQ(batch.fields[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(batch.fields[0].data<float>()[0], 2);
  EXPECT_EQ(batch.fields[1].to_ints(), (std::vector<int64_t>{100, 100}));
  EXPECT_EQ(batch.width, 100);
  EXPECT_FALSE(loader.next());
  const Sample samples[] = {{{Tensor::zeros({2})}}, {{Tensor::zeros({3})}}};
  EXPECT_NE(error_of([&] { data.collate(samples); }).find("[2] and [3]"), std::string::npos);
}

TEST(BatchSampler, TooFewSamplesIsAnErrorWithBothNumbers) {
  const std::string message =
      error_of([] { SimpleBatchSampler(7, {.batch_size = 8, .drop_last = true}); });
  EXPECT_NE(message.find("holds 7 samples, fewer than one batch of 8"), std::string::npos)
      << message;
  EXPECT_NE(error_of([] { SimpleBatchSampler(0, {}); }), "");
  EXPECT_NE(error_of([] { SimpleBatchSampler(9, {.batch_size = 0}); }), "");
  EXPECT_EQ(SimpleBatchSampler(7, {.batch_size = 8}).epoch(0).size(), 1u);
  EXPECT_EQ(SimpleBatchSampler(17, {.batch_size = 8, .drop_last = true}).epoch(0).size(), 2u);
}

TEST(BatchSampler, RanksTogetherSeeTheLargeBatch) {
  const SimpleBatchSampler one(22, {.batch_size = 6, .shuffle = true, .seed = 3});
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const auto whole = one.epoch(epoch);
    std::vector<std::vector<BatchPlan>> parts;
    for (int rank = 0; rank < 3; ++rank)
      parts.push_back(
          SimpleBatchSampler(
              22, {.batch_size = 2, .shuffle = true, .seed = 3, .rank = rank, .ranks = 3})
              .epoch(epoch));
    for (size_t b = 0; b < whole.size(); ++b) {
      std::vector<int64_t> joined;
      for (const auto& p : parts) {
        ASSERT_EQ(p.size(), whole.size());
        EXPECT_EQ(p[b].indices.size(), parts[0][b].indices.size());
        joined.insert(joined.end(), p[b].indices.begin(), p[b].indices.end());
      }
      joined.resize(whole[b].indices.size());  // the last one was filled up
      EXPECT_EQ(joined, whole[b].indices);
    }
  }
  EXPECT_NE(one.epoch(0)[0].indices, one.epoch(1)[0].indices);
}

TEST(Cache, KeepsWhatFitsAndStaysThen) {
  Cache<int64_t, std::string> cache(2000);
  int made = 0;
  const auto get = [&](int64_t key) {
    return *cache.get(
        key, [&] { return ++made, std::string(500, static_cast<char>('a' + key)); },
        [](const std::string& s) { return s.size(); });
  };
  for (int round = 0; round < 3; ++round)
    for (int64_t key = 0; key < 5; ++key) EXPECT_EQ(get(key)[0], 'a' + key);
  EXPECT_EQ(made, 3 + 2 * 3);  // three fit
  EXPECT_EQ(cache.stats().values, 3u);
  EXPECT_LE(cache.stats().bytes, 2000u);
  EXPECT_EQ(cache.stats().hits, 6u);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache] {
      for (int64_t i = 0; i < 200; ++i)
        cache.get(
            i % 7, [] { return std::string("x"); }, [](const std::string& s) { return s.size(); });
    });
  for (auto& t : threads) t.join();
  EXPECT_LE(cache.stats().bytes, 2000u);
}

}  // namespace
}  // namespace train::data
