#include <png.h>

#include <csetjmp>
#include <cstring>

#include "libocr/image/decoder.h"
#include "libocr/image/exif.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int kMaxWarnings = 8;
constexpr int64_t kMaxExifBytes = 1 << 20;
constexpr int64_t kMaxChunks = 1 << 20;

// libpng's state with its callbacks; errors leave libpng by longjmp across frames that own nothing,
// see call().
class PngReader {
 public:
  PngReader(ByteSource& source, const std::string& name)
      : source_(source), name_(name), buffer_(1 << 16) {
    call([&] {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
      if (png_) info_ = png_create_info_struct(png_);
    });
    if (!png_ || !info_) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, on_read);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  template <class F>
  void call(F&& f) {
    if (setjmp(jump_) == 0) {
      f();
      return;
    }
    if (truncated_)
      throw train::FormatError(name_ +
                               ": is truncated: the PNG data ends before the image is complete");
    throw train::FormatError(train::cat(name_, ": is not a valid PNG: ", error_));
  }

  png_structp png() { return png_; }
  png_infop info() { return info_; }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    auto& me = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(me.error_, sizeof me.error_, "%s", message);
    std::longjmp(me.jump_, 1);
  }

  static void on_warning(png_structp png, png_const_charp message) {
    static_cast<PngReader*>(png_get_error_ptr(png))->add_warning(message);
  }

  void add_warning(const char* message) noexcept {
    try {
      if (warnings_.size() < kMaxWarnings) warnings_.emplace_back(message);
    } catch (const std::bad_alloc&) {
    }
  }

  static void on_read(png_structp png, png_bytep to, png_size_t size) {
    auto& me = *static_cast<PngReader*>(png_get_io_ptr(png));
    while (size > 0) {
      if (me.position_ == me.filled_) {
        me.filled_ = me.source_.read_at(me.offset_, me.buffer_.data(),
                                        static_cast<int64_t>(me.buffer_.size()));
        me.position_ = 0;
        if (me.filled_ <= 0) {
          me.filled_ = 0;
          me.truncated_ = true;
          png_error(png, "truncated");
        }
        me.offset_ += me.filled_;
      }
      const auto n = std::min<int64_t>(me.filled_ - me.position_, static_cast<int64_t>(size));
      std::memcpy(to, me.buffer_.data() + me.position_, static_cast<size_t>(n));
      me.position_ += n;
      to += n;
      size -= static_cast<size_t>(n);
    }
  }

  ByteSource& source_;
  const std::string& name_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  char error_[200] = "";
  bool truncated_ = false;
  std::vector<std::string> warnings_;
  PixelBuffer buffer_;
  int64_t offset_ = 0, position_ = 0, filled_ = 0;
};

class PngDecoder : public Decoder {
 public:
  using Decoder::Decoder;

  PageInfo info(int) override {
    PngReader reader(*source_, name_);
    return header(reader);
  }

  Page read(int, Bgr background, AlphaStats* stats) override {
    PngReader reader(*source_, name_);
    Page page;
    page.info = header(reader);
    png_structp png = reader.png();
    png_infop info = reader.info();
    width_ = static_cast<int>(png_get_image_width(png, info));
    height_ = static_cast<int>(png_get_image_height(png, info));
    const bool alpha = set_transforms(reader);
    const bool interlaced = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    check_rows(reader, alpha, interlaced, page.info);
    const int orientation = page.info.oriented ? page.info.orientation : 1;
    if (interlaced)
      read_interlaced(reader, page.image, alpha, background, stats, orientation);
    else
      read_rows(reader, page.image, alpha, background, stats, orientation);
    page.warnings = reader.take_warnings();
    return page;
  }

 private:
  PageInfo header(PngReader& reader) {
    png_structp png = reader.png();
    png_infop info = reader.info();
    // Texts and profiles are not wanted and can be bombs of compressed zeros.
    static constexpr png_byte kSkipped[] = "iCCP\0iTXt\0tEXt\0zTXt\0sPLT\0hIST\0eXIf";
    reader.call([&] {
      png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours are checked below
      png_set_chunk_malloc_max(png, 1 << 24);
      png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kSkipped, 7);
      png_read_info(png, info);
    });
    const int64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    check_limits(width, height);
    const ExifInfo exif = find_exif();
    png_uint_32 x = 0, y = 0;
    int unit = 0;
    double dpi = exif.dpi;
    if (png_get_pHYs(png, info, &x, &y, &unit) && unit == PNG_RESOLUTION_METER && x > 0)
      dpi = x * 0.0254;
    return make_info(width, height, exif.orientation, dpi);
  }

  // eXIf may follow the pixels, but orientation decides where those go: look for it before.
  ExifInfo find_exif() {
    int64_t offset = 8;
    for (int64_t i = 0; i < kMaxChunks; i++) {
      uint8_t head[8];
      if (source_->read_at(offset, head, 8) != 8) break;
      const int64_t length = int64_t{head[0]} << 24 | head[1] << 16 | head[2] << 8 | head[3];
      if (std::memcmp(head + 4, "IEND", 4) == 0) break;
      if (std::memcmp(head + 4, "eXIf", 4) == 0 && length <= kMaxExifBytes) {
        std::vector<uint8_t> block(static_cast<size_t>(length));
        if (source_->read_at(offset + 8, block.data(), length) != length) break;
        return parse_exif(block.data(), block.size());
      }
      offset += 12 + length;
    }
    return {};
  }

  // Asks for 8-bit BGR or, with transparency, BGRA rows; tells whether there is transparency.
  static bool set_transforms(PngReader& reader) {
    png_structp png = reader.png();
    png_infop info = reader.info();
    const int type = png_get_color_type(png, info);
    const bool transparent_colour = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    reader.call([&] {
      if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
      if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
      if (transparent_colour) png_set_tRNS_to_alpha(png);
      png_set_scale_16(png);
      if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
      png_set_bgr(png);
      png_set_interlace_handling(png);
      png_read_update_info(png, info);
    });
    return transparent_colour || (type & PNG_COLOR_MASK_ALPHA);
  }

  void check_rows(PngReader& reader, bool alpha, bool interlaced, const PageInfo& info) {
    const int channels = alpha ? 4 : 3;
    if (png_get_rowbytes(reader.png(), reader.info()) != size_t(channels) * size_t(width_))
      fail("is a PNG of an unknown pixel layout");
    int64_t extra = 32ll * width_;  // libpng's rows
    if (interlaced) {
      if (alpha) extra += int64_t{width_} * height_;
      if (info.oriented) extra += 3ll * width_ * height_;
      extra += int64_t{8} * height_;
    }
    check_memory(width_, height_, extra, interlaced ? "decoding an interlaced PNG" : "decoding");
  }

  void read_rows(PngReader& reader, Image& image, bool alpha, Bgr background, AlphaStats* stats,
                 int orientation) {
    RowWriter writer(image, width_, height_, orientation);
    PixelBuffer scratch(alpha ? size_t{4} * static_cast<size_t>(width_) : 0);
    for (int y = 0; y < height_; y++) {
      uint8_t* row = alpha ? scratch.data() : writer.row(y);
      reader.call([&] { png_read_row(reader.png(), row, nullptr); });
      if (alpha) composite_row(row, writer.row(y), width_, background, stats);
    }
    writer.finish();
  }

  // All passes fill the same buffer; BGRA is then packed to BGR in place.
  void read_interlaced(PngReader& reader, Image& image, bool alpha, Bgr background,
                       AlphaStats* stats, int orientation) {
    const size_t row_bytes = size_t(alpha ? 4 : 3) * size_t(width_);
    image.pixels.resize(row_bytes * static_cast<size_t>(height_));
    std::vector<png_bytep> rows(static_cast<size_t>(height_));
    for (size_t y = 0; y < rows.size(); y++) rows[y] = image.pixels.data() + y * row_bytes;
    reader.call([&] { png_read_image(reader.png(), rows.data()); });
    image.width = width_, image.height = height_;
    if (alpha) {
      for (int y = 0; y < height_; y++)
        composite_row(rows[static_cast<size_t>(y)], image.row(y), width_, background, stats);
      image.pixels.resize(size_t{3} * static_cast<size_t>(width_) * static_cast<size_t>(height_));
    }
    image = apply_orientation(std::move(image), orientation);
  }

  int width_ = 0, height_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> make_png(std::shared_ptr<ByteSource> source, const std::string& name,
                                  const DecodeOptions& options) {
  return std::make_unique<PngDecoder>(std::move(source), name, options);
}

}  // namespace ocr
