#include <array>
#include <bit>
#include <cstring>

#include "libocr/image/decoder.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

enum Compression : uint32_t { kRgb = 0, kRle8 = 1, kRle4 = 2, kBitfields = 3, kAlphaBitfields = 6 };

// One channel of a 16- or 32-bit pixel.
struct Channel {
  uint32_t mask = 0;
  uint8_t extract(uint32_t pixel) const {
    if (!mask) return 0;
    const int shift = std::countr_zero(mask);
    const uint64_t top = mask >> shift, value = (pixel & mask) >> shift;
    return static_cast<uint8_t>((value * 255 + top / 2) / top);
  }
};

struct BmpHeader {
  int64_t width = 0, height = 0;
  bool top_down = false;
  int bits = 0;
  uint32_t compression = kRgb;
  int64_t pixels_at = 0;
  Channel red, green, blue, alpha;
  std::array<Bgr, 256> palette = {};
  double dpi = 0;
};

class BmpDecoder : public Decoder {
 public:
  using Decoder::Decoder;

  PageInfo info(int) override {
    const BmpHeader h = header();
    return make_info(h.width, h.height, 1, h.dpi);
  }

  Page read(int, Bgr background, AlphaStats* stats) override {
    const BmpHeader h = header();
    Page page;
    page.info = make_info(h.width, h.height, 1, h.dpi);
    const bool rle = h.compression == kRle8 || h.compression == kRle4;
    if (!rle && h.pixels_at + row_bytes(h) * h.height > source_->size()) fail_truncated();
    page.image = Image(static_cast<int>(h.width), static_cast<int>(h.height));
    ByteReader reader(*source_, name_, h.pixels_at);
    if (rle)
      read_rle(reader, h, page.image);
    else
      read_plain(reader, h, page.image, background, stats);
    return page;
  }

 private:
  static int64_t row_bytes(const BmpHeader& h) { return (h.width * h.bits + 31) / 32 * 4; }

  BmpHeader header() {
    ByteReader reader(*source_, name_, 10);
    BmpHeader h;
    h.pixels_at = reader.u32le();
    const uint32_t size = reader.u32le();
    uint32_t colours = 0;
    if (size == 12) {
      h.width = reader.u16le();
      h.height = reader.u16le();
      reader.u16le();
      h.bits = reader.u16le();
    } else if (size >= 40 && size <= 256) {
      h.width = static_cast<int32_t>(reader.u32le());
      h.height = static_cast<int32_t>(reader.u32le());
      reader.u16le();
      h.bits = reader.u16le();
      h.compression = reader.u32le();
      reader.u32le();
      h.dpi = reader.u32le() * 0.0254;
      reader.u32le();
      colours = reader.u32le();
    } else {
      fail(train::cat("is a BMP with an unknown header of ", size, " bytes"));
    }
    if (h.dpi < 1 || h.dpi > 1e5) h.dpi = 0;
    h.top_down = h.height < 0;
    if (h.top_down) h.height = -h.height;
    check_limits(h.width, h.height);
    check_layout(h);
    const int64_t palette_at = read_masks(h, size);
    if (h.bits <= 8) read_palette(h, palette_at, colours, size == 12 ? 3 : 4);
    return h;
  }

  void check_layout(const BmpHeader& h) {
    const int b = h.bits;
    const bool plain = h.compression == kRgb &&
                       (b == 1 || b == 2 || b == 4 || b == 8 || b == 16 || b == 24 || b == 32);
    const bool masks =
        (h.compression == kBitfields || h.compression == kAlphaBitfields) && (b == 16 || b == 32);
    const bool rle = (h.compression == kRle8 && b == 8) || (h.compression == kRle4 && b == 4);
    if (!plain && !masks && !rle)
      fail(train::cat("is a BMP with ", b, " bits a pixel and compression ", h.compression,
                      ", which is not supported"));
    if (rle && h.top_down) fail("is not a valid BMP: run-length data cannot be top-down");
  }

  // Sets the channel masks; returns where the palette starts.
  int64_t read_masks(BmpHeader& h, uint32_t header_size) {
    int64_t end = 14 + int64_t{header_size};
    if (h.compression == kBitfields || h.compression == kAlphaBitfields) {
      ByteReader reader(*source_, name_, 14 + 40);
      h.red.mask = reader.u32le();
      h.green.mask = reader.u32le();
      h.blue.mask = reader.u32le();
      if (header_size >= 56 || h.compression == kAlphaBitfields) h.alpha.mask = reader.u32le();
      if (header_size == 40) end += h.compression == kAlphaBitfields ? 16 : 12;
    } else if (h.bits == 16) {
      h.red.mask = 0x7c00, h.green.mask = 0x03e0, h.blue.mask = 0x001f;
    } else if (h.bits == 32) {
      h.red.mask = 0xff0000, h.green.mask = 0xff00, h.blue.mask = 0xff;
    }
    return end;
  }

  void read_palette(BmpHeader& h, int64_t at, uint32_t colours, int entry_bytes) {
    int64_t count = colours == 0 || colours > 256 ? int64_t{1} << h.bits : colours;
    // Some writers leave out the tail of the table: the pixels begin earlier then.
    if (h.pixels_at > at) count = std::min(count, (h.pixels_at - at) / entry_bytes);
    ByteReader reader(*source_, name_, at);
    for (int64_t i = 0; i < std::min<int64_t>(count, 256); i++) {
      uint8_t entry[4];
      reader.read(entry, entry_bytes);
      h.palette[static_cast<size_t>(i)] = {entry[0], entry[1], entry[2]};
    }
  }

  static void put(uint8_t* to, Bgr c) { to[0] = c.b, to[1] = c.g, to[2] = c.r; }

  // Whether any pixel is not fully transparent: many writers fill an alpha channel with zeros that
  // nobody honours.
  bool uses_alpha(const BmpHeader& h) {
    if (!h.alpha.mask || h.bits != 32) return false;
    ByteReader reader(*source_, name_, h.pixels_at);
    for (int64_t i = 0; i < h.width * h.height; i++)
      if (reader.u32le() & h.alpha.mask) return true;
    return false;
  }

  void read_plain(ByteReader& reader, const BmpHeader& h, Image& image, Bgr background,
                  AlphaStats* stats) {
    const bool alpha = uses_alpha(h);
    PixelBuffer raw(static_cast<size_t>(row_bytes(h)));
    PixelBuffer bgra(alpha ? size_t{4} * static_cast<size_t>(h.width) : 0);
    for (int64_t i = 0; i < h.height; i++) {
      reader.read(raw.data(), static_cast<int64_t>(raw.size()));
      uint8_t* to = image.row(static_cast<int>(h.top_down ? i : h.height - 1 - i));
      if (h.bits == 24)
        std::memcpy(to, raw.data(), 3 * static_cast<size_t>(h.width));
      else if (h.bits <= 8)
        palette_row(h, raw.data(), to);
      else
        masked_row(h, raw.data(), alpha ? bgra.data() : to, alpha);
      if (alpha) composite_row(bgra.data(), to, image.width, background, stats);
    }
  }

  static void palette_row(const BmpHeader& h, const uint8_t* raw, uint8_t* to) {
    const int per_byte = 8 / h.bits, mask = (1 << h.bits) - 1;
    for (int64_t x = 0; x < h.width; x++) {
      const int shift = static_cast<int>(per_byte - 1 - x % per_byte) * h.bits;
      put(to + 3 * x, h.palette[static_cast<size_t>(raw[x / per_byte] >> shift & mask)]);
    }
  }

  static void masked_row(const BmpHeader& h, const uint8_t* raw, uint8_t* to, bool alpha) {
    const int bytes = h.bits / 8, channels = alpha ? 4 : 3;
    for (int64_t x = 0; x < h.width; x++, raw += bytes, to += channels) {
      uint32_t pixel = raw[0] | raw[1] << 8;
      if (bytes == 4) pixel |= raw[2] << 16 | static_cast<uint32_t>(raw[3]) << 24;
      put(to, {h.blue.extract(pixel), h.green.extract(pixel), h.red.extract(pixel)});
      if (alpha) to[3] = h.alpha.extract(pixel);
    }
  }

  // Rows come from the bottom up; pixels that the runs skip keep palette entry 0.
  void read_rle(ByteReader& reader, const BmpHeader& h, Image& image) {
    const int width = image.width, height = image.height;
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) put(image.row(y) + 3 * x, h.palette[0]);
    int x = 0, y = height - 1;
    auto emit = [&](int index) {
      if (x < width && y >= 0) put(image.row(y) + 3 * x, h.palette[static_cast<size_t>(index)]);
      x = std::min(x + 1, width);
    };
    const bool four = h.compression == kRle4;
    while (y >= 0) {
      const int count = reader.byte(), value = reader.byte();
      if (count > 0) {
        for (int i = 0; i < count; i++) emit(four ? (i % 2 ? value & 15 : value >> 4) : value);
      } else if (value == 0) {
        x = 0, y--;
      } else if (value == 1) {
        return;
      } else if (value == 2) {
        x = std::min(x + reader.byte(), width);
        y -= reader.byte();
      } else {
        const int bytes = four ? (value + 1) / 2 : value;
        for (int i = 0; i < bytes; i++) {
          const int b = reader.byte();
          emit(four ? b >> 4 : b);
          if (four && 2 * i + 1 < value) emit(b & 15);
        }
        if (bytes % 2) reader.byte();
      }
      // Full image and no end mark: some writers leave it out.
      if (y <= 0 && x >= width && reader.peek() < 0) return;
    }
  }
};

}  // namespace

std::unique_ptr<Decoder> make_bmp(std::shared_ptr<ByteSource> source, const std::string& name,
                                  const DecodeOptions& options) {
  return std::make_unique<BmpDecoder>(std::move(source), name, options);
}

}  // namespace ocr
