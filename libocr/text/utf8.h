// UTF-8 helpers: validation, code points, and the few character classes that OCR text needs.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

constexpr char32_t kReplacementChar = 0xFFFD;

/// Byte offset of the first byte that is not well-formed UTF-8 (overlong forms, surrogates and
/// values above U+10FFFF are not), or npos when all of `text` is.
size_t find_invalid_utf8(std::string_view text);
inline bool is_valid_utf8(std::string_view text) {
  return find_invalid_utf8(text) == std::string_view::npos;
}

/// The code points of `text`. A malformed sequence becomes one U+FFFD per maximal bad prefix, as
/// the Unicode standard recommends; check with is_valid_utf8() where that must be an error.
std::u32string to_code_points(std::string_view text);
/// Number of code points that to_code_points() would return.
size_t count_code_points(std::string_view text);

/// Appends one code point; surrogates and values above U+10FFFF are written as U+FFFD.
void append_utf8(char32_t code_point, std::string* out);
std::string to_utf8(std::u32string_view code_points);
/// `text` with every malformed sequence replaced by U+FFFD: always valid UTF-8 (JSON needs it).
std::string repair_utf8(std::string_view text);

/// Each code point of `text` as its own string.
std::vector<std::string> split_code_points(std::string_view text);

/// White space of Unicode (property White_Space), U+3000 included.
bool is_space(char32_t c);
/// Ideographs, kana, Hangul, bopomofo, and CJK or full-width punctuation: writing in which each
/// character is a word box of its own.
bool is_cjk(char32_t c);
/// True when `text` is empty or holds only white space.
bool is_blank(std::string_view text);

}  // namespace ocr
