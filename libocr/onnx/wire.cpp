#include "libocr/onnx/wire.h"

#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::FormatError;

enum Message : uint8_t {
  kLeaf,  // strings, packed numbers, and messages that hold only such
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparse,
  kValueInfo,
  kType,
  kContainerType,
  kTensorType,
  kShape,
  kTraining,
  kFunction
};

struct Child {
  Message parent;
  int field;
  Message child;
};

// Where messages lie in messages, by onnx.proto3's field numbers.
constexpr Child kChildren[] = {
    {kModel, 7, kGraph},        {kModel, 20, kTraining},    {kModel, 25, kFunction},
    {kGraph, 1, kNode},         {kGraph, 5, kTensor},       {kGraph, 11, kValueInfo},
    {kGraph, 12, kValueInfo},   {kGraph, 13, kValueInfo},   {kGraph, 15, kSparse},
    {kNode, 5, kAttribute},     {kAttribute, 5, kTensor},   {kAttribute, 6, kGraph},
    {kAttribute, 10, kTensor},  {kAttribute, 11, kGraph},   {kAttribute, 14, kType},
    {kAttribute, 15, kType},    {kAttribute, 22, kSparse},  {kAttribute, 23, kSparse},
    {kSparse, 1, kTensor},      {kSparse, 2, kTensor},      {kValueInfo, 2, kType},
    {kType, 1, kTensorType},    {kType, 4, kContainerType}, {kType, 5, kContainerType},
    {kType, 8, kTensorType},    {kType, 9, kContainerType}, {kContainerType, 1, kType},
    {kContainerType, 2, kType}, {kTensorType, 2, kShape},   {kTraining, 1, kGraph},
    {kTraining, 2, kGraph},     {kFunction, 7, kNode},      {kFunction, 11, kAttribute},
};

Message child_of(Message parent, uint64_t field) {
  for (const Child& c : kChildren)
    if (c.parent == parent && static_cast<uint64_t>(c.field) == field) return c.child;
  return kLeaf;
}

class Walker {
 public:
  explicit Walker(const WireLimits& limits) : limits_(limits) {}

  void walk(std::span<const char> bytes, Message message, int depth) {
    if (depth > limits_.max_depth) throw FormatError("messages are nested too deeply");
    size_t at = 0;
    while (at < bytes.size()) {
      const uint64_t tag = varint(bytes, at);
      switch (tag & 7) {
        case 0:
          varint(bytes, at);
          break;
        case 1:
          skip(bytes, at, 8);
          break;
        case 5:
          skip(bytes, at, 4);
          break;
        case 2: {
          const uint64_t size = varint(bytes, at);
          const size_t start = at;
          skip(bytes, at, size);
          if (++fields_ > limits_.max_fields)
            throw FormatError(cat("more than ", limits_.max_fields, " fields"));
          const Message child = child_of(message, tag >> 3);
          if (child != kLeaf) walk(bytes.subspan(start, size), child, depth + 1);
          break;
        }
        default:
          throw FormatError("the file is no ONNX model, or it is cut off");
      }
    }
  }

 private:
  static void skip(std::span<const char> bytes, size_t& at, uint64_t size) {
    if (size > bytes.size() - at) throw FormatError("the file is no ONNX model, or it is cut off");
    at += size;
  }
  static uint64_t varint(std::span<const char> bytes, size_t& at) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= bytes.size()) break;
      const auto b = static_cast<unsigned char>(bytes[at++]);
      v |= static_cast<uint64_t>(b & 127) << shift;
      if (b < 128) return v;
    }
    throw FormatError("the file is no ONNX model, or it is cut off");
  }

  WireLimits limits_;
  int64_t fields_ = 0;
};

}  // namespace

void check_wire(std::span<const char> model, const WireLimits& limits) {
  Walker(limits).walk(model, kModel, 0);
}

}  // namespace ocr
