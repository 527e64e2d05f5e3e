#include "libocr/image/font.h"

#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>

#include "libocr/image/draw.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr size_t kMaxFaces = 64;       // opened in search of one character
constexpr double kMaxSize = 2000;      // em in pixels
constexpr double kMissingWidth = 0.6;  // of the box of a character without glyph, in em

bool is_wide(char32_t c) { return c >= 0x1100 && c != 0xFFFD; }
double missing_advance(char32_t c) { return is_wide(c) ? 1.0 : kMissingWidth; }
bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) || c == 0xfeff;
}

void blend(uint8_t* pixel, Bgr colour, int alpha) {
  const int c[3] = {colour.b, colour.g, colour.r};
  for (int k = 0; k < 3; k++)
    pixel[k] = static_cast<uint8_t>((pixel[k] * (255 - alpha) + c[k] * alpha + 127) / 255);
}

void blend_bitmap(Image& image, const FT_Bitmap& bitmap, int left, int top, Bgr colour) {
  if (bitmap.pixel_mode != FT_PIXEL_MODE_GRAY) return;
  for (int y = 0; y < static_cast<int>(bitmap.rows); y++) {
    if (top + y < 0 || top + y >= image.height) continue;
    const uint8_t* row = bitmap.buffer + ptrdiff_t{y} * bitmap.pitch;
    for (int x = 0; x < static_cast<int>(bitmap.width); x++)
      if (left + x >= 0 && left + x < image.width && row[x])
        blend(image.row(top + y) + ptrdiff_t{3} * (left + x), colour, row[x]);
  }
}

}  // namespace

struct FontSet::State {
  std::mutex mutex;
  FT_Library library = nullptr;
  std::vector<std::string> paths;  // not opened yet: paths[next..]
  size_t next = 0;
  std::vector<FT_Face> faces;
  std::unordered_map<char32_t, int> face_of;  // -1: none

  State() {
    if (FT_Init_FreeType(&library)) throw std::bad_alloc();
  }
  ~State() {
    for (FT_Face face : faces) FT_Done_Face(face);
    FT_Done_FreeType(library);
  }

  bool open(const std::string& path) {
    FT_Face face = nullptr;
    if (FT_New_Face(library, path.c_str(), 0, &face)) return false;
    if (!FT_IS_SCALABLE(face) || FT_Select_Charmap(face, FT_ENCODING_UNICODE)) {
      FT_Done_Face(face);
      return false;
    }
    faces.push_back(face);
    return true;
  }

  // The first font with the character, opening more of them as needed.
  FT_Face find(char32_t c) {
    const auto known = face_of.find(c);
    if (known != face_of.end())
      return known->second < 0 ? nullptr : faces[static_cast<size_t>(known->second)];
    int index = -1;
    for (size_t i = 0; index < 0; i++) {
      while (i >= faces.size() && next < paths.size() && faces.size() < kMaxFaces)
        open(paths[next++]);
      if (i >= faces.size()) break;
      if (FT_Get_Char_Index(faces[i], c)) index = static_cast<int>(i);
    }
    face_of[c] = index;
    return index < 0 ? nullptr : faces[static_cast<size_t>(index)];
  }

  // In em.
  double advance(char32_t c) {
    if (is_control(c)) return 0;
    FT_Face face = find(c);
    if (!face || FT_Load_Char(face, c, FT_LOAD_NO_SCALE | FT_LOAD_NO_BITMAP) ||
        face->units_per_EM == 0)
      return missing_advance(c);
    return static_cast<double>(face->glyph->metrics.horiAdvance) / face->units_per_EM;
  }

  bool draw_glyph(Image& image, char32_t c, double x, double y, const TextPlacement& where,
                  Bgr colour) {
    FT_Face face = find(c);
    if (!face || FT_Set_Char_Size(face, 0, std::lround(where.size * 64), 72, 72)) return false;
    // FreeType's y axis points up.
    const auto fixed = [](double v) { return static_cast<FT_Fixed>(std::lround(v * 65536)); };
    FT_Matrix turn{fixed(where.along_x), fixed(where.along_y), fixed(-where.along_y),
                   fixed(where.along_x)};
    const double left = std::floor(x), top = std::floor(y);
    FT_Vector shift{std::lround((x - left) * 64), -std::lround((y - top) * 64)};
    FT_Set_Transform(face, &turn, &shift);
    const bool drawn = !FT_Load_Char(face, c, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) &&
                       !FT_Render_Glyph(face->glyph, FT_RENDER_MODE_NORMAL);
    if (drawn)
      blend_bitmap(image, face->glyph->bitmap, static_cast<int>(left) + face->glyph->bitmap_left,
                   static_cast<int>(top) - face->glyph->bitmap_top, colour);
    FT_Set_Transform(face, nullptr, nullptr);
    return drawn;
  }
};

FontSet::FontSet(const std::string& override_path) : state_(std::make_unique<State>()) {
  if (!override_path.empty() && !state_->open(override_path))
    throw train::ConfigError(
        "", 0, 0,
        override_path + ": is not a scalable font file (TrueType or OpenType) that can be read");
  state_->paths = find_fonts();
}

FontSet::FontSet(std::vector<std::string> paths) : state_(std::make_unique<State>()) {
  state_->paths = std::move(paths);
}

FontSet::~FontSet() = default;

bool FontSet::has(char32_t character) {
  const std::lock_guard lock(state_->mutex);
  return state_->find(character) != nullptr;
}

double FontSet::measure(std::u32string_view text) {
  const std::lock_guard lock(state_->mutex);
  double length = 0;
  for (const char32_t c : text) length += state_->advance(c);
  return length;
}

void FontSet::draw(Image& image, std::u32string_view text, const TextPlacement& placement,
                   Bgr colour) {
  TextPlacement where = placement;
  const double norm = std::hypot(where.along_x, where.along_y);
  if (image.empty() || !(norm > 0) || !(where.size > 0) ||
      !std::isfinite(where.x + where.y + norm + where.size))
    return;
  where.size = std::min(where.size, kMaxSize);
  where.along_x /= norm, where.along_y /= norm;
  const std::lock_guard lock(state_->mutex);
  double pen = 0;
  for (const char32_t c : text) {
    const double advance = state_->advance(c) * where.size;
    const double x = where.x + pen * where.along_x, y = where.y + pen * where.along_y;
    pen += advance;
    // Far outside: nothing to see, and coordinates stay small.
    const double margin = 2 * where.size + advance;
    if (x < -margin || y < -margin || x > image.width + margin || y > image.height + margin)
      continue;
    if (is_control(c) || state_->draw_glyph(image, c, x, y, where, colour)) continue;
    const double in = 0.08 * where.size, up_x = where.along_y, up_y = -where.along_x;
    auto corner = [&](double along, double up) -> DrawPoint {
      return {x + along * where.along_x + up * up_x, y + along * where.along_y + up * up_y};
    };
    const double high = 0.75 * where.size;
    draw_polyline(
        image,
        {corner(in, 0), corner(advance - in, 0), corner(advance - in, high), corner(in, high)},
        true, colour, std::max(1.0, where.size / 16));
  }
}

}  // namespace ocr
