#include "libocr/metrics/classification_metric.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libtrain/core/error.h"

namespace ocr {

ClassificationMetric::ClassificationMetric(std::vector<std::string> classes)
    : classes_(std::move(classes)), table_(classes_.size() * classes_.size()) {}

void ClassificationMetric::add(int target, int predicted, double score) {
  const auto n = static_cast<int>(classes_.size());
  if (target < 0 || target >= n || predicted < 0 || predicted >= n)
    throw train::ShapeError(train::cat("class ", std::max(target, predicted), " of ", n));
  ++table_[static_cast<size_t>(target * n + predicted)];
  if (target == 0 && predicted != 0) turned_.push_back(score);
}

int64_t ClassificationMetric::count(int target, int predicted) const {
  return table_[static_cast<size_t>(target) * classes_.size() + static_cast<size_t>(predicted)];
}

double ClassificationMetric::accuracy() const {
  int64_t right = 0, all = 0;
  for (size_t i = 0; i < table_.size(); ++i) {
    all += table_[i];
    if (i / classes_.size() == i % classes_.size()) right += table_[i];
  }
  return all > 0 ? static_cast<double>(right) / static_cast<double>(all) : 0;
}

double ClassificationMetric::precision(int c) const {
  int64_t all = 0;
  for (int t = 0; t < static_cast<int>(classes_.size()); ++t) all += count(t, c);
  return all > 0 ? static_cast<double>(count(c, c)) / static_cast<double>(all) : 0;
}

double ClassificationMetric::recall(int c) const {
  int64_t all = 0;
  for (int p = 0; p < static_cast<int>(classes_.size()); ++p) all += count(c, p);
  return all > 0 ? static_cast<double>(count(c, c)) / static_cast<double>(all) : 0;
}

double ClassificationMetric::wrongly_turned(double threshold) const {
  int64_t all = 0;
  for (int p = 0; p < static_cast<int>(classes_.size()); ++p) all += count(0, p);
  const auto turned =
      std::count_if(turned_.begin(), turned_.end(), [&](double s) { return s > threshold; });
  return all > 0 ? static_cast<double>(turned) / static_cast<double>(all) : 0;
}

std::string ClassificationMetric::json() const {
  nlohmann::ordered_json j{{"acc", accuracy()}, {"upright_turned_at_0.9", wrongly_turned(0.9)}};
  for (int c = 0; c < static_cast<int>(classes_.size()); ++c) {
    nlohmann::ordered_json row{{"precision", precision(c)}, {"recall", recall(c)}};
    for (int p = 0; p < static_cast<int>(classes_.size()); ++p)
      row["read_as"][classes_[static_cast<size_t>(p)]] = count(c, p);
    j["classes"][classes_[static_cast<size_t>(c)]] = row;
  }
  return j.dump(2);
}

std::string ClassificationMetric::text() const {
  char line[128];
  std::snprintf(line, sizeof line, "  accuracy %.4f   upright turned at 0.9: %.4f\n", accuracy(),
                wrongly_turned(0.9));
  std::string out = line;
  for (int c = 0; c < static_cast<int>(classes_.size()); ++c) {
    std::snprintf(line, sizeof line, "  %-8s precision %.4f   recall %.4f   read as",
                  classes_[static_cast<size_t>(c)].c_str(), precision(c), recall(c));
    out += line;
    for (int p = 0; p < static_cast<int>(classes_.size()); ++p)
      out += train::cat("  ", classes_[static_cast<size_t>(p)], ": ", count(c, p));
    out += "\n";
  }
  return out;
}

}  // namespace ocr
