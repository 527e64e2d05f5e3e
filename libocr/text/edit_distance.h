// Levenshtein distance between sequences, the measure behind character and word error rates.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

/// Counts of one minimal alignment that turns a reference into a hypothesis. Among minimal
/// alignments the one with the fewest insertions and deletions is counted, so the numbers are
/// unique.
struct EditCounts {
  int64_t substitutions = 0;
  int64_t insertions = 0;  // in the hypothesis, not in the reference
  int64_t deletions = 0;   // in the reference, not in the hypothesis
  int64_t distance() const { return substitutions + insertions + deletions; }
};

/// Edit distance between two sequences of ids, unit costs. O(n m) time, O(min(n, m)) memory.
int64_t edit_distance(std::span<const uint32_t> a, std::span<const uint32_t> b);
/// Edit distance between the code points of two UTF-8 strings.
int64_t edit_distance(std::string_view a, std::string_view b);
/// Edit distance between sequences of words.
int64_t edit_distance(std::span<const std::string> a, std::span<const std::string> b);

EditCounts edit_counts(std::span<const uint32_t> reference, std::span<const uint32_t> hypothesis);
EditCounts edit_counts(std::string_view reference, std::string_view hypothesis);

/// 1 - distance / max(length), by code points: PaddleOCR's per-sample norm_edit_dis. 1 for two
/// empty strings.
double edit_similarity(std::string_view a, std::string_view b);

}  // namespace ocr
