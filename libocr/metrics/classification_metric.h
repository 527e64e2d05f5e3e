// How well classes were told apart: accuracy, a table of confusions, precision and recall by class.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ocr {

class ClassificationMetric {
 public:
  explicit ClassificationMetric(std::vector<std::string> classes);
  /// `score` is the probability of `predicted`.
  void add(int target, int predicted, double score);
  double accuracy() const;
  double precision(int c) const;
  double recall(int c) const;
  int64_t count(int target, int predicted) const;
  /// Share of class 0 (upright) that a threshold would turn: read as another class, above it.
  double wrongly_turned(double threshold) const;
  std::string json() const;
  std::string text() const;

 private:
  std::vector<std::string> classes_;
  std::vector<int64_t> table_;  // [target, predicted]
  std::vector<double> turned_;  // scores of class 0 read as another
};

}  // namespace ocr
