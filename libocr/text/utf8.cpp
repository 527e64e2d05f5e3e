#include "libocr/text/utf8.h"

#include <cstdint>

namespace ocr {
namespace {

struct Decoded {
  char32_t code_point;
  size_t length;  // bytes taken, at least 1
  bool ok;
};

// Range of the second byte after each lead byte (Unicode, table 3-7): this alone excludes overlong
// forms, surrogates and values above U+10FFFF.
Decoded decode_one(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  size_t length = 0;
  uint8_t low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {kReplacementChar, 1, false};
  }
  char32_t value = lead & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (i >= s.size() || byte(i) < low || byte(i) > high) return {kReplacementChar, i, false};
    value = (value << 6) | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {value, length, true};
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Decoded d = decode_one(text.substr(i));
    if (!d.ok) return i;
    i += d.length;
  }
  return std::string_view::npos;
}

std::u32string to_code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Decoded d = decode_one(text.substr(i));
    out.push_back(d.code_point);
    i += d.length;
  }
  return out;
}

size_t count_code_points(std::string_view text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size(); ++n) i += decode_one(text.substr(i)).length;
  return n;
}

void append_utf8(char32_t c, std::string* out) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = kReplacementChar;
  const auto put = [out](uint32_t b) { out->push_back(static_cast<char>(b)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(std::u32string_view code_points) {
  std::string out;
  out.reserve(code_points.size());
  for (char32_t c : code_points) append_utf8(c, &out);
  return out;
}

std::string repair_utf8(std::string_view text) { return to_utf8(to_code_points(text)); }

std::vector<std::string> split_code_points(std::string_view text) {
  std::vector<std::string> out;
  for (char32_t c : to_code_points(text)) append_utf8(c, &out.emplace_back());
  return out;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_cjk(char32_t c) {
  return (c >= 0x1100 && c <= 0x11FF) ||    // Hangul jamo
         (c >= 0x2E80 && c <= 0x2FDF) ||    // radicals
         (c >= 0x3000 && c <= 0x4DBF) ||    // punctuation, kana, bopomofo, extension A
         (c >= 0x4E00 && c <= 0x9FFF) ||    // unified ideographs
         (c >= 0xA960 && c <= 0xA97F) ||    // Hangul jamo extended A
         (c >= 0xAC00 && c <= 0xD7FF) ||    // Hangul syllables, jamo extended B
         (c >= 0xF900 && c <= 0xFAFF) ||    // compatibility ideographs
         (c >= 0xFE30 && c <= 0xFE4F) ||    // vertical punctuation
         (c >= 0xFF00 && c <= 0xFFEF) ||    // full-width and half-width forms
         (c >= 0x1AFF0 && c <= 0x1B16F) ||  // kana supplements
         (c >= 0x20000 && c <= 0x3FFFF);    // further ideographs
}

bool is_blank(std::string_view text) {
  for (char32_t c : to_code_points(text)) {
    if (!is_space(c)) return false;
  }
  return true;
}

}  // namespace ocr
