#include "libocr/pipeline/scratch.h"

#include <gtest/gtest.h>

namespace ocr {
namespace {

// What a page that needs `mib` of arena and a third of that as input does to a scratch.
void page(Scratch& scratch, size_t mib) {
  scratch.context().arena(mib << 20);
  scratch.input(1, static_cast<int64_t>(mib), 29127);  // 3 * 4 bytes each
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

}  // namespace
}  // namespace ocr
