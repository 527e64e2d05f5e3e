#include "libocr/image/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  int64_t read_at(int64_t offset, void* to, int64_t size) noexcept override {
    const int64_t total = this->size();
    if (offset < 0 || offset >= total || size <= 0) return 0;
    size = std::min(size, total - offset);
    std::memcpy(to, bytes_.data() + offset, static_cast<size_t>(size));
    return size;
  }
  int64_t size() const noexcept override { return static_cast<int64_t>(bytes_.size()); }
  const uint8_t* memory() const noexcept override { return bytes_.data(); }

 private:
  std::vector<uint8_t> bytes_;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class FileSource : public ByteSource {
 public:
  FileSource(Descriptor fd, int64_t size) : fd_(std::move(fd)), size_(size) {}
  int64_t read_at(int64_t offset, void* to, int64_t size) noexcept override {
    int64_t done = 0;
    while (offset >= 0 && done < size) {
      const ssize_t n = ::pread(fd_.get(), static_cast<char*>(to) + done,
                                static_cast<size_t>(size - done), offset + done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return -1;
      if (n == 0) break;
      done += n;
    }
    return done;
  }
  int64_t size() const noexcept override { return size_; }

 private:
  Descriptor fd_;
  int64_t size_;
};

std::vector<uint8_t> read_stream(int fd, const std::string& name, int64_t max_bytes) {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> chunk(1 << 16);
  for (;;) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw train::DataError(name, 0, train::cat("cannot be read: ", std::strerror(errno)));
    if (n == 0) return bytes;
    if (static_cast<int64_t>(bytes.size()) + n > max_bytes)
      throw train::FormatError(
          train::cat(name, ": is larger than the limit of ", max_bytes, " bytes"));
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + n);
  }
}

}  // namespace

std::shared_ptr<ByteSource> open_file(const std::string& path, int64_t max_bytes) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0)
    throw train::DataError(path, 0, train::cat("cannot be opened: ", std::strerror(errno)));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0)
    throw train::DataError(path, 0, train::cat("cannot be read: ", std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) throw train::DataError(path, 0, "is a folder, not an image file");
  if (S_ISREG(info.st_mode)) return std::make_shared<FileSource>(std::move(fd), info.st_size);
  return open_bytes(read_stream(fd.get(), path, max_bytes));
}

std::shared_ptr<ByteSource> open_bytes(std::vector<uint8_t> bytes) {
  return std::make_shared<MemorySource>(std::move(bytes));
}

std::vector<uint8_t> read_stdin(int64_t max_bytes) {
  return read_stream(0, "standard input", max_bytes);
}

std::vector<uint8_t> read_all(ByteSource& source, const std::string& name, int64_t max_bytes) {
  if (source.size() > max_bytes)
    throw train::FormatError(
        train::cat(name, ": is ", source.size(), " bytes long, over the limit of ", max_bytes));
  std::vector<uint8_t> bytes(static_cast<size_t>(source.size()));
  const int64_t got = source.read_at(0, bytes.data(), source.size());
  if (got < 0)
    throw train::DataError(name, 0, train::cat("cannot be read: ", std::strerror(errno)));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

void ByteReader::fill() {
  constexpr int64_t kBuffer = 1 << 16;
  buffer_.resize(kBuffer);
  const int64_t got = source_.read_at(offset_, buffer_.data(), kBuffer);
  const int error = errno;
  buffer_.resize(static_cast<size_t>(std::max<int64_t>(got, 0)));
  position_ = 0;
  if (got < 0)
    throw train::DataError(name_, 0, train::cat("cannot be read: ", std::strerror(error)));
  if (got == 0)
    throw train::FormatError(name_ + ": is truncated: the file ends inside the image data");
  offset_ += got;
}

void ByteReader::read(void* to, int64_t size) {
  auto* out = static_cast<uint8_t*>(to);
  while (size > 0) {
    if (position_ == buffer_.size()) fill();
    const int64_t n = std::min<int64_t>(size, static_cast<int64_t>(buffer_.size() - position_));
    std::memcpy(out, buffer_.data() + position_, static_cast<size_t>(n));
    out += n;
    size -= n;
    position_ += static_cast<size_t>(n);
  }
}

int ByteReader::peek() {
  if (position_ == buffer_.size()) {
    uint8_t next;
    if (source_.read_at(offset_, &next, 1) != 1) return -1;
    fill();
  }
  return buffer_[position_];
}

uint16_t ByteReader::u16le() {
  uint8_t b[2];
  read(b, 2);
  return static_cast<uint16_t>(b[0] | b[1] << 8);
}

uint32_t ByteReader::u32le() {
  uint8_t b[4];
  read(b, 4);
  return b[0] | b[1] << 8 | b[2] << 16 | static_cast<uint32_t>(b[3]) << 24;
}

void ByteReader::seek(int64_t offset) {
  offset_ = offset;
  position_ = 0;
  buffer_.clear();
}

}  // namespace ocr
