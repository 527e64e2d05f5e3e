// Profiles: ops, their arithmetic and bytes, the trace, and what the trainer makes of them.
#include "libtrain/train/profiler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/train/digits_run.h"

namespace train {
namespace {

const Profiler::Row* row_of(const std::vector<Profiler::Row>& rows, const std::string& op) {
  const auto found = std::ranges::find(rows, op, &Profiler::Row::op);
  return found == rows.end() ? nullptr : &*found;
}

TEST(Profiler, CountsOpsAndTheirArithmetic) {
  Eager eager;
  nn::Linear fc(64, 32);
  fc.initialize(1);
  const auto forward = [&] {
    Tape tape(eager, /*record=*/false);
    relu(tape, fc(tape, Variable::input(Tensor::zeros({16, 64}))));
  };
  forward();  // before its life: not counted
  Profiler profiler(eager);
  for (int i = 0; i < 3; ++i) forward();
  const std::vector<Profiler::Row> rows = profiler.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_GE(rows[0].seconds, rows[1].seconds);
  for (const Profiler::Row& row : rows) {
    EXPECT_EQ(row.calls, 3);
    EXPECT_GT(row.seconds, 0);
  }
  const Profiler::Row* product = row_of(rows, "MatMul");
  ASSERT_TRUE(product);
  EXPECT_EQ(product->flops, 3 * 2. * 16 * 64 * 32);
  EXPECT_EQ(product->bytes, 3 * 4. * (16 * 64 + 64 * 32 + 32 + 16 * 32));
  const std::string table = profiler.table();
  EXPECT_EQ(table.rfind("op  ", 0), 0u) << table;
  EXPECT_NE(table.find("\nMatMul "), std::string::npos) << table;
  EXPECT_NE(table.find("\nops took "), std::string::npos) << table;
}

TEST(Profiler, TheTraceIsJsonWithOneEventPerRun) {
  Eager eager;
  nn::Linear fc(64, 32);
  fc.initialize(1);
  const auto forward = [&] {
    Tape tape(eager, /*record=*/false);
    relu(tape, fc(tape, Variable::input(Tensor::zeros({16, 64}))));
  };
  {
    const Profiler none(eager);
    EXPECT_TRUE(nlohmann::json::parse(none.chrome_trace())["traceEvents"].empty());
  }
  const Profiler profiler(eager, /*max_events=*/5);
  for (int i = 0; i < 3; ++i) forward();
  const auto events = nlohmann::json::parse(profiler.chrome_trace())["traceEvents"];
  ASSERT_EQ(events.size(), 5u);  // of six
  EXPECT_EQ(events[0]["name"], "MatMul");
  EXPECT_EQ(events[0]["ph"], "X");
  EXPECT_EQ(events[1]["shape"], "[16, 32]");
  double end = 0;
  for (const auto& e : events) {  // one after another; nine digits are written
    EXPECT_GE(e["ts"].get<double>(), end - .1);
    end = e["ts"].get<double>() + e["dur"].get<double>();
  }
  EXPECT_EQ(row_of(profiler.rows(), "MatMul")->calls, 3);  // the table counts on
}

TEST(Profiler, TheTrainerHandsOverTheFirstUpdatesAndNothingElseChanges) {
  int handed = 0;
  int64_t products = 0;
  const auto keep = [&](const Profiler& p) {
    ++handed;
    const std::vector<Profiler::Row> rows = p.rows();
    const Profiler::Row* row = row_of(rows, "ConvWeightGrad");
    ASSERT_TRUE(row) << p.table();
    EXPECT_GT(row->flops, 0);
    products = row->calls;
  };
  test::DigitRun plain({.epochs = 1}),
      profiled({.epochs = 1, .profile_updates = 3, .on_profile = keep});
  plain.trainer->run();
  profiled.trainer->run();
  EXPECT_EQ(plain.weights(), profiled.weights());
  EXPECT_EQ(handed, 1);
  const int64_t of_three = products;
  EXPECT_EQ(of_three % 3, 0);

  // A run that ends before: what there is, once.
  test::DigitRun brief({.epochs = 5, .stop_after = 2, .profile_updates = 100, .on_profile = keep});
  brief.trainer->run();
  EXPECT_EQ(handed, 2);
  EXPECT_EQ(products, of_three / 3 * 2);
}

}  // namespace
}  // namespace train
