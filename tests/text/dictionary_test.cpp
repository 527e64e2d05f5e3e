#include "libocr/text/dictionary.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

Dictionary parse(std::string_view text, SpaceClass space = SpaceClass::kNone) {
  return Dictionary::from_text(text, space, "dict.txt");
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const train::FormatError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Dictionary, KeepsEveryLineAndStripsOnlyLineEnds) {
  const Dictionary d = parse("a\r\n \n\n\xE3\x80\x80\na\n\tx");
  EXPECT_EQ(d.entries(), (std::vector<std::string>{"a", " ", "", "\xE3\x80\x80", "a", "\tx"}));
  EXPECT_EQ(d.classes(), 7);
  EXPECT_EQ(d.index_of("a"), 5) << "the last of equal entries encodes";
  EXPECT_EQ(d.text(1), "a");
  EXPECT_EQ(d.text(0), "");
  EXPECT_EQ(d.index_of("nope"), -1);
}

TEST(Dictionary, FinalNewlineEndsTheLastLine) {
  EXPECT_EQ(parse("a\nb\n").classes(), 3);
  EXPECT_EQ(parse("a\nb").classes(), 3);
  EXPECT_EQ(parse("a\nb\n\n").classes(), 4);
}

TEST(Dictionary, OnlyLineFeedEndsALine) {
  // NEL, line separator, form feed: Python's splitlines would cut here and shift every class.
  EXPECT_EQ(parse("a\xC2\x85\n\xE2\x80\xA8\n\x0C\n").classes(), 4);
}

TEST(Dictionary, SpaceIsAppendedLastEvenWhenTheListEndsWithOne) {
  const Dictionary d = parse("a\nb\n \n", SpaceClass::kAppend);
  EXPECT_EQ(d.classes(), 5);
  EXPECT_EQ(d.space(), 4);
  EXPECT_EQ(d.text(4), " ");
  EXPECT_EQ(d.text(3), " ");
  EXPECT_EQ(parse("a").space(), -1);
}

TEST(Dictionary, ByteOrderMark) {
  EXPECT_EQ(parse("\xEF\xBB\xBF"
                  "a\nb")
                .entries()[0],
            "a");
  EXPECT_EQ(parse("\xEF\xBB\xBF\nb").entries()[0], "\xEF\xBB\xBF");
}

TEST(Dictionary, ClassMismatchGivesBothSizesAndARemedy) {
  const Dictionary d = parse("a\nb\nc");
  EXPECT_NO_THROW(d.check_classes(4, "rec.onnx"));
  const std::string one = error_of([&] { d.check_classes(5, "rec.onnx"); });
  EXPECT_NE(one.find("rec.onnx has 5 output classes"), std::string::npos) << one;
  EXPECT_NE(one.find("dict.txt gives 4"), std::string::npos) << one;
  EXPECT_NE(one.find("use_space_char to true"), std::string::npos) << one;
  const Dictionary with = parse("a\nb\nc", SpaceClass::kAppend);
  const std::string less = error_of([&] { with.check_classes(4, "rec.onnx"); });
  EXPECT_NE(less.find("use_space_char to false"), std::string::npos) << less;
  const std::string other = error_of([&] { with.check_classes(6625, "rec.onnx"); });
  EXPECT_NE(other.find("trained with"), std::string::npos) << other;
}

TEST(Dictionary, RefusesWhatIsNoDictionary) {
  EXPECT_NE(error_of([] { parse(""); }).find("empty"), std::string::npos);
  EXPECT_NE(error_of([] { parse("a\nb\n\xFF\xFE\n"); }).find("dict.txt:3"), std::string::npos);
  EXPECT_NE(error_of([] { parse(std::string(3'000'000, '\n')); }).find("lines"), std::string::npos);
  EXPECT_NE(error_of([] { parse(std::string(Dictionary::kMaxBytes + 1, 'a')); }).find("limit"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              Dictionary::from_file("/nowhere/d.txt", SpaceClass::kNone);
            }).find("/nowhere/d.txt"),
            std::string::npos);
}

TEST(Dictionary, FileAndListGiveTheSame) {
  const auto path = std::filesystem::path(testing::TempDir()) / "ocr_dictionary_test.txt";
  std::ofstream(path, std::ios::binary) << "a\n\xE4\xB8\xAD\r\n";
  const Dictionary file = Dictionary::from_file(path.string(), SpaceClass::kAppend);
  const Dictionary list = Dictionary::from_list({"a", "中"}, SpaceClass::kAppend, "yml");
  EXPECT_EQ(file.entries(), list.entries());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ocr
