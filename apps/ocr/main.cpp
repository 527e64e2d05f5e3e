// The command line of `ocr`: the table of subcommands; errors become one line.
#include <exception>
#include <new>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/log.h"
#include "libtrain/core/error.h"
#include "libtrain/core/version.h"
#include "libtrain/cpu/isa.h"

namespace app {

std::string version_text() {
  std::string text = std::string(train::kVersion) + " (" + train::cpu::isa_name();
#ifdef NDEBUG
  text += ", release";
#else
  text += ", debug";
#endif
#if defined(__clang__)
  return text + ", Clang " + std::to_string(__clang_major__) + ")";
#elif defined(__GNUC__)
  return text + ", GCC " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + ")";
#else
  return text + ")";
#endif
}

namespace {

constexpr const char* kExamples =
    R"(  ocr infer page.jpg                    print the text of a page
  ocr infer scans/ -o out --format json one JSON file per input, the folder mirrored
  ocr infer report.pdf --pages 1-3      pages of a PDF
  ocr infer page.jpg --visualize seen   a picture of what was found
  ocr train -c rec.yml                  train as PaddleOCR's configuration says
  ocr export -c rec.yml                 write what was trained as ONNX
  ocr bench --model det.onnx --layers   where the time goes
)";

Program program() {
  return {
      "ocr reads text in images and documents.",
      kExamples,
      "`ocr COMMAND --help` or `ocr help COMMAND` has the options of a command, with examples.\n",
      "ocr " + version_text(),
      {{"infer", "read images, folders, PDF and TIFF files", declare_infer},
       {"bench", "measure a model or whole pages on this machine", declare_bench},
       {"train", "train a detector, a recogniser or a classifier", declare_train},
       {"runs", "list the trainings below a folder", declare_runs},
       {"plot", "curves of trainings as one HTML page", declare_plot},
       {"data", "check, show, split, crop, convert training data", declare_data},
       {"export", "a trained model as one ONNX file", declare_export},
       {"eval", "how well a model reads, finds or classifies labelled data", declare_eval}}};
}

}  // namespace
}  // namespace app

int main(int argc, char** argv) {
  try {
    return app::run_program(app::program(), std::vector<std::string>(argv + 1, argv + argc));
  } catch (const train::ConfigError& e) {
    app::log_fatal(e.what());
    return app::kExitUsage;
  } catch (const std::bad_alloc&) {
    app::log_fatal("not enough memory");
  } catch (const std::exception& e) {
    app::log_fatal(e.what());
  }
  return app::kExitFailed;
}
