// A page of worst cases for a person to look at: one HTML file that holds its pictures.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

struct GalleryItem {
  std::string name;
  std::vector<uint8_t> picture;    // PNG or JPEG; may be empty
  std::string target, prediction;  // aligned, differences marked; both empty: left out
  std::string note;
};

/// Text within HTML, between tags or in quotes; bytes that are not UTF-8 become U+FFFD.
std::string html_escaped(std::string_view text);

/// The page. Everything in it is escaped, nothing is loaded from elsewhere.
std::string gallery_html(const std::string& title, const std::string& summary,
                         const std::vector<GalleryItem>& items);

}  // namespace ocr
