#include "libocr/data/dataset.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "libocr/data/image_io.h"
#include "libocr/data/recognition_augment.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

bool is_lmdb(const train::config::DatasetConfig& config) {
  return config.name == "LMDBDataSet" || config.name == "LMDBDateSet";
}

}  // namespace

using train::cat;
using train::config::DatasetConfig;
using train::config::GlobalConfig;
using train::config::NamedNode;
using train::config::ReadContext;
using train::data::SampleRequest;

// Which lines of which files make up an epoch. Files with a ratio below 1 give other lines in every
// epoch, the same number each; the lists of the last epochs asked for are kept.
struct OcrDataset::Lines {
  struct Part {
    int64_t first, count, lines;
    double ratio;
  };
  std::vector<Part> parts;
  int64_t total = 0;
  uint64_t seed = 0;

  using Drawn = std::vector<std::vector<int64_t>>;
  std::shared_ptr<const Drawn> drawn(int64_t epoch) {
    const std::lock_guard lock(mutex);
    for (const auto& [e, d] : recent)
      if (e == epoch) return d;
    auto made = std::make_shared<Drawn>();
    for (size_t f = 0; f < parts.size(); ++f)
      made->push_back(parts[f].ratio < 1 ? draw_lines(parts[f].lines, parts[f].ratio, seed,
                                                      static_cast<int>(epoch), static_cast<int>(f))
                                         : std::vector<int64_t>());
    recent.emplace_back(epoch, made);
    if (recent.size() > 4) recent.pop_front();
    return made;
  }

  std::mutex mutex;
  std::deque<std::pair<int64_t, std::shared_ptr<const Drawn>>> recent;
};

OcrDataset::OcrDataset(const train::config::SplitConfig& split, const GlobalConfig& global,
                       ReadContext& context, const DatasetOptions& options)
    : options_(options), cache_(options.cache_bytes) {
  const DatasetConfig& config = split.dataset;
  if (config.seed) options_.seed = static_cast<uint64_t>(*config.seed);
  if (config.data_dir.empty()) config.node.fail("'dataset.data_dir' is missing");
  folder_ = config.data_dir[0];
  multi_scale_ = config.name == "MultiScaleDataSet";
  if (is_lmdb(config)) {
    if (options_.labels) lmdb_.emplace(folder_);
  } else if (config.name == "SimpleDataSet" || config.name == "TextDetDataset" ||
             config.name == "TextRecDataset" || config.name == "TextClsDataset" || multi_scale_) {
    read_labels(config);
  } else {
    const train::config::Node* place = config.node.find("name");
    (place ? *place : config.node)
        .fail(cat("there is no data set '", config.name, "'",
                  train::config::did_you_mean(
                      config.name, {"SimpleDataSet", "MultiScaleDataSet", "LMDBDataSet"})));
  }
  if (!lmdb_ && !lines_) lines_ = std::make_unique<Lines>();
  make_transforms(config, global, context);
}

OcrDataset::~OcrDataset() = default;

void OcrDataset::read_labels(const DatasetConfig& config) {
  if (config.label_file_list.empty()) config.node.fail("'dataset.label_file_list' is missing");
  std::vector<double> ratios = config.ratio_list;
  if (ratios.empty()) ratios = {1.0};
  if (ratios.size() == 1) ratios.resize(config.label_file_list.size(), ratios[0]);
  const train::config::Node* place = config.node.find("ratio_list");
  if (ratios.size() != config.label_file_list.size())
    place->fail(cat("'ratio_list' has ", ratios.size(), " numbers for ",
                    config.label_file_list.size(), " label files"));
  for (const double r : ratios)
    if (!(r >= 0 && r <= 1)) place->fail(cat("'ratio_list' takes numbers from 0 to 1, got ", r));
  lines_ = std::make_unique<Lines>();
  lines_->seed = options_.seed;
  if (!options_.labels) return;
  const LabelFileOptions options{config.delimiter, config.ds_width};
  for (size_t i = 0; i < ratios.size(); ++i) {
    files_.push_back(read_label_file(config.label_file_list[i], options));
    skips_.merge(files_.back().skips);
    const auto count = static_cast<int64_t>(files_.back().lines.size());
    const auto used = static_cast<int64_t>(
        ratios[i] < 1 ? draw_lines(count, ratios[i], options_.seed, 0, static_cast<int>(i)).size()
                      : static_cast<size_t>(count));
    lines_->parts.push_back({lines_->total, used, count, ratios[i]});
    lines_->total += used;
  }
}

void OcrDataset::make_transforms(const DatasetConfig& config, const GlobalConfig& global,
                                 ReadContext& context) {
  const bool text =
      std::any_of(config.transforms.begin(), config.transforms.end(), [](const NamedNode& n) {
        return n.name == "CTCLabelEncode" || n.name == "MultiLabelEncode" ||
               n.name == "NRTRLabelEncode" || n.name == "SARLabelEncode";
      });
  if (text)
    encoder_ = std::make_shared<TextEncoder>(TextEncoder::from_settings(
        global.character_dict_path, global.use_space_char, global.max_text_length));
  const bool guided =
      std::any_of(config.transforms.begin(), config.transforms.end(), [](const NamedNode& n) {
        return n.name != "CTCLabelEncode" && n.name.ends_with("LabelEncode");
      });
  const TransformSettings settings{global, encoder_, global.max_text_length - (guided ? 2 : 0)};
  for (const NamedNode& n : config.transforms) {
    steps_.push_back(make_transform(n, settings, context));
    names_.push_back(n.name);
    if (extra_ == 0) extra_ = steps_.back()->extra_samples();
    if (n.name != "KeepKeys") continue;
    if (!keys_.empty()) n.name_node.fail("KeepKeys stands twice");
    for (const train::config::Node& k : n.arguments.find("keep_keys")->items())
      keys_.push_back(k.text());
  }
  if (names_.empty() || names_[0] != "DecodeImage")
    config.node.fail("the first of the transforms must be DecodeImage");
  const int given = config.ext_op_transform_idx.value_or(is_lmdb(config) ? 1 : 2);
  if (given < 0 || static_cast<size_t>(given) > steps_.size())
    config.node.fail(
        cat("'ext_op_transform_idx' is ", given, " of ", steps_.size(), " transforms"));
  extra_steps_ = static_cast<size_t>(given);
}

int64_t OcrDataset::size() const { return lmdb_ ? lmdb_->size() : lines_->total; }

const LabelLine& OcrDataset::line_at(int64_t index, int64_t epoch, size_t* file) const {
  if (index < 0 || index >= lines_->total)
    throw train::ShapeError(cat("sample ", index, " of ", lines_->total));
  size_t f = 0;
  while (index >= lines_->parts[f].first + lines_->parts[f].count) ++f;
  const Lines::Part& part = lines_->parts[f];
  int64_t line = index - part.first;
  if (part.ratio < 1) line = (*lines_->drawn(epoch))[f][static_cast<size_t>(line)];
  if (file) *file = f;
  return files_[f].lines[static_cast<size_t>(line)];
}

std::string OcrDataset::name(int64_t index) const {
  if (lmdb_) return lmdb_->name(index);
  size_t f = 0;
  const LabelLine& line = line_at(index, 0, &f);
  return cat(files_[f].name, ":", line.line);
}

std::string OcrDataset::read_picture(const std::string& path, const Sample& s) const {
  if (options_.cache_bytes == 0) return read_image_bytes(path, s.file, s.line);
  return *cache_.get(
      path, [&] { return read_image_bytes(path, s.file, s.line); },
      [](const std::string& bytes) { return bytes.size(); });
}

Sample OcrDataset::raw(int64_t index, int64_t epoch, bool picture) const {
  Sample s;
  if (lmdb_) {
    s.file = s.image_name = lmdb_->name(index);
    if (picture) {
      LmdbReader::Record r = lmdb_->get(index);
      s.encoded = std::move(r.image);
      s.label = std::move(r.label);
    } else {
      s.label = lmdb_->label(index);
    }
    return s;
  }
  size_t f = 0;
  const LabelLine& line = line_at(index, epoch, &f);
  s.file = files_[f].name;
  s.line = line.line;
  s.label = line.label;
  const std::vector<std::string> paths = label_paths(line.path);
  // Of several pictures of one text each epoch takes the next.
  const std::string& path = paths[static_cast<size_t>(epoch + index) % paths.size()];
  s.image_name = path.starts_with('/') || folder_.empty() ? path : folder_ + "/" + path;
  if (picture) s.encoded = read_picture(s.image_name, s);
  return s;
}

Sample OcrDataset::decoded(int64_t index) const {
  Sample s = raw(index);
  Random random({0, 0}, 0);
  steps_[0]->apply(s, random, 0);
  return s;
}

// Others to mix in: any that load. Upstream looks for ever; a data set of bad pictures ends that.
void OcrDataset::add_extra(Sample& sample, const SampleRequest& request) const {
  Random random(request.random, 1000);
  size_t tries = 0;
  while (size() > 0 && static_cast<int>(sample.extra.size()) < extra_ &&
         tries++ < options_.max_ext_tries) {
    const int64_t index = random.below(static_cast<int>(std::min<int64_t>(size(), 1 << 30)));
    try {
      Sample other = raw(index, request.epoch);
      for (size_t i = 0; i < extra_steps_; ++i) {
        Random own(request.random, 1000 + static_cast<int>(64 * tries + i));
        steps_[i]->apply(other, own, static_cast<int>(request.epoch));
      }
      sample.extra.push_back(std::move(other));
    } catch (const SkippedSample&) {
    }
  }
}

Sample OcrDataset::load(const SampleRequest& request) const {
  return load(raw(request.index, request.epoch), request);
}

Sample OcrDataset::load(Sample s, const SampleRequest& request) const {
  const auto apply = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (steps_[i]->extra_samples() > 0) add_extra(s, request);
      Random random(request.random, static_cast<int>(i));
      steps_[i]->apply(s, random, static_cast<int>(request.epoch));
    }
  };
  apply(0, steps_.size());
  // Lines of a batch have one size, which the sampler chose.
  if (multi_scale_ && request.height > 0 && request.width > 0 && s.image.type() == CV_8UC3)
    resize_line(s, {request.height, request.width}, true);
  return s;
}

train::data::Sample OcrDataset::get(const SampleRequest& request) const {
  return fields_of(load(request));
}

train::data::Sample OcrDataset::fields_of(const Sample& s) const {
  train::data::Sample out;
  out.fields.reserve(keys_.size());
  for (const std::string& k : keys_) out.fields.push_back(field_of(s, k));
  return out;
}

std::vector<double> OcrDataset::aspects() const {
  std::vector<double> out;
  if (lmdb_) return out;
  for (int64_t i = 0; i < size(); ++i) {
    const double a = line_at(i, 0, nullptr).aspect;
    if (a <= 0) return {};
    out.push_back(a);
  }
  return out;
}

std::vector<std::string> missing_data(const DatasetConfig& config) {
  std::vector<std::string> files = config.label_file_list;
  if (is_lmdb(config) && !config.data_dir.empty()) files = {config.data_dir[0] + "/data.mdb"};
  std::erase_if(files, [](const std::string& f) { return ::access(f.c_str(), F_OK) == 0; });
  return files;
}

std::unique_ptr<OcrDataset> make_dataset(const train::config::TrainingConfig& config, bool train,
                                         std::vector<std::string>& warnings, bool strict,
                                         size_t cache_bytes, bool labels) {
  const train::config::SplitConfig& split = train ? config.train : config.eval;
  if (!split.present())
    config.root.fail(cat("the configuration has no '", train ? "Train" : "Eval", ".dataset'"));
  ReadContext context{strict, {}};
  DatasetOptions options;
  options.seed = static_cast<uint64_t>(config.global.seed);
  options.training = train;
  options.cache_bytes = cache_bytes;
  options.labels = labels;
  auto made = std::make_unique<OcrDataset>(split, config.global, context, options);
  warnings.insert(warnings.end(), context.warnings.begin(), context.warnings.end());
  return made;
}

}  // namespace ocr
