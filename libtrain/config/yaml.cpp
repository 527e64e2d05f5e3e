#include "libtrain/config/yaml.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "libtrain/core/error.h"

namespace train::config {
namespace {

// yaml-cpp recurses per level of nesting: refuse depth before it parses.
void check_nesting(std::string_view text, const std::string& name) {
  int flow = 0, most = 0, indent = 0;
  bool at_start = true;
  for (const char c : text) {
    if (c == '[' || c == '{') most = std::max(most, ++flow);
    if ((c == ']' || c == '}') && flow > 0) --flow;
    // `- - - -` nests as well as indentation does.
    if (c == '\n')
      at_start = true, indent = 0;
    else if (at_start && (c == '-' || c == '?'))
      most = std::max(most, ++indent);
    else if (!(at_start && c == ' '))
      at_start = false;
  }
  if (most > kMaxYamlDepth) throw FormatError(cat(name, ": nested too deeply for a settings file"));
}

bool is_null_text(const std::string& t) {
  return t.empty() || t == "~" || t == "null" || t == "Null" || t == "NULL" || t == "None";
}

size_t count_nodes(const Node& n) {
  size_t count = 1;
  for (const Node& i : n.items()) count += count_nodes(i);
  for (const Entry& e : n.entries()) count += 1 + count_nodes(e.value);
  return count;
}

// Builds nodes out of yaml-cpp's events rather than of its own tree, which loses aliases' places.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string name, std::vector<std::string>* warnings)
      : name_(std::move(name)), warnings_(warnings) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(placed(Node(), mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) fail(mark, "an alias inside the value that it names");
    nodes_ += count_nodes(it->second);
    check_size();
    Node copy = it->second;
    // Errors in an aliased value belong where it was written; only the outer node moves.
    add(placed(std::move(copy), mark), 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    Node n = !quoted && is_null_text(value) ? Node() : Node::scalar(value, quoted);
    if (n.is_null() && wants_key()) n = Node::scalar(value);  // a key may be called None
    add(placed(std::move(n), mark), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(placed(Node::list(), mark), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(placed(Node::map(), mark), anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Node node;
    YAML::anchor_t anchor;
    std::optional<Node> key;  // of a map: read, its value not yet
    std::vector<Node> merged;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw ConfigError(name_, mark.line + 1, mark.column + 1, message);
  }
  Node placed(Node n, const YAML::Mark& mark) const {
    n.set_place(name_, mark.line + 1, mark.column + 1);
    return n;
  }
  void check_size() const {
    if (nodes_ > kMaxYamlNodes)
      throw FormatError(cat(name_, ": more than ", kMaxYamlNodes, " values once aliases are in"));
  }
  bool wants_key() const {
    return !stack_.empty() && stack_.back().node.is_map() && !stack_.back().key;
  }
  void open(Node n, YAML::anchor_t anchor) {
    if (stack_.size() >= kMaxYamlDepth)
      throw FormatError(cat(name_, ": nested too deeply for a settings file"));
    if (wants_key()) n.fail("a key must be a single value");
    stack_.push_back({std::move(n), anchor, std::nullopt, {}});
  }
  void close() {
    Level level = std::move(stack_.back());
    stack_.pop_back();
    for (const Node& m : level.merged)
      for (const Entry& e : m.entries())
        if (!level.node.find(e.key.text())) level.node.entries().push_back(e);
    add(std::move(level.node), level.anchor);
  }
  void add(Node n, YAML::anchor_t anchor) {
    ++nodes_;
    check_size();
    if (anchor) anchors_[anchor] = n;
    if (stack_.empty()) {
      root_ = std::move(n);
      return;
    }
    Level& top = stack_.back();
    if (top.node.is_list()) {
      top.node.items().push_back(std::move(n));
    } else if (!top.key) {
      if (!n.is_scalar()) n.fail("a key must be a single value");
      top.key = std::move(n);
    } else {
      add_entry(top, std::move(n));
    }
  }
  void add_entry(Level& top, Node value) {
    Node key = std::move(*top.key);
    top.key.reset();
    if (key.text() == "<<" && !key.quoted()) {
      for (const Node& m : value.is_list() ? value.items() : std::vector<Node>{value}) {
        if (!m.is_map()) key.fail("'<<' merges maps");
        top.merged.push_back(m);
      }
      return;
    }
    for (Entry& e : top.node.entries()) {
      if (e.key.text() != key.text()) continue;
      if (warnings_)
        warnings_->push_back(cat(key.where(), ": '", key.text(),
                                 "' stands twice; this one counts, ", "that of line ", e.key.line(),
                                 " is ignored"));
      e = {std::move(key), std::move(value)};
      return;
    }
    top.node.entries().push_back({std::move(key), std::move(value)});
  }

  std::string name_;
  std::vector<std::string>* warnings_;
  std::vector<Level> stack_;
  std::map<YAML::anchor_t, Node> anchors_;
  Node root_;
  size_t nodes_ = 0;
};

// The line that an error is in, for its message: " in `key: *alias`".
std::string quoted_line(std::string_view text, int line) {
  for (; line > 0 && text.find('\n') != text.npos; --line) text.remove_prefix(text.find('\n') + 1);
  text = text.substr(0, text.find_first_of("\r\n"));
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  if (text.empty() || text.size() > 80) return "";
  return cat(" in `", text, "`");
}

void emit(YAML::Emitter& out, const Node& n) {
  switch (n.kind()) {
    case Node::Kind::kNull:
      out << YAML::Null;
      break;
    case Node::Kind::kScalar:
      if (n.quoted() || is_null_text(n.text())) out << YAML::DoubleQuoted;
      out << n.text();
      break;
    case Node::Kind::kList: {
      bool flat = true;
      for (const Node& i : n.items()) flat = flat && i.is_scalar();
      if (flat) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const Node& i : n.items()) emit(out, i);
      out << YAML::EndSeq;
      break;
    }
    case Node::Kind::kMap:
      out << YAML::BeginMap;
      for (const Entry& e : n.entries()) {
        out << YAML::Key << e.key.text() << YAML::Value;
        emit(out, e.value);
      }
      out << YAML::EndMap;
      break;
  }
}

// The value that a step of an override's path leads to; null when there is none.
Node* step_into(Node& at, const std::string& step) {
  if (at.is_map()) return at.find(step);
  if (!at.is_list()) return nullptr;
  if (const std::optional<int64_t> i = Node::scalar(step).as_int())
    return *i >= 0 && *i < static_cast<int64_t>(at.items().size())
               ? &at.items()[static_cast<size_t>(*i)]
               : nullptr;
  for (Node& item : at.items())
    if (Node* found = item.find(step)) return found;
  return nullptr;
}

std::vector<std::string> steps_of(const Node& at) {
  std::vector<std::string> names;
  for (const Entry& e : at.entries()) names.push_back(e.key.text());
  for (const Node& i : at.items())
    for (const Entry& e : i.entries()) names.push_back(e.key.text());
  return names;
}

}  // namespace

Node parse_yaml(std::string_view text, const std::string& name,
                std::vector<std::string>* warnings) {
  if (text.size() > kMaxYamlBytes)
    throw FormatError(cat(name, ": larger than a settings file may be (4 MB)"));
  check_nesting(text, name);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    Builder builder(name, warnings);
    if (!parser.HandleNextDocument(builder)) return Node();
    return builder.take();
  } catch (const YAML::Exception& e) {
    throw ConfigError(name, e.mark.line + 1, e.mark.column + 1,
                      cat("not valid YAML: ", e.msg, quoted_line(text, e.mark.line)));
  }
}

Node load_yaml(const std::string& path, std::vector<std::string>* warnings) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FormatError(cat(path, ": cannot be read: ", std::strerror(errno)));
  std::string text(kMaxYamlBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return parse_yaml(text, path, warnings);
}

std::string to_yaml(const Node& node) {
  YAML::Emitter out;
  emit(out, node);
  return std::string(out.c_str()) + "\n";
}

void apply_override(Node& root, const std::string& assignment) {
  const std::string name = "-o " + assignment;
  const size_t equals = assignment.find('=');
  if (equals == 0 || equals == assignment.npos)
    throw ConfigError("", 0, 0, cat(name, ": write it as Section.key=value"));
  Node value = parse_yaml(assignment.substr(equals + 1), name);
  value.set_place(name, 0, 0);

  Node* at = &root;
  std::string path = assignment.substr(0, equals), done;
  for (size_t from = 0;;) {
    const size_t dot = std::min(path.find('.', from), path.size());
    const std::string step = path.substr(from, dot - from);
    const bool last = dot == path.size();
    Node* next = step_into(*at, step);
    // Only the last step may name a new key, and only below a section that the file has.
    if (!next && last && !done.empty() && (at->is_map() || at->is_null()) && !step.empty()) {
      at->set(step, Node());
      Node key = Node::scalar(step);
      key.set_place(name, 0, 0);
      at->entries().back().key = std::move(key);
      next = &at->entries().back().value;
    }
    if (!next)
      throw ConfigError("", 0, 0,
                        cat(name, ": there is no '", step, "' in ",
                            done.empty() ? std::string("the configuration") : "'" + done + "'",
                            did_you_mean(step, steps_of(*at))));
    if (last) {
      *next = std::move(value);
      return;
    }
    at = next;
    done += (done.empty() ? "" : ".") + step;
    from = dot + 1;
  }
}

}  // namespace train::config
