#include "apps/ocr/infer_help.h"

#include "libocr/pipeline/options.h"

namespace app {
namespace {

constexpr const char* kExamples =
    R"(Reads text in images (JPEG, PNG, BMP, WebP, TIFF, PNM, GIF) and PDF files.

Usage: ocr infer [options] INPUT...      INPUT: files, folders, "patterns*.png", - for standard input

Examples:
  ocr infer page.jpg                                  the text, line by line
  ocr infer page.jpg --format json | jq '.pages[0].lines[].text'
  ocr infer scans/ -o out --format json               a/b.jpg becomes out/a/b.jpg.json
  ocr infer scans/ -o out --format json --resume      go on after an interruption
  ocr infer report.pdf --pages 2-5 --dpi 300          pages of a PDF
  ocr infer photo.jpg --visualize seen                seen/photo.jpg.jpg shows boxes and text
  ocr infer --task rec crops/                         path, text and score of single lines
  ocr infer scans/ -o labels --format paddle          labels/Label.txt for PPOCRLabel
  ocr infer --models accurate page.jpg                the larger models: better, 3-4 times slower
  ocr infer --preset rapidocr page.jpg                settings of another program
  curl -s https://host/page.png | ocr infer -
Command lines of PaddleOCR work, too: --image_dir DIR --det_model_dir D --use_angle_cls true ...

Inputs and outputs:
  --list FILE           inputs, one path a line
  --image_dir, -i PATH  an input, as PaddleOCR names it
  -f, --format FORMAT   text, json, jsonl, tsv, paddle (2.x lines), paddle3 (3.x JSON)  [text]
  -o, --output DIR      a file per input, the tree mirrored; a name ending in .json, .jsonl, .txt or
                        .tsv makes one file of all
  --resume              leave out inputs that an equal earlier run into the same -o has finished
  --visualize DIR       pictures with boxes and text
  --save_crops DIR      the lines as pictures, and DIR/rec.txt with their text
  -c, --config FILE     settings from YAML, e.g. `det_limit_side_len: 960`
  --strict              unknown settings in -c are errors
  --no-progress, -q     no progress bar (there is none when standard error is no terminal)
)";

constexpr const char* kTail = R"(
A setting counts in this order: flag, -c, the model's metadata, inference.yml beside the model, --preset,
default (preset rapidocr stands above the model's files, which RapidOCR does not read). The JSON output
says for each setting where it came from. Booleans are true/false, True/False, 1/0 or the bare flag.

Exit codes: 0 all inputs read, 3 some failed, 1 all failed, 2 wrong usage, 130 interrupted.
)";

}  // namespace

std::string infer_help() {
  std::string text = kExamples;
  std::string group;
  const ocr::Options defaults;
  const auto values = ocr::describe_options(defaults);
  size_t i = 0;
  for (const ocr::OptionSpec& s : ocr::option_specs()) {
    if (group != s.group) {
      group = s.group;
      text += "\n" + group + ":\n";
    }
    std::string left = std::string("  --") + s.name + " " + s.value;
    left += left.size() < 29 ? std::string(30 - left.size(), ' ') : "\n" + std::string(30, ' ');
    std::string value = values[i++].json;
    if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
    text += left + s.help + (value.empty() || value == "0" ? "" : "  [" + value + "]") + "\n";
  }
  return text + kTail;
}

}  // namespace app
