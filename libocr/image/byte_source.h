// Random access to the bytes of an input, from a file or from memory, without mapping it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ocr {

/// Read-only bytes of known size. Files are read with pread, so that a file that shrinks meanwhile
/// is a short read and not a signal, and pages already consumed do not stay in this process.
/// Thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Copies up to `size` bytes from `offset`; fewer at the end, -1 with errno set when reading
  /// fails.
  virtual int64_t read_at(int64_t offset, void* to, int64_t size) noexcept = 0;
  virtual int64_t size() const noexcept = 0;
  /// The bytes themselves where they are already in memory, else null.
  virtual const uint8_t* memory() const noexcept { return nullptr; }
};

/// Opens a regular file; anything else (pipe, device) is read to its end, up to `max_bytes`.
/// Throws train::DataError if it cannot be opened or read, or is a folder.
std::shared_ptr<ByteSource> open_file(const std::string& path, int64_t max_bytes);
std::shared_ptr<ByteSource> open_bytes(std::vector<uint8_t> bytes);

/// Reads standard input to its end. Throws train::DataError on failure, train::FormatError past
/// `max_bytes`.
std::vector<uint8_t> read_stdin(int64_t max_bytes);

/// All bytes of a source. Throws train::FormatError past `max_bytes`, train::DataError on failure.
std::vector<uint8_t> read_all(ByteSource& source, const std::string& name, int64_t max_bytes);

/// Sequential reading with a small buffer, for the formats parsed here.
class ByteReader {
 public:
  ByteReader(ByteSource& source, const std::string& name, int64_t offset = 0)
      : source_(source), name_(name), offset_(offset) {}

  /// Fills `to`; throws train::FormatError saying "truncated" if the source ends before.
  void read(void* to, int64_t size);
  uint8_t byte() {
    if (position_ == buffer_.size()) fill();
    return buffer_[position_++];
  }
  /// The next byte without consuming it, or -1 at the end.
  int peek();
  uint16_t u16le();
  uint32_t u32le();
  void seek(int64_t offset);

 private:
  void fill();

  ByteSource& source_;
  const std::string& name_;
  int64_t offset_;  // of the byte after the buffer
  size_t position_ = 0;
  std::vector<uint8_t> buffer_;
};

}  // namespace ocr
