#include "libtrain/train/archive.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "libtrain/core/error.h"
#include "libtrain/core/sha256.h"

namespace train {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "ocr-checkpoint-1";
constexpr size_t kMaxHeader = size_t{100} << 20;
const std::string kNoDigest(64, '0');

struct TypeName {
  DType dtype;
  const char* name;
};
constexpr TypeName kTypes[] = {{DType::kF64, "F64"}, {DType::kI64, "I64"}, {DType::kF32, "F32"},
                               {DType::kI32, "I32"}, {DType::kF16, "F16"}, {DType::kBF16, "BF16"},
                               {DType::kI8, "I8"},   {DType::kU8, "U8"},   {DType::kBool, "BOOL"}};

const char* type_name(DType dtype) {
  for (const TypeName& t : kTypes)
    if (t.dtype == dtype) return t.name;
  return "?";
}

[[noreturn]] void io_error(const std::string& path, const char* what) {
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  throw DeviceError(cat(path, ": cannot ", what, ": ", std::strerror(errno),
                        full ? " (free some space or choose another folder)" : ""));
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// A file descriptor that closes itself.
struct File {
  int fd;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

template <class T>
std::string number_text(T v) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);  // exact for doubles
  return {buffer, end.ptr};
}

template <class T>
bool parse_number(const std::string& text, T& v) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view bytes) {
  const std::string temporary = path + ".tmp";
  const auto give_up = [&](const char* what) {
    const int error = errno;
    ::unlink(temporary.c_str());
    errno = error;
    io_error(path, what);
  };
  {
    const File file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.fd < 0) io_error(temporary, "open it");
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::write(file.fd, bytes.data() + at, bytes.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) give_up("write it");
      at += static_cast<size_t>(n);
    }
    if (::fsync(file.fd) != 0) give_up("sync it");  // some file systems tell only now
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up("rename it");
  const File folder{::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd >= 0) ::fsync(folder.fd);
}

void ArchiveWriter::add_value(std::string_view name, std::string text) {
  if (!values_.emplace(full(name), std::move(text)).second)
    throw Error("a checkpoint would hold the value " + full(name) + " twice");
}

void ArchiveWriter::value(std::string_view name, int64_t& v) { add_value(name, number_text(v)); }
void ArchiveWriter::value(std::string_view name, double& v) { add_value(name, number_text(v)); }
void ArchiveWriter::value(std::string_view name, std::string& v) { add_value(name, v); }

void ArchiveWriter::tensor(std::string_view name, Tensor& t) {
  if (!tensors_.emplace(full(name), t).second)
    throw Error("a checkpoint would hold the tensor " + full(name) + " twice");
}

void ArchiveWriter::maybe_tensor(std::string_view name, Tensor& t) {
  if (t.defined()) tensor(name, t);
}

std::string ArchiveWriter::header(std::string_view sha256) const {
  Json json;
  Json& meta = json["__metadata__"];
  meta = values_;
  meta["format"] = kFormat;
  meta["sha256"] = sha256;
  size_t offset = 0;
  for (const auto& [name, t] : tensors_) {
    json[name] = {{"dtype", type_name(t.dtype())},
                  {"shape", std::vector<int64_t>(t.shape().begin(), t.shape().end())},
                  {"data_offsets", {offset, offset + t.bytes()}}};
    offset += t.bytes();
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const Json::exception&) {
    throw Error("a checkpoint's names and values must be UTF-8");
  }
  while ((8 + text.size()) % 64) text += ' ';
  return text;
}

std::string ArchiveWriter::bytes() const {
  const auto assemble = [&](std::string_view digest) {
    const std::string text = header(digest);
    std::string all;
    for (int i = 0; i < 8; ++i) all += static_cast<char>(text.size() >> 8 * i);
    return all + text;
  };
  std::string all = assemble(kNoDigest);
  for (const auto& [name, t] : tensors_) all.append(static_cast<const char*>(t.raw()), t.bytes());
  const std::string head = assemble(sha256_hex(all));  // as long: the digest is the only change
  all.replace(0, head.size(), head);
  return all;
}

void ArchiveWriter::write(const std::string& path) const { write_file_atomically(path, bytes()); }

void ArchiveReader::fail(const std::string& message) const {
  throw FormatError(path_ + ": " + message);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) io_error(path, "open it");
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  if (in.bad()) io_error(path, "read it");
  return bytes;
}

ArchiveReader ArchiveReader::open(const std::string& path) {
  return from_bytes(read_file(path), path);
}

ArchiveReader ArchiveReader::from_bytes(std::string bytes, const std::string& name) {
  ArchiveReader r;
  r.path_ = name;
  r.bytes_ = std::move(bytes);
  if (r.bytes_.size() < 8) r.fail("no checkpoint: shorter than 8 bytes");
  uint64_t size = 0;
  for (int i = 0; i < 8; ++i)
    size |= uint64_t{static_cast<unsigned char>(r.bytes_[static_cast<size_t>(i)])} << 8 * i;
  if (size > kMaxHeader || size > r.bytes_.size() - 8)
    r.fail("no checkpoint, or cut off within its header");
  r.data_ = 8 + static_cast<size_t>(size);
  Json json = Json::parse(r.bytes_.begin() + 8, r.bytes_.begin() + static_cast<long>(r.data_),
                          nullptr, false);
  if (!json.is_object()) r.fail("no checkpoint: its header is not JSON");
  for (const auto& [key, value] : json.items()) {
    if (key != "__metadata__") {
      r.parse_entry(key, &value, r.bytes_.size() - r.data_);
      continue;
    }
    if (!value.is_object()) r.fail("__metadata__ is not a map");
    for (const auto& [k, v] : value.items()) {
      if (!v.is_string()) r.fail("the value " + k + " is not text");
      r.values_[k] = v.get<std::string>();
    }
  }
  const auto format = r.values_.find("format");
  r.ours_ = format != r.values_.end() && format->second == kFormat;
  if (r.ours_) {
    const std::string digest = r.values_["sha256"];
    const size_t at = r.bytes_.find("\"sha256\":\"" + digest + '"');
    if (digest.size() != 64 || at >= r.data_) r.fail("no sha256 in its header");
    r.bytes_.replace(at + 10, 64, kNoDigest);
    if (sha256_hex(r.bytes_) != digest)
      r.fail("damaged: its content does not match its sha256; use an older checkpoint");
  }
  r.values_.erase("format");
  r.values_.erase("sha256");
  return r;
}

void ArchiveReader::parse_entry(const std::string& name, const void* json, size_t data_bytes) {
  const Json& entry = *static_cast<const Json*>(json);
  Entry e{DType::kF32, {}, 0};
  try {
    const auto type = entry.at("dtype").get<std::string>();
    const auto dims = entry.at("shape").get<std::vector<int64_t>>();
    const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
    bool known = false;
    for (const TypeName& t : kTypes)
      if (type == t.name) e.dtype = t.dtype, known = true;
    if (!known) fail("tensor " + name + " has the unknown dtype " + type);
    e.shape = Shape(dims);
    const size_t bytes = static_cast<size_t>(e.shape.numel()) * size_of(e.dtype);
    if (offsets.size() != 2 || offsets[1] > data_bytes || offsets[0] > offsets[1] ||
        offsets[1] - offsets[0] != bytes)
      fail("tensor " + name + " lies outside the file: cut off or damaged");
    e.offset = offsets[0];
  } catch (const Json::exception&) {
    fail("tensor " + name + " is described wrongly");
  } catch (const ShapeError& error) {
    fail("tensor " + name + ": " + error.what());
  }
  tensors_.emplace(name, e);
}

const std::string& ArchiveReader::text_of(std::string_view name) {
  const auto found = values_.find(full(name));
  if (found == values_.end()) fail("lacks the value " + full(name));
  used_values_[found->first] = true;
  return found->second;
}

void ArchiveReader::value(std::string_view name, int64_t& v) {
  if (!parse_number(text_of(name), v)) fail("the value " + full(name) + " is no integer");
}
void ArchiveReader::value(std::string_view name, double& v) {
  if (!parse_number(text_of(name), v)) fail("the value " + full(name) + " is no number");
}
void ArchiveReader::value(std::string_view name, std::string& v) { v = text_of(name); }

void ArchiveReader::tensor(std::string_view name, Tensor& t) {
  const auto found = tensors_.find(full(name));
  if (found == tensors_.end()) fail("lacks the tensor " + full(name));
  const Entry& e = found->second;
  if (t.shape() != e.shape || t.dtype() != e.dtype)
    fail(cat("tensor ", full(name), " is ", name_of(e.dtype), " ", e.shape.str(), ", the run has ",
             name_of(t.dtype()), " ", t.shape().str()));
  std::memcpy(t.raw(), bytes_.data() + data_ + e.offset, t.bytes());
  e.used = true;
}

void ArchiveReader::maybe_tensor(std::string_view name, Tensor& t) {
  const auto found = tensors_.find(full(name));
  if (found == tensors_.end()) {
    t = Tensor();
    return;
  }
  t = Tensor(found->second.shape, found->second.dtype);
  tensor(name, t);
}

std::vector<std::string> ArchiveReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

Tensor ArchiveReader::get(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail("lacks the tensor " + std::string(name));
  Tensor t(found->second.shape, found->second.dtype);
  std::memcpy(t.raw(), bytes_.data() + data_ + found->second.offset, t.bytes());
  return t;
}

void ArchiveReader::finish() const {
  for (const auto& [name, entry] : tensors_)
    if (!entry.used) fail("holds the tensor " + name + ", which this run does not have");
  for (const auto& [name, text] : values_)
    if (!used_values_.contains(name))
      fail("holds the value " + name + ", which this run does not have");
}

}  // namespace train
