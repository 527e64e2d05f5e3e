#include "apps/ocr/infer_options.h"

#include <cstdlib>

#include "apps/ocr/command.h"
#include "apps/ocr/log.h"
#include "libocr/pipeline/ignored.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using train::cat;

constexpr const char* kExamples =
    R"(INPUT: files, folders, "patterns*.png", - for standard input

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
)";

constexpr const char* kClosing =
    R"(A setting counts in this order: flag, -c, the model's metadata, inference.yml beside the model, --preset,
default (preset rapidocr stands above the model's files, which RapidOCR does not read). The JSON output
says for each setting where it came from. Booleans are true/false, True/False, 1/0 or the bare flag.

Exit codes: 0 all inputs read, 3 some failed, 1 all failed, 2 wrong usage, 130 interrupted.
)";

// PaddleOCR's number of PDF pages to read, 0 for all.
std::string pages_of_count(const std::string& text) {
  const long n = std::strtol(text.c_str(), nullptr, 10);
  return n > 0 ? cat("1-", n) : "";
}

Command::Take text_into(std::string& target) {
  return [&target](const Given& g) { target = g.text; };
}
Command::Take truth_into(bool& target) {
  return [&target](const Given& g) { target = g.truth(); };
}
Command::Take append_to(std::vector<std::string>& target) {
  return [&target](const Given& g) { target.push_back(g.text); };
}

// Accepted so that command lines of PaddleOCR paste in; answered with a note.
void add_ignored_options(Command& command, InferRequest& r) {
  for (const ocr::IgnoredOption& i : ocr::ignored_options())
    command.hidden(i.name, i.boolean, [&r](const Given& g) {
      r.notes.push_back(cat(g.spelt, " has no effect: ", ocr::ignored_option(g.name)));
    });
  command.hidden("page_num", false, [&r](const Given& g) {
    ocr::set_option(r.options, "pages", pages_of_count(g.text), ocr::Source::kFlag, g.spelt);
  });
  command.hidden("save_crop_res", true, truth_into(r.save_crop_res));
  command.hidden("recursive", true, truth_into(r.inputs.recursive));
}

}  // namespace

void add_pipeline_options(Command& command, ocr::Options& options) {
  const auto defaults = ocr::describe_options({});
  size_t i = 0;
  for (const ocr::OptionSpec& s : ocr::option_specs()) {
    std::string names = s.name;
    for (const char* alias : s.aliases) names.append(",").append(alias);
    std::string shown = defaults[i++].json;
    if (shown.size() >= 2 && shown.front() == '"') shown = shown.substr(1, shown.size() - 2);
    command.heading(s.group);
    command.option(
        names, s.value, s.help,
        [&options](const Given& g) {
          ocr::set_option(options, g.name, g.text, ocr::Source::kFlag, g.spelt);
        },
        shown == "0" ? "" : shown);
  }
}

void add_infer_options(Command& command, InferRequest& r) {
  command.describe("Reads text in images (JPEG, PNG, BMP, WebP, TIFF, PNM, GIF) and PDF files.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.arguments("INPUT", 0, append_to(r.inputs.arguments));
  command.heading("Inputs and outputs");
  command.option("list", "FILE", "inputs, one path a line", append_to(r.inputs.lists));
  command.option("image_dir,i,input", "PATH", "an input, as PaddleOCR names it",
                 append_to(r.inputs.arguments));
  command.option("format,f", "FORMAT",
                 "text, json, jsonl, tsv, paddle (2.x lines), paddle3 (3.x JSON)",
                 text_into(r.format), "text, or as -o is named");
  command.option("output,o,save_path", "DIR",
                 "a file per input, the tree mirrored; a name ending in .json, .jsonl, .txt or\n"
                 ".tsv makes one file of all, in that format",
                 text_into(r.output));
  command.flag("resume", "leave out inputs that an equal earlier run into the same -o has finished",
               truth_into(r.resume));
  command.option("visualize,draw_img_save_dir", "DIR", "pictures with boxes and text",
                 text_into(r.visualize));
  command.option("save_crops,crop_res_save_dir", "DIR",
                 "the lines as pictures, and DIR/rec.txt with their text", text_into(r.save_crops));
  command.option("config,c", "FILE", "settings from YAML, e.g. `det_limit_side_len: 960`",
                 append_to(r.configs));
  command.flag("strict", "unknown settings in -c are errors", truth_into(r.strict));
  command.flag("quiet,q", "no progress bar (there is none when standard error is no terminal)",
               [&r](const Given& g) { r.progress = !g.truth(); });
  command.hidden("progress", true, truth_into(r.progress));
  add_pipeline_options(command, r.options);
  add_ignored_options(command, r);
  add_log_options(command);
}

}  // namespace app
