// The command line of `ocr`: finds the subcommand and turns errors into one line.
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "apps/ocr/commands.h"
#include "libocr/pipeline/options.h"
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

constexpr const char* kHelp = R"(ocr reads text in images and documents.

  ocr infer page.jpg                    print the text of a page
  ocr infer scans/ -o out --format json one JSON file per input, the folder mirrored
  ocr infer report.pdf --pages 1-3      pages of a PDF
  ocr infer page.jpg --visualize seen   a picture of what was found
  ocr bench --model det.onnx --layers   where the time goes

Commands:
  infer    read images, folders, PDF and TIFF files
  bench    measure a model on this machine
  help     this text; `ocr help infer` the options of a command

Options:
  --version  the version, the instruction set in use, the build
  --help     this text; `ocr infer --help` lists every option
)";

int dispatch(const std::string& command, std::vector<std::string> args) {
  if (command == "--version" || command == "-V" || command == "version") {
    std::printf("ocr %s\n", version_text().c_str());
    return kExitOk;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    if (!args.empty() && args[0] != "help" && args[0][0] != '-')
      return dispatch(args[0], {"--help"});
    std::fputs(kHelp, stdout);
    return kExitOk;
  }
  if (command == "infer") return run_infer(args);
  if (command == "bench") return run_bench(args);
  const std::vector<std::string> known{"infer", "bench", "help", "version"};
  const std::string near = ocr::nearest_name(command, known);
  throw train::ConfigError(
      "", 0, 0,
      "there is no command '" + command + "'" +
          (near.empty() ? "; `ocr --help` lists them" : "; did you mean `ocr " + near + "`?"));
}

}  // namespace
}  // namespace app

int main(int argc, char** argv) {
  try {
    if (argc < 2) {
      std::fputs(app::kHelp, stderr);
      return app::kExitUsage;
    }
    return app::dispatch(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  } catch (const train::ConfigError& e) {
    std::fprintf(stderr, "ocr: %s\n", e.what());
    return app::kExitUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "ocr: not enough memory\n");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ocr: %s\n", e.what());
  }
  return app::kExitFailed;
}
