// A configuration's Train or Eval section as a data set: label files or LMDB, through the
// transforms.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libocr/data/label_file.h"
#include "libocr/data/lmdb.h"
#include "libocr/data/transform.h"
#include "libtrain/data/cache.h"
#include "libtrain/data/dataset.h"

namespace ocr {

struct DatasetOptions {
  uint64_t seed = 1024;
  bool training = true;       // ratios below 1 count in evaluation, too, as upstream has it
  bool labels = true;         // off: no data are opened, and there are no samples
  size_t cache_bytes = 0;     // of encoded pictures kept in memory
  size_t max_ext_tries = 50;  // other samples looked at for one that can be mixed in
};

/// Names as in PaddleOCR: SimpleDataSet, MultiScaleDataSet (a batch's size counts), LMDBDataSet
/// (also spelled LMDBDateSet). Immutable once made; get() and load() may be called by many threads.
class OcrDataset final : public train::data::Dataset {
 public:
  /// Reads the label files. Throws ConfigError with the place of what does not fit, FormatError for
  /// a file that cannot be read.
  OcrDataset(const train::config::SplitConfig& split, const train::config::GlobalConfig& global,
             train::config::ReadContext& context, const DatasetOptions& options = {});
  ~OcrDataset() override;

  int64_t size() const override;
  train::data::Sample get(const train::data::SampleRequest& request) const override;
  std::string name(int64_t index) const override;

  /// The sample as the transforms leave it; the fields of get() are made of it.
  Sample load(const train::data::SampleRequest& request) const;
  /// The same of a sample that is not in the set: an encoded picture and a label as written. Others
  /// are mixed in where the set has any.
  Sample load(Sample raw, const train::data::SampleRequest& request) const;
  /// The fields of get(), of a sample as load() leaves it.
  train::data::Sample fields_of(const Sample& sample) const;
  /// The sample before the first transform: encoded picture and label as written. `picture` off
  /// leaves the picture unread.
  Sample raw(int64_t index, int64_t epoch = 0, bool picture = true) const;
  /// The sample behind the first transform, which is DecodeImage.
  Sample decoded(int64_t index) const;
  /// Names of the fields of get(), from KeepKeys.
  const std::vector<std::string>& keys() const { return keys_; }
  const std::vector<std::string>& transforms() const { return names_; }

  /// Lines of the label files that are no samples.
  const SkipReport& skips() const { return skips_; }
  /// Null for detection and classification.
  const TextEncoder* encoder() const { return encoder_.get(); }
  /// Width / height of each sample where the label files say it (ds_width); else empty.
  std::vector<double> aspects() const;

 private:
  struct Lines;
  void read_labels(const train::config::DatasetConfig& config);
  void make_transforms(const train::config::DatasetConfig& config,
                       const train::config::GlobalConfig& global,
                       train::config::ReadContext& context);
  const LabelLine& line_at(int64_t index, int64_t epoch, size_t* file) const;
  void add_extra(Sample& sample, const train::data::SampleRequest& request) const;
  std::string read_picture(const std::string& path, const Sample& sample) const;

  DatasetOptions options_;
  std::string folder_;
  bool multi_scale_ = false;
  std::vector<LabelFile> files_;
  std::unique_ptr<Lines> lines_;
  std::optional<LmdbReader> lmdb_;
  SkipReport skips_;
  std::shared_ptr<const TextEncoder> encoder_;
  std::vector<std::unique_ptr<Transform>> steps_;
  std::vector<std::string> names_, keys_;
  int extra_ = 0;
  size_t extra_steps_ = 0;  // transforms that other samples go through
  mutable train::data::Cache<std::string, std::string> cache_;
};

/// The label files, or the LMDB file, of a section that are not there.
std::vector<std::string> missing_data(const train::config::DatasetConfig& config);

/// The data set of `Train` or `Eval` of a configuration; warnings go to `warnings`.
std::unique_ptr<OcrDataset> make_dataset(const train::config::TrainingConfig& config, bool train,
                                         std::vector<std::string>& warnings, bool strict = false,
                                         size_t cache_bytes = 0, bool labels = true);

}  // namespace ocr
