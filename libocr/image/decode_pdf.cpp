#include <poppler/cpp/poppler-document.h>
#include <poppler/cpp/poppler-global.h>
#include <poppler/cpp/poppler-image.h>
#include <poppler/cpp/poppler-page-renderer.h>
#include <poppler/cpp/poppler-page.h>

#include <cmath>
#include <cstring>
#include <mutex>

#include "libocr/image/decoder.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr size_t kMaxMessages = 8;
constexpr int64_t kBandPixels = 32 << 20;  // rendered at a time; larger pages are rendered in bands

// poppler has one error callback per process and calls it on the thread that works.
thread_local std::vector<std::string>* messages = nullptr;

void on_message(const std::string& text, void*) {
  if (!messages || messages->size() >= kMaxMessages) return;
  // The same complaint comes once per use of a font or object.
  if (std::find(messages->begin(), messages->end(), text) == messages->end())
    messages->push_back(text);
}

// Collects poppler's messages of this thread while it lives.
class MessageScope {
 public:
  explicit MessageScope(std::vector<std::string>& to) : before_(messages) { messages = &to; }
  ~MessageScope() { messages = before_; }
  MessageScope(const MessageScope&) = delete;
  MessageScope& operator=(const MessageScope&) = delete;

 private:
  std::vector<std::string>* before_;
};

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] { poppler::set_debug_error_function(on_message, nullptr); });
}

class PdfDecoder : public Decoder {
 public:
  PdfDecoder(std::shared_ptr<ByteSource> source, const std::string& name,
             const DecodeOptions& options, const std::string& path)
      : Decoder(std::move(source), name, options) {
    install_handler();
    std::vector<std::string> problems;
    const MessageScope scope(problems);
    const std::string& password = options_.pdf_password;
    if (!path.empty() && !source_->memory()) {
      document_.reset(poppler::document::load_from_file(path, password, password));
    } else {
      bytes_ = read_all(*source_, name_, std::min<int64_t>(options_.max_file_bytes, INT32_MAX));
      document_.reset(poppler::document::load_from_raw_data(
          reinterpret_cast<const char*>(bytes_.data()), static_cast<int>(bytes_.size()), password,
          password));
    }
    if (!document_)
      fail("is not a PDF that can be read" + (problems.empty() ? "" : ": " + problems.front()));
    if (document_->is_locked())
      fail(password.empty() ? "is an encrypted PDF and needs a password"
                            : "is an encrypted PDF and the password given does not open it");
    if (document_->pages() <= 0) fail("is a PDF without pages");
    if (document_->pages() > options_.max_pages)
      fail(train::cat("has ", document_->pages(), " pages; the limit is ", options_.max_pages));
  }

  int page_count() override { return document_->pages(); }

  PageInfo info(int index) override {
    std::vector<std::string> problems;
    const MessageScope scope(problems);
    return page_info(*load(index, problems), index);
  }

  Page read(int index, Bgr background, AlphaStats*) override {
    Page out;
    const MessageScope scope(out.warnings);
    const std::unique_ptr<poppler::page> page = load(index, out.warnings);
    out.info = page_info(*page, index);
    poppler::page_renderer renderer;
    renderer.set_image_format(poppler::image::format_bgr24);
    renderer.set_render_hints(poppler::page_renderer::antialiasing |
                              poppler::page_renderer::text_antialiasing);
    renderer.set_paper_color(0xff000000u | static_cast<unsigned>(background.r) << 16 |
                             static_cast<unsigned>(background.g) << 8 | background.b);
    out.image = Image(out.info.width, out.info.height);
    const int width = out.info.width, height = out.info.height;
    const int band = static_cast<int>(std::clamp<int64_t>(kBandPixels / width, 1, height));
    for (int top = 0; top < height; top += band) {
      const int rows = std::min(band, height - top);
      const poppler::image part =
          renderer.render_page(page.get(), options_.dpi, options_.dpi, 0, top, width, rows);
      if (!part.is_valid() || part.width() != width || part.height() != rows ||
          part.format() != poppler::image::format_bgr24)
        fail(train::cat("page ", index + 1, " cannot be rendered",
                        out.warnings.empty() ? "" : ": " + out.warnings.front()));
      for (int y = 0; y < rows; y++)
        std::memcpy(out.image.row(top + y), part.const_data() + ptrdiff_t{y} * part.bytes_per_row(),
                    size_t{3} * static_cast<size_t>(width));
    }
    return out;
  }

 private:
  std::unique_ptr<poppler::page> load(int index, const std::vector<std::string>& problems) {
    std::unique_ptr<poppler::page> page(document_->create_page(index));
    if (!page)
      fail(train::cat("page ", index + 1, " is damaged",
                      problems.empty() ? "" : ": " + problems.front()));
    return page;
  }

  PageInfo page_info(const poppler::page& page, int index) {
    const poppler::rectf box = page.page_rect();
    double width = box.width() * options_.dpi / 72, height = box.height() * options_.dpi / 72;
    const auto turned = page.orientation();
    if (turned == poppler::page::landscape || turned == poppler::page::seascape)
      std::swap(width, height);
    if (!(width > 0 && height > 0 && std::isfinite(width) && std::isfinite(height)))
      fail(train::cat("page ", index + 1, " has no size"));
    const double w = std::ceil(width - 1e-6), h = std::ceil(height - 1e-6);
    if (w > options_.max_side || h > options_.max_side ||
        w * h > static_cast<double>(options_.max_pixels))
      fail(train::cat("page ", index + 1, " is ", box.width() / 72, " x ", box.height() / 72,
                      " inches, at ", options_.dpi, " dpi ", w, " x ", h,
                      " pixels: over the limit of ", options_.max_pixels,
                      " pixels; use a lower dpi"));
    const auto columns = static_cast<int64_t>(w), rows = static_cast<int64_t>(h);
    // poppler holds a band twice: its bitmap and the image made of it.
    check_limits(columns, rows, 6 * std::min(columns * rows, std::max(kBandPixels, columns)));
    return make_info(columns, rows, 1, options_.dpi);
  }

  std::vector<uint8_t> bytes_;
  std::unique_ptr<poppler::document> document_;
};

}  // namespace

std::unique_ptr<Decoder> make_pdf(std::shared_ptr<ByteSource> source, const std::string& name,
                                  const DecodeOptions& options, const std::string& path) {
  return std::make_unique<PdfDecoder>(std::move(source), name, options, path);
}

}  // namespace ocr
