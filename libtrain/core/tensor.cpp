#include "libtrain/core/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "libtrain/core/error.h"

namespace train {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Calls `f` with a typed pointer to the elements; 16-bit floats come as their bits.
template <class F>
void visit(const Tensor& t, F&& f) {
  switch (t.dtype()) {
    case DType::kF32:
      f(t.data<float>(), [](float v) { return v; });
      break;
    case DType::kF64:
      f(t.data<double>(), [](double v) { return v; });
      break;
    case DType::kF16:
      f(static_cast<uint16_t*>(t.raw()), f16_to_f32);
      break;
    case DType::kBF16:
      f(static_cast<uint16_t*>(t.raw()), bf16_to_f32);
      break;
    case DType::kI8:
      f(t.data<int8_t>(), [](int8_t v) { return v; });
      break;
    case DType::kU8:
      f(t.data<uint8_t>(), [](uint8_t v) { return v; });
      break;
    case DType::kI32:
      f(t.data<int32_t>(), [](int32_t v) { return v; });
      break;
    case DType::kI64:
      f(t.data<int64_t>(), [](int64_t v) { return v; });
      break;
    case DType::kBool:
      f(static_cast<uint8_t*>(t.raw()), [](uint8_t v) { return v != 0; });
      break;
  }
}

// A float outside the integer's range has no defined conversion in C++: clamp, NaN to 0.
template <class To, class From>
To convert(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                !std::is_same_v<To, bool>) {
    if (v != v) return 0;
    constexpr double lo = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double hi = static_cast<double>(std::numeric_limits<To>::max());
    if (v <= lo) return std::numeric_limits<To>::min();
    if (v >= hi) return std::numeric_limits<To>::max();
  }
  return static_cast<To>(v);
}

template <class To>
void fill(const Tensor& from, To* out) {
  visit(from, [&](const auto* p, auto load) {
    for (int64_t i = 0, n = from.numel(); i < n; ++i) out[i] = convert<To>(load(p[i]));
  });
}

}  // namespace

Storage::Storage(size_t bytes) : bytes_(bytes) {
  const size_t align = bytes >= kHugePage ? kHugePage : 64;
  const size_t padded =
      (bytes + 64 + align - 1) / align * align;  // kernels may read a vector past the end
  data_ = std::aligned_alloc(align, padded);
  if (!data_) throw DeviceError(cat("out of memory: could not allocate ", bytes >> 20, " MiB"));
  if (align == kHugePage) madvise(data_, padded, MADV_HUGEPAGE);
}

Storage::~Storage() {
  if (owned_) std::free(data_);
}

Tensor::Tensor(const Shape& shape, DType dtype)
    : storage_(std::make_shared<Storage>(static_cast<size_t>(shape.numel()) * size_of(dtype))),
      shape_(shape),
      dtype_(dtype) {}

Tensor::Tensor(std::shared_ptr<Storage> storage, size_t offset_bytes, const Shape& shape,
               DType dtype)
    : storage_(std::move(storage)), offset_(offset_bytes), shape_(shape), dtype_(dtype) {
  if (offset_ + bytes() > storage_->bytes())
    throw ShapeError("a tensor of shape " + shape.str() + " does not fit its storage");
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor t(shape, dtype);
  std::memset(t.raw(), 0, t.bytes());
  return t;
}

void* Tensor::raw() const {
  return storage_ ? static_cast<char*>(storage_->data()) + offset_ : nullptr;
}

void Tensor::check_dtype(DType wanted) const {
  if (!storage_) throw ShapeError("use of an undefined tensor");
  if (static_cast<int>(wanted) == 255)
    throw ShapeError("the number of values does not fit the shape " + shape_.str());
  if (wanted != dtype_)
    throw ShapeError(cat("expected a tensor of ", name_of(wanted), ", got ", name_of(dtype_)));
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.numel() != numel())
    throw ShapeError("cannot view " + shape_.str() + " as " + shape.str());
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::clone() const {
  Tensor t(shape_, dtype_);
  std::memcpy(t.raw(), raw(), bytes());
  return t;
}

std::vector<int64_t> Tensor::to_ints() const {
  if (is_float(dtype_)) throw ShapeError(cat("expected integers, got ", name_of(dtype_)));
  std::vector<int64_t> out(static_cast<size_t>(numel()));
  fill(*this, out.data());
  return out;
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> out(static_cast<size_t>(numel()));
  fill(*this, out.data());
  return out;
}

Tensor Tensor::to(DType dtype) const {
  Tensor t(shape_, dtype);
  switch (dtype) {
    case DType::kF32:
      fill(*this, t.data<float>());
      break;
    case DType::kF64:
      fill(*this, t.data<double>());
      break;
    case DType::kI8:
      fill(*this, t.data<int8_t>());
      break;
    case DType::kU8:
      fill(*this, t.data<uint8_t>());
      break;
    case DType::kI32:
      fill(*this, t.data<int32_t>());
      break;
    case DType::kI64:
      fill(*this, t.data<int64_t>());
      break;
    case DType::kBool:
      fill(*this, t.data<bool>());
      break;
    case DType::kF16:
    case DType::kBF16: {
      auto* out = static_cast<uint16_t*>(t.raw());
      const auto values = to_doubles();
      for (size_t i = 0; i < values.size(); ++i) {
        const auto f = static_cast<float>(values[i]);
        out[i] = dtype == DType::kF16 ? f32_to_f16(f) : f32_to_bf16(f);
      }
    }
  }
  return t;
}

}  // namespace train
