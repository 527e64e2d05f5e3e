// Tensor: a value type over shared, counted storage. Shapes are logical; see `Layout` for how
// images lie in memory.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "libtrain/core/dtype.h"
#include "libtrain/core/shape.h"

namespace train {

/// A block of memory with a version counter (autograd finds in-place changes of saved tensors by
/// it).
class Storage {
 public:
  explicit Storage(
      size_t bytes);  // 64-byte aligned; large ones in huge pages of their own; not cleared
  /// Borrows memory that outlives the storage, e.g. a mapped weights file.
  Storage(void* borrowed, size_t bytes) : data_(borrowed), bytes_(bytes), owned_(false) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  uint64_t version = 0;

 private:
  void* data_ = nullptr;
  size_t bytes_;
  size_t mapped_ = 0;  // pages of its own; 0: malloc's
  bool owned_ = true;
};

/// How a tensor's elements lie in memory. kLinear: row-major in logical order, dense.
/// kChannelsLast: a logical [N, C, H, W] stored as N, H, W, C with a pixel stride `ld >= C`.
enum class Layout : uint8_t { kLinear, kChannelsLast };

class Tensor {
 public:
  Tensor() = default;  // holds nothing: defined() is false
  /// Uninitialised; throws ShapeError on an impossible shape, DeviceError without memory.
  explicit Tensor(const Shape& shape, DType dtype = DType::kF32);
  Tensor(std::shared_ptr<Storage> storage, size_t offset_bytes, const Shape& shape, DType dtype);

  static Tensor zeros(const Shape& shape, DType dtype = DType::kF32);
  template <class T>
  static Tensor from(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor from(const Shape& shape, std::initializer_list<T> values) {
    return from<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static Tensor scalar(T v) {
    return from<T>(Shape{}, std::span<const T>(&v, 1));
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t numel() const { return shape_.numel(); }
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }
  void* raw() const;
  /// Throws ShapeError when T is not the tensor's dtype.
  template <class T>
  T* data() const {
    check_dtype(DTypeOf<T>::value);
    return static_cast<T*>(raw());
  }
  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<size_t>(numel())};
  }
  const std::shared_ptr<Storage>& storage() const { return storage_; }

  Tensor reshaped(const Shape& shape) const;  // shares storage; throws when counts differ
  Tensor clone() const;
  /// The elements as int64 (from any integer dtype or bool) or as f64 (from any dtype).
  std::vector<int64_t> to_ints() const;
  std::vector<double> to_doubles() const;
  /// A copy converted as ONNX's Cast does (floats truncate toward zero when they become integers).
  Tensor to(DType dtype) const;

 private:
  void check_dtype(DType wanted) const;
  std::shared_ptr<Storage> storage_;
  size_t offset_ = 0;  // bytes
  Shape shape_;
  DType dtype_ = DType::kF32;
};

/// Converts n elements between dtypes as Tensor::to does.
void convert_elements(DType from, const void* x, DType to, void* y, int64_t n);

template <class T>
Tensor Tensor::from(const Shape& shape, std::span<const T> values) {
  Tensor t(shape, DTypeOf<T>::value);
  if (static_cast<size_t>(t.numel()) != values.size()) t.check_dtype(static_cast<DType>(255));
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

}  // namespace train
