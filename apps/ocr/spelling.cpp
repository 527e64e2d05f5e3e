#include "apps/ocr/spelling.h"

#include <algorithm>
#include <cctype>

#include "libocr/pipeline/options.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using train::cat;

const Flag* find(const std::vector<Flag>& known, const std::string& name) {
  const auto it =
      std::find_if(known.begin(), known.end(), [&](const Flag& f) { return f.name == name; });
  return it == known.end() ? nullptr : &*it;
}

bool looks_like_flag(const std::string& s) {  // not "-", and not a negative number
  if (s.size() < 2 || s[0] != '-') return false;
  return s[1] == '-' || std::isalpha(static_cast<unsigned char>(s[1]));
}

[[noreturn]] void fail(const std::string& message) { throw train::ConfigError("", 0, 0, message); }

[[noreturn]] void unknown(const std::string& spelt, const std::string& name,
                          const std::vector<Flag>& known) {
  std::vector<std::string> names;
  for (const Flag& f : known)
    if (f.name.size() > 1) names.push_back(f.name);
  const std::string near = ocr::nearest_name(name, names);
  fail(cat("unknown flag ", spelt,
           near.empty() ? "; --help lists them" : cat("; did you mean --", near, "?")));
}

// A flag as typed, found among the known ones; `negated` for --no-x of a boolean x.
const Flag& look_up(const std::string& spelt, const std::vector<Flag>& known, bool& negated) {
  const std::string name = ocr::canonical_name(spelt.substr(spelt.find_first_not_of('-')));
  const Flag* flag = find(known, name);
  negated = false;
  if (!flag && name.starts_with("no_")) {
    flag = find(known, name.substr(3));
    negated = flag && flag->takes == Takes::kBool;
    if (!negated) flag = nullptr;
  }
  if (!flag) unknown(spelt, name, known);
  return *flag;
}

// `--use_dilation True` and a bare `--use_dilation` both stand in the wild.
bool is_bool_word(const std::string& s) { return ocr::parse_bool(s) >= 0 || s == "auto"; }

}  // namespace

Canonical canonical_arguments(const std::vector<std::string>& args,
                              const std::vector<Flag>& known) {
  Canonical out;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      out.rest.assign(args.begin() + static_cast<ptrdiff_t>(i) + 1, args.end());
      break;
    }
    if (!looks_like_flag(args[i])) {
      out.args.push_back(args[i]);
      continue;
    }
    const size_t equals = args[i].find('=');
    const std::string typed = args[i].substr(0, equals);
    bool negated = false;
    const Flag& flag = look_up(typed, known, negated);
    out.spelt[flag.name] = typed;
    out.args.push_back(cat(flag.name.size() == 1 ? "-" : "--", flag.name));
    if (flag.takes == Takes::kNothing) continue;
    const bool has_next = i + 1 < args.size();
    std::string value;
    if (equals != std::string::npos)
      value = args[i].substr(equals + 1);
    else if (flag.takes == Takes::kBool)
      value = !negated && has_next && is_bool_word(args[i + 1]) ? args[++i] : "true";
    else if (has_next && !looks_like_flag(args[i + 1]))
      value = args[++i];
    else
      fail(typed + " needs a value");
    if (negated) value = ocr::parse_bool(value) == 0 ? "true" : "false";
    out.args.push_back(std::move(value));
  }
  return out;
}

}  // namespace app
