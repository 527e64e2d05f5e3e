#include "libocr/image/encode.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <functional>
#include <memory>
// jpeglib.h needs FILE and size_t declared before it.
#include <jpeglib.h>

#include "libocr/image/atomic_file.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

/// Takes encoded bytes; false stops the encoder. Called from C code, so it does not throw.
using Sink = std::function<bool(const uint8_t*, size_t)>;

// Errors leave the libraries by longjmp across frames that own nothing; see the readers.
class PngWriter {
 public:
  explicit PngWriter(const Sink& sink) : sink_(sink) {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, on_error,
                                   [](png_structp, png_const_charp) {});
    if (png_) info_ = png_create_info_struct(png_);
    if (!png_ || !info_) {
      png_destroy_write_struct(&png_, &info_);
      throw std::bad_alloc();
    }
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  /// False if the sink refused bytes; throws train::FormatError if libpng refused the image.
  bool write(const ImageView& image, const EncodeOptions& options) {
    if (setjmp(jump_) != 0) {
      if (refused_) return false;
      throw train::FormatError(train::cat("the image cannot be stored as PNG: ", error_));
    }
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_write_fn(png_, this, on_write, [](png_structp) {});
    png_set_compression_level(png_, std::clamp(options.png_compression, 0, 9));
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(image.width),
                 static_cast<png_uint_32>(image.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (options.dpi > 0) {
      const auto per_metre = static_cast<png_uint_32>(options.dpi / 0.0254 + 0.5);
      png_set_pHYs(png_, info_, per_metre, per_metre, PNG_RESOLUTION_METER);
    }
    png_write_info(png_, info_);
    png_set_bgr(png_);
    for (int y = 0; y < image.height; y++) png_write_row(png_, image.row(y));
    png_write_end(png_, info_);
    return true;
  }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    auto& me = *static_cast<PngWriter*>(png_get_error_ptr(png));
    std::snprintf(me.error_, sizeof me.error_, "%s", message);
    std::longjmp(me.jump_, 1);
  }
  static void on_write(png_structp png, png_bytep data, png_size_t size) {
    auto& me = *static_cast<PngWriter*>(png_get_io_ptr(png));
    if (me.sink_(data, size)) return;
    me.refused_ = true;
    png_error(png, "cannot be written");
  }

  const Sink& sink_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  char error_[200] = "";
  bool refused_ = false;
};

class JpegWriter {
 public:
  explicit JpegWriter(const Sink& sink) : sink_(sink) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = on_error;
    errors_.output_message = [](j_common_ptr) {};
    output_.init_destination = restart;
    output_.empty_output_buffer = on_full;
    output_.term_destination = on_end;
  }
  ~JpegWriter() { jpeg_destroy_compress(&info_); }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  /// False if the sink refused bytes; throws train::FormatError if libjpeg refused the image.
  bool write(const ImageView& image, const EncodeOptions& options) {
    if (setjmp(jump_) != 0) {
      if (refused_) return false;
      throw train::FormatError(train::cat("the image cannot be stored as JPEG: ", error_));
    }
    jpeg_create_compress(&info_);
    info_.dest = &output_;
    info_.image_width = static_cast<JDIMENSION>(image.width);
    info_.image_height = static_cast<JDIMENSION>(image.height);
    info_.input_components = 3;
    info_.in_color_space = JCS_EXT_BGR;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, std::clamp(options.jpeg_quality, 1, 100), TRUE);
    if (options.dpi > 0 && options.dpi < 65535) {
      info_.density_unit = 1;
      info_.X_density = info_.Y_density = static_cast<UINT16>(options.dpi + 0.5);
    }
    jpeg_start_compress(&info_, TRUE);
    while (info_.next_scanline < info_.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(info_.next_scanline)));
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

 private:
  static JpegWriter& self(j_compress_ptr info) {
    return *static_cast<JpegWriter*>(info->client_data);
  }
  static void on_error(j_common_ptr info) {
    JpegWriter& me = *static_cast<JpegWriter*>(info->client_data);
    info->err->format_message(info, me.error_);
    std::longjmp(me.jump_, 1);
  }
  static void restart(j_compress_ptr info) {
    self(info).output_.next_output_byte = self(info).buffer_;
    self(info).output_.free_in_buffer = sizeof self(info).buffer_;
  }
  void send(size_t size) {
    if (sink_(buffer_, size)) return;
    refused_ = true;
    std::longjmp(jump_, 1);
  }
  static boolean on_full(j_compress_ptr info) {
    self(info).send(sizeof self(info).buffer_);
    restart(info);
    return TRUE;
  }
  static void on_end(j_compress_ptr info) {
    self(info).send(sizeof self(info).buffer_ - self(info).output_.free_in_buffer);
  }

  const Sink& sink_;
  jpeg_compress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_destination_mgr output_ = {};
  std::jmp_buf jump_;
  char error_[JMSG_LENGTH_MAX] = "";
  bool refused_ = false;
  JOCTET buffer_[1 << 15];
};

enum class Kind { kPng, kJpeg };

Kind kind_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  std::string extension = dot == path.npos ? "" : path.substr(dot);
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (extension == ".png") return Kind::kPng;
  if (extension == ".jpg" || extension == ".jpeg") return Kind::kJpeg;
  throw train::ConfigError("", 0, 0, path + ": images are written as .png, .jpg or .jpeg");
}

bool encode(Kind kind, const ImageView& image, const EncodeOptions& options, const Sink& sink) {
  if (image.empty()) throw train::FormatError("an image without pixels cannot be stored");
  if (kind == Kind::kPng) return PngWriter(sink).write(image, options);
  return std::make_unique<JpegWriter>(sink)->write(image, options);
}

std::vector<uint8_t> encode_to_memory(Kind kind, const ImageView& image,
                                      const EncodeOptions& options) {
  std::vector<uint8_t> bytes;
  const bool done = encode(kind, image, options, [&](const uint8_t* data, size_t size) noexcept {
    try {
      bytes.insert(bytes.end(), data, data + size);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
  if (!done) throw std::bad_alloc();
  return bytes;
}

}  // namespace

void write_image(const std::string& path, const ImageView& image, const EncodeOptions& options) {
  const Kind kind = kind_of(path);
  AtomicFile file(path);
  try {
    encode(kind, image, options,
           [&](const uint8_t* data, size_t size) noexcept { return file.write(data, size); });
  } catch (const train::FormatError& e) {
    throw train::FormatError(path + ": " + e.what());
  }
  file.commit();
}

std::vector<uint8_t> encode_png(const ImageView& image, const EncodeOptions& options) {
  return encode_to_memory(Kind::kPng, image, options);
}

std::vector<uint8_t> encode_jpeg(const ImageView& image, const EncodeOptions& options) {
  return encode_to_memory(Kind::kJpeg, image, options);
}

}  // namespace ocr
