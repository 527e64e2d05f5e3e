// What would be lost or go wrong if one trained on a data set, found before training.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libocr/data/dataset.h"

namespace ocr {

enum class TaskKind : uint8_t { kDetection, kRecognition, kClassification };

struct CheckOptions {
  TaskKind kind = TaskKind::kRecognition;
  bool attention = false;  // an attention head learns, too, which takes shorter texts
  int64_t ctc_steps = 0;   // of the network's output; 0: not checked
  /// Of a net that learns lines of their own widths (ds_width): columns that give a step, 0 for the
  /// others; the height of its lines and their greatest width.
  int step_columns = 0, height = 0, max_width = 0;
  std::vector<std::string> classes;  // of a classifier
  int rare = 5;                      // characters seen fewer times than this are listed
  int threads = 1;
  /// Told how many samples were looked at since the last call; from one thread at a time.
  std::function<void(int64_t)> progress = {};
};

/// A finding that loses no sample.
struct Finding {
  int64_t count = 0;
  std::vector<std::string> examples;
  void add(const std::string& example);
};

struct CheckReport {
  std::string name;  // "Train", "Eval"
  int64_t samples = 0, characters = 0, boxes = 0, ignored_boxes = 0;
  SkipReport skips;  // samples that cannot be used
  Finding unknown;   // samples with characters that the dictionary has not
  std::map<std::string, int64_t> unknown_characters;
  Finding outside;                      // boxes beyond the picture by more than a pixel
  Finding odd_boxes;                    // outlines that cross themselves, or under 2 pixels high
  Finding duplicates;                   // the same picture and label again
  Finding conflicts;                    // the same picture with another label
  Finding turned;                       // pictures turned by their EXIF mark
  int64_t classes = 0, never_seen = 0;  // of the dictionary
  std::map<std::string, int64_t> rare;
  std::map<std::string, int64_t> class_counts;
  std::map<uint64_t, std::string> pictures;  // by digest: where

  /// Samples that training would lose, or learn wrongly: skipped ones and those with unknown
  /// characters.
  int64_t lost() const { return skips.total() + unknown.count; }
  std::string text() const;
  std::string json() const;
};

/// Looks at every sample: label, picture (decoded), boxes.
CheckReport check_dataset(const OcrDataset& set, const std::string& name,
                          const CheckOptions& options);

/// Pictures that stand in both.
Finding find_leakage(const CheckReport& train, const CheckReport& eval);

}  // namespace ocr
