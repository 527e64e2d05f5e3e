#include "apps/ocr/arguments.h"

#include <algorithm>

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

bool looks_like_flag(const std::string& s) {
  if (s.size() < 2 || s[0] != '-') return false;
  return s[1] == '-' || std::isalpha(static_cast<unsigned char>(s[1]));
}

[[noreturn]] void unknown(const std::string& spelt, const std::string& name,
                          const std::vector<Flag>& known) {
  std::vector<std::string> names;
  for (const Flag& f : known)
    if (f.name.size() > 1) names.push_back(f.name);
  const std::string near = ocr::nearest_name(name, names);
  throw train::ConfigError(
      "", 0, 0,
      cat("unknown flag ", spelt, near.empty() ? "" : cat("; did you mean --", near, "?")));
}

}  // namespace

Arguments parse_arguments(const std::vector<std::string>& args, const std::vector<Flag>& known) {
  Arguments out;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      out.positional.insert(out.positional.end(), args.begin() + static_cast<long>(i) + 1,
                            args.end());
      break;
    }
    if (!looks_like_flag(arg)) {
      out.positional.push_back(arg);
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string spelt = arg.substr(0, equals);
    const std::string name = ocr::canonical_name(spelt.substr(spelt.find_first_not_of('-')));
    const Flag* flag = find(known, name);
    bool negated = false;
    if (!flag && name.starts_with("no_")) {
      flag = find(known, name.substr(3));
      negated = flag && flag->boolean;
    }
    if (!flag || (name != flag->name && !negated)) unknown(spelt, name, known);
    Argument a{flag->name, spelt, ""};
    const bool has_next = i + 1 < args.size();
    if (equals != arg.npos)
      a.value = arg.substr(equals + 1);
    else if (flag->boolean) {
      // `--use_dilation True` and `--use_dilation` both stand in the wild.
      const bool takes =
          !negated && has_next && (ocr::parse_bool(args[i + 1]) >= 0 || args[i + 1] == "auto");
      a.value = takes ? args[++i] : "true";
    } else if (has_next && !(looks_like_flag(args[i + 1]) && args[i + 1].size() > 1)) {
      a.value = args[++i];
    } else {
      throw train::ConfigError("", 0, 0, cat(spelt, " needs a value"));
    }
    if (negated) a.value = ocr::parse_bool(a.value) == 0 ? "true" : "false";
    out.flags.push_back(std::move(a));
  }
  return out;
}

}  // namespace app
