#include "libocr/pipeline/models.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using train::cat;
using train::ConfigError;

[[noreturn]] void fail(const std::string& message) { throw ConfigError("", 0, 0, message); }

const char* long_name(const std::string& kind) {
  if (kind == "det") return "detector";
  if (kind == "rec") return "recogniser";
  return kind == "cls" ? "line angle classifier" : "page orientation classifier";
}

bool is_file(const fs::path& p) {
  std::error_code e;
  return fs::is_regular_file(p, e);
}
bool is_folder(const fs::path& p) {
  std::error_code e;
  return fs::is_directory(p, e);
}

fs::path program_folder() {
  std::error_code e;
  const fs::path exe = fs::read_symlink("/proc/self/exe", e);
  return e ? fs::path() : exe.parent_path();
}

// Files of a folder in order of name; empty when it cannot be read.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code e;
  for (fs::directory_iterator it(folder, e), end; !e && it != end; it.increment(e))
    if (is_file(it->path())) out.push_back(it->path());
  std::sort(out.begin(), out.end());
  return out;
}

// The single .onnx file of a folder that suits a kind; empty when there is none.
fs::path onnx_in(const fs::path& folder, const std::string& kind, bool only_this_kind) {
  std::vector<fs::path> all, named;
  for (const fs::path& f : files_in(folder)) {
    if (f.extension() != ".onnx") continue;
    const std::string stem = f.stem().string();
    if (stem == kind || (kind == "doc" && stem == "doc_ori")) return f;
    all.push_back(f);
    if (stem.find(kind) != stem.npos) named.push_back(f);
  }
  if (named.size() == 1) return named[0];
  if (named.size() > 1 && only_this_kind)
    fail(cat(folder.string(), " holds several models named *", kind, "*.onnx: name one of them"));
  if (!only_this_kind) return {};
  if (all.size() == 1) return all[0];
  for (const char* name : {"inference.onnx", "model.onnx"})
    if (is_file(folder / name)) return folder / name;
  if (all.size() > 1)
    fail(cat(folder.string(), " holds ", all.size(), " .onnx files: name one of them"));
  return {};
}

// What stands beside a model: inference.yml and a dictionary.
ModelFiles with_neighbours(const fs::path& onnx, const std::string& kind) {
  ModelFiles files{onnx.string(), "", ""};
  const fs::path folder = onnx.parent_path();
  for (const std::string& name : {onnx.stem().string() + "_inference.yml", kind + "_inference.yml",
                                  onnx.stem().string() + ".yml", std::string("inference.yml")})
    if (files.inference_yml.empty() && is_file(folder / name))
      files.inference_yml = (folder / name).string();
  if (kind != "rec") return files;
  for (const std::string& name : {onnx.stem().string() + "_dict.txt", std::string("dict.txt")})
    if (files.dictionary.empty() && is_file(folder / name))
      files.dictionary = (folder / name).string();
  if (files.dictionary.empty())
    for (const fs::path& f : files_in(folder)) {
      const std::string name = f.filename().string();
      if (f.extension() == ".txt" &&
          (name.find("dict") != name.npos || name.find("keys") != name.npos)) {
        files.dictionary = f.string();
        break;
      }
    }
  return files;
}

// A folder of Paddle's own inference files is answered with how to convert it.
void refuse_paddle_folder(const fs::path& folder) {
  std::string graph, weights;
  for (const fs::path& f : files_in(folder)) {
    const std::string name = f.filename().string();
    if (f.extension() == ".pdmodel" || name == "inference.json") graph = name;
    if (f.extension() == ".pdiparams") weights = name;
  }
  if (weights.empty()) return;
  if (graph.empty()) graph = "inference.pdmodel";
  const std::string dir = folder.string();
  fail(cat(dir, " holds Paddle inference files, which must be converted to ONNX first:\n",
           "  pip install paddle2onnx && paddle2onnx --model_dir ", dir, " --model_filename ",
           graph, " --params_filename ", weights, " --save_file ", dir,
           "/inference.onnx --opset_version 14\nthen run the same command again"));
}

ModelFiles from_path(const std::string& path, const std::string& kind) {
  const fs::path p(path);
  if (is_file(p)) {
    if (p.extension() == ".pdmodel" || p.extension() == ".pdiparams")
      refuse_paddle_folder(p.parent_path().empty() ? fs::path(".") : p.parent_path());
    return with_neighbours(p, kind);
  }
  if (!is_folder(p)) fail(cat(kind, "_model_dir: there is no file or folder ", path));
  const fs::path onnx = onnx_in(p, kind, true);
  if (onnx.empty()) {
    refuse_paddle_folder(p);
    fail(cat(kind, "_model_dir: no .onnx file in ", path));
  }
  return with_neighbours(onnx, kind);
}

// The command that brings the default models, as it must be typed here.
std::string fetch_command() {
  const fs::path program = program_folder();
  if (is_file(program / "ocr-fetch-models")) return "ocr-fetch-models";
  const fs::path cwd_script = fs::path("scripts") / "fetch_models.sh";
  if (is_file(cwd_script)) return cwd_script.string();
  for (const char* relative : {"../../scripts/fetch_models.sh", "../../../scripts/fetch_models.sh"})
    if (is_file(program / relative)) return (program / relative).lexically_normal().string();
  return "scripts/fetch_models.sh (in the source tree of ocr)";
}

std::string set_folder_name(const std::string& set) {
  if (set == "fast") return "ppocrv6_tiny";
  if (set == "accurate") return "ppocrv6_small";
  return set;
}

// The folder of the chosen set; empty when it is nowhere.
fs::path set_folder(const std::string& models) {
  const std::string name = set_folder_name(models);
  if (name == models && is_folder(models)) {
    // A folder that holds sets, not models, means its default set.
    if (is_folder(fs::path(models) / "ppocrv6_tiny")) return fs::path(models) / "ppocrv6_tiny";
    return models;
  }
  if (name.find('/') != name.npos) return {};
  for (const std::string& root : model_roots())
    if (is_folder(fs::path(root) / name)) return fs::path(root) / name;
  return {};
}

}  // namespace

std::vector<std::string> model_roots() {
  std::vector<std::string> roots;
  if (const char* env = std::getenv("OCR_MODELS"); env && *env) roots.emplace_back(env);
  roots.emplace_back("models");
  const fs::path program = program_folder();
  if (!program.empty()) {
    roots.push_back((program / "../share/ocr/models").lexically_normal().string());
    for (const char* up : {"../models", "../../models", "../../../models"})
      if (is_file((program / up).lexically_normal() / "../CMakeLists.txt"))
        roots.push_back((program / up).lexically_normal().string());
  }
  if (const char* data = std::getenv("XDG_DATA_HOME"); data && *data)
    roots.push_back(std::string(data) + "/ocr/models");
  if (const char* home = std::getenv("HOME"); home && *home)
    roots.push_back(std::string(home) + "/.local/share/ocr/models");
  roots.emplace_back("/usr/local/share/ocr/models");
  roots.emplace_back("/usr/share/ocr/models");
  std::vector<std::string> once;  // an installed program's own place is one of the last two
  for (std::string& root : roots)
    if (std::find(once.begin(), once.end(), root) == once.end()) once.push_back(std::move(root));
  return once;
}

ModelFiles find_model(const Options& options, const std::string& kind, bool required) {
  const Setting<std::string>& own = kind == "det"   ? options.det_model_dir
                                    : kind == "rec" ? options.rec_model_dir
                                    : kind == "cls" ? options.cls_model_dir
                                                    : options.doc_model_dir;
  if (!own.value.empty()) return from_path(own.value, kind);
  const std::string& models = options.models.value;
  const fs::path folder = set_folder(models);
  std::vector<fs::path> places;
  if (!folder.empty()) {
    const fs::path beside = folder.parent_path();
    places = {folder, folder / kind};
    if (kind == "cls") places.push_back(beside / "cls_v2");
    if (kind == "doc") places.push_back(beside / "doc_ori");
  }
  if (kind == "cls" || kind == "doc")
    for (const std::string& root : model_roots())
      places.push_back(fs::path(root) / (kind == "cls" ? "cls_v2" : "doc_ori"));
  for (const fs::path& place : places) {
    const bool own_folder = place != folder;
    const fs::path onnx = onnx_in(place, kind, own_folder);
    if (!onnx.empty()) return with_neighbours(onnx, kind);
  }
  if (!required) return {};
  std::string looked;
  if (folder.empty())
    for (const std::string& root : model_roots()) looked += (looked.empty() ? "" : ", ") + root;
  if (!folder.empty()) {
    refuse_paddle_folder(folder / kind);
    fail(cat("no ", long_name(kind), " in ", folder.string(), "; bring the default models with\n  ",
             fetch_command(), "\nor name one with --", kind, "_model_dir PATH"));
  }
  if (set_folder_name(models) == models && options.models.given())
    fail(cat("--models ", models, ": no folder of that name, here or in ", looked));
  fail(cat("no models found (looked for ", set_folder_name(models), " in ", looked,
           "); bring them with\n  ", fetch_command()));
}

}  // namespace ocr
