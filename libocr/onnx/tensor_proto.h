// TensorProto to Tensor, with every size checked before memory is taken.
#pragma once
#include <optional>
#include <string>

#include "libocr/onnx/proto.h"
#include "libtrain/core/tensor.h"

namespace ocr {

/// The dtype that an ONNX element type becomes: floats of every width are f32. Nothing for types
/// that the engine does not have (strings, complex numbers, unsigned 16 to 64 bit, ...).
std::optional<train::DType> dtype_of(int onnx_type);
/// ONNX's name of an element type: "float", "int64".
std::string onnx_type_name(int onnx_type);

/// Reads tensors of one model and counts their bytes.
class TensorReader {
 public:
  /// `folder`: where external data may lie; empty refuses it.
  TensorReader(std::string folder, int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}
  /// Throws train::FormatError naming the tensor.
  train::Tensor read(const onnx::TensorProto& proto);
  int64_t bytes() const { return bytes_; }

 private:
  std::string external(const onnx::TensorProto& proto, size_t wanted) const;

  std::string folder_;
  int64_t max_bytes_, bytes_ = 0;
};

}  // namespace ocr
