// Reads a map of settings into a struct that describes itself: `describe(v)` calls
// `v.field("name", member)` for each member. Absent and null keys leave the default.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "libtrain/config/node.h"

namespace train::config {

/// What one reading shares: how strict it is, and where warnings go.
struct ReadContext {
  bool strict = false;
  std::vector<std::string> warnings;
};

class Reader {
 public:
  /// `path` names the map in messages, "" for the whole file ("Train.loader"). Null reads as an
  /// empty map; anything else but a map throws ConfigError.
  Reader(const Node& node, std::string path, ReadContext& context);

  template <class T>
  void field(const char* name, T& value) {
    if (const Node* n = known(name)) read(*n, path_of(name), value);
  }
  /// A key that must be there and not null.
  template <class T>
  void required(const char* name, T& value) {
    const Node* n = known(name);
    if (!n) missing(name);
    read(*n, path_of(name), value);
  }
  /// A key that is known and has no effect here; `why` is part of a warning, null for none.
  void ignore(const char* name, const char* why = nullptr);
  /// After the fields: an unknown key near a known one, or any in strict mode, throws ConfigError;
  /// others are warnings.
  void finish();
  /// The node of a known key, null when absent or null.
  const Node* known(const char* name);

  const Node& node() const { return node_; }
  std::string path_of(const std::string& name) const;
  ReadContext& context() { return context_; }

 private:
  [[noreturn]] void missing(const char* name) const;
  static void read(const Node& n, const std::string& path, bool& out);
  static void read(const Node& n, const std::string& path, int& out);
  static void read(const Node& n, const std::string& path, int64_t& out);
  static void read(const Node& n, const std::string& path, double& out);
  static void read(const Node& n, const std::string& path, std::string& out);
  static void read(const Node& n, const std::string&, Node& out) { out = n; }
  static void read(const Node& n, const std::string& path, NamedNode& out) {
    out = named_node(n, path);
  }
  template <class T>
  void read(const Node& n, const std::string& path, std::optional<T>& out) {
    out.emplace();
    read(n, path, *out);
  }
  /// A single value is a list of one.
  template <class T>
  void read(const Node& n, const std::string& path, std::vector<T>& out) {
    out.clear();
    if (n.is_null()) return;
    if (!n.is_list()) {
      read(n, path, out.emplace_back());
      return;
    }
    for (size_t i = 0; i < n.items().size(); ++i) {
      T item{};
      read(n.items()[i], path + "[" + std::to_string(i) + "]", item);
      out.push_back(std::move(item));
    }
  }
  template <class T>
  requires requires(T& t, Reader& r) { t.describe(r); }
  void read(const Node& n, const std::string& path, T& out) {
    Reader inner(n, path, context_);
    out.describe(inner);
    inner.finish();
  }

  const Node& node_;
  std::string path_;
  ReadContext& context_;
  std::vector<std::string> known_;
};

/// Reads one struct and checks for unknown keys.
template <class T>
void read_struct(const Node& node, const std::string& path, ReadContext& context, T& out) {
  Reader reader(node, path, context);
  out.describe(reader);
  reader.finish();
}

}  // namespace train::config
