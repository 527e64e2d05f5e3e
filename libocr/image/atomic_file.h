// A file that appears under its name only when it is complete.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ocr {

/// Writes to a temporary file beside `path`; commit() renames it. Without commit() nothing is left
/// behind. The name of the temporary file is hidden and unique over threads and processes.
class AtomicFile {
 public:
  /// Creates the temporary file; throws train::DeviceError if that fails.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends; false once anything failed (disk full, ...), which commit() then reports. Safe to
  /// call from C callbacks.
  bool write(const void* data, size_t size) noexcept;
  /// Puts the file in place. Throws train::DeviceError naming the file and the reason if any write
  /// failed.
  void commit();

 private:
  bool flush() noexcept;

  std::string path_, temporary_;
  int fd_ = -1;
  int error_ = 0;
  std::vector<uint8_t> buffer_;
  size_t filled_ = 0;
};

/// Writes `text` atomically; errors as AtomicFile.
void write_file(const std::string& path, const std::string& text);

}  // namespace ocr
