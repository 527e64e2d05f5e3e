#include "libocr/text/rtl.h"

#include <gtest/gtest.h>

namespace ocr {
namespace {

TEST(RightToLeft, ReversesButKeepsRuns) {
  EXPECT_EQ(reverse_right_to_left(""), "");
  EXPECT_EQ(reverse_right_to_left("אבג"), "גבא");
  EXPECT_EQ(reverse_right_to_left("abc 12.5%"), "abc 12.5%");
  EXPECT_EQ(reverse_right_to_left("אב12.5גד"), "דג12.5בא");
  EXPECT_EQ(reverse_right_to_left("ABאג CD"), " CDגאAB");
  EXPECT_EQ(reverse_right_to_left("א,b"), "b,א");  // a comma belongs to no run
}

TEST(RightToLeft, ByNameOfTheDictionary) {
  EXPECT_TRUE(is_right_to_left_dictionary("dict/arabic_dict.txt"));
  EXPECT_TRUE(is_right_to_left_dictionary("arabic_PP-OCRv5_mobile_rec/inference.yml"));
  EXPECT_TRUE(is_right_to_left_dictionary("/models/arabic_rec/dict.txt"));
  EXPECT_FALSE(is_right_to_left_dictionary("/home/a/arabic/models/rec/dict.txt"));
  EXPECT_FALSE(is_right_to_left_dictionary("ppocrv5_dict.txt"));
}

TEST(RightToLeft, OrdersPartsAsTheTextIsOrdered) {
  const std::vector<std::string> words{"אב", "Tel", "12.5", "גד", "", "ה"};
  EXPECT_EQ(right_to_left_order(words), (std::vector<size_t>{5, 4, 3, 1, 2, 0}));
  EXPECT_TRUE(right_to_left_order({}).empty());
}

}  // namespace
}  // namespace ocr
