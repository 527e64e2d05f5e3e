#include "apps/ocr/data_check.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/ocr/progress.h"
#include "apps/ocr/training_config.h"
#include "libtrain/config/yaml.h"
#include "libtrain/core/error.h"
#include "libtrain/core/sha256.h"
#include "libtrain/train/archive.h"

namespace app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using train::cat;
using train::config::SplitConfig;
using train::config::TrainingConfig;

constexpr int64_t kLarge = 500;  // samples from which on a bar is drawn
constexpr int kVersion = 1;      // of what is looked for

// Path, size and time of a file, or that there is none.
std::string stamp(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return cat(path.string(), " -\n");
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  return cat(path.string(), " ", size, " ", time, "\n");
}

std::string key_of_part(const SplitConfig& split) {
  const train::config::DatasetConfig& d = split.dataset;
  std::string key = d.name + "\n" + d.delimiter + "\n";
  for (const std::string& folder : d.data_dir) key += folder + "\n";
  for (const std::string& file : d.label_file_list) key += stamp(file);
  if (d.label_file_list.empty() && !d.data_dir.empty())
    key += stamp(fs::path(d.data_dir[0]) / "data.mdb");
  for (const double ratio : d.ratio_list) key += cat(ratio, " ");
  for (const train::config::NamedNode& t : d.transforms)
    key +=
        t.name + ": " + (t.arguments.is_null() ? "" : train::config::to_yaml(t.arguments)) + "\n";
  return key;
}

std::string key_of(const TrainingConfig& config, bool eval) {
  const train::config::GlobalConfig& g = config.global;
  const ocr::CheckOptions o = check_options(config);
  std::string key = cat(kVersion, " ", static_cast<int>(o.kind), " ", o.attention, " ", o.ctc_steps,
                        " ", o.step_columns, " ", o.height, " ", o.max_width, "\n");
  key += cat(g.max_text_length, " ", g.use_space_char, " ", g.seed, "\n");
  if (!g.character_dict_path.empty()) key += stamp(g.character_dict_path);
  for (const std::string& l : g.label_list) key += l + "\n";
  key += key_of_part(config.train);
  if (eval) key += key_of_part(config.eval);
  return train::sha256_hex(key);
}

std::vector<DataFindings> read_kept(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  const Json j = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || j.value("key", "") != key) return {};
  std::vector<DataFindings> all;
  try {
    for (const Json& part : j.at("parts"))
      all.push_back({part.at("part"), part.at("samples"), part.at("lost"), part.at("text")});
  } catch (const Json::exception&) {
    return {};  // written by hand, or half: it is made anew
  }
  return all;
}

void keep(const std::string& folder, const std::string& key,
          const std::vector<DataFindings>& findings) {
  Json j{{"key", key}, {"parts", Json::array()}};
  for (const DataFindings& f : findings)
    j["parts"].push_back(
        {{"part", f.part}, {"samples", f.samples}, {"lost", f.lost}, {"text", f.text}});
  std::error_code error;
  fs::create_directories(folder, error);  // what is wrong with it, the training says
  if (error) return;
  train::write_file_atomically(folder + "/data_check.json",
                               j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

ocr::CheckReport check_part(const ocr::OcrDataset& set, const std::string& part,
                            const ocr::CheckOptions& options) {
  ocr::CheckOptions o = options;
  Progress bar(set.size() >= kLarge, set.size(), "samples checked");
  o.progress = [&bar](int64_t n) { bar.step(n); };
  return ocr::check_dataset(set, part, o);
}

std::vector<DataFindings> check_data(const TrainingConfig& config, const ocr::OcrDataset& train,
                                     const ocr::OcrDataset* eval, const std::string& folder,
                                     bool& cached) {
  const std::string key = key_of(config, eval != nullptr);
  std::vector<DataFindings> findings;
  if (!folder.empty()) findings = read_kept(folder + "/data_check.json", key);
  cached = !findings.empty();
  if (cached) return findings;
  const ocr::CheckOptions options = check_options(config);
  for (const auto& [set, part] : {std::pair(&train, "Train"), {eval, "Eval"}}) {
    if (!set) continue;
    const ocr::CheckReport report = check_part(*set, part, options);
    findings.push_back({part, report.samples, report.lost(), report.text()});
  }
  if (!folder.empty()) keep(folder, key, findings);
  return findings;
}

}  // namespace app
