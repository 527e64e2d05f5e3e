#include <charconv>
#include <cstring>
#include <set>
#include <string_view>

#include "libocr/image/decoder.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int64_t kHeadBytes = 1024;

bool begins(const uint8_t* head, size_t size, std::string_view magic, size_t at = 0) {
  return size >= at + magic.size() && std::memcmp(head + at, magic.data(), magic.size()) == 0;
}

// Names formats that people do try, so that the message can say what to do.
std::string foreign_format(const uint8_t* head, size_t size) {
  using namespace std::string_view_literals;
  if (begins(head, size, "ftyp", 4)) {
    const std::string_view brand(reinterpret_cast<const char*>(head) + 8, size >= 12 ? 4 : 0);
    if (brand == "avif" || brand == "avis") return "an AVIF image";
    if (brand == "heic" || brand == "heix" || brand == "mif1" || brand == "hevc" || brand == "msf1")
      return "a HEIC image";
    return "a video or another ISO media file";
  }
  if (begins(head, size, "\0\0\0\x0cjP  "sv) || begins(head, size, "\xff\x4f\xff\x51"sv))
    return "a JPEG 2000 image";
  if (begins(head, size, "\xff\x0a"sv) || begins(head, size, "\0\0\0\x0cJXL "sv))
    return "a JPEG XL image";
  if (begins(head, size, "8BPS")) return "a Photoshop file";
  if (begins(head, size, "PK\x03\x04")) return "a ZIP archive or office document";
  if (begins(head, size, "AT&TFORM")) return "a DjVu document";
  if (begins(head, size, "%!PS")) return "a PostScript file";
  if (begins(head, size, "<svg") || begins(head, size, "<?xml") ||
      begins(head, size, "<!DOCTYPE") || begins(head, size, "<html"))
    return "an HTML, XML or SVG file";
  if (begins(head, size, "\0\0\1\0"sv)) return "an icon file";
  return "";
}

[[noreturn]] void fail_unknown(const std::string& name, const uint8_t* head, size_t size) {
  if (size == 0) throw train::FormatError(name + ": is empty (0 bytes)");
  const std::string foreign = foreign_format(head, size);
  throw train::FormatError(name + ": is " +
                           (foreign.empty() ? "not an image or document that is known"
                                            : foreign + ", which is not supported") +
                           "; convert it to JPEG, PNG, BMP, WebP, TIFF, PNM, GIF or PDF");
}

std::unique_ptr<Decoder> make_decoder(ImageFormat format, std::shared_ptr<ByteSource> source,
                                      const std::string& name, const DecodeOptions& options,
                                      const std::string& path) {
  switch (format) {
    case ImageFormat::kJpeg:
      return make_jpeg(std::move(source), name, options);
    case ImageFormat::kPng:
      return make_png(std::move(source), name, options);
    case ImageFormat::kBmp:
      return make_bmp(std::move(source), name, options);
    case ImageFormat::kWebp:
      return make_webp(std::move(source), name, options);
    case ImageFormat::kTiff:
      return make_tiff(std::move(source), name, options);
    case ImageFormat::kPnm:
      return make_pnm(std::move(source), name, options);
    case ImageFormat::kGif:
      return make_gif(std::move(source), name, options);
    case ImageFormat::kPdf:
      return make_pdf(std::move(source), name, options, path);
  }
  throw train::FormatError(name + ": is of an unknown format");
}

void check_options(const DecodeOptions& o) {
  if (!(o.dpi >= 1 && o.dpi <= 10'000))
    throw train::ConfigError("", 0, 0, train::cat("dpi is ", o.dpi, "; it must be 1 to 10000"));
  if (o.scale_denom != 1 && o.scale_denom != 2 && o.scale_denom != 4 && o.scale_denom != 8)
    throw train::ConfigError(
        "", 0, 0, train::cat("scale_denom is ", o.scale_denom, "; it must be 1, 2, 4 or 8"));
}

// Whatever runs out of memory below becomes an error that names the file.
template <class F>
auto with_memory_errors(const std::string& name, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw train::DeviceError(name + ": there is not enough memory to decode it");
  } catch (const std::length_error&) {
    throw train::DeviceError(name + ": there is not enough memory to decode it");
  }
}

std::pair<std::unique_ptr<Decoder>, ImageFormat> open_source(std::shared_ptr<ByteSource> source,
                                                             const std::string& name,
                                                             const DecodeOptions& options,
                                                             const std::string& path) {
  std::vector<uint8_t> head(kHeadBytes);
  const int64_t got = source->read_at(0, head.data(), kHeadBytes);
  if (got < 0)
    throw train::DataError(name, 0, train::cat("cannot be read: ", std::strerror(errno)));
  const std::optional<ImageFormat> format = sniff_format(head.data(), static_cast<size_t>(got));
  if (!format) fail_unknown(name, head.data(), static_cast<size_t>(got));
  return {make_decoder(*format, std::move(source), name, options, path), *format};
}

}  // namespace

const char* format_name(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "JPEG";
    case ImageFormat::kPng:
      return "PNG";
    case ImageFormat::kBmp:
      return "BMP";
    case ImageFormat::kWebp:
      return "WebP";
    case ImageFormat::kTiff:
      return "TIFF";
    case ImageFormat::kPnm:
      return "PNM";
    case ImageFormat::kGif:
      return "GIF";
    case ImageFormat::kPdf:
      return "PDF";
  }
  return "unknown";
}

std::optional<ImageFormat> sniff_format(const uint8_t* head, size_t size) {
  using namespace std::string_view_literals;
  if (begins(head, size, "\xff\xd8\xff"sv)) return ImageFormat::kJpeg;
  if (begins(head, size, "\x89PNG\r\n\x1a\n"sv)) return ImageFormat::kPng;
  if (begins(head, size, "RIFF") && begins(head, size, "WEBP", 8)) return ImageFormat::kWebp;
  if (begins(head, size, "II*\0"sv) || begins(head, size, "MM\0*"sv) ||
      begins(head, size, "II+\0"sv) || begins(head, size, "MM\0+"sv))
    return ImageFormat::kTiff;
  if (begins(head, size, "GIF87a") || begins(head, size, "GIF89a")) return ImageFormat::kGif;
  if (size >= 3 && head[0] == 'P' && head[1] >= '1' && head[1] <= '6' &&
      (head[2] == ' ' || head[2] == '\t' || head[2] == '\n' || head[2] == '\r' || head[2] == '#'))
    return ImageFormat::kPnm;
  // "BM" is a weak mark: the header size that follows must be one that exists.
  if (begins(head, size, "BM") && size >= 18 && head[15] <= 1 && head[16] == 0 && head[17] == 0 &&
      (head[14] == 12 || head[14] >= 40))
    return ImageFormat::kBmp;
  const std::string_view text(reinterpret_cast<const char*>(head),
                              std::min<size_t>(size, kHeadBytes));
  if (text.find("%PDF-") != text.npos) return ImageFormat::kPdf;
  return std::nullopt;
}

Document::Document(std::string name, std::unique_ptr<Decoder> decoder, ImageFormat format)
    : name_(std::move(name)),
      decoder_(std::move(decoder)),
      mutex_(std::make_unique<std::mutex>()),
      format_(format),
      page_count_(decoder_->page_count()) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

PageInfo Document::page_info(int index) {
  if (index < 0 || index >= page_count_)
    throw train::DataError(
        name_, 0, train::cat("has ", page_count_, " pages; page ", index + 1, " was asked for"));
  const std::lock_guard lock(*mutex_);
  return with_memory_errors(name_, [&] { return decoder_->info(index); });
}

Page Document::read_page(int index) {
  if (index < 0 || index >= page_count_)
    throw train::DataError(
        name_, 0, train::cat("has ", page_count_, " pages; page ", index + 1, " was asked for"));
  const std::lock_guard lock(*mutex_);
  return with_memory_errors(name_, [&] {
    const DecodeOptions& options = decoder_->options();
    const bool automatic = options.background == Background::kAutomatic;
    AlphaStats stats;
    Page page =
        decoder_->read(index, automatic ? Bgr{255, 255, 255} : options.background_colour, &stats);
    if (automatic && stats.prefers_black()) {
      page.image = Image();
      page = decoder_->read(index, Bgr{0, 0, 0}, nullptr);
    }
    page.index = index;
    return page;
  });
}

Document open_document(const std::string& path, const DecodeOptions& options) {
  check_options(options);
  return with_memory_errors(path, [&] {
    auto [decoder, format] =
        open_source(open_file(path, options.max_file_bytes), path, options, path);
    return Document(path, std::move(decoder), format);
  });
}

Document open_document(std::vector<uint8_t> bytes, const std::string& name,
                       const DecodeOptions& options) {
  check_options(options);
  return with_memory_errors(name, [&] {
    auto [decoder, format] = open_source(open_bytes(std::move(bytes)), name, options, "");
    return Document(name, std::move(decoder), format);
  });
}

Page read_image(const std::string& path, const DecodeOptions& options, int page) {
  return open_document(path, options).read_page(page);
}

std::vector<int> parse_page_range(const std::string& text, int page_count) {
  auto fail = [&] {
    throw train::ConfigError("", 0, 0,
                             "page range '" + text + "' is not like 1-3,7 (pages count from 1)");
  };
  auto number = [&](std::string_view part) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 1) fail();
    return value;
  };
  std::set<int> pages;
  std::string_view rest = text;
  if (rest.empty()) rest = "1-";
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    std::string_view part = rest.substr(0, comma);
    more = comma != rest.npos;
    rest = more ? rest.substr(comma + 1) : "";
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    const size_t dash = part.find('-');
    if (part.empty() || part == "-") fail();
    const int first = dash == 0 ? 1 : number(part.substr(0, dash));
    const int last = dash == part.npos         ? first
                     : dash + 1 == part.size() ? std::max(first, page_count)
                                               : number(part.substr(dash + 1));
    if (last < first) fail();
    for (int i = first; i <= std::min(last, page_count); i++) pages.insert(i - 1);
  }
  return {pages.begin(), pages.end()};
}

}  // namespace ocr
