#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "libocr/image/decode.h"
#include "libocr/pipeline/batch.h"
#include "libocr/pipeline/ocr.h"
#include "libocr/pipeline/pipeline.h"
#include "libocr/pipeline/writers.h"
#include "libtrain/core/error.h"
#include "libtrain/core/version.h"

struct ocr_reader {
  std::shared_ptr<const ocr::Pipeline> pipeline;
};

namespace {

thread_local std::string last_error;

// Runs `body`; whatever it throws becomes the thread's last error and null.
template <class F>
auto guarded(F&& body) -> decltype(body()) {
  last_error.clear();
  try {
    return body();
  } catch (const std::bad_alloc&) {
    last_error = "not enough memory";
  } catch (const std::exception& e) {
    last_error = e.what();
  } catch (...) {
    last_error = "unknown error";
  }
  return nullptr;
}

void require(bool ok, const char* message) {
  if (!ok) throw train::Error(message);
}

char* copy_out(const std::string& text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

char* to_json(const ocr_reader& reader, const ocr::DocumentResult& document) {
  return copy_out(
      ocr::write_document(document, reader.pipeline->info(), ocr::Format::kJson, document.path));
}

char* read_document(const ocr_reader& reader, ocr::Document document) {
  const ocr::Options& options = reader.pipeline->options();
  ocr::DocumentResult result;
  result.path = document.name();
  result.page_count = document.page_count();
  for (const int index : ocr::parse_page_range(options.pages.value, document.page_count())) {
    const ocr::Page page = document.read_page(index);
    result.pages.push_back(reader.pipeline->run(page.image.view()));
    ocr::describe_page(page, result.pages.back());
  }
  return to_json(reader, result);
}

}  // namespace

extern "C" {

int ocr_abi_version(void) { return OCR_ABI_VERSION; }
const char* ocr_version(void) { return train::kVersion; }
const char* ocr_last_error(void) { return last_error.c_str(); }

ocr_reader* ocr_open(const char* settings) {
  return guarded([&]() -> ocr_reader* {
    ocr::Options options;
    std::vector<std::string> warnings;
    if (settings) ocr::load_config_text(options, settings, "settings", true, warnings);
    auto reader = std::make_unique<ocr_reader>();
    reader->pipeline = ocr::Pipeline::open(std::move(options), &warnings);
    return reader.release();
  });
}

void ocr_close(ocr_reader* reader) { delete reader; }
void ocr_free(char* json) { std::free(json); }

char* ocr_read_file(const ocr_reader* reader, const char* path) {
  return guarded([&] {
    require(reader && path, "ocr_read_file: a null argument");
    return read_document(
        *reader, ocr::open_document(path, ocr::decode_options(reader->pipeline->options())));
  });
}

char* ocr_read_bytes(const ocr_reader* reader, const void* bytes, size_t size, const char* name) {
  return guarded([&] {
    require(reader && bytes, "ocr_read_bytes: a null argument");
    const auto* begin = static_cast<const uint8_t*>(bytes);
    return read_document(
        *reader,
        ocr::open_document(std::vector<uint8_t>(begin, begin + size), name ? name : "bytes",
                           ocr::decode_options(reader->pipeline->options())));
  });
}

char* ocr_read_pixels(const ocr_reader* reader, const uint8_t* pixels, int width, int height,
                      int channels, ptrdiff_t stride) {
  return guarded([&] {
    require(reader && pixels, "ocr_read_pixels: a null argument");
    require(width > 0 && height > 0, "ocr_read_pixels: an image without pixels");
    require(channels == 1 || channels == 3 || channels == 4,
            "ocr_read_pixels: channels must be 1, 3 or 4");
    require(std::abs(stride) >= ptrdiff_t{width} * channels,
            "ocr_read_pixels: rows would overlap; stride counts bytes");
    ocr::Image copy;
    ocr::ImageView view{pixels, width, height, stride};
    if (channels != 3) {
      copy = ocr::Image(width, height);
      for (int y = 0; y < height; ++y) {
        const uint8_t* from = pixels + y * stride;
        uint8_t* to = copy.row(y);
        for (int x = 0; x < width; ++x, to += 3, from += channels)
          for (int c = 0; c < 3; ++c) to[c] = from[channels == 1 ? 0 : c];
      }
      view = copy.view();
    }
    ocr::DocumentResult result;
    result.path = "pixels";
    result.pages.push_back(reader->pipeline->run(view));
    return to_json(*reader, result);
  });
}

}  // extern "C"
