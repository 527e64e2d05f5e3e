#include "libocr/metrics/align.h"

#include <algorithm>

#include "libocr/text/utf8.h"

namespace ocr {
namespace {

constexpr size_t kLongest = 4096;

std::u32string cut(std::string_view text) {
  std::u32string points = to_code_points(text);
  if (points.size() > kLongest) points.resize(kLongest);
  return points;
}

std::string shown(char32_t c) {
  std::string out;
  if (c) append_utf8(c, &out);
  return out;
}

}  // namespace

std::vector<AlignedPair> align_texts(std::string_view reference, std::string_view hypothesis) {
  const std::u32string a = cut(reference), b = cut(hypothesis);
  const size_t width = b.size() + 1;
  std::vector<uint16_t> cost((a.size() + 1) * width);
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      uint16_t& c = cost[i * width + j];
      if (i == 0 || j == 0) {
        c = static_cast<uint16_t>(i + j);
        continue;
      }
      const int kept = cost[(i - 1) * width + j - 1] + (a[i - 1] != b[j - 1]);
      const int gap = 1 + std::min(cost[(i - 1) * width + j], cost[i * width + j - 1]);
      c = static_cast<uint16_t>(std::min(kept, gap));
    }
  std::vector<AlignedPair> pairs;
  for (size_t i = a.size(), j = b.size(); i > 0 || j > 0;) {
    const int here = cost[i * width + j];
    if (i > 0 && j > 0 && here == cost[(i - 1) * width + j - 1] + (a[i - 1] != b[j - 1]))
      pairs.push_back({a[--i], b[--j]});
    else if (i > 0 && here == cost[(i - 1) * width + j] + 1)
      pairs.push_back({a[--i], 0});
    else
      pairs.push_back({0, b[--j]});
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

void Confusions::add(std::string_view reference, std::string_view hypothesis) {
  if (reference == hypothesis) return;
  for (const AlignedPair& p : align_texts(reference, hypothesis))
    if (!p.same()) ++counts_[{p.reference, p.hypothesis}];
}

std::vector<Confusions::Pair> Confusions::top(size_t count) const {
  std::vector<Pair> all;
  for (const auto& [pair, n] : counts_) all.push_back({shown(pair.first), shown(pair.second), n});
  std::stable_sort(all.begin(), all.end(),
                   [](const Pair& a, const Pair& b) { return a.count > b.count; });
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace ocr
