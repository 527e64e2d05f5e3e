// Draws small pages of random words for long runs: hundreds of sizes, lines of every width. Seeded,
// so that equal fonts give equal files.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "libocr/image/encode.h"
#include "libocr/image/font.h"
#include "libtrain/core/error.h"

namespace {

constexpr int kSides = 40;  // different widths, and heights
constexpr int kLeast = 96, kStep = 8;

char32_t random_letter(std::mt19937& random) {
  constexpr std::u32string_view letters =
      U"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:-";
  return letters[random() % letters.size()];
}

// Words up to a width drawn at random between a tenth of the page and all of it.
void draw_line(ocr::Image& page, ocr::FontSet& font, double y, double size, std::mt19937& random) {
  const double room = page.width - 12;
  const double wanted = room * (0.1 + 0.9 * static_cast<double>(random() % 1000) / 1000);
  std::u32string text;
  while (true) {
    std::u32string longer = text + (text.empty() ? U"" : U" ");
    for (size_t letters = 2 + random() % 9; letters > 0; --letters) longer += random_letter(random);
    if (font.measure(longer) * size > wanted) break;
    text = longer;
  }
  if (text.empty()) text = U"ab";
  font.draw(page, text, {6, y, 1, 0, size}, {0, 0, 0});
}

ocr::Image make_page(int index, ocr::FontSet& font) {
  std::mt19937 random(static_cast<unsigned>(index) + 1);
  // All pairs of sides come in turn, in an order that mixes large and small.
  const int pair = static_cast<int>(int64_t{index} * 611 % (kSides * kSides));
  ocr::Image page(kLeast + kStep * (pair % kSides), kLeast + kStep * (pair / kSides),
                  ocr::Bgr{255, 255, 255});
  const double size = 12 + static_cast<double>(random() % 10);
  for (double y = 1.5 * size; y < page.height - 4; y += 1.8 * size)
    draw_line(page, font, y, size, random);
  return page;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr,
                 "usage: make_pages FOLDER COUNT    writes FOLDER/00000.png, ... and their list to "
                 "stdout\n");
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    std::filesystem::create_directories(folder);
    ocr::FontSet font;
    for (int i = 0; i < std::atoi(argv[2]); ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "%05d.png", i);
      ocr::write_image((folder / name).string(), make_page(i, font).view());
      std::printf("%s\n", (folder / name).c_str());
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_pages: %s\n", e.what());
    return 1;
  }
  return 0;
}
