// Settings from YAML: the pipeline file of -c, and PaddleOCR's inference.yml beside a model.
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "libocr/pipeline/ignored.h"
#include "libocr/pipeline/options.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::ConfigError;

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr int kMaxDepth = 64;

// yaml-cpp recurses per level of nesting: refuse depth before it parses.
void check_nesting(const std::string& text, const std::string& path) {
  int flow = 0, most = 0;
  size_t indent = 0;
  bool at_start = true;
  for (const char c : text) {
    if (c == '[' || c == '{') most = std::max(most, ++flow);
    if ((c == ']' || c == '}') && flow > 0) --flow;
    // `- - - -` nests as well as indentation does.
    if (c == '\n')
      at_start = true, indent = 0;
    else if (at_start && (c == ' ' || c == '-' || c == '?'))
      most = std::max<int>(most, (c != ' ') ? static_cast<int>(++indent) : 0);
    else
      at_start = false;
  }
  if (most > kMaxDepth)
    throw train::FormatError(cat(path, ": nested too deeply for a settings file"));
}

YAML::Node parse_yaml(const std::string& text, const std::string& name) {
  check_nesting(text, name);
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& e) {
    throw ConfigError(name, e.mark.line + 1, e.mark.column + 1, cat("not valid YAML: ", e.msg));
  }
}

YAML::Node load_yaml(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw train::FormatError(cat(path, ": cannot be read: ", std::strerror(errno)));
  std::string text(kMaxConfigBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxConfigBytes)
    throw train::FormatError(cat(path, ": larger than a settings file may be (4 MB)"));
  return parse_yaml(text, path);
}

std::string place(const std::string& path, const YAML::Node& node) {
  const YAML::Mark m = node.Mark();
  return cat(path, ":", m.line + 1, ":", m.column + 1);
}

// A scalar as its text, a list of scalars as "a,b,c"; false for anything else.
bool as_text(const YAML::Node& node, std::string& out) {
  if (node.IsScalar()) return out = node.Scalar(), true;
  if (!node.IsSequence()) return false;
  out.clear();
  for (const YAML::Node& n : node) {
    if (!n.IsScalar()) return false;
    out += (out.empty() ? "" : ",") + n.Scalar();
  }
  return true;
}

class ConfigReader {
 public:
  ConfigReader(Options& options, const std::string& path, bool strict,
               std::vector<std::string>& warnings)
      : options_(options), path_(path), strict_(strict), warnings_(warnings) {
    for (const OptionSpec& s : option_specs()) {
      names_.push_back(s.name);
      for (const char* a : s.aliases) names_.push_back(a);
    }
  }

  void read(const YAML::Node& root) {
    if (root.IsNull()) return;
    if (!root.IsMap())
      throw ConfigError(path_, root.Mark().line + 1, root.Mark().column + 1,
                        "a settings file is a list of `name: value` lines");
    if (root["Architecture"] && root["Global"])
      throw ConfigError(path_, 1, 1,
                        "this is a training configuration; -c takes pipeline settings such as "
                        "`det_limit_side_len: 960`");
    for (const auto& kv : root) {
      const std::string key = kv.first.Scalar();
      if (kv.second.IsMap())
        section(canonical_name(key), kv.first, kv.second);
      else
        entry("", key, kv.first, kv.second);
    }
  }

 private:
  void section(const std::string& name, const YAML::Node& key, const YAML::Node& map) {
    if (name != "det" && name != "rec" && name != "cls" && name != "pages" && name != "global")
      return unknown(key.Scalar(), key, std::vector<std::string>{"det", "rec", "cls"});
    for (const auto& kv : map)
      entry(name == "global" || name == "pages" ? "" : name, kv.first.Scalar(), kv.first,
            kv.second);
  }

  // `det: {thresh: .3}` means det_db_thresh, as `det_db_thresh: .3` does.
  void entry(const std::string& section, const std::string& key, const YAML::Node& at,
             const YAML::Node& value) {
    if (value.IsNull()) return;  // `key:` without a value: not set
    const std::string name = canonical_name(key);
    std::string text;
    std::vector<std::string> spellings{name};
    if (!section.empty())
      spellings = {section + "_" + name, section + "_db_" + name, section + "_char_" + name, name};
    for (const std::string& s : spellings) {
      if (std::find(names_.begin(), names_.end(), s) == names_.end()) continue;
      if (!as_text(value, text))
        throw ConfigError(path_, at.Mark().line + 1, at.Mark().column + 1,
                          cat(key, " takes a single value or a list of numbers"));
      set_option(options_, s, text, Source::kConfig, place(path_, value));
      return;
    }
    if (const char* why = ignored_option(name)) {
      warnings_.push_back(cat(place(path_, at), ": ", key, " has no effect here: ", why));
      return;
    }
    unknown(key, at, names_, section);
  }

  void unknown(const std::string& key, const YAML::Node& at, const std::vector<std::string>& known,
               const std::string& section = "") {
    std::string near = nearest_name(canonical_name(key), known);
    if (near.empty() && !section.empty())
      near = nearest_name(section + "_" + canonical_name(key), known);
    const YAML::Mark m = at.Mark();
    const std::string hint = near.empty() ? "" : cat("; did you mean '", near, "'?");
    if (!near.empty() || strict_)
      throw ConfigError(path_, m.line + 1, m.column + 1, cat("unknown setting '", key, "'", hint));
    warnings_.push_back(cat(place(path_, at), ": unknown setting '", key, "' ignored"));
  }

  Options& options_;
  const std::string& path_;
  bool strict_;
  std::vector<std::string>& warnings_;
  std::vector<std::string> names_;
};

// map[key], undefined where there is no such map (yaml-cpp throws when a chain goes on from there).
YAML::Node child(const YAML::Node& map, const char* key) {
  if (map.IsDefined() && map.IsMap() && map[key]) return map[key];
  return YAML::Node(YAML::NodeType::Undefined);
}

// The first transform of `ops` called `name`; undefined when there is none.
YAML::Node find_op(const YAML::Node& ops, const std::string& name) {
  if (ops.IsDefined() && ops.IsSequence())
    for (const YAML::Node& op : ops)
      if (op.IsMap() && op[name]) return op[name];
  return YAML::Node(YAML::NodeType::Undefined);
}

class InferenceYml {
 public:
  InferenceYml(Options& options, const std::string& path) : options_(options), path_(path) {}

  void take(const YAML::Node& map, const char* key, const char* option) {
    if (!map.IsDefined() || !map.IsMap()) return;
    const YAML::Node value = map[key];
    std::string text;
    if (value.IsDefined() && !value.IsNull() && as_text(value, text))
      set_option(options_, option, text, Source::kInferenceYml, place(path_, value));
  }

  void detection(const YAML::Node& root) {
    const YAML::Node ops = child(child(root, "PreProcess"), "transform_ops");
    const YAML::Node resize = find_op(ops, "DetResizeForTest");
    take(resize, "limit_side_len", "det_limit_side_len");
    take(resize, "limit_type", "det_limit_type");
    take(resize, "max_side_limit", "det_max_side_limit");
    take(resize, "image_shape", "det_image_shape");
    take(resize, "keep_ratio", "det_keep_ratio");
    take(resize, "resize_long", "det_resize_long");
    const YAML::Node norm = find_op(ops, "NormalizeImage");
    take(norm, "mean", "det_mean");
    take(norm, "std", "det_std");
    const YAML::Node post = child(root, "PostProcess");
    take(post, "thresh", "det_db_thresh");
    take(post, "box_thresh", "det_db_box_thresh");
    take(post, "unclip_ratio", "det_db_unclip_ratio");
    take(post, "max_candidates", "det_max_candidates");
    take(post, "use_dilation", "use_dilation");
    take(post, "score_mode", "det_db_score_mode");
    take(post, "box_type", "det_box_type");
  }

  void classification(const YAML::Node& root, std::string_view kind) {
    const YAML::Node post = child(root, "PostProcess");
    const char* labels = kind == "doc" ? "doc_label_list" : "label_list";
    take(post, "label_list", labels);
    take(child(post, "Topk"), "label_list", labels);
    if (kind == "doc") return;
    const YAML::Node ops = child(child(root, "PreProcess"), "transform_ops");
    take(find_op(ops, "ClsResizeImg"), "image_shape", "cls_image_shape");
    const YAML::Node size = child(find_op(ops, "ResizeImage"), "size");  // width, height
    if (size.IsDefined() && size.IsSequence() && size.size() == 2 && size[0].IsScalar() &&
        size[1].IsScalar())
      set_option(options_, "cls_image_shape", cat("3,", size[1].Scalar(), ",", size[0].Scalar()),
                 Source::kInferenceYml, place(path_, size));
  }

  std::vector<std::string> recognition(const YAML::Node& root) {
    take(find_op(child(child(root, "PreProcess"), "transform_ops"), "RecResizeImg"), "image_shape",
         "rec_image_shape");
    std::vector<std::string> characters;
    const YAML::Node list = child(child(root, "PostProcess"), "character_dict");
    if (list.IsDefined() && list.IsSequence())
      for (const YAML::Node& n : list) characters.push_back(n.IsScalar() ? n.Scalar() : "");
    return characters;
  }

 private:
  Options& options_;
  const std::string& path_;
};

std::vector<std::string> read_inference(Options& options, const YAML::Node& root,
                                        const std::string& path, std::string_view kind) {
  if (!root.IsMap()) throw train::FormatError(cat(path, ": not an inference.yml"));
  InferenceYml reader(options, path);
  if (kind == "rec") return reader.recognition(root);
  if (kind == "det") reader.detection(root);
  if (kind == "cls" || kind == "doc") reader.classification(root, kind);
  return {};
}

}  // namespace

void load_config(Options& options, const std::string& path, bool strict,
                 std::vector<std::string>& warnings) {
  ConfigReader(options, path, strict, warnings).read(load_yaml(path));
}

void load_config_text(Options& options, const std::string& text, const std::string& name,
                      bool strict, std::vector<std::string>& warnings) {
  ConfigReader(options, name, strict, warnings).read(parse_yaml(text, name));
}

std::vector<std::string> load_inference_yml(Options& options, const std::string& path,
                                            std::string_view kind) {
  return read_inference(options, load_yaml(path), path, kind);
}

std::vector<std::string> load_inference_text(Options& options, const std::string& text,
                                             const std::string& name, std::string_view kind) {
  return read_inference(options, parse_yaml(text, name), name, kind);
}

}  // namespace ocr
