#include <tiffio.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "libocr/image/decoder.h"
#include "libocr/image/tiff_pixels.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr size_t kMaxWarnings = 8;
constexpr int64_t kSmallRead = 1 << 16;

// libtiff's handle with its callbacks. libtiff returns error codes; the text of the last error is
// kept here.
class TiffFile {
 public:
  TiffFile(ByteSource& source, int64_t max_memory) : source_(source) {
    // A few places in libtiff know no handle and call the handlers of the process.
    static std::once_flag once;
    std::call_once(once, [] {
      TIFFSetErrorHandler(nullptr);
      TIFFSetWarningHandler(nullptr);
    });
    TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
    if (!options) throw std::bad_alloc();
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, max_memory);
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, this);
    // "m": no memory mapping.
    tiff_ = TIFFClientOpenExt("image", "rm", this, on_read, on_write, on_seek, on_close, on_size,
                              nullptr, nullptr, options);
    TIFFOpenOptionsFree(options);
  }
  ~TiffFile() {
    if (tiff_) TIFFClose(tiff_);
  }
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  TIFF* get() { return tiff_; }
  const std::string& error() const { return error_; }
  bool past_end() const { return past_end_; }
  void clear() { error_.clear(), warnings_.clear(), past_end_ = false; }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  static TiffFile& self(void* p) { return *static_cast<TiffFile*>(p); }

  static std::string format(const char* pattern, va_list arguments) {
    char text[300];
    std::vsnprintf(text, sizeof text, pattern, arguments);
    return text;
  }
  static int on_error(TIFF*, void* p, const char*, const char* pattern, va_list arguments) {
    try {
      if (self(p).error_.empty()) self(p).error_ = format(pattern, arguments);
    } catch (const std::bad_alloc&) {
    }
    return 1;
  }
  static int on_warning(TIFF*, void* p, const char*, const char* pattern, va_list arguments) {
    try {
      if (self(p).warnings_.size() < kMaxWarnings)
        self(p).warnings_.push_back(format(pattern, arguments));
    } catch (const std::bad_alloc&) {
    }
    return 1;
  }

  static tmsize_t on_read(thandle_t p, void* to, tmsize_t size) {
    TiffFile& me = self(p);
    const int64_t got = me.source_.read_at(me.offset_, to, size);
    if (got < size) me.past_end_ = true;
    if (got > 0) me.offset_ += got;
    return static_cast<tmsize_t>(got);
  }
  static tmsize_t on_write(thandle_t, void*, tmsize_t) { return -1; }
  static toff_t on_seek(thandle_t p, toff_t offset, int whence) {
    TiffFile& me = self(p);
    const auto by = static_cast<int64_t>(offset);
    me.offset_ = whence == SEEK_SET   ? by
                 : whence == SEEK_CUR ? me.offset_ + by
                                      : me.source_.size() + by;
    return static_cast<toff_t>(me.offset_);
  }
  static int on_close(thandle_t) { return 0; }
  static toff_t on_size(thandle_t p) { return static_cast<toff_t>(self(p).source_.size()); }

  ByteSource& source_;
  TIFF* tiff_ = nullptr;
  int64_t offset_ = 0;
  bool past_end_ = false;
  std::string error_;
  std::vector<std::string> warnings_;
};

class TiffDecoder : public Decoder {
 public:
  TiffDecoder(std::shared_ptr<ByteSource> source, const std::string& name,
              const DecodeOptions& options)
      : Decoder(std::move(source), name, options), file_(*source_, options_.max_memory) {
    if (!file_.get()) fail_tiff();
    list_pages();
  }

  int page_count() override { return static_cast<int>(pages_.size()); }

  PageInfo info(int page) override {
    select(page);
    const TiffLayout layout = read_layout();
    return page_info(layout);
  }

  Page read(int index, Bgr background, AlphaStats* stats) override {
    select(index);
    const TiffLayout layout = read_layout();
    Page page;
    page.info = page_info(layout);
    const int orientation = page.info.oriented ? page.info.orientation : 1;
    const TiffPixels pixels(layout, background, stats);
    if (!pixels.supported())
      read_by_libtiff(layout, page.image, orientation, background, stats);
    else if (layout.tiled)
      read_tiles(layout, pixels, page.image, orientation);
    else if (layout.planes() > 1)
      read_strips(layout, pixels, page.image, orientation);
    else
      read_lines(layout, pixels, page.image, orientation);
    page.warnings = file_.take_warnings();
    return page;
  }

 private:
  [[noreturn]] void fail_tiff() {
    const std::string& error = file_.error();
    if (file_.past_end()) fail("is truncated: the TIFF refers to data past the end of the file");
    fail("is not a valid TIFF: " + (error.empty() ? std::string("it cannot be read") : error));
  }

  // Offsets of the directories that are pages: not thumbnails, masks or reduced copies, unless all
  // are.
  void list_pages() {
    TIFF* tiff = file_.get();
    std::vector<uint64_t> all;
    do {
      uint32_t kind = 0;
      TIFFGetField(tiff, TIFFTAG_SUBFILETYPE, &kind);
      all.push_back(TIFFCurrentDirOffset(tiff));
      if (!(kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK))) pages_.push_back(all.back());
      if (static_cast<int>(all.size()) > options_.max_pages)
        fail(train::cat("has more than ", options_.max_pages, " pages, the limit"));
    } while (TIFFReadDirectory(tiff));
    if (pages_.empty()) pages_ = all;
  }

  void select(int page) {
    file_.clear();
    if (!TIFFSetSubDirectory(file_.get(), pages_[static_cast<size_t>(page)])) fail_tiff();
  }

  template <class T>
  T field(uint32_t tag, T otherwise) {
    T value = otherwise;
    return TIFFGetFieldDefaulted(file_.get(), tag, &value) ? value : otherwise;
  }

  TiffLayout read_layout() {
    TIFF* tiff = file_.get();
    TiffLayout l;
    l.width = field<uint32_t>(TIFFTAG_IMAGEWIDTH, 0);
    l.height = field<uint32_t>(TIFFTAG_IMAGELENGTH, 0);
    check_limits(l.width, l.height);
    l.bits = field<uint16_t>(TIFFTAG_BITSPERSAMPLE, 1);
    l.samples = field<uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1);
    l.compression = field<uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    l.separate =
        field<uint16_t>(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
    l.sample_format = field<uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    l.ink_set = field<uint16_t>(TIFFTAG_INKSET, INKSET_CMYK);
    l.tiled = TIFFIsTiled(tiff) != 0;
    if (!TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &l.photometric))
      l.photometric = l.samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    if (l.photometric == PHOTOMETRIC_YCBCR && l.compression == COMPRESSION_JPEG && !l.separate) {
      TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      l.photometric = PHOTOMETRIC_RGB;
    }
    read_extra_samples(l);
    if (l.photometric == PHOTOMETRIC_PALETTE && l.bits <= 8) {
      if (!TIFFGetField(tiff, TIFFTAG_COLORMAP, &l.red, &l.green, &l.blue))
        fail("is not a valid TIFF: it has no colour map");
    }
    return l;
  }

  void read_extra_samples(TiffLayout& l) {
    uint16_t count = 0, *kinds = nullptr;
    if (!TIFFGetField(file_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) || count == 0 || !kinds)
      return;
    if (kinds[0] == EXTRASAMPLE_ASSOCALPHA) l.alpha = TiffAlpha::kPremultiplied;
    if (kinds[0] == EXTRASAMPLE_UNASSALPHA) l.alpha = TiffAlpha::kStraight;
  }

  PageInfo page_info(const TiffLayout& l) {
    const int orientation = field<uint16_t>(TIFFTAG_ORIENTATION, 1);
    float resolution = 0;
    TIFFGetField(file_.get(), TIFFTAG_XRESOLUTION, &resolution);
    const uint16_t unit = field<uint16_t>(TIFFTAG_RESOLUTIONUNIT, RESUNIT_INCH);
    double dpi = unit == RESUNIT_NONE ? 0 : resolution * (unit == RESUNIT_CENTIMETER ? 2.54 : 1);
    if (!(dpi >= 1 && dpi < 1e5)) dpi = 0;
    return make_info(l.width, l.height, orientation >= 1 && orientation <= 8 ? orientation : 1,
                     dpi);
  }

  void read_lines(const TiffLayout& l, const TiffPixels& pixels, Image& image, int orientation) {
    const int64_t line_bytes = TIFFScanlineSize64(file_.get());
    if (line_bytes < pixels.row_bytes(l.width)) fail("is not a valid TIFF: its rows are too short");
    check_memory(l.width, l.height, line_bytes + pixels.scratch_bytes(l.width) + raw_bytes(l),
                 "decoding");
    RowWriter writer(image, l.width, l.height, orientation);
    PixelBuffer line(static_cast<size_t>(line_bytes)),
        scratch(static_cast<size_t>(pixels.scratch_bytes(l.width)));
    for (int y = 0; y < l.height; y++) {
      if (TIFFReadScanline(file_.get(), line.data(), static_cast<uint32_t>(y), 0) < 0) fail_tiff();
      pixels.unpack(line.data(), l.width, 0, scratch.data());
      pixels.convert(scratch.data(), writer.row(y), l.width);
    }
    writer.finish();
  }

  // What libtiff holds of the compressed bytes of a strip: all of it for codecs that cannot stream.
  int64_t raw_bytes(const TiffLayout& l) {
    if (l.compression == COMPRESSION_NONE) return kSmallRead;
    int64_t most = 0;
    const uint32_t strips = TIFFNumberOfStrips(file_.get());
    for (uint32_t i = 0; i < strips; i++)
      most = std::max(
          most, static_cast<int64_t>(std::min<uint64_t>(TIFFGetStrileByteCount(file_.get(), i),
                                                        static_cast<uint64_t>(source_->size()))));
    return most;
  }

  // Planes stored one after the other: the strips of all planes that hold the same rows are read
  // together.
  void read_strips(const TiffLayout& l, const TiffPixels& pixels, Image& image, int orientation) {
    TIFF* tiff = file_.get();
    const int per_strip = static_cast<int>(std::min<uint32_t>(
        field<uint32_t>(TIFFTAG_ROWSPERSTRIP, UINT32_MAX), static_cast<uint32_t>(l.height)));
    const int64_t strip_bytes = TIFFStripSize64(tiff), row_bytes = pixels.row_bytes(l.width);
    const int64_t scratch_row = pixels.scratch_bytes(l.width);
    if (per_strip <= 0 || strip_bytes < row_bytes * per_strip)
      fail("is not a valid TIFF: its strips are too short");
    check_memory(l.width, l.height,
                 strip_bytes + scratch_row * per_strip +
                     RowWriter::band_bytes(l.width, orientation, per_strip),
                 "decoding its separate planes");
    RowWriter writer(image, l.width, l.height, orientation, per_strip);
    PixelBuffer strip(static_cast<size_t>(strip_bytes)),
        scratch(static_cast<size_t>(scratch_row * per_strip));
    for (int top = 0; top < l.height; top += per_strip) {
      const int rows = std::min(per_strip, l.height - top);
      for (int plane = 0; plane < l.planes(); plane++) {
        const uint32_t index =
            TIFFComputeStrip(tiff, static_cast<uint32_t>(top), static_cast<uint16_t>(plane));
        if (TIFFReadEncodedStrip(tiff, index, strip.data(),
                                 static_cast<tmsize_t>(row_bytes * rows)) < row_bytes * rows)
          fail_tiff();
        for (int y = 0; y < rows; y++)
          pixels.unpack(strip.data() + y * row_bytes, l.width, plane,
                        scratch.data() + y * scratch_row);
      }
      for (int y = 0; y < rows; y++)
        pixels.convert(scratch.data() + y * scratch_row, writer.row(top + y), l.width);
    }
    writer.finish();
  }

  void read_tiles(const TiffLayout& l, const TiffPixels& pixels, Image& image, int orientation) {
    TIFF* tiff = file_.get();
    const int64_t tile_width = field<uint32_t>(TIFFTAG_TILEWIDTH, 0),
                  tile_height = field<uint32_t>(TIFFTAG_TILELENGTH, 0);
    const int64_t tile_bytes = TIFFTileSize64(tiff);
    if (tile_width <= 0 || tile_height <= 0 || tile_width > options_.max_side ||
        tile_height > options_.max_side)
      fail(train::cat("is not a valid TIFF: its tiles are ", tile_width, " x ", tile_height));
    const int64_t row_bytes = pixels.row_bytes(tile_width),
                  scratch_row = pixels.scratch_bytes(tile_width);
    if (tile_bytes < row_bytes * tile_height) fail("is not a valid TIFF: its tiles are too short");
    const int band = static_cast<int>(std::min<int64_t>(tile_height, l.height));
    check_memory(
        l.width, l.height,
        tile_bytes + scratch_row * tile_height + RowWriter::band_bytes(l.width, orientation, band),
        "decoding its tiles");
    RowWriter writer(image, l.width, l.height, orientation, band);
    PixelBuffer tile(static_cast<size_t>(tile_bytes)),
        scratch(static_cast<size_t>(scratch_row * tile_height));
    for (int64_t top = 0; top < l.height; top += tile_height)
      for (int64_t left = 0; left < l.width; left += tile_width) {
        const int rows = static_cast<int>(std::min(tile_height, l.height - top));
        const int columns = static_cast<int>(std::min(tile_width, l.width - left));
        for (int plane = 0; plane < l.planes(); plane++) {
          if (TIFFReadTile(tiff, tile.data(), static_cast<uint32_t>(left),
                           static_cast<uint32_t>(top), 0,
                           static_cast<uint16_t>(plane)) < row_bytes * rows)
            fail_tiff();
          for (int y = 0; y < rows; y++)
            pixels.unpack(tile.data() + y * row_bytes, columns, plane,
                          scratch.data() + y * scratch_row);
        }
        for (int y = 0; y < rows; y++)
          pixels.convert(scratch.data() + y * scratch_row,
                         writer.row(static_cast<int>(top) + y) + 3 * left, columns);
      }
    writer.finish();
  }

  // Rare layouts (subsampled YCbCr without JPEG, CIE L*a*b*, old JPEG): libtiff's own conversion to
  // RGBA.
  void read_by_libtiff(const TiffLayout& l, Image& image, int orientation, Bgr background,
                       AlphaStats* stats) {
    TIFF* tiff = file_.get();
    char message[1024] = "";
    if (!TIFFRGBAImageOK(tiff, message))
      fail(train::cat("is a TIFF that is not supported: ", message));
    const int64_t band_rows =
        l.tiled ? field<uint32_t>(TIFFTAG_TILELENGTH, 0)
                : std::min<int64_t>(field<uint32_t>(TIFFTAG_ROWSPERSTRIP, UINT32_MAX), l.height);
    if (band_rows <= 0 || band_rows > options_.max_side)
      fail("is not a valid TIFF: its strips or tiles have no rows");
    const int band = static_cast<int>(std::min<int64_t>(band_rows, l.height));
    // libtiff itself holds one strip or row of tiles, up to 16 bytes a pixel.
    check_memory(l.width, l.height,
                 20ll * l.width * band + RowWriter::band_bytes(l.width, orientation, band),
                 "decoding");
    TIFFRGBAImage reader;
    if (!TIFFRGBAImageBegin(&reader, tiff, 1, message))
      fail(train::cat("is a TIFF that is not supported: ", message));
    const std::unique_ptr<TIFFRGBAImage, void (*)(TIFFRGBAImage*)> end(&reader, TIFFRGBAImageEnd);
    reader.req_orientation = reader.orientation;  // turned here instead, row by row
    RowWriter writer(image, l.width, l.height, orientation, band);
    std::vector<uint32_t> raster(static_cast<size_t>(l.width) * static_cast<size_t>(band));
    PixelBuffer bgra(size_t{4} * static_cast<size_t>(l.width));
    for (int top = 0; top < l.height; top += band) {
      const int rows = std::min(band, l.height - top);
      reader.row_offset = top;
      reader.col_offset = 0;
      if (!TIFFRGBAImageGet(&reader, raster.data(), static_cast<uint32_t>(l.width),
                            static_cast<uint32_t>(rows)))
        fail_tiff();
      for (int y = 0; y < rows; y++) {
        const uint32_t* from =
            raster.data() + static_cast<size_t>(y) * static_cast<size_t>(l.width);
        for (size_t x = 0; x < static_cast<size_t>(l.width); x++) {
          bgra[4 * x] = static_cast<uint8_t>(TIFFGetB(from[x]));
          bgra[4 * x + 1] = static_cast<uint8_t>(TIFFGetG(from[x]));
          bgra[4 * x + 2] = static_cast<uint8_t>(TIFFGetR(from[x]));
          bgra[4 * x + 3] = static_cast<uint8_t>(TIFFGetA(from[x]));
        }
        composite_row(bgra.data(), writer.row(top + y), l.width, background, stats);
      }
    }
    writer.finish();
  }

  TiffFile file_;
  std::vector<uint64_t> pages_;
};

}  // namespace

std::unique_ptr<Decoder> make_tiff(std::shared_ptr<ByteSource> source, const std::string& name,
                                   const DecodeOptions& options) {
  return std::make_unique<TiffDecoder>(std::move(source), name, options);
}

}  // namespace ocr
