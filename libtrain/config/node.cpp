#include "libtrain/config/node.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "libtrain/core/error.h"

namespace train::config {
namespace {

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

// Recursive descent over sum -> product -> sign -> power -> atom; depth is bounded by hand.
class Expression {
 public:
  explicit Expression(std::string_view text) : p_(text.data()), end_(text.data() + text.size()) {}

  std::optional<double> value() {
    const double v = sum();
    skip();
    return ok_ && p_ == end_ ? std::optional(v) : std::nullopt;
  }

 private:
  void skip() {
    while (p_ != end_ && (*p_ == ' ' || *p_ == '\t')) ++p_;
  }
  bool take(char c) {
    skip();
    if (p_ == end_ || *p_ != c) return false;
    return ++p_, true;
  }
  bool take_power() {
    skip();
    if (end_ - p_ < 2 || p_[0] != '*' || p_[1] != '*') return false;
    return p_ += 2, true;
  }
  bool take_times() {
    skip();
    if (p_ == end_ || *p_ != '*' || (end_ - p_ >= 2 && p_[1] == '*')) return false;
    return ++p_, true;
  }

  double sum() {
    double v = product();
    while (ok_) {
      if (take('+'))
        v += product();
      else if (take('-'))
        v -= product();
      else
        break;
    }
    return v;
  }
  double product() {
    double v = sign();
    while (ok_) {
      if (take_times())
        v *= sign();
      else if (take('/'))
        v /= sign();
      else
        break;
    }
    return v;
  }
  double sign() {
    if (++depth_ > 64) return ok_ = false, 0;
    double v;
    if (take('-'))
      v = -sign();
    else if (take('+'))
      v = sign();
    else
      v = power();
    --depth_;
    return v;
  }
  double power() {
    const double base = atom();
    return ok_ && take_power() ? std::pow(base, sign()) : base;
  }
  double atom() {
    if (take('(')) {
      const double v = sum();
      if (!take(')')) ok_ = false;
      return v;
    }
    skip();
    // from_chars also takes "inf" and "nan", which are no arithmetic.
    if (p_ == end_ || !((*p_ >= '0' && *p_ <= '9') || *p_ == '.')) return ok_ = false, 0;
    double v = 0;
    const auto [after, error] = std::from_chars(p_, end_, v);
    if (error != std::errc() || after == p_) return ok_ = false, 0;
    p_ = after;
    return v;
  }

  const char* p_;
  const char* end_;
  bool ok_ = true;
  int depth_ = 0;
};

// Edit distance in which two swapped letters count once (optimal string alignment).
int slips(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

Node Node::scalar(std::string text, bool quoted) {
  Node n;
  n.kind_ = Kind::kScalar;
  n.text_ = std::move(text);
  n.quoted_ = quoted;
  return n;
}

Node Node::list(std::vector<Node> items) {
  Node n;
  n.kind_ = Kind::kList;
  n.items_ = std::move(items);
  return n;
}

Node Node::map() {
  Node n;
  n.kind_ = Kind::kMap;
  return n;
}

const char* Node::kind_name() const {
  constexpr const char* names[] = {"nothing", "a single value", "a list", "a map"};
  return names[static_cast<int>(kind_)];
}

const Node* Node::find(std::string_view key) const {
  for (const Entry& e : entries_)
    if (e.key.text() == key) return &e.value;
  return nullptr;
}

Node* Node::find(std::string_view key) {
  return const_cast<Node*>(static_cast<const Node*>(this)->find(key));
}

void Node::set(std::string_view key, Node value) {
  if (Node* old = find(key)) {
    *old = std::move(value);
    return;
  }
  Node k = scalar(std::string(key));
  k.set_place(value.file(), value.line(), value.column());
  kind_ = Kind::kMap;
  entries_.push_back({std::move(k), std::move(value)});
}

std::optional<bool> Node::as_bool() const {
  if (!is_scalar()) return std::nullopt;
  const std::string t = lower(text_);
  if (t == "true" || t == "yes" || t == "on" || t == "1") return true;
  if (t == "false" || t == "no" || t == "off" || t == "0") return false;
  return std::nullopt;
}

std::optional<int64_t> Node::as_int() const {
  if (!is_scalar()) return std::nullopt;
  std::string t = text_;
  if (t.size() > 2 && t[0] != '_' && t.back() != '_') std::erase(t, '_');
  const bool hex = t.size() > 2 && t[0] == '0' && (t[1] == 'x' || t[1] == 'X');
  const char* first = t.data() + (hex ? 2 : t.size() > 1 && t[0] == '+' ? 1 : 0);
  int64_t v = 0;
  const auto [after, error] = std::from_chars(first, t.data() + t.size(), v, hex ? 16 : 10);
  if (error == std::errc() && after == t.data() + t.size() && after != first) return v;
  if (const std::optional<double> d = evaluate(t))  // 1e3, 4*16
    if (std::abs(*d) < 0x1p53 && *d == std::floor(*d)) return static_cast<int64_t>(*d);
  return std::nullopt;
}

std::optional<double> Node::as_number() const {
  if (!is_scalar()) return std::nullopt;
  if (const std::optional<int64_t> i = as_int()) return static_cast<double>(*i);
  const std::optional<double> v = evaluate(text_);
  return v && std::isfinite(*v) ? v : std::nullopt;
}

std::string Node::where() const { return line_ > 0 ? cat(file_, ":", line_, ":", column_) : file_; }

void Node::set_place(std::string file, int line, int column) {
  file_ = std::move(file);
  line_ = line;
  column_ = column;
}

void Node::fail(const std::string& message) const {
  throw ConfigError(file_, line_, column_, message);
}

NamedNode named_node(const Node& node, const std::string& path) {
  if (node.is_scalar()) return {node.text(), node, Node()};
  if (!node.is_map() || node.entries().size() != 1)
    node.fail(cat(path, " takes entries such as `- Name: {key: value}` with one name each, got ",
                  node.is_map() ? cat("a map of ", node.entries().size(), " keys")
                                : std::string(node.kind_name())));
  const Entry& e = node.entries()[0];
  if (!e.value.is_null() && !e.value.is_map())
    e.value.fail(
        cat("'", path, ".", e.key.text(), "' takes a map of arguments, got ", e.value.kind_name()));
  return {e.key.text(), e.key, e.value};
}

std::string nearest_key(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > 200) return "";
  const std::string wanted = lower(name);
  std::string best;
  int least = 1 + std::clamp(static_cast<int>(name.size()) / 4, 1, 3);
  for (const std::string& k : known) {
    const int d = slips(wanted, lower(k));
    if (d < least) least = d, best = k;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string near = nearest_key(name, known);
  return near.empty() ? "" : cat("; did you mean '", near, "'?");
}

std::optional<double> evaluate(std::string_view text) {
  if (text.empty() || text.size() > 256) return std::nullopt;
  return Expression(text).value();
}

}  // namespace train::config
