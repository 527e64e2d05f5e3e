// Options: every setting of the page pipeline in one struct, each with where its value came from.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ocr {

/// Where a value came from; a later one wins. kPinned is a preset that must beat the model's own
/// files, because the program it imitates does not read them.
enum class Source : uint8_t {
  kDefault,
  kPreset,
  kInferenceYml,
  kMetadata,
  kPinned,
  kConfig,
  kFlag
};
/// "default", "preset", "inference.yml", "metadata", "preset", "config", "flag".
const char* name_of(Source source);

/// One setting: its value, where it came from, and the file, line or preset it was read from.
template <class T>
struct Setting {
  T value{};
  Source source = Source::kDefault;
  std::string where;

  Setting() = default;
  Setting(T v) : value(std::move(v)) {}  // NOLINT(google-explicit-constructor): a default value
  operator const T&() const { return value; }  // NOLINT(google-explicit-constructor)
  bool given() const { return source != Source::kDefault; }
};

struct Options {
  // Models.
  Setting<std::string> models{std::string("fast")};
  Setting<std::string> det_model_dir, rec_model_dir, cls_model_dir, doc_model_dir;
  Setting<std::string> rec_char_dict_path;
  Setting<std::string> preset{std::string("none")};
  // Task.
  Setting<std::string> task{std::string("e2e")};
  Setting<std::string> use_angle_cls{std::string("auto")};
  Setting<bool> use_doc_orientation_classify{false};
  Setting<double> doc_thresh{0.8};
  Setting<std::vector<int>> doc_label_list{std::vector<int>{0, 90, 180, 270}};
  // Detection.
  Setting<int> det_limit_side_len{736};
  Setting<std::string> det_limit_type{std::string("min")};
  Setting<int> det_max_side_limit{4000};
  Setting<int> det_resize_long{0};
  Setting<std::vector<int>> det_image_shape{std::vector<int>{}};
  Setting<bool> det_keep_ratio{false};
  Setting<double> det_db_thresh{0.3};
  Setting<double> det_db_box_thresh{0.6};
  Setting<double> det_db_unclip_ratio{1.5};
  Setting<int> det_max_candidates{1000};
  Setting<bool> use_dilation{false};
  Setting<std::string> det_db_score_mode{std::string("fast")};
  Setting<std::string> det_box_type{std::string("quad")};
  Setting<std::vector<double>> det_mean{std::vector<double>{0.485, 0.456, 0.406}};
  Setting<std::vector<double>> det_std{std::vector<double>{0.229, 0.224, 0.225}};
  Setting<std::string> det_rescale{std::string("none")};
  Setting<std::string> det_scale{std::string("auto")};
  Setting<std::string> det_tile{std::string("auto")};
  Setting<int> det_tile_size{1536};
  // Recognition.
  Setting<std::vector<int>> rec_image_shape{std::vector<int>{3, 48, 320}};
  Setting<int> rec_min_width{160};
  Setting<bool> rec_keep_ratio{true};
  Setting<int> rec_batch_num{6};
  Setting<bool> use_space_char{true};
  Setting<std::string> rec_right_to_left{std::string("auto")};
  Setting<bool> rec_recover_spaces{true};
  Setting<double> rec_space_prob{0.1};
  Setting<double> rec_space_gap{1.6};
  Setting<double> drop_score{0.5};
  // Angle classifier.
  Setting<std::vector<int>> cls_image_shape{std::vector<int>{3, 48, 192}};
  Setting<std::vector<int>> label_list{std::vector<int>{0, 180}};
  Setting<int> cls_batch_num{6};
  Setting<double> cls_thresh{0.9};
  // Results.
  Setting<std::string> reading_order{std::string("columns")};
  Setting<bool> return_word_box{true};
  // Pages.
  Setting<int> dpi{200};
  Setting<std::string> pages{std::string("")};
  Setting<bool> exif{true};
  // Resources; 0 = from the CPUs and the memory that this process may use.
  Setting<std::string> precision{std::string("auto")};
  Setting<int> threads{0};
  Setting<int> jobs{0};
  Setting<std::string> max_memory{std::string("0")};
  // Debugging.
  Setting<std::string> dump_stages{std::string("")};
};

/// What is known of a setting besides its value.
struct OptionSpec {
  const char* name = "";
  const char* group = "";  // heading of the help text
  const char* value = "";  // placeholder, e.g. "N"
  const char* help = "";
  std::vector<const char*> choices = {};  // allowed words; empty = any
  std::vector<const char*> aliases = {};  // other spellings of the name
  double min = 0, max = 0;                // allowed range of a number; equal = any
  bool affects_text = true;  // false: the results do not depend on it (threads, jobs, ...)
  int numbers = 3;           // of a list; 0 = any
};

/// All specs, in order.
std::vector<OptionSpec> option_specs();

/// Sets `name` (an alias or dashes are fine) from text unless a stronger source has set it. Returns
/// false when no setting has that name. Throws train::ConfigError when the text does not fit the
/// setting: `where` ("file:line:column" or the flag) opens its message.
bool set_option(Options& options, std::string_view name, std::string_view text, Source source,
                const std::string& where = "");

/// Applies ppocr2, ppocr3 or rapidocr; "none" does nothing. Throws ConfigError on another name.
void apply_preset(Options& options, std::string_view preset);

/// The known names that `name` was probably meant to be: the nearest by edit distance, or "".
std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// Canonical spelling of a flag's name: dashes become underscores, lower case.
std::string canonical_name(std::string_view name);

/// Reads true/false/yes/no/on/off/1/0 in any case; returns -1 for anything else.
int parse_bool(std::string_view text);

/// Bytes from "1500M", "2G", "64K" or a plain number; throws ConfigError.
int64_t parse_bytes(std::string_view text);

/// Every setting as text: (spec, value as JSON text, source, where).
struct OptionText {
  std::string name, json, where;
  Source source;
  bool affects_text;
};
std::vector<OptionText> describe_options(const Options& options);

/// Reads a YAML file of settings (-c). Keys are the flags' names; those of detection, recognition
/// and classification may stand below `det:`, `rec:`, `cls:` without their prefix. An unknown key
/// within two edits of a known one is a ConfigError with file:line:column; any other unknown key
/// is a warning, or an error when `strict`.
void load_config(Options& options, const std::string& path, bool strict,
                 std::vector<std::string>& warnings);

/// The same from text in memory; `name` stands for the file in messages.
void load_config_text(Options& options, const std::string& text, const std::string& name,
                      bool strict, std::vector<std::string>& warnings);

/// Reads the settings in PaddleOCR's inference.yml. `kind` is det, rec, cls or doc. For rec, the
/// dictionary (PostProcess.character_dict) is returned, empty when there is none.
std::vector<std::string> load_inference_yml(Options& options, const std::string& path,
                                            std::string_view kind);
/// The same from text in memory; `name` stands for the file in messages.
std::vector<std::string> load_inference_text(Options& options, const std::string& text,
                                             const std::string& name, std::string_view kind);

}  // namespace ocr
