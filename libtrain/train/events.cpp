#include "libtrain/train/events.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "libtrain/core/error.h"

namespace train {
namespace {

constexpr auto kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0x82f63b78 ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}();

void put(std::string& out, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> 8 * i);
}

// Protocol buffers' wire format.
void put_varint(std::string& out, uint64_t v) {
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  out += static_cast<char>(v);
}
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | type);
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_head(double wall_time) {
  std::string event;
  put_key(event, 1, kFixed64);
  put(event, std::bit_cast<uint64_t>(wall_time), 8);
  return event;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t c = ~uint32_t{0};
  for (const char b : bytes) c = kCrcTable[(c ^ static_cast<unsigned char>(b)) & 255] ^ (c >> 8);
  return ~c;
}

std::string tfrecord(std::string_view data) {
  std::string record;
  put(record, data.size(), 8);
  put(record, masked(crc32c(record)), 4);
  record += data;
  put(record, masked(crc32c(data)), 4);
  return record;
}

std::string scalar_event(double wall_time, int64_t step, std::string_view tag, float value) {
  std::string entry, summary;
  put_bytes(entry, 1, tag);
  put_key(entry, 2, kFixed32);
  put(entry, std::bit_cast<uint32_t>(value), 4);
  put_bytes(summary, 1, entry);
  std::string event = event_head(wall_time);
  put_key(event, 2, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, 5, summary);
  return event;
}

EventWriter::EventWriter(const std::string& folder) {
  char host[65] = "localhost";
  ::gethostname(host, sizeof host - 1);
  const std::string path =
      cat(folder, "/events.out.tfevents.", static_cast<int64_t>(now()), ".", host, ".", ::getpid());
  file_ = std::fopen(path.c_str(), "ab");
  if (!file_) throw DeviceError(path + ": cannot open it: " + std::strerror(errno));
  std::string first = event_head(now());
  put_bytes(first, 3, "brain.Event:2");
  const std::string record = tfrecord(first);
  std::fwrite(record.data(), 1, record.size(), file_);
  flush();
}

EventWriter::~EventWriter() { std::fclose(file_); }

void EventWriter::scalar(int64_t step, std::string_view tag, double value) {
  const std::string record = tfrecord(scalar_event(now(), step, tag, static_cast<float>(value)));
  std::fwrite(record.data(), 1, record.size(), file_);
}

void EventWriter::flush() { std::fflush(file_); }

}  // namespace train
