#include "libtrain/core/child.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "tests/support/error_of.h"

namespace train {
namespace {

using test::error_of;

TEST(CallInCopy, BringsBackTheAnswerAndNothingElse) {
  int changed = 0;
  const std::string all(300000, 'x');  // more than a pipe holds
  EXPECT_EQ(call_in_copy([&] {
              ++changed;
              return all + std::to_string(changed);
            }),
            all + "1");
  EXPECT_EQ(changed, 0);
}

TEST(CallInCopy, ThrowsWhatTheCopyThrew) {
  EXPECT_EQ(error_of([] { call_in_copy([]() -> std::string { throw Error("no such batch"); }); }),
            "no such batch");
}

TEST(CallInCopy, SaysThatTheCopyWasEnded) {
  const auto ended = [] {
    call_in_copy([]() -> std::string {
      std::raise(SIGKILL);
      return "";
    });
  };
  EXPECT_THROW(ended(), CopyKilled);
  EXPECT_NE(error_of(ended).find("signal 9"), std::string::npos);
}

TEST(CallInCopy, MeasuresTheMemoryOfTheCopy) {
  constexpr size_t kBytes = size_t{64} << 20;
  const int64_t before = peak_memory();
  const int64_t in_copy = std::stoll(call_in_copy([] {
    std::vector<char> taken(kBytes, 1);
    return std::to_string(peak_memory() + 0 * taken[kBytes / 2]);
  }));
  EXPECT_GT(in_copy, int64_t{kBytes});
  EXPECT_LT(peak_memory(), before + int64_t{kBytes} / 2);
}

}  // namespace
}  // namespace train
