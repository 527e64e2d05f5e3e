// The text of a page in C++: open the models once, decode, run.
#include <cstdio>

#include "libocr/image/decode.h"
#include "libocr/pipeline/pipeline.h"

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: example_read_page IMAGE [MODELS]\n"), 2;
  try {
    ocr::Options options;
    if (argc > 2) ocr::set_option(options, "models", argv[2], ocr::Source::kFlag);
    const auto pipeline = ocr::Pipeline::open(options);
    const ocr::Page page = ocr::read_image(argv[1]);
    const ocr::PageResult result = pipeline->run(page.image.view());
    for (const ocr::TextLine& line : result.lines)
      std::printf("%.3f  %s\n", line.score, line.text.c_str());
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
