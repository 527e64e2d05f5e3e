// Files of checkpoints, and weights alone out of them.
#include <unistd.h>

#include "libtrain/core/error.h"
#include "libtrain/train/trainer.h"

namespace train {

std::string checkpoint_file(const std::string& path) {
  constexpr std::string_view kExtension = ".safetensors";
  return path.ends_with(kExtension) ? path : path + std::string(kExtension);
}

WeightReport load_weights(nn::Module& model, const std::string& path, bool averages) {
  const std::string file = ::access(path.c_str(), R_OK) == 0 ? path : checkpoint_file(path);
  const ArchiveReader reader = ArchiveReader::open(file);
  WeightReport report;
  const auto state = model.state_dict();
  // Names in the file: plain ones in other programs' files, behind a prefix in checkpoints.
  const auto name_in_file = [&](const std::string& name) {
    if (!reader.is_ours()) return name;
    if (averages && reader.has("ema." + name)) return "ema." + name;
    return "model." + name;
  };
  for (const nn::StateEntry& e : state) {
    const std::string name = name_in_file(e.name);
    if (!reader.has(name)) {
      report.missing.push_back(e.name);
      continue;
    }
    const Tensor saved = reader.get(name);
    if (saved.shape() != e.variable.shape()) {
      report.other_shape.push_back(e.name);
      continue;
    }
    Variable v = e.variable;
    convert_elements(saved.dtype(), saved.raw(), v.value().dtype(), v.writable().raw(),
                     saved.numel());
    ++report.kept;
  }
  for (const std::string& name : reader.names()) {
    const bool prefixed = reader.is_ours();
    if (prefixed && !name.starts_with("model.")) continue;
    const std::string plain = prefixed ? name.substr(6) : name;
    bool known = false;
    for (const nn::StateEntry& e : state) known |= e.name == plain;
    if (!known) report.unknown.push_back(plain);
  }
  if (report.kept == 0)
    throw FormatError(cat(file, ": not one of its ", reader.names().size(),
                          " tensors fits the model: another architecture?"));
  return report;
}

}  // namespace train
