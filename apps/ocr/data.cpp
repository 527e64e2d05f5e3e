// `ocr data`: looks at training data, and makes it out of other data.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/data_check.h"
#include "apps/ocr/log.h"
#include "apps/ocr/progress.h"
#include "apps/ocr/training_config.h"
#include "libocr/data/check.h"
#include "libocr/data/convert.h"
#include "libocr/data/dataset.h"
#include "libocr/data/degrade.h"
#include "libocr/data/image_io.h"
#include "libocr/data/lmdb.h"
#include "libocr/data/show.h"
#include "libocr/geometry/crop.h"
#include "libocr/image/atomic_file.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

namespace fs = std::filesystem;
using train::cat;

constexpr const char* kExamples = R"(Examples:
  ocr data check -c config.yml                    what training would lose, with line numbers
  ocr data show -c config.yml --save seen -n 20   augmented samples and targets as pictures
  ocr data split labels.txt --parts 10 --save .   train.txt and dev.txt; lines of a page stay together
  ocr data crop det.txt --images . --save rec     lines cut from pages, as the pipeline cuts them
  ocr data turn rec/rec.txt --save cls            those lines upright and upside down, for the classifier
  ocr data degrade det.txt --save scanned         rendered pages made to look scanned, boxes moved along
  ocr data convert Label.txt --from ppocrlabel --save labels.txt
  ocr data lmdb rec.txt --images . --save set     an LMDB set
)";

constexpr const char* kClosing =
    R"(Formats of `convert`: ppocrlabel (Label.txt, rec_gt.txt), icdar (a folder of gt_NAME.txt), gt.txt (a folder of
NAME.gt.txt), xml (a folder of ALTO or PAGE files). Exit code 1 when `check` finds samples that training would lose.
)";

struct Request {
  std::string action, input, images, save, format = "ppocrlabel";
  ConfigOptions config;
  bool strict = false, json = false, eval = false;
  int count = 10, parts = 10, skip_bad = 0, copies = 1, seed = 1;
  double strength = 1;
};

std::string need(const std::string& value, const Request& r, const char* option) {
  if (value.empty())
    throw train::ConfigError("", 0, 0, cat("ocr data ", r.action, " needs ", option));
  return value;
}

void write_text(const fs::path& path, const std::string& text) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw train::DeviceError(cat(path.string(), ": cannot be written"));
}

void report_skips(const ocr::SkipReport& skips, int64_t samples) {
  if (const std::string s = skips.summary(samples); !s.empty()) log_warning(s);
}

std::unique_ptr<ocr::OcrDataset> open_dataset(const train::config::TrainingConfig& config,
                                              bool train, bool strict) {
  std::vector<std::string> warnings;
  auto set = ocr::make_dataset(config, train, warnings, strict);
  for (const std::string& w : warnings) log_warning(w);
  return set;
}

int check(const Request& r) {
  require_config(r.config, "data check");
  const train::config::TrainingConfig config = read_training_config(r.config, r.strict);
  const ocr::CheckOptions options = check_options(config);
  std::vector<ocr::CheckReport> reports;
  for (const bool train : {true, false}) {
    if (!(train ? config.train : config.eval).present()) continue;
    const auto set = open_dataset(config, train, r.strict);
    reports.push_back(check_part(*set, train ? "Train" : "Eval", options));
  }
  if (reports.empty()) config.root.fail("the configuration has neither Train nor Eval");
  ocr::Finding leaked;
  if (reports.size() == 2) leaked = ocr::find_leakage(reports[0], reports[1]);
  int64_t lost = 0;
  std::string json;
  for (const ocr::CheckReport& report : reports) {
    lost += report.lost();
    json += (json.empty() ? "" : ",\n") + report.json();
    if (!r.json) std::fputs(report.text().c_str(), stdout);
  }
  if (r.json) {
    std::printf("{\"parts\": [\n%s\n], \"in_both\": %lld}\n", json.c_str(),
                static_cast<long long>(leaked.count));
  } else if (leaked.count > 0) {
    std::printf("Train and Eval: %lld pictures stand in both\n",
                static_cast<long long>(leaked.count));
    for (const std::string& e : leaked.examples) std::printf("      %s\n", e.c_str());
  }
  return lost > r.skip_bad ? kExitFailed : kExitOk;
}

int show(const Request& r) {
  require_config(r.config, "data show");
  const fs::path folder = need(r.save, r, "--save FOLDER");
  const train::config::TrainingConfig config = read_training_config(r.config, r.strict);
  const auto set = open_dataset(config, !r.eval, r.strict);
  const int64_t wanted = std::min<int64_t>(r.count, set->size());
  fs::create_directories(folder);
  std::string index;
  ocr::SkipReport skips;
  for (int64_t i = 0; i < wanted; ++i) {
    train::data::SampleRequest request;
    request.index = i;
    request.random = train::data::sample_random(static_cast<uint64_t>(config.global.seed), 0, i);
    if (!config.train.sampler.scales.empty() && config.train.sampler.scales[0].size() == 2) {
      request.width = config.train.sampler.scales[0][0];
      request.height = config.train.sampler.scales[0][1];
    }
    try {
      const ocr::Sample s = set->load(request);
      char name[32];
      std::snprintf(name, sizeof name, "%05lld.png", static_cast<long long>(i));
      ocr::write_picture((folder / name).string(), ocr::show_sample(s));
      index += cat(name, "\t", s.polys.empty() ? s.label : cat(s.polys.size(), " boxes"), "\t",
                   set->name(i), "\n");
    } catch (const ocr::SkippedSample& e) {
      skips.add(e);
    }
  }
  write_text(folder / "index.txt", index);
  report_skips(skips, wanted);
  std::printf("%lld samples in %s; index.txt has their labels\n",
              static_cast<long long>(wanted - skips.total()), folder.string().c_str());
  return kExitOk;
}

int split(const Request& r) {
  const fs::path folder = need(r.save, r, "--save FOLDER");
  const ocr::LabelFile file = ocr::read_label_file(need(r.input, r, "a label file"));
  std::string parts[2];
  int64_t counts[2] = {0, 0};
  for (const ocr::LabelLine& line : file.lines) {
    const bool held = ocr::held_back(line.path, static_cast<uint32_t>(r.parts));
    parts[held] += cat(line.path, "\t", line.label, "\n");
    ++counts[held];
  }
  write_text(folder / "train.txt", parts[0]);
  write_text(folder / "dev.txt", parts[1]);
  report_skips(file.skips, counts[0] + counts[1] + file.skips.total());
  std::printf("%lld lines in train.txt, %lld in dev.txt\n", static_cast<long long>(counts[0]),
              static_cast<long long>(counts[1]));
  return kExitOk;
}

fs::path picture_path(const Request& r, const std::string& name) {
  const fs::path folder = r.images.empty() ? fs::path(r.input).parent_path() : fs::path(r.images);
  return folder / name;
}

// A label line and the picture that it names.
struct Labelled {
  const ocr::LabelFile& file;
  const ocr::LabelLine& line;
  std::string name;  // as the label file has it
  cv::Mat image;
};

Labelled open_picture(const Request& r, const ocr::LabelFile& file, const ocr::LabelLine& line) {
  ocr::Sample sample;
  sample.file = file.name;
  sample.line = line.line;
  std::string name = ocr::label_paths(line.path)[0];
  sample.image_name = picture_path(r, name).string();
  sample.encoded = ocr::read_image_bytes(sample.image_name, sample.file, sample.line);
  return {file, line, std::move(name), ocr::decode_sample(sample, true)};
}

std::vector<ocr::TextBoxLabel> boxes_of(const Labelled& page) {
  try {
    return ocr::parse_detection_label(page.line.label);
  } catch (const train::FormatError& e) {
    throw ocr::SkippedSample(ocr::Skip::kBadLabel, page.file.name, page.line.line, e.what());
  }
}

// What is made of a label file's pictures, in the folder --save: pictures in `pictures`, their
// labels in `labels`.
struct Product {
  const char* input;  // what the label file is of, for the message when it is missing
  const char* pictures;
  const char* labels;
};

// `make(picture, folder, labels, skips)` writes the samples of one picture, appends their labels
// and returns how many.
template <class Make>
int make_samples(const Request& r, const Product& product, const Make& make) {
  const fs::path folder = need(r.save, r, "--save FOLDER");
  const ocr::LabelFile file = ocr::read_label_file(need(r.input, r, product.input));
  fs::create_directories(folder / product.pictures);
  ocr::SkipReport skips = file.skips;
  std::string labels;
  int64_t made = 0;
  Progress progress(true, static_cast<int64_t>(file.lines.size()));
  for (const ocr::LabelLine& line : file.lines) {
    try {
      made += make(open_picture(r, file, line), folder, labels, skips);
    } catch (const ocr::SkippedSample& e) {
      skips.add(e);
    }
    progress.step();
  }
  progress.clear();
  write_text(folder / product.labels, labels);
  report_skips(skips, static_cast<int64_t>(file.lines.size()) + file.skips.total());
  std::printf("%lld samples of %zu pictures; %s\n", static_cast<long long>(made), file.lines.size(),
              (folder / product.labels).string().c_str());
  return skips.total() > 0 ? kExitSome : kExitOk;
}

// Pages of one name in several folders are kept apart by a folder; the name itself stays, and with
// it the part of a split that `held_back` gives.
std::string folder_of(const Labelled& picture) { return cat(ocr::crc32(picture.name)); }

void write_made(const fs::path& path, const cv::Mat& image, int jpeg_quality = 92) {
  fs::create_directories(path.parent_path());
  ocr::write_picture(path.string(), image, jpeg_quality);
}

// Lines cut from a page.
int64_t crop_page(const Labelled& page, const fs::path& folder, std::string& labels,
                  ocr::SkipReport& skips) {
  const std::vector<ocr::TextBoxLabel> boxes = boxes_of(page);
  const std::string stem = cat("crops/", folder_of(page), "/", ocr::page_key(page.name));
  int64_t made = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].ignore()) continue;
    const auto skip = [&](const char* why) {
      skips.add(ocr::SkippedSample(ocr::Skip::kBadLabel, page.file.name, page.line.line,
                                   cat("box ", i + 1, ": ", why)));
    };
    if (boxes[i].text.find_first_of("\t\r\n") != std::string::npos) {
      skip("a tab or line end in the text");
      continue;
    }
    ocr::Polygon polygon;
    for (const cv::Point2d& p : boxes[i].points)
      polygon.push_back({static_cast<float>(p.x), static_cast<float>(p.y)});
    try {
      const ocr::CropShape shape =
          polygon.size() == 4
              ? ocr::crop_shape(ocr::Quad{polygon[0], polygon[1], polygon[2], polygon[3]})
              : ocr::crop_shape(polygon);
      const std::string crop = cat(stem, "_crop_", i, ".png");
      write_made(folder / crop, ocr::cut_crop(page.image, shape));
      labels += cat(crop, "\t", boxes[i].text, "\n");
      ++made;
    } catch (const train::ShapeError& e) {
      skip(e.what());
    }
  }
  return made;
}

int crop(const Request& r) {
  return make_samples(r, {"a label file of pages", "crops", "rec.txt"}, crop_page);
}

// The line classifier's samples: each line as it is, and turned by 180 degrees.
int turn(const Request& r) {
  return make_samples(
      r, {"a label file of lines", "lines", "cls.txt"},
      [](const Labelled& line, const fs::path& folder, std::string& labels, ocr::SkipReport&) {
        cv::Mat turned;
        cv::flip(line.image, turned, -1);
        const std::string stem =
            cat("lines/", ocr::crc32(line.name), "_", fs::path(line.name).stem().string(), "_");
        ocr::write_picture((folder / (stem + "0.png")).string(), line.image);
        ocr::write_picture((folder / (stem + "180.png")).string(), turned);
        labels += cat(stem, "0.png\t0\n", stem, "180.png\t180\n");
        return 2;
      });
}

// Copies that look scanned. A page's boxes move with it, and its copies keep its name, hence its
// part of a split.
int degrade(const Request& r) {
  return make_samples(
      r, {"a label file of pages or lines", "degraded", "labels.txt"},
      [&r](const Labelled& clean, const fs::path& folder, std::string& labels, ocr::SkipReport&) {
        const bool page = !clean.line.label.empty() && clean.line.label[0] == '[';
        const std::vector<ocr::TextBoxLabel> boxes =
            page ? boxes_of(clean) : std::vector<ocr::TextBoxLabel>{};
        for (int copy = 1; copy <= r.copies; ++copy) {
          ocr::Random random(train::data::sample_random(static_cast<uint64_t>(r.seed), copy,
                                                        ocr::crc32(clean.name)),
                             0);
          const ocr::Degraded picture = ocr::degrade(clean.image, r.strength, random);
          const std::string path = cat("degraded/", copy, "/", folder_of(clean), "/",
                                       fs::path(clean.name).stem().string(), ".jpg");
          write_made(folder / path, picture.image, picture.jpeg_quality);
          labels +=
              cat(path, "\t",
                  page ? ocr::write_detection_label(ocr::moved(boxes, picture)) : clean.line.label,
                  "\n");
        }
        return r.copies;
      });
}

int convert(const Request& r) {
  const std::vector<std::string> names{"ppocrlabel", "icdar", "gt.txt", "xml"};
  const auto it = std::find(names.begin(), names.end(), r.format);
  if (it == names.end())
    throw train::ConfigError("", 0, 0,
                             cat("--from is ppocrlabel, icdar, gt.txt or xml, not ", r.format));
  const fs::path out = need(r.save, r, "--save FILE");
  ocr::SkipReport skips;
  const std::string base = out.has_parent_path() ? out.parent_path().string() : ".";
  const auto labels =
      ocr::read_labels_of(static_cast<ocr::LabelFormat>(it - names.begin()),
                          need(r.input, r, "a file or folder"), r.images, base, skips);
  std::string text;
  for (const ocr::LabelledImage& l : labels) text += cat(l.path, "\t", l.label, "\n");
  write_text(out, text);
  report_skips(skips, static_cast<int64_t>(labels.size()) + skips.total());
  std::printf("%zu lines in %s\n", labels.size(), out.string().c_str());
  return skips.total() > 0 ? kExitSome : kExitOk;
}

int lmdb(const Request& r) {
  const ocr::LabelFile file = ocr::read_label_file(need(r.input, r, "a label file"));
  ocr::LmdbWriter writer(need(r.save, r, "--save FOLDER"));
  ocr::SkipReport skips = file.skips;
  for (const ocr::LabelLine& line : file.lines) {
    try {
      const std::string path = picture_path(r, ocr::label_paths(line.path)[0]).string();
      writer.add(ocr::read_image_bytes(path, file.name, line.line), line.label);
    } catch (const ocr::SkippedSample& e) {
      skips.add(e);
    }
  }
  writer.finish();
  report_skips(skips, static_cast<int64_t>(file.lines.size()) + file.skips.total());
  std::printf("%lld samples in %s\n", static_cast<long long>(writer.size()), r.save.c_str());
  return skips.total() > 0 ? kExitSome : kExitOk;
}

int run(const Request& r) {
  struct Action {
    const char* name;
    int (*work)(const Request&);
  };
  constexpr Action actions[] = {{"check", check},     {"show", show}, {"split", split},
                                {"crop", crop},       {"turn", turn}, {"degrade", degrade},
                                {"convert", convert}, {"lmdb", lmdb}};
  std::vector<std::string> names;
  for (const Action& a : actions) {
    if (r.action == a.name) return a.work(r);
    names.emplace_back(a.name);
  }
  throw train::ConfigError(
      "", 0, 0,
      r.action.empty() ? "ocr data takes check, show, split, crop, turn, degrade, convert or lmdb"
                       : cat("there is no `ocr data ", r.action, "`",
                             train::config::did_you_mean(r.action, names)));
}

}  // namespace

void declare_data(Command& command) {
  const auto request = std::make_shared<Request>();
  Request& r = *request;
  command.describe("Looks at training data, and makes it out of other data.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.arguments("check|show|split|crop|turn|degrade|convert|lmdb [INPUT]", 2,
                    [&r](const Given& g) { (r.action.empty() ? r.action : r.input) = g.text; });
  add_config_options(command, r.config);
  command.flag("strict", "unknown keys of the configuration are errors",
               [&r](const Given& g) { r.strict = g.truth(); });
  command.heading("Input and output");
  command.option(
      "images", "FOLDER", "what paths of the labels are relative to",
      [&r](const Given& g) { r.images = g.text; }, "the label file's folder");
  command.option("save", "PATH", "the folder, or the file of convert",
                 [&r](const Given& g) { r.save = g.text; });
  command.option(
      "from", "FORMAT", "of convert", [&r](const Given& g) { r.format = g.text; }, "ppocrlabel");
  command.option(
      "count,n", "N", "samples of show", [&r](const Given& g) { r.count = g.whole(1); }, "10");
  command.flag("eval", "show the Eval section", [&r](const Given& g) { r.eval = g.truth(); });
  command.option(
      "parts", "N", "split: one page in N is held back, by crc32 of its name",
      [&r](const Given& g) { r.parts = g.whole(2); }, "10");
  command.option(
      "copies", "N", "degrade: of each picture", [&r](const Given& g) { r.copies = g.whole(1); },
      "1");
  command.option(
      "strength", "X", "degrade: 1 is an office scan or a phone picture; 0 to 2",
      [&r](const Given& g) { r.strength = g.number(0, 2); }, "1");
  command.option(
      "seed", "N", "degrade: another one draws other copies",
      [&r](const Given& g) { r.seed = g.whole(0); }, "1");
  command.option(
      "skip_bad", "N", "check: so many lost samples are no failure",
      [&r](const Given& g) { r.skip_bad = g.whole(0); }, "0");
  command.flag("json", "check: the findings as JSON", [&r](const Given& g) { r.json = g.truth(); });
  add_log_options(command);
  command.run([request] { return run(*request); });
}

}  // namespace app
