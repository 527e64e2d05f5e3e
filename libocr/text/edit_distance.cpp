#include "libocr/text/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "libocr/text/utf8.h"

namespace ocr {
namespace {

std::vector<uint32_t> ids_of(std::string_view text) {
  const std::u32string points = to_code_points(text);
  return {points.begin(), points.end()};
}

}  // namespace

int64_t edit_distance(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a = a.subspan(1);
    b = b.subspan(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a = a.first(a.size() - 1);
    b = b.first(b.size() - 1);
  }
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<int64_t> row(b.size() + 1);  // row[j]: distance of the prefix of a to b[0..j)
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

int64_t edit_distance(std::string_view a, std::string_view b) {
  return edit_distance(std::span<const uint32_t>(ids_of(a)), std::span<const uint32_t>(ids_of(b)));
}

int64_t edit_distance(std::span<const std::string> a, std::span<const std::string> b) {
  std::unordered_map<std::string_view, uint32_t> ids;
  const auto number = [&ids](std::span<const std::string> words) {
    std::vector<uint32_t> out;
    out.reserve(words.size());
    for (const std::string& w : words) {
      out.push_back(ids.emplace(w, static_cast<uint32_t>(ids.size())).first->second);
    }
    return out;
  };
  const std::vector<uint32_t> x = number(a), y = number(b);
  return edit_distance(std::span<const uint32_t>(x), std::span<const uint32_t>(y));
}

EditCounts edit_counts(std::span<const uint32_t> reference, std::span<const uint32_t> hypothesis) {
  // Cells carry the counts along, compared by (distance, insertions + deletions). No path is kept,
  // so memory stays one row.
  const auto better = [](const EditCounts& x, const EditCounts& y) {
    if (x.distance() != y.distance()) return x.distance() < y.distance();
    return x.insertions + x.deletions < y.insertions + y.deletions;
  };
  std::vector<EditCounts> row(hypothesis.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j].insertions = static_cast<int64_t>(j);
  for (size_t i = 0; i < reference.size(); ++i) {
    EditCounts diagonal = row[0];
    ++row[0].deletions;
    for (size_t j = 0; j < hypothesis.size(); ++j) {
      EditCounts best = diagonal;
      best.substitutions += reference[i] != hypothesis[j];
      diagonal = row[j + 1];
      EditCounts inserted = row[j], deleted = diagonal;
      ++inserted.insertions;
      ++deleted.deletions;
      if (better(inserted, best)) best = inserted;
      if (better(deleted, best)) best = deleted;
      row[j + 1] = best;
    }
  }
  return row.back();
}

EditCounts edit_counts(std::string_view reference, std::string_view hypothesis) {
  return edit_counts(std::span<const uint32_t>(ids_of(reference)),
                     std::span<const uint32_t>(ids_of(hypothesis)));
}

double edit_similarity(std::string_view a, std::string_view b) {
  const std::vector<uint32_t> x = ids_of(a), y = ids_of(b);
  const size_t longest = std::max(x.size(), y.size());
  if (longest == 0) return 1.0;
  return 1.0 - static_cast<double>(
                   edit_distance(std::span<const uint32_t>(x), std::span<const uint32_t>(y))) /
                   static_cast<double>(longest);
}

}  // namespace ocr
