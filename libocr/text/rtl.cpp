#include "libocr/text/rtl.h"

#include <algorithm>

#include "libocr/text/utf8.h"

namespace ocr {
namespace {

bool keeps_order(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::u32string_view(U" :*./%+-").find(c) != std::u32string_view::npos;
}

}  // namespace

std::string reverse_right_to_left(std::string_view text) {
  std::u32string points = to_code_points(text);
  std::reverse(points.begin(), points.end());
  for (auto at = points.begin(); at != points.end();) {
    const auto end = std::find_if_not(at, points.end(), keeps_order);
    std::reverse(at, end);
    at = end == points.end() ? end : end + 1;
  }
  return to_utf8(points);
}

bool is_right_to_left_dictionary(std::string_view name) {
  return name.find("arabic") != std::string_view::npos;
}

}  // namespace ocr
