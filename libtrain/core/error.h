// The exceptions every library of the project throws; only `main` turns them into a line for a
// person.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace train {

/// Base of all errors. what() is one sentence that names the thing at fault and, where known, the
/// remedy.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes, dtypes or attributes that do not fit together.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A file that is not what its format says, or that exceeds the limits for hostile input.
class FormatError : public Error {
 public:
  using Error::Error;
};

/// A device that is missing, full or broken (disk, memory, GPU).
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A wrong sample or label; `line` is 0 where the file has no lines.
class DataError : public Error {
 public:
  DataError(std::string path, long line, const std::string& message)
      : Error(path + (line > 0 ? ':' + std::to_string(line) : "") + ": " + message),
        path(std::move(path)),
        line(line) {}
  std::string path;
  long line;
};

/// A wrong setting; `line` and `column` count from 1, 0 where the setting came from the command
/// line.
class ConfigError : public Error {
 public:
  ConfigError(std::string file, int line, int column, const std::string& message)
      : Error((file.empty() ? "" : file + ":") +
              (line > 0 ? std::to_string(line) + ":" + std::to_string(column) + ":" : "") +
              (file.empty() && line <= 0 ? "" : " ") + message),
        file(std::move(file)),
        line(line),
        column(column) {}
  std::string file;
  int line, column;
};

/// Joins its arguments with operator<<: `throw ShapeError(cat("expected rank 4, got ", rank))`.
template <class... A>
std::string cat(const A&... a) {
  std::ostringstream s;
  (s << ... << a);
  return s.str();
}

}  // namespace train
