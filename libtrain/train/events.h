// TensorBoard event files: scalars over steps.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace train {

/// CRC-32C (Castagnoli), as TFRecord files use it.
uint32_t crc32c(std::string_view bytes);
/// One record of a TFRecord file: length, masked CRC of the length, data, masked CRC of the data.
std::string tfrecord(std::string_view data);
/// TensorFlow's `Event` message with one scalar, encoded.
std::string scalar_event(double wall_time, int64_t step, std::string_view tag, float value);

/// Appends to "DIR/events.out.tfevents.<seconds>.<host>.<pid>", which it makes.
class EventWriter {
 public:
  explicit EventWriter(const std::string& folder);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  void scalar(int64_t step, std::string_view tag, double value);
  void flush();

 private:
  std::FILE* file_;
};

}  // namespace train
