// `ocr plot`: curves of one or several trainings as one HTML page.
#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/log.h"
#include "apps/ocr/plot_page.h"
#include "libtrain/core/error.h"
#include "libtrain/train/archive.h"

namespace app {
namespace {

using train::cat;

constexpr const char* kExamples = R"(Examples:
  ocr plot output/rec                      curves.html with the curves of a training
  ocr plot output/rec output/rec2 -o b.html   two of them in each chart
)";

constexpr const char* kClosing =
    R"(Drawn from metrics.jsonl: evaluation, loss and its parts, learning rate, speed, by global_step; a run may still go
on. The page needs no network. `ocr runs` finds trainings; TensorBoard reads the event files beside.
)";

struct Request {
  std::vector<std::string> folders;
  std::string output = "curves.html";
};

int draw(const Request& r) {
  if (r.folders.empty())
    throw train::ConfigError("", 0, 0,
                             "ocr plot takes folders of trainings; `ocr runs` lists them");
  std::vector<RunRecord> runs;
  for (const std::string& f : r.folders) runs.push_back(read_run(f));
  for (const RunRecord& run : runs)
    if (run.train.empty() && run.eval.empty())
      log_warning(cat(run.folder, ": nothing is in its metrics.jsonl yet"));
  train::write_file_atomically(r.output, plot_page(runs));
  log_info(cat(r.output, ": ", runs.size(), runs.size() == 1 ? " run" : " runs"));
  return kExitOk;
}

}  // namespace

void declare_plot(Command& command) {
  auto r = std::make_shared<Request>();
  command.describe("Draws the curves of trainings as one HTML page.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.arguments("RUN...", 0, [r](const Given& g) { r->folders.push_back(g.text); });
  command.option(
      "output,o", "FILE", "the page", [r](const Given& g) { r->output = g.text; }, "curves.html");
  add_log_options(command);
  command.run([r] { return draw(*r); });
}

}  // namespace app
