#include "libocr/text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace ocr {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t c = 1; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 37) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string s;
    append_utf8(c, &s);
    ASSERT_TRUE(is_valid_utf8(s)) << static_cast<uint32_t>(c);
    ASSERT_EQ(to_code_points(s), std::u32string(1, c));
  }
}

TEST(Utf8, FindsTheFirstMalformedByte) {
  EXPECT_EQ(find_invalid_utf8("abc"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("ab\xFFz"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xC0\x80"), 0u);          // overlong NUL
  EXPECT_EQ(find_invalid_utf8("x\xED\xA0\x80"), 1u);     // surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("\xE4\xB8"), 0u);          // cut short
  EXPECT_EQ(find_invalid_utf8("\xF0\x9F\x98\x80"), std::string_view::npos);
}

TEST(Utf8, ReplacesEachMaximalBadPrefixOnce) {
  EXPECT_EQ(to_code_points("a\xE4\xB8z"), U"a\xFFFDz");
  EXPECT_EQ(to_code_points("\x80\x80"), U"\xFFFD\xFFFD");
  EXPECT_EQ(count_code_points("\xE4\xB8\xAD\xE6\x96\x87 a"), 4u);
  EXPECT_EQ(to_utf8(U"\x110000"), "\xEF\xBF\xBD");
}

TEST(Utf8, RepairIsAlwaysValidAndStable) {
  std::mt19937 rng(7);
  for (int round = 0; round < 2000; ++round) {
    std::string s(rng() % 12, '\0');
    for (char& c : s) c = static_cast<char>(rng() % 4 ? 0x80 + rng() % 0x80 : rng() % 0x80);
    const std::string fixed = repair_utf8(s);
    ASSERT_TRUE(is_valid_utf8(fixed));
    ASSERT_EQ(repair_utf8(fixed), fixed);
    if (is_valid_utf8(s)) {
      ASSERT_EQ(fixed, s);
    }
  }
}

TEST(Utf8, Classes) {
  EXPECT_TRUE(is_space(U'\x3000'));
  EXPECT_FALSE(is_space(U'\x200B'));
  EXPECT_TRUE(is_cjk(U'中'));
  EXPECT_TRUE(is_cjk(U'，'));
  EXPECT_TRUE(is_cjk(U'か'));
  EXPECT_TRUE(is_cjk(U'한'));
  EXPECT_FALSE(is_cjk(U'é'));
  EXPECT_FALSE(is_cjk(U'5'));
  EXPECT_TRUE(is_blank(" \t\xE3\x80\x80"));
  EXPECT_TRUE(is_blank(""));
  EXPECT_FALSE(is_blank(" x"));
  EXPECT_EQ(split_code_points("a中"), (std::vector<std::string>{"a", "中"}));
}

}  // namespace
}  // namespace ocr
