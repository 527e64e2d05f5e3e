#include "libocr/metrics/gallery.h"

#include "libocr/metrics/align.h"
#include "libocr/text/utf8.h"

namespace ocr {
namespace {

std::string base64(const std::vector<uint8_t>& bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = bytes.size() - i;
    const uint32_t v =
        bytes[i] << 16 | (left > 1 ? bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
    out += kLetters[v >> 18];
    out += kLetters[v >> 12 & 63];
    out += left > 1 ? kLetters[v >> 6 & 63] : '=';
    out += left > 2 ? kLetters[v & 63] : '=';
  }
  return out;
}

// One side of the alignment; what differs is marked, what is missing is a gap.
std::string marked(const std::vector<AlignedPair>& pairs, bool reference) {
  std::string out;
  for (const AlignedPair& p : pairs) {
    const char32_t c = reference ? p.reference : p.hypothesis;
    std::string text;
    if (c) append_utf8(c == U' ' && !p.same() ? U'\u2423' : c, &text);
    if (p.same())
      out += html_escaped(text);
    else
      out += "<mark>" + (text.empty() ? std::string("&nbsp;") : html_escaped(text)) + "</mark>";
  }
  return out;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : repair_utf8(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string gallery_html(const std::string& title, const std::string& summary,
                         const std::vector<GalleryItem>& items) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n<title>" + html_escaped(title) +
      "</title>\n<style>body{font:14px sans-serif;margin:2em;max-width:70em}pre{background:#f4f4f4;"
      "padding:1em}article{border-top:1px solid #ccc;padding:.6em 0}img{max-width:100%;max-height:"
      "30em;border:1px solid #ddd}code{font:15px "
      "monospace;white-space:pre-wrap}mark{background:#fc8}"
      "small{color:#666}</style>\n<h1>" +
      html_escaped(title) + "</h1>\n<pre>" + html_escaped(summary) + "</pre>\n";
  for (const GalleryItem& item : items) {
    out += "<article>";
    if (!item.picture.empty()) {
      const bool png = item.picture.size() > 1 && item.picture[1] == 'P';
      out += std::string("<img alt=\"\" src=\"data:image/") + (png ? "png" : "jpeg") + ";base64," +
             base64(item.picture) + "\"><br>";
    }
    if (!item.target.empty() || !item.prediction.empty()) {
      const std::vector<AlignedPair> pairs = align_texts(item.target, item.prediction);
      out += "<code>" + marked(pairs, true) + "</code> label<br><code>" + marked(pairs, false) +
             "</code> read<br>";
    }
    out += "<small>" + html_escaped(item.name) +
           (item.note.empty() ? "" : " &middot; " + html_escaped(item.note)) +
           "</small></article>\n";
  }
  return out + "</html>\n";
}

}  // namespace ocr
