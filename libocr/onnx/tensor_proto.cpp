#include "libocr/onnx/tensor_proto.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using onnx::TensorProto;
using train::cat;
using train::DType;
using train::FormatError;
using train::Shape;
using train::Tensor;

// How the file stores an element type that the engine takes.
std::optional<DType> stored_dtype(int type) {
  switch (type) {
    case TensorProto::FLOAT:
      return DType::kF32;
    case TensorProto::DOUBLE:
      return DType::kF64;
    case TensorProto::FLOAT16:
      return DType::kF16;
    case TensorProto::BFLOAT16:
      return DType::kBF16;
    case TensorProto::INT8:
      return DType::kI8;
    case TensorProto::UINT8:
      return DType::kU8;
    case TensorProto::INT32:
      return DType::kI32;
    case TensorProto::INT64:
      return DType::kI64;
    case TensorProto::BOOL:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

// The elements of a typed field (float_data, int32_data, ...) as `T`.
template <class T, class Field>
void copy_field(const Field& field, Tensor& t) {
  auto* out = static_cast<T*>(t.raw());
  for (int64_t i = 0; i < t.numel(); ++i) out[i] = static_cast<T>(field[static_cast<int>(i)]);
}

int64_t field_size(const TensorProto& p, DType stored) {
  switch (stored) {
    case DType::kF32:
      return p.float_data_size();
    case DType::kF64:
      return p.double_data_size();
    case DType::kI64:
      return p.int64_data_size();
    default:
      return p.int32_data_size();
  }
}

void copy_typed(const TensorProto& p, Tensor& t) {
  switch (t.dtype()) {
    case DType::kF32:
      return copy_field<float>(p.float_data(), t);
    case DType::kF64:
      return copy_field<double>(p.double_data(), t);
    case DType::kI64:
      return copy_field<int64_t>(p.int64_data(), t);
    case DType::kI32:
      return copy_field<int32_t>(p.int32_data(), t);
    case DType::kF16:
    case DType::kBF16:
      return copy_field<uint16_t>(p.int32_data(), t);
    default:
      return copy_field<uint8_t>(p.int32_data(), t);
  }
}

int64_t parse_number(const std::string& text, const std::string& tensor) {
  int64_t v = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || v < 0)
    throw FormatError(cat("tensor '", tensor, "': '", text, "' is no offset or length"));
  return v;
}

}  // namespace

std::optional<DType> dtype_of(int onnx_type) {
  const auto stored = stored_dtype(onnx_type);
  return stored && train::is_float(*stored) ? DType::kF32 : stored;
}

std::string onnx_type_name(int onnx_type) {
  constexpr const char* names[] = {"undefined",  "float",   "uint8",  "int8",   "uint16",
                                   "int16",      "int32",   "int64",  "string", "bool",
                                   "float16",    "double",  "uint32", "uint64", "complex64",
                                   "complex128", "bfloat16"};
  if (onnx_type < 0 || onnx_type >= static_cast<int>(std::size(names)))
    return cat("type ", onnx_type);
  return names[onnx_type];
}

Tensor TensorReader::read(const TensorProto& p) {
  const auto fail = [&](const std::string& why) {
    return FormatError(cat("tensor '", p.name().substr(0, 200), "': ", why));
  };
  const auto stored = stored_dtype(p.data_type());
  if (!stored)
    throw fail("elements of type " + onnx_type_name(p.data_type()) + " are not supported");
  if (p.has_segment()) throw fail("split tensors are not supported");
  if (p.dims_size() > Shape::kMaxRank) throw fail(cat(p.dims_size(), " dimensions are too many"));
  Shape shape;
  for (int64_t d : p.dims()) {
    if (d < 0) throw fail("a dimension is negative");
    shape.push_back(d);
  }
  int64_t count = 0;
  try {
    count = shape.numel();
  } catch (const train::ShapeError&) {
    throw fail("the dimensions " + shape.str() + " overflow");
  }
  const size_t bytes = static_cast<size_t>(count) * train::size_of(*stored);
  const bool is_external = p.data_location() == TensorProto::EXTERNAL;
  // What the file holds bounds what is allocated.
  if (!is_external) {
    const bool fits =
        p.has_raw_data() ? p.raw_data().size() == bytes : field_size(p, *stored) == count;
    if (!fits)
      throw fail(cat("the data does not fill the declared shape ", shape.str(), " of ",
                     onnx_type_name(p.data_type())));
  }
  const DType wanted = *dtype_of(p.data_type());
  bytes_ += count * static_cast<int64_t>(std::max(train::size_of(wanted), train::size_of(*stored)));
  if (bytes_ > max_bytes_)
    throw fail(cat("the model's constants exceed ", max_bytes_ >> 20, " MiB"));
  const std::string outside = is_external ? external(p, bytes) : std::string();
  Tensor t(shape, *stored);
  if (is_external) {
    std::memcpy(t.raw(), outside.data(), bytes);
  } else if (p.has_raw_data()) {
    std::memcpy(t.raw(), p.raw_data().data(), bytes);
  } else {
    copy_typed(p, t);
  }
  if (*stored == DType::kBool)
    for (int64_t i = 0; i < count; ++i)
      static_cast<uint8_t*>(t.raw())[i] = static_cast<uint8_t*>(t.raw())[i] != 0;
  return wanted == *stored ? t : t.to(wanted);
}

std::string TensorReader::external(const TensorProto& p, size_t wanted) const {
  const std::string name = p.name().substr(0, 200);
  const auto fail = [&](const std::string& why) {
    return FormatError(cat("tensor '", name, "': ", why));
  };
  if (folder_.empty()) throw fail("external data needs a model read from a file");
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : p.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_number(entry.value(), name);
    if (entry.key() == "length") length = parse_number(entry.value(), name);
  }
  const fs::path relative(location);
  bool inside = !location.empty() && location.size() < 4096 && relative.is_relative() &&
                location.find('\0') == std::string::npos;
  for (const fs::path& part : relative) inside = inside && part != "..";
  std::error_code ec;
  const fs::path root = fs::canonical(folder_, ec);
  const fs::path file = inside && !ec ? fs::canonical(root / relative, ec) : fs::path();
  if (inside && ec)
    throw fail("its external data '" + location + "' cannot be found beside the model");
  const auto [at, rest] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (!inside || at != root.end())
    throw fail("its external data lies outside the model's folder: '" + location + "'");
  if (!fs::is_regular_file(file, ec)) throw fail("its external data '" + location + "' is no file");
  const auto size = static_cast<int64_t>(fs::file_size(file, ec));
  if (length < 0) length = static_cast<int64_t>(wanted);
  if (static_cast<size_t>(length) != wanted)
    throw fail(cat("its external data has ", length, " bytes where the shape needs ", wanted));
  if (ec || offset > size || length > size - offset)
    throw fail("its external data ends before the tensor does: '" + location + "'");
  std::string data(wanted, '\0');
  std::ifstream in(file, std::ios::binary);
  in.seekg(offset);
  if (!in.read(data.data(), static_cast<std::streamsize>(wanted)))
    throw fail("its external data '" + location + "' cannot be read");
  return data;
}

}  // namespace ocr
