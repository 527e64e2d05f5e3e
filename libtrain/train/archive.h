// Archive: named tensors and values in one file, written whole or not at all.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/core/state.h"

namespace train {

/// The format is safetensors (8 bytes length, JSON header, tensors without gaps, little-endian), so
/// that other tools read our weights. `__metadata__` holds "format" = "ocr-checkpoint-1", every
/// value as text under its name, and "sha256" of the whole file with that field itself as 64 zeros.
///
/// ArchiveWriter takes what it visits; tensors are shared, not copied, until write().
class ArchiveWriter final : public StateVisitor {
 public:
  void value(std::string_view name, int64_t& v) override;
  void value(std::string_view name, double& v) override;
  void value(std::string_view name, std::string& v) override;
  void tensor(std::string_view name, Tensor& t) override;
  void maybe_tensor(std::string_view name, Tensor& t) override;
  bool loading() const override { return false; }

  /// Writes beside `path`, syncs, renames over it and syncs the folder: after a crash at any moment
  /// the old file or the new one is there. Throws DeviceError with the reason.
  void write(const std::string& path) const;
  /// The bytes that write() writes.
  std::string bytes() const;

 private:
  void add_value(std::string_view name, std::string text);
  std::string header(std::string_view sha256) const;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> values_;
};

/// Reads the whole file at once; sets what it visits. Every error is a FormatError that opens with
/// the file's name.
class ArchiveReader final : public StateVisitor {
 public:
  /// Throws DeviceError when the file cannot be read, FormatError when it is no archive, cut off or
  /// damaged. Files of other writers (without our format or digest) are accepted as weights.
  static ArchiveReader open(const std::string& path);
  static ArchiveReader from_bytes(std::string bytes, const std::string& name);

  void value(std::string_view name, int64_t& v) override;
  void value(std::string_view name, double& v) override;
  void value(std::string_view name, std::string& v) override;
  void tensor(std::string_view name, Tensor& t) override;
  void maybe_tensor(std::string_view name, Tensor& t) override;
  bool loading() const override { return true; }

  /// True when written by ArchiveWriter, and its digest was checked.
  bool is_ours() const { return ours_; }
  const std::map<std::string, std::string>& values() const { return values_; }
  /// The tensors' names, in order.
  std::vector<std::string> names() const;
  bool has(std::string_view name) const { return tensors_.contains(name); }
  /// A copy; throws FormatError when there is none of that name.
  Tensor get(std::string_view name) const;
  /// Throws FormatError naming what is in the file and was not visited: the run has changed.
  void finish() const;

 private:
  struct Entry {
    DType dtype;
    Shape shape;
    size_t offset;
    mutable bool used = false;
  };
  ArchiveReader() = default;
  void parse_entry(const std::string& name, const void* json, size_t data_bytes);
  [[noreturn]] void fail(const std::string& message) const;
  const std::string& text_of(std::string_view name);
  std::string path_, bytes_;
  size_t data_ = 0;
  bool ours_ = false;
  std::map<std::string, Entry, std::less<>> tensors_;
  std::map<std::string, std::string> values_;
  std::map<std::string, bool> used_values_;
};

/// Writes a file whole or not at all, as ArchiveWriter::write does.
void write_file_atomically(const std::string& path, std::string_view bytes);
/// A whole file. Throws DeviceError with the reason.
std::string read_file(const std::string& path);

}  // namespace train
