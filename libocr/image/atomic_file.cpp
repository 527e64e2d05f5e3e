#include "libocr/image/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

[[noreturn]] void fail(const std::string& path, int error) {
  throw train::DeviceError(
      train::cat(path, ": cannot be written: ", std::strerror(error),
                 error == ENOSPC ? " (free some space or choose another folder)" : ""));
}

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "" : path.substr(0, slash + 1);
  // Not made from the name itself, which may already be as long as the file system allows.
  return train::cat(folder, ".ocr-", ::getpid(), "-", counter++, ".tmp");
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), temporary_(temporary_name(path)), buffer_(kBufferBytes) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_, errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

bool AtomicFile::flush() noexcept {
  size_t done = 0;
  while (error_ == 0 && done < filled_) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, filled_ - done);
    if (n > 0)
      done += static_cast<size_t>(n);
    else if (n == 0 || errno != EINTR)
      error_ = n == 0 ? ENOSPC : errno;
  }
  filled_ = 0;
  return error_ == 0;
}

bool AtomicFile::write(const void* data, size_t size) noexcept {
  const auto* from = static_cast<const uint8_t*>(data);
  while (size > 0 && error_ == 0) {
    const size_t n = std::min(size, buffer_.size() - filled_);
    std::memcpy(buffer_.data() + filled_, from, n);
    filled_ += n, from += n, size -= n;
    if (filled_ == buffer_.size()) flush();
  }
  return error_ == 0;
}

void AtomicFile::commit() {
  flush();
  if (::close(fd_) != 0 && error_ == 0) error_ = errno;
  fd_ = -1;
  if (error_ == 0 && ::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ != 0) fail(path_, error_);
  temporary_.clear();
}

void write_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace ocr
