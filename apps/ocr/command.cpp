#include "apps/ocr/command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "apps/ocr/commands.h"
#include "libocr/pipeline/options.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using train::cat;

[[noreturn]] void fail(const std::string& message) { throw train::ConfigError("", 0, 0, message); }

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= names.size();) {
    const size_t comma = std::min(names.find(',', at), names.size());
    out.push_back(names.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

std::string dashed(const std::string& name) { return cat(name.size() == 1 ? "-" : "--", name); }

}  // namespace

bool Given::truth() const {
  const int b = ocr::parse_bool(text);
  if (b < 0) fail(cat(spelt, " is true or false, not '", text, "'"));
  return b == 1;
}

int Given::whole(int least, int most) const {
  int n = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, n);
  if (error != std::errc() || stop != end || n < least || n > most)
    fail(cat(spelt, " is a whole number from ", least, " to ", most, ", not '", text, "'"));
  return n;
}

double Given::number(double least, double most) const {
  double x = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, x);
  if (error != std::errc() || stop != end || !(x >= least && x <= most))
    fail(cat(spelt, " is a number from ", least, " to ", most, ", not '", text, "'"));
  return x;
}

// Help that teaches by example: what it is for, the usage, examples, the options by heading.
struct Command::Help : CLI::Formatter {
  std::string examples, arguments;

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    const bool program = app->get_parent() == nullptr;
    std::string text = cat(app->get_description(), "\n\nUsage: ", name, program ? " COMMAND" : "",
                           " [options]", arguments, "\n");
    if (!examples.empty()) text += cat("\n", examples);
    if (program) text += make_subcommands(app, CLI::AppFormatMode::Normal);
    for (const std::string& group : app->get_groups()) {
      const auto in_group = [&](const CLI::Option* o) {
        return o->get_group() == group && o->nonpositional();
      };
      const auto options = app->get_options(in_group);
      if (!group.empty() && !options.empty()) text += make_group(group, false, options);
    }
    const std::string closing = app->get_footer();
    return closing.empty() ? text : cat(text, "\n", closing);
  }
  std::string make_option_name(const CLI::Option* o, bool) const override {
    const auto& letters = o->get_snames();
    if (o->get_lnames().empty()) return cat("-", letters[0]);
    const std::string letter = letters.empty() ? "" : cat("-", letters[0], ", ");
    return cat(letter, "--", o->get_lnames()[0]);
  }
  std::string make_option_opts(const CLI::Option* o) const override {
    return o->get_type_name().empty() ? "" : cat(" ", o->get_type_name());
  }
  std::string make_option_desc(const CLI::Option* o) const override {
    const std::string shown = o->get_default_str();
    return shown.empty() ? o->get_description() : cat(o->get_description(), "  [", shown, "]");
  }
};

Command::Command(CLI::App& cli) : cli_(cli), help_(std::make_shared<Help>()) {
  help_->column_width(30);
  cli_.formatter(help_);
  cli_.set_help_flag();  // set anew at the end of the options
}

void Command::describe(const std::string& text) { cli_.description(text); }
void Command::examples(const std::string& text) { help_->examples = text; }
void Command::closing(const std::string& text) { cli_.footer(text); }

CLI::Option& Command::add(const std::string& names, Takes takes, Take take) {
  const std::vector<std::string> all = split(names);
  std::string declared;
  for (const std::string& n : all) {
    declared += (declared.empty() ? "" : ",") + dashed(n);
    known_.push_back({n, takes});
  }
  const std::string name = all[0];
  const auto hand_over = [this, all, take = std::move(take)](const CLI::results_t& values) {
    std::string spelt = dashed(all[0]);
    for (const std::string& n : all)
      if (const auto it = line_.spelt.find(n); it != line_.spelt.end()) spelt = it->second;
    for (const std::string& v : values) take({all[0], spelt, v});
    return true;
  };
  CLI::Option* option = cli_.add_option(declared, hand_over);
  return *option->trigger_on_parse()->group(heading_);
}

void Command::option(const std::string& names, const std::string& value, const std::string& help,
                     Take take, const std::string& shown) {
  CLI::Option& o = add(names, value == "BOOL" ? Takes::kBool : Takes::kValue, std::move(take));
  o.description(help)->type_name(value)->default_str(shown);
}

void Command::flag(const std::string& names, const std::string& help, Take take) {
  add(names, Takes::kBool, std::move(take)).description(help)->type_name("");
}

void Command::values(const std::string& names, const std::string& value, const std::string& help,
                     Take take) {
  CLI::Option& o = add(names, Takes::kValues, std::move(take));
  o.description(help)->type_name(value)->expected(1, -1)->allow_extra_args();
}

void Command::hidden(const std::string& name, bool boolean, Take take) {
  add(name, boolean ? Takes::kBool : Takes::kValue, std::move(take)).group("");
}

void Command::arguments(const std::string& value, size_t most, Take take) {
  help_->arguments += cat(" ", value, most == 1 ? "" : "...");
  // As CLI11's extras: its own positional arguments would take a folder called "[a,b]" for a list.
  cli_.allow_extras();
  most_arguments_ = most ? most : std::string::npos;
  take_argument_ = [value, take = std::move(take)](const std::string& text) {
    take({value, value, text});
  };
}

std::vector<std::string> Command::canonical(const std::vector<std::string>& args) {
  cli_.set_help_flag("-h,--help", "this text")->group(heading_);
  std::vector<Flag> known = known_;
  known.push_back({"help", Takes::kNothing});
  known.push_back({"h", Takes::kNothing});
  line_ = canonical_arguments(args, known);
  return line_.args;
}

int Command::execute() const {
  std::vector<std::string> given = cli_.remaining();
  given.insert(given.end(), line_.rest.begin(), line_.rest.end());
  for (size_t i = 0; i < given.size(); ++i) {
    if (i == most_arguments_)
      fail(cat("'", given[i], "' is one argument too many; --help has the usage"));
    take_argument_(given[i]);
  }
  return work_();
}

namespace {

[[noreturn]] void no_such_command(const Program& program, const std::string& word) {
  std::vector<std::string> names{"help", "version"};
  for (const Subcommand& c : program.commands) names.emplace_back(c.name);
  const std::string near = ocr::nearest_name(word, names);
  if (near.empty() && std::filesystem::exists(word))
    fail(cat("there is no command '", word, "'; to read that file: ocr infer ", word));
  if (word.starts_with("-")) fail(cat("unknown flag ", word, "; `ocr --help` lists the commands"));
  fail(cat("there is no command '", word, "'",
           near.empty() ? "; `ocr --help` lists them" : cat("; did you mean `ocr ", near, "`?")));
}

// `ocr help`, `ocr help infer` and `ocr version` as the flags that they stand for.
void expand_words(std::vector<std::string>& args) {
  if (args[0] == "version") args[0] = "--version";
  if (args[0] != "help") return;
  args.erase(args.begin());
  if (!args.empty() && (args[0] == "help" || args[0].starts_with("-"))) args.clear();
  args.resize(std::min<size_t>(args.size(), 1));
  args.emplace_back("--help");
}

int parse(CLI::App& cli, const std::vector<std::string>& args, const std::string& version) {
  try {
    cli.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // last first, says CLI11
    return -1;
  } catch (const CLI::CallForHelp&) {
    const auto parsed = cli.get_subcommands();
    const std::string text = parsed.empty() ? cli.help() : parsed[0]->help("ocr");
    std::fputs(text.c_str(), stdout);
  } catch (const CLI::CallForVersion&) {
    std::printf("%s\n", version.c_str());
  } catch (const CLI::ParseError& e) {
    fail(e.what());
  }
  return kExitOk;
}

}  // namespace

int run_program(const Program& program, std::vector<std::string> args) {
  CLI::App cli(program.description, "ocr");
  Command root(cli);
  root.examples(program.examples);
  root.closing(program.closing);
  cli.set_help_flag("-h,--help", "this text; `ocr infer --help` lists every option");
  cli.set_version_flag("-V,--version", program.version,
                       "the version, the instruction set in use, the build");
  cli.require_subcommand(1);
  for (const Subcommand& c : program.commands)
    cli.add_subcommand(c.name, c.summary)->group("Commands");
  if (args.empty()) {
    std::fputs(cli.help().c_str(), stderr);
    return kExitUsage;
  }
  expand_words(args);
  // Only the options of the command at hand are made.
  std::unique_ptr<Command> command;
  const std::string word = args[0];
  for (const Subcommand& c : program.commands) {
    if (word != c.name) continue;
    command = std::make_unique<Command>(*cli.get_subcommand(c.name));
    c.declare(*command);
    args = command->canonical({args.begin() + 1, args.end()});
    args.insert(args.begin(), word);
  }
  const bool about = word == "--help" || word == "-h" || word == "--version" || word == "-V";
  if (!command && !about) no_such_command(program, word);
  const int done = parse(cli, args, program.version);
  return done >= 0 ? done : command->execute();
}

}  // namespace app
