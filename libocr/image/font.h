// Fonts for annotated pictures: found in the usual folders, one glyph at a time from the first that
// has it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libocr/image/image.h"

namespace ocr {

/// Where a line of text goes: the start of its baseline, the unit vector along it, the em size in
/// pixels.
struct TextPlacement {
  double x = 0, y = 0;
  double along_x = 1, along_y = 0;
  double size = 16;
};

/// An ordered choice of font files. Thread-safe.
class FontSet {
 public:
  /// The fonts of the usual folders, those with Chinese, Japanese and Korean first;
  /// `override_path`, where not empty, comes before them. Throws train::ConfigError if that one is
  /// not a scalable font.
  explicit FontSet(const std::string& override_path = "");
  /// Only these files, in this order; those that cannot be loaded are skipped.
  explicit FontSet(std::vector<std::string> paths);
  ~FontSet();
  FontSet(const FontSet&) = delete;
  FontSet& operator=(const FontSet&) = delete;

  /// Whether some font has the character.
  bool has(char32_t character);

  /// Length of the line in pixels at an em size of one pixel; characters without glyph count as
  /// their box.
  double measure(std::u32string_view text);

  /// Draws the line, clipped to the image. Characters that no font has become an empty box.
  void draw(Image& image, std::u32string_view text, const TextPlacement& where, Bgr colour);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Scalable font files in the folders where systems keep them (XDG data folders, ~/.fonts,
/// /usr/local/share/fonts, /usr/share/fonts), best first: CJK families by name, then common Latin
/// ones, then the rest.
std::vector<std::string> find_fonts();

}  // namespace ocr
