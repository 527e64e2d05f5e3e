#include <cctype>

#include "libocr/image/decoder.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

// P1-P3 are text, P4-P6 binary; 1/4 bitmap, 2/5 grey, 3/6 colour.
struct PnmHeader {
  int kind = 0;
  int64_t width = 0, height = 0;
  uint32_t max_value = 1;
  bool text() const { return kind <= 3; }
  bool bitmap() const { return kind == 1 || kind == 4; }
  int channels() const { return kind == 3 || kind == 6 ? 3 : 1; }
};

class PnmDecoder : public Decoder {
 public:
  using Decoder::Decoder;

  PageInfo info(int) override {
    ByteReader reader(*source_, name_);
    const PnmHeader h = header(reader);
    return make_info(h.width, h.height, 1, 0);
  }

  Page read(int, Bgr, AlphaStats*) override {
    ByteReader reader(*source_, name_);
    const PnmHeader h = header(reader);
    Page page;
    page.info = make_info(h.width, h.height, 1, 0);
    page.image = Image(static_cast<int>(h.width), static_cast<int>(h.height));
    const size_t samples = static_cast<size_t>(h.width) * static_cast<size_t>(h.channels());
    PixelBuffer raw, values(samples);
    for (int y = 0; y < page.image.height; y++) {
      if (h.text())
        text_row(reader, h, values);
      else
        binary_row(reader, h, raw, values);
      uint8_t* to = page.image.row(y);
      for (int x = 0; x < page.image.width; x++)
        for (int k = 0; k < 3; k++)
          to[3 * x + k] = values[static_cast<size_t>(h.channels() == 3 ? 3 * x + 2 - k : x)];
    }
    return page;
  }

 private:
  // The next byte, comments skipped.
  static int next(ByteReader& reader) {
    int c = reader.byte();
    while (c == '#') {
      while (c != '\n' && c != '\r') c = reader.byte();
    }
    return c;
  }

  uint32_t number(ByteReader& reader) {
    int c = next(reader);
    while (std::isspace(c)) c = next(reader);
    if (!std::isdigit(c)) fail("is not a valid PNM: expected a number in the header or the pixels");
    int64_t value = 0;
    for (; std::isdigit(c); c = reader.peek() < 0 ? ' ' : next(reader)) {
      value = value * 10 + (c - '0');
      if (value > INT32_MAX) fail("is not a valid PNM: a number in it is too large");
    }
    if (!std::isspace(c)) fail("is not a valid PNM: a number in it ends in another character");
    return static_cast<uint32_t>(value);
  }

  PnmHeader header(ByteReader& reader) {
    PnmHeader h;
    reader.byte();
    h.kind = reader.byte() - '0';
    h.width = number(reader);
    h.height = number(reader);
    if (!h.bitmap()) h.max_value = number(reader);
    if (h.max_value == 0 || h.max_value > 65535)
      fail(
          train::cat("is not a valid PNM: its maximum value is ", h.max_value, ", not 1 to 65535"));
    check_limits(h.width, h.height);
    return h;
  }

  static uint8_t scaled(uint32_t value, uint32_t max_value) {
    value = std::min(value, max_value);
    return static_cast<uint8_t>((value * 255 + max_value / 2) / max_value);
  }

  void text_row(ByteReader& reader, const PnmHeader& h, PixelBuffer& values) {
    for (uint8_t& v : values) {
      if (!h.bitmap()) {
        v = scaled(number(reader), h.max_value);
        continue;
      }
      int c = next(reader);  // bitmaps need no space between their digits
      while (std::isspace(c)) c = next(reader);
      if (c != '0' && c != '1')
        fail("is not a valid PNM: a bitmap holds something else than 0 and 1");
      v = c == '1' ? 0 : 255;
    }
  }

  static void binary_row(ByteReader& reader, const PnmHeader& h, PixelBuffer& raw,
                         PixelBuffer& values) {
    const size_t n = values.size();
    if (h.bitmap()) {
      raw.resize((n + 7) / 8);
      reader.read(raw.data(), static_cast<int64_t>(raw.size()));
      for (size_t i = 0; i < n; i++) values[i] = raw[i / 8] >> (7 - i % 8) & 1 ? 0 : 255;
      return;
    }
    if (h.max_value < 256) {
      reader.read(values.data(), static_cast<int64_t>(n));
      if (h.max_value != 255)
        for (uint8_t& v : values) v = scaled(v, h.max_value);
      return;
    }
    raw.resize(2 * n);
    reader.read(raw.data(), static_cast<int64_t>(2 * n));
    for (size_t i = 0; i < n; i++)
      values[i] = scaled(static_cast<uint32_t>(raw[2 * i] << 8 | raw[2 * i + 1]), h.max_value);
  }
};

}  // namespace

std::unique_ptr<Decoder> make_pnm(std::shared_ptr<ByteSource> source, const std::string& name,
                                  const DecodeOptions& options) {
  return std::make_unique<PnmDecoder>(std::move(source), name, options);
}

}  // namespace ocr
