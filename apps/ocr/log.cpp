#include "apps/ocr/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cctype>
#include <ctime>

#include "apps/ocr/command.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using spdlog::level::level_enum;

// A logger's name decides how its lines begin: "ocr" names the program and the kind of message.
constexpr const char *kProgram = "ocr", *kPlain = "";

class TerminalFormat : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto append = [&](std::string_view s) { line.append(s.data(), s.data() + s.size()); };
    if (message.logger_name == spdlog::string_view_t(kProgram)) {
      append("ocr: ");
      append(kind_of(message.level));
    }
    append({message.payload.data(), message.payload.size()});
    append("\n");
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<TerminalFormat>(); }

 private:
  static std::string_view kind_of(level_enum level) {
    switch (level) {
      case spdlog::level::err:
        return "error: ";
      case spdlog::level::warn:
        return "warning: ";
      case spdlog::level::info:
        return "note: ";
      case spdlog::level::debug:
        return "debug: ";
      default:
        return "";
    }
  }
};

// %L of the file's pattern: the level in capitals, as PaddleOCR's logs have it.
class CapitalLevel : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    for (const char c : spdlog::level::to_string_view(message.level))
      line.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<CapitalLevel>();
  }
};

// Two loggers over the same sinks; spdlog's registry of loggers is not used.
struct Loggers {
  Loggers() {
    const auto terminal = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    terminal->set_formatter(std::make_unique<TerminalFormat>());
    for (spdlog::logger* l : {&program, &plain}) {
      l->sinks().push_back(terminal);
      l->flush_on(spdlog::level::trace);
    }
  }
  spdlog::logger program{kProgram}, plain{kPlain};
};

Loggers& loggers() {
  static Loggers all;
  return all;
}

// The text as it is: braces in it are not a format.
void write(spdlog::logger& logger, level_enum level, std::string_view text) {
  logger.log(level, spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace

void log_fatal(std::string_view text) { write(loggers().program, spdlog::level::critical, text); }
void log_error(std::string_view text) { write(loggers().program, spdlog::level::err, text); }
void log_warning(std::string_view text) { write(loggers().program, spdlog::level::warn, text); }
void log_note(std::string_view text) { write(loggers().program, spdlog::level::info, text); }
void log_debug(std::string_view text) { write(loggers().program, spdlog::level::debug, text); }
void log_info(std::string_view text) { write(loggers().plain, spdlog::level::info, text); }

void set_log_level(const std::string& level, const std::string& where) {
  const level_enum value = spdlog::level::from_str(level);
  if (value == spdlog::level::off && level != "off")
    throw train::ConfigError(
        "", 0, 0,
        train::cat(where.empty() ? "" : where + ": ",
                   "a log level is debug, info, warning, error or off, not '", level, "'"));
  for (spdlog::logger* l : {&loggers().program, &loggers().plain}) l->set_level(value);
}

void log_to_file(const std::string& path) {
  try {
    const auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    auto pattern = std::make_unique<spdlog::pattern_formatter>();
    pattern->add_flag<CapitalLevel>('L').set_pattern("[%Y/%m/%d %H:%M:%S] ocr %L: %v");
    file->set_formatter(std::move(pattern));
    for (spdlog::logger* l : {&loggers().program, &loggers().plain}) l->sinks().push_back(file);
  } catch (const spdlog::spdlog_ex& e) {
    throw train::DeviceError(train::cat(path, ": ", e.what()));
  }
}

void add_log_options(Command& command) {
  command.heading("Messages");
  command.option(
      "log_level", "LEVEL", "least of debug, info, warning, error, off",
      [](const Given& g) { set_log_level(g.text, g.spelt); }, "info");
  command.option("log_file", "FILE", "messages also into a file, with the time",
                 [](const Given& g) { log_to_file(g.text); });
}

}  // namespace app
