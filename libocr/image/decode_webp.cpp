#include <webp/decode.h>

#include <cstring>

#include "libocr/image/decoder.h"
#include "libocr/image/exif.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

uint32_t le24(const uint8_t* p) { return p[0] | p[1] << 8 | p[2] << 16; }
uint32_t le32(const uint8_t* p) { return le24(p) | static_cast<uint32_t>(p[3]) << 24; }

// What the container says, and the bytes of the first picture in it.
struct WebpLayout {
  int width = 0, height = 0;  // canvas
  bool alpha = false;
  const uint8_t* data = nullptr;
  size_t size = 0;
  int x = 0, y = 0;  // of the picture on the canvas
  ExifInfo exif;
};

class WebpDecoder : public Decoder {
 public:
  using Decoder::Decoder;

  PageInfo info(int) override {
    const WebpLayout layout = parse();
    return make_info(layout.width, layout.height, layout.exif.orientation, layout.exif.dpi);
  }

  Page read(int, Bgr background, AlphaStats* stats) override {
    const WebpLayout layout = parse();
    Page page;
    page.info = make_info(layout.width, layout.height, layout.exif.orientation, layout.exif.dpi);
    Image picture = decode(layout, background, stats);
    if (picture.width != layout.width || picture.height != layout.height)
      picture = place(picture, layout, background);
    page.image =
        apply_orientation(std::move(picture), page.info.oriented ? page.info.orientation : 1);
    return page;
  }

 private:
  WebpLayout parse() {
    if (bytes_.empty()) bytes_ = read_all(*source_, name_, options_.max_file_bytes);
    WebpLayout layout;
    WebPBitstreamFeatures features;
    const VP8StatusCode status = WebPGetFeatures(bytes_.data(), bytes_.size(), &features);
    if (status == VP8_STATUS_NOT_ENOUGH_DATA) fail_truncated();
    if (status != VP8_STATUS_OK) fail("is not a valid WebP");
    layout.width = features.width, layout.height = features.height;
    layout.alpha = features.has_alpha != 0;
    layout.data = bytes_.data(), layout.size = bytes_.size();
    walk_chunks(layout, features.has_animation != 0);
    // Alpha is decoded as BGRA; libwebp itself keeps about 4 bytes a pixel for lossless pictures.
    const int64_t pixels = int64_t{layout.width} * layout.height;
    check_limits(layout.width, layout.height, 5 * pixels + source_->size());
    return layout;
  }

  void walk_chunks(WebpLayout& layout, bool animated) {
    size_t at = 12;
    bool found_frame = false;
    while (at + 8 <= bytes_.size()) {
      const uint8_t* chunk = bytes_.data() + at;
      const size_t length = le32(chunk + 4), left = bytes_.size() - at - 8;
      const size_t usable = std::min(length, left);
      if (std::memcmp(chunk, "EXIF", 4) == 0) layout.exif = parse_exif(chunk + 8, usable);
      if (animated && !found_frame && std::memcmp(chunk, "ANMF", 4) == 0 && usable > 16) {
        found_frame = true;
        layout.x = static_cast<int>(2 * le24(chunk + 8)),
        layout.y = static_cast<int>(2 * le24(chunk + 11));
        layout.data = chunk + 24, layout.size = usable - 16;
      }
      if (length > left) break;
      at += 8 + length + (length & 1);
    }
    if (animated && !found_frame) fail("is a WebP animation without a frame");
  }

  Image decode(const WebpLayout& layout, Bgr background, AlphaStats* stats) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
      fail("cannot be decoded: libwebp of another version was loaded");
    if (WebPGetFeatures(layout.data, layout.size, &config.input) != VP8_STATUS_OK)
      fail("is not a valid WebP");
    const int width = config.input.width, height = config.input.height;
    check_limits(width, height, 5ll * width * height);
    const bool alpha = config.input.has_alpha != 0;
    const int channels = alpha ? 4 : 3;
    Image image;
    image.pixels.resize(size_t(channels) * size_t(width) * size_t(height));
    config.output.colorspace = alpha ? MODE_BGRA : MODE_BGR;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {image.pixels.data(), channels * width, image.pixels.size()};
    const VP8StatusCode status = WebPDecode(layout.data, layout.size, &config);
    WebPFreeDecBuffer(&config.output);
    if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED) fail_truncated();
    if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status != VP8_STATUS_OK) fail("is not a valid WebP: its picture data is damaged");
    image.width = width, image.height = height;
    if (alpha) {
      for (int y = 0; y < height; y++)
        composite_row(image.pixels.data() + size_t{4} * size_t(width) * size_t(y), image.row(y),
                      width, background, stats);
      image.pixels.resize(size_t{3} * size_t(width) * size_t(height));
    }
    return image;
  }

  // First frame of an animation on its canvas.
  static Image place(const Image& picture, const WebpLayout& layout, Bgr background) {
    Image canvas(layout.width, layout.height, background);
    const int width = std::min(picture.width, layout.width - layout.x);
    for (int y = 0; width > 0 && y < picture.height && y + layout.y < layout.height; y++)
      std::memcpy(canvas.row(y + layout.y) + 3 * layout.x, picture.row(y),
                  3 * static_cast<size_t>(width));
    return canvas;
  }

  std::vector<uint8_t> bytes_;
};

}  // namespace

std::unique_ptr<Decoder> make_webp(std::shared_ptr<ByteSource> source, const std::string& name,
                                   const DecodeOptions& options) {
  return std::make_unique<WebpDecoder>(std::move(source), name, options);
}

}  // namespace ocr
