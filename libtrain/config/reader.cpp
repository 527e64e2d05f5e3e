#include "libtrain/config/reader.h"

#include <algorithm>
#include <limits>

#include "libtrain/core/error.h"

namespace train::config {
namespace {

[[noreturn]] void wrong(const Node& n, const std::string& path, const char* wanted) {
  n.fail(cat("'", path, "' takes ", wanted, ", got ",
             n.is_scalar() ? "'" + n.text() + "'" : std::string(n.kind_name())));
}

}  // namespace

Reader::Reader(const Node& node, std::string path, ReadContext& context)
    : node_(node), path_(std::move(path)), context_(context) {
  if (!node.is_map() && !node.is_null())
    node.fail(cat(path_.empty() ? std::string("a configuration") : "'" + path_ + "'",
                  " takes lines of `name: value`, got ", node.kind_name()));
}

std::string Reader::path_of(const std::string& name) const {
  return path_.empty() ? name : path_ + "." + name;
}

const Node* Reader::known(const char* name) {
  known_.emplace_back(name);
  const Node* n = node_.find(name);
  return n && !n->is_null() ? n : nullptr;
}

void Reader::missing(const char* name) const {
  // The slip is often in the name itself: `lables:` for `labels:`.
  for (const Entry& e : node_.entries())
    if (!nearest_key(e.key.text(), {name}).empty() && e.key.text() != name)
      e.key.fail(cat("unknown key '", path_of(e.key.text()), "'; did you mean '", name, "'?"));
  node_.fail(cat("'", path_of(name), "' is missing"));
}

void Reader::ignore(const char* name, const char* why) {
  const Node* n = known(name);
  if (n && why) context_.warnings.push_back(cat(n->where(), ": '", path_of(name), "' ", why));
}

void Reader::finish() {
  for (const Entry& e : node_.entries()) {
    const std::string& key = e.key.text();
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string hint = did_you_mean(key, known_);
    if (!hint.empty() || context_.strict) e.key.fail(cat("unknown key '", path_of(key), "'", hint));
    context_.warnings.push_back(cat(e.key.where(), ": unknown key '", path_of(key), "' ignored"));
  }
}

void Reader::read(const Node& n, const std::string& path, bool& out) {
  const std::optional<bool> v = n.as_bool();
  if (!v) wrong(n, path, "true or false");
  out = *v;
}

void Reader::read(const Node& n, const std::string& path, int64_t& out) {
  const std::optional<int64_t> v = n.as_int();
  if (!v) wrong(n, path, "a whole number");
  out = *v;
}

void Reader::read(const Node& n, const std::string& path, int& out) {
  int64_t v = 0;
  read(n, path, v);
  if (v < std::numeric_limits<int>::min() || v > std::numeric_limits<int>::max())
    wrong(n, path, "a whole number below 2^31");
  out = static_cast<int>(v);
}

void Reader::read(const Node& n, const std::string& path, double& out) {
  const std::optional<double> v = n.as_number();
  if (!v) wrong(n, path, "a number");
  out = *v;
}

void Reader::read(const Node& n, const std::string& path, std::string& out) {
  if (!n.is_scalar()) wrong(n, path, "a single value");
  out = n.text();
}

}  // namespace train::config
