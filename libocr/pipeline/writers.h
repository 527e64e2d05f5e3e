// Results as text in the formats that docs/output_formats.md describes.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libocr/pipeline/result.h"

namespace ocr {

enum class Format { kText, kJson, kJsonl, kTsv, kPaddle, kPaddle3 };

/// Throws train::ConfigError on an unknown name.
Format parse_format(std::string_view name);
/// The extension of files in this format, e.g. ".json".
const char* extension_of(Format format);
/// Version of the JSON layout; it changes when a reader of the old one would misread the new one.
inline constexpr const char* kSchema = "ocr-result/1";

/// One document in `format`, ending with a newline unless empty. `key` stands for the document's
/// name in the paddle format. `text` puts an empty line between pages.
std::string write_document(const DocumentResult& document, const RunInfo& run, Format format,
                           const std::string& key);

/// One page as one line (kJsonl, kPaddle), its lines (kText, kTsv), or a whole document (kJson).
std::string write_page(const DocumentResult& document, const PageResult& page, const RunInfo& run,
                       Format format, const std::string& key);

/// The first line of kTsv, with its line feed; empty for the other formats.
std::string header_of(Format format);

/// A document that failed, as a line of kJsonl.
std::string write_error_line(const DocumentResult& document);

/// Files that failed, as the JSON summary of a run lists them.
struct RunSummary {
  int64_t documents = 0, pages = 0, lines = 0, failed = 0, skipped = 0;
  double seconds = 0;
  bool interrupted = false;
  std::vector<std::pair<std::string, std::string>> errors;  // path, message
};
std::string write_summary(const RunSummary& summary, const RunInfo& run);

/// A page's name in the formats with one key per page: the key itself, "#2" appended for the
/// second page of a document with several.
std::string page_key(const DocumentResult& document, const PageResult& page,
                     const std::string& key);

}  // namespace ocr
