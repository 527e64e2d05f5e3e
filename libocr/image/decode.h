// Reading images and documents: JPEG, PNG, BMP, WebP, TIFF, PNM, GIF and PDF, recognised by
// content.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libocr/image/image.h"

namespace ocr {

enum class ImageFormat { kJpeg, kPng, kBmp, kWebp, kTiff, kPnm, kGif, kPdf };

/// "JPEG", "PNG", ...
const char* format_name(ImageFormat format);

/// What transparent pixels are laid on. kAutomatic takes white, or black if the visible pixels are
/// light on average (128 or more of 255), since light text would vanish on white; RapidOCR decides
/// the same way.
enum class Background { kColour, kAutomatic };

/// How to decode, and the limits for hostile input; they are checked before memory is taken.
struct DecodeOptions {
  bool exif_orientation = true;  // turn and mirror as the file's orientation tag asks
  double dpi = 200;              // resolution at which PDF pages are rendered
  Background background = Background::kAutomatic;
  Bgr background_colour = {255, 255, 255};
  int scale_denom = 1;  // JPEG only: 2, 4 or 8 decode at 1/2, 1/4 or 1/8 of the size, rounded up
  std::string pdf_password;  // user or owner password of encrypted PDFs

  int max_side = 262'144;            // pixels, either side
  int64_t max_pixels = 512ll << 20;  // a 20,000 x 20,000 scan passes
  int64_t max_memory = 4ll << 30;    // bytes one decode may take, the image itself included
  int64_t max_file_bytes =
      2ll << 30;  // of what must be held in memory: pipes, WebP, PDF given as bytes
  int max_pages = 100'000;
};

/// What a page is before it is decoded; sides are those of the decoded image (upright, scaled).
struct PageInfo {
  int width = 0, height = 0;
  double dpi =
      0;  // horizontal resolution the file states, 0 if it states none; for PDF the one rendered at
  int orientation = 1;    // EXIF tag of the file, 1 to 8
  bool oriented = false;  // whether the pixels are turned by it
};

/// One decoded page.
struct Page {
  Image image;
  PageInfo info;
  int index = 0;                      // from 0
  std::vector<std::string> warnings;  // damage that the decoder could work around
};

class Decoder;  // one format's reader, internal

/// An opened file. Pages are decoded one at a time, so memory holds one page whatever the page
/// count. Calls on one Document are serialised inside; different Documents are independent, so use
/// one per thread for speed.
class Document {
 public:
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  const std::string& name() const { return name_; }
  ImageFormat format() const { return format_; }
  int page_count() const { return page_count_; }

  /// Size and resolution of page `index` (from 0) without decoding it; checks the limits. Errors as
  /// read_page.
  PageInfo page_info(int index);

  /// Decodes page `index` (from 0). Throws train::FormatError (damaged, truncated, over a limit,
  /// not supported), train::DataError (cannot be read) or train::DeviceError (memory short); each
  /// names the file.
  Page read_page(int index);

 private:
  friend Document open_document(const std::string&, const DecodeOptions&);
  friend Document open_document(std::vector<uint8_t>, const std::string&, const DecodeOptions&);
  Document(std::string name, std::unique_ptr<Decoder> decoder, ImageFormat format);

  std::string name_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<std::mutex> mutex_;
  ImageFormat format_;
  int page_count_ = 0;
};

/// Opens a file by path (bytes as the system gave them). The extension is not looked at. Errors as
/// read_page.
Document open_document(const std::string& path, const DecodeOptions& options = {});

/// Opens an encoded image or document in memory; `name` stands in for the path in messages.
Document open_document(std::vector<uint8_t> bytes, const std::string& name,
                       const DecodeOptions& options = {});

/// Decodes one page (from 0) of a file.
Page read_image(const std::string& path, const DecodeOptions& options = {}, int page = 0);

/// Format of the bytes that a file begins with (1 KiB is enough), or nothing if it is none of ours.
std::optional<ImageFormat> sniff_format(const uint8_t* head, size_t size);

/// Pages named by a list of numbers and ranges that count from 1: "1-3,7", "5-" (to the end), "-2"
/// (the first two), and
/// "" for all. Returns indices from 0, ascending, each once; numbers past the end are left out.
/// Throws train::ConfigError for anything else.
std::vector<int> parse_page_range(const std::string& text, int page_count);

}  // namespace ocr
