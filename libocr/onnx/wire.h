// A look over a model's bytes before protobuf turns them into objects: two bytes of an empty
// message become a hundred in memory.
#pragma once
#include <cstdint>
#include <span>

namespace ocr {

struct WireLimits {
  int64_t max_fields = 2'000'000;  // strings and messages, the fields that cost an allocation each
  int max_depth = 60;              // messages inside messages
};

/// Walks the fields of an ONNX ModelProto. Throws train::FormatError when a length leaves its
/// message, or a limit is exceeded.
void check_wire(std::span<const char> model, const WireLimits& limits = {});

}  // namespace ocr
