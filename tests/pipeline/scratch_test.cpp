#include "libocr/pipeline/scratch.h"

#include <gtest/gtest.h>

#include "libocr/onnx/import.h"

namespace ocr {
namespace {

// What a page that needs `mib` of arena does to a scratch.
void page(Scratch& scratch, size_t mib) {
  scratch.context().arena(mib << 20);
  scratch.end_page();
}

TEST(Scratch, OneHugePageDoesNotStayForever) {
  Scratch scratch(1);
  page(scratch, 100);
  const size_t usual = scratch.held_bytes();
  page(scratch, 1000);
  EXPECT_GE(scratch.held_bytes(), size_t{1000} << 20);
  for (int i = 0; i < 3; ++i) page(scratch, 100);
  EXPECT_GE(scratch.held_bytes(), size_t{1000} << 20);  // another one may follow
  for (int i = 0; i < 2; ++i) page(scratch, 100);
  EXPECT_LE(scratch.held_bytes(), usual + (size_t{256} << 20));
}

TEST(Scratch, UsualPagesKeepTheirMemory) {
  Scratch scratch(1);
  page(scratch, 200);
  const size_t usual = scratch.held_bytes();
  for (int i = 0; i < 20; ++i) page(scratch, 20);
  EXPECT_EQ(scratch.held_bytes(), usual);
}

// The results of the page before must not keep its arena alive beside the larger one.
TEST(Scratch, ALargerPageReplacesTheArena) {
  const auto net = train::Net::compile(import_onnx(OCR_TEST_DATA "/colour_models/det.onnx"));
  Scratch scratch(1);
  const auto run = [&](int64_t side) {
    const train::Feed feed = scratch.input(*net, 1, side, side);
    std::fill_n(feed.tensor.data<float>(), feed.tensor.numel(), 0.f);
    scratch.run(*net, feed);
  };
  run(64);
  const std::weak_ptr<train::Storage> small = scratch.context().storage();
  int steps = 0, alive = 0;
  scratch.context().inspect = [&](const auto&, const auto&, const auto&) {
    ++steps;
    if (!small.expired()) ++alive;
  };
  run(512);
  EXPECT_GT(steps, 0);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace ocr
