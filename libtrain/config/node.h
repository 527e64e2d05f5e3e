// A settings file in memory: null, text, lists and maps, each with its place in the file. Numbers
// and booleans are read from text when they are asked for, so that errors can say what was wanted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace train::config {

struct Entry;

class Node {
 public:
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };

  Node() = default;
  static Node scalar(std::string text, bool quoted = false);
  static Node list(std::vector<Node> items = {});
  static Node map();

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_scalar() const { return kind_ == Kind::kScalar; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_map() const { return kind_ == Kind::kMap; }
  /// "nothing", "a value", "a list", "a map": for messages.
  const char* kind_name() const;

  const std::string& text() const { return text_; }  // of a scalar
  bool quoted() const { return quoted_; }            // "1" in quotes is text, not a number
  const std::vector<Node>& items() const { return items_; }
  std::vector<Node>& items() { return items_; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<Entry>& entries() { return entries_; }

  /// The value of a key of a map; null when this is no map or has no such key.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  /// Sets a key, in its old place if the map has it.
  void set(std::string_view key, Node value);

  /// The scalar as the type, by YAML's rules as PaddleOCR's users know them: true/yes/on; 10,
  /// 1_000, 0x1f; 1e-3 (text to Python's YAML, a number here) and sums and products such as
  /// `1./255.`.
  std::optional<bool> as_bool() const;
  std::optional<int64_t> as_int() const;
  std::optional<double> as_number() const;

  /// Where it stands. Lines and columns count from 1; 0 when it came from no file.
  const std::string& file() const { return file_; }
  int line() const { return line_; }
  int column() const { return column_; }
  std::string where() const;  // "file:line:column"
  void set_place(std::string file, int line, int column);
  /// Throws ConfigError that opens with the place.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  Kind kind_ = Kind::kNull;
  bool quoted_ = false;
  int line_ = 0, column_ = 0;
  std::string file_, text_;
  std::vector<Node> items_;
  std::vector<Entry> entries_;
};

struct Entry {
  Node key;  // a scalar, for its place
  Node value;
};

/// A transform, a loss of a list: `Name`, `Name:` or `Name: {arguments}`.
struct NamedNode {
  std::string name;
  Node name_node;  // for its place
  Node arguments;  // null or a map
};
/// Reads one; throws ConfigError when `node` is not such an entry. `path` names it in the message.
NamedNode named_node(const Node& node, const std::string& path);

/// The known name that `name` was likely meant to be, "" if none is near.
std::string nearest_key(std::string_view name, const std::vector<std::string>& known);

/// "; did you mean 'x'?", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

/// Value of an arithmetic expression of numbers, + - * / ** and parentheses; nothing for other
/// text.
std::optional<double> evaluate(std::string_view text);

}  // namespace train::config
