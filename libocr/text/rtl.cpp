#include "libocr/text/rtl.h"

#include <algorithm>
#include <numeric>

#include "libocr/text/utf8.h"

namespace ocr {
namespace {

bool keeps_order(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::u32string_view(U" :*./%+-").find(c) != std::u32string_view::npos;
}

// Turns a sequence round, but for its runs of elements that keep their order.
template <class Sequence, class Keeps>
void reverse_but_runs(Sequence& s, Keeps&& keeps) {
  std::reverse(s.begin(), s.end());
  for (auto at = s.begin(); at != s.end();) {
    const auto end = std::find_if_not(at, s.end(), keeps);
    std::reverse(at, end);
    at = end == s.end() ? end : end + 1;
  }
}

}  // namespace

std::string reverse_right_to_left(std::string_view text) {
  std::u32string points = to_code_points(text);
  reverse_but_runs(points, keeps_order);
  return to_utf8(points);
}

std::vector<size_t> right_to_left_order(std::span<const std::string> parts) {
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  reverse_but_runs(order, [&](size_t i) {
    const std::u32string points = to_code_points(parts[i]);
    return std::all_of(points.begin(), points.end(), keeps_order);
  });
  return order;
}

bool is_right_to_left_dictionary(std::string_view path) {
  size_t from = path.rfind('/');
  if (from != std::string_view::npos && from > 0) from = path.rfind('/', from - 1);
  return path.substr(from == std::string_view::npos ? 0 : from).find("arabic") !=
         std::string_view::npos;
}

}  // namespace ocr
