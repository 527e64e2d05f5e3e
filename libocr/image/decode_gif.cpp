#include <gif_lib.h>

#include "libocr/image/decoder.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

// giflib's handle with its read position.
class GifReader {
 public:
  explicit GifReader(ByteSource& source) : source_(source) {
    file_ = DGifOpen(this, on_read, &error_);
  }
  ~GifReader() {
    if (file_) DGifCloseFile(file_, nullptr);
  }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;

  GifFileType* file() { return file_; }
  bool at_end() const { return at_end_; }
  const char* message() const {
    const char* text = GifErrorString(file_ ? file_->Error : error_);
    return text ? text : "unknown error";
  }

 private:
  static int on_read(GifFileType* file, GifByteType* to, int size) {
    auto& me = *static_cast<GifReader*>(file->UserData);
    const int64_t got = me.source_.read_at(me.offset_, to, size);
    if (got < size) me.at_end_ = true;
    if (got <= 0) return 0;
    me.offset_ += got;
    return static_cast<int>(got);
  }

  ByteSource& source_;
  GifFileType* file_ = nullptr;
  int error_ = 0;
  int64_t offset_ = 0;
  bool at_end_ = false;
};

class GifDecoder : public Decoder {
 public:
  using Decoder::Decoder;

  PageInfo info(int) override {
    GifReader reader(*source_);
    const Canvas canvas = find_frame(reader);
    return make_info(canvas.width, canvas.height, 1, 0);
  }

  Page read(int, Bgr background, AlphaStats* stats) override {
    GifReader reader(*source_);
    const Canvas canvas = find_frame(reader);
    GifFileType* gif = reader.file();
    const GifImageDesc& frame = gif->Image;
    const ColorMapObject* colours = frame.ColorMap ? frame.ColorMap : gif->SColorMap;
    if (!colours || !colours->Colors) fail("is not a valid GIF: it has no colour table");
    Page page;
    page.info = make_info(canvas.width, canvas.height, 1, 0);
    page.image = Image(canvas.width, canvas.height);
    PixelBuffer line(static_cast<size_t>(frame.Width));
    PixelBuffer bgra(4 * line.size());
    for_each_line(frame.Height, frame.Interlace, [&](int y) {
      if (DGifGetLine(gif, line.data(), frame.Width) == GIF_ERROR) fail_gif(reader);
      for (size_t x = 0; x < line.size(); x++) {
        const int index = line[x];
        const GifColorType c =
            index < colours->ColorCount ? colours->Colors[index] : GifColorType{0, 0, 0};
        uint8_t* to = bgra.data() + 4 * x;
        to[0] = c.Blue, to[1] = c.Green, to[2] = c.Red,
        to[3] = index == canvas.transparent ? 0 : 255;
      }
      composite_row(bgra.data(), page.image.row(frame.Top + y) + 3 * frame.Left, frame.Width,
                    background, stats);
    });
    fill_around(page.image, frame, background);
    return page;
  }

 private:
  [[noreturn]] void fail_gif(GifReader& reader) {
    if (reader.at_end()) fail_truncated();
    fail(train::cat("is not a valid GIF: ", reader.message()));
  }

  // The picture's size, at least that of its first frame (many files state none), and the
  // transparent palette index, -1 for none.
  struct Canvas {
    int width, height, transparent;
  };

  // Goes to the first frame and checks it.
  Canvas find_frame(GifReader& reader) {
    if (!reader.file()) fail_gif(reader);
    const int transparent = find_descriptor(reader);
    const GifFileType* gif = reader.file();
    const GifImageDesc& frame = gif->Image;
    check_limits(frame.Width, frame.Height);
    if (frame.Left < 0 || frame.Top < 0)
      fail("is not a valid GIF: its first frame lies outside the canvas");
    const Canvas canvas{std::max(gif->SWidth, frame.Left + frame.Width),
                        std::max(gif->SHeight, frame.Top + frame.Height), transparent};
    check_limits(canvas.width, canvas.height);
    return canvas;
  }

  // After the frame is known to be complete, so that a few bytes do not make a huge canvas
  // resident.
  static void fill_around(Image& image, const GifImageDesc& frame, Bgr background) {
    const auto fill = [&](int y, int x0, int x1) {
      uint8_t* to = image.row(y);
      for (int x = x0; x < x1; x++)
        to[3 * x] = background.b, to[3 * x + 1] = background.g, to[3 * x + 2] = background.r;
    };
    for (int y = 0; y < image.height; y++) {
      const bool beside = y >= frame.Top && y < frame.Top + frame.Height;
      fill(y, 0, beside ? frame.Left : image.width);
      if (beside) fill(y, frame.Left + frame.Width, image.width);
    }
  }

  // Goes to the descriptor of the first frame; returns the transparent palette index, or -1.
  int find_descriptor(GifReader& reader) {
    GifFileType* gif = reader.file();
    int transparent = -1;
    for (;;) {
      GifRecordType type;
      if (DGifGetRecordType(gif, &type) == GIF_ERROR) fail_gif(reader);
      if (type == TERMINATE_RECORD_TYPE) fail("is a GIF without a picture");
      if (type == IMAGE_DESC_RECORD_TYPE) {
        if (DGifGetImageDesc(gif) == GIF_ERROR) fail_gif(reader);
        return transparent;
      }
      if (type != EXTENSION_RECORD_TYPE) continue;
      int code = 0;
      GifByteType* data = nullptr;
      if (DGifGetExtension(gif, &code, &data) == GIF_ERROR) fail_gif(reader);
      while (data) {
        if (code == GRAPHICS_EXT_FUNC_CODE && data[0] >= 4)
          transparent = data[1] & 1 ? data[4] : -1;
        if (DGifGetExtensionNext(gif, &data) == GIF_ERROR) fail_gif(reader);
      }
    }
  }

  template <class F>
  static void for_each_line(int height, bool interlaced, F&& f) {
    constexpr int kStart[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < (interlaced ? 4 : 1); pass++)
      for (int y = interlaced ? kStart[pass] : 0; y < height; y += interlaced ? kStep[pass] : 1)
        f(y);
  }
};

}  // namespace

std::unique_ptr<Decoder> make_gif(std::shared_ptr<ByteSource> source, const std::string& name,
                                  const DecodeOptions& options) {
  return std::make_unique<GifDecoder>(std::move(source), name, options);
}

}  // namespace ocr
