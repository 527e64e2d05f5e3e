// One step between a label line and what a network takes, and the table of steps by PaddleOCR's
// names.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "libocr/data/label_encode.h"
#include "libocr/data/random.h"
#include "libocr/data/sample.h"
#include "libtrain/config/training.h"

namespace ocr {

/// Immutable: one object serves all workers.
class Transform {
 public:
  virtual ~Transform() = default;
  /// Changes the sample. Throws SkippedSample for one that cannot be used. `epoch` counts from 0.
  virtual void apply(Sample& sample, Random& random, int epoch) const = 0;
  /// How many other samples it wants in sample.extra.
  virtual int extra_samples() const { return 0; }
};

/// What transforms need besides their own arguments.
struct TransformSettings {
  const train::config::GlobalConfig& global;
  std::shared_ptr<const TextEncoder> encoder;  // null where no text is encoded
  /// Characters that a label may have: max_text_length, 2 fewer with an attention head.
  int longest_text = 25;
};

/// Builds a transform. Throws ConfigError with the place for a name that is not known, or an
/// argument that does not fit; unknown arguments go the way of unknown keys.
std::unique_ptr<Transform> make_transform(const train::config::NamedNode& node,
                                          const TransformSettings& settings,
                                          train::config::ReadContext& context);

/// Names that make_transform knows, in order of the table.
std::vector<std::string> transform_names();

using TransformBuilder = std::unique_ptr<Transform> (*)(train::config::Reader& arguments,
                                                        const TransformSettings& settings);
struct TransformRow {
  const char* name;
  TransformBuilder build;
};
// The rows of each family.
std::vector<TransformRow> common_transforms();
std::vector<TransformRow> label_transforms();
std::vector<TransformRow> detection_transforms();
std::vector<TransformRow> recognition_transforms();

/// An argument's place, for messages about its value.
[[noreturn]] void fail_at(train::config::Reader& reader, const char* key, const std::string& why);

}  // namespace ocr
