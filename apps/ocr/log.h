// The program's messages: one line each on standard error, and in a file where one was asked for.
#pragma once
#include <string>
#include <string_view>

namespace app {

class Command;

/// On standard error "ocr: TEXT" and the end of the program; the others go on.
void log_fatal(std::string_view text);
/// "ocr: error: TEXT", "ocr: warning: TEXT", "ocr: note: TEXT", "ocr: debug: TEXT".
void log_error(std::string_view text);
void log_warning(std::string_view text);
void log_note(std::string_view text);
void log_debug(std::string_view text);
/// The text alone: what a job reports of its progress.
void log_info(std::string_view text);

/// Messages below this are left out: debug, info, warning, error, off. Throws train::ConfigError
/// on another word. Notes count as info. The default is info.
void set_log_level(const std::string& level, const std::string& where = "");

/// Appends all messages to a file from now on, with time and level, as PaddleOCR's train.log has
/// them: "[2026/01/31 12:00:00] ocr INFO: TEXT". Folders on the way are made. Throws
/// train::DeviceError when it cannot be written.
void log_to_file(const std::string& path);

/// --log_level and --log_file.
void add_log_options(Command& command);

}  // namespace app
