#include "libocr/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <opencv2/imgproc.hpp>

#include "libocr/geometry/mat.h"
#include "libocr/pipeline/precision.h"
#include "libocr/pipeline/stages.h"
#include "libocr/postprocess/reading_order.h"
#include "libocr/text/rtl.h"
#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"
#include "libtrain/core/version.h"

namespace ocr {
namespace {

using train::cat;

// Below this a line is asked whether it stands on its head (use_angle_cls auto).
constexpr double kReadsBadly = 0.8;
// Lines that are asked for a page's turn, and the share of their vote that decides.
constexpr size_t kVoters = 48;
constexpr double kVoteShare = 0.6;
// A page whose detection would need more is searched in tiles, where --max_memory does not say so.
constexpr int64_t kPageMemory = int64_t{3} << 29;

ClassifierInput line_input(const Model& model, const Options& options) {
  const std::vector<int>& shape = options.cls_image_shape;
  if (model.input_side(2) == 80 || shape == std::vector<int>{3, 80, 160})
    return ClassifierInput::textline_pplcnet();
  if (shape.size() != 3 || shape[0] != 3 || shape[1] < 8 || shape[1] > 512 || shape[2] < 8 ||
      shape[2] > 4096)
    throw train::ConfigError("", 0, 0, "cls_image_shape is 3,height,width: 8 to 512, 8 to 4096");
  for (const size_t axis : {1u, 2u}) {
    const int64_t side = model.input_side(axis + 1);
    if (side > 0 && side != shape[axis])
      throw train::ConfigError("", 0, 0,
                               cat("cls_image_shape says ", axis == 1 ? "height " : "width ",
                                   shape[axis], ", but ", model.files.onnx, " takes ", side));
  }
  return ClassifierInput::padded(shape[1], shape[2]);
}

// The page that detection and cropping work on, and the way back to the page that was given.
struct Frame {
  cv::Mat image;
  bool rapid = false;
  RapidPage rapid_page;
  int upright_width = 0, upright_height = 0;  // after the turn, before RapidOCR's rescaling
  int page_width = 0, page_height = 0;
  int rotation = 0;

  void to_page(std::span<Point2f> points) const {
    if (rapid) rapidocr_to_page(points, rapid_page, upright_height, upright_width);
    if (rotation) unrotate_points(points, rotation, page_width, page_height);
  }
};

// Words or characters from the order of the picture to that of reading.
void read_from_the_right(std::vector<TextPart>& parts) {
  std::vector<std::string> texts;
  for (const TextPart& p : parts) texts.push_back(p.text);
  std::vector<TextPart> out;
  for (const size_t i : right_to_left_order(texts)) {
    out.push_back(std::move(parts[i]));
    out.back().text = reverse_right_to_left(texts[i]);
  }
  parts = std::move(out);
}

}  // namespace

struct Pipeline::Impl {
  Options options;
  RunInfo info;
  std::unique_ptr<const Detector> detector;
  std::unique_ptr<const Recognizer> recognizer;
  std::unique_ptr<const Classifier> line_classifier, page_classifier;
  int64_t memory = 0;  // bytes for one page's nets
  int threads = 1;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Scratch>> idle;
  mutable std::atomic<int> dumped{0};

  void open(std::vector<std::string>& warnings);
  /// The page turned clockwise by `rotation`, and brought to size where the settings say so.
  Frame make_frame(const ImageView& page, int rotation) const;
  /// Finds the turn that sets the page upright: what the page classifier says, or, where that is
  /// not sure, what the lines' own angles vote for.
  void find_turn(const ImageView& page, Scratch& scratch, PageResult& result) const;
  PageTurn vote_turn(const Frame& frame, Scratch& scratch) const;
  CropShape line_shape(const Detection& d) const;
  void read_page(const ImageView& page, Scratch& scratch, PageResult& result) const;
  void read_crop(const ImageView& page, Scratch& scratch, PageResult& result) const;
  void read_lines(const Frame& frame, const std::vector<Detection>& boxes, Scratch& scratch,
                  PageResult& result) const;
  std::vector<int> order(const std::vector<Detection>& boxes) const;
  std::string text_of(const CtcLine& line) const {
    return recognizer->right_to_left() ? reverse_right_to_left(line.text) : line.text;
  }
  void add_parts(TextLine& line, const Recognizer::Item& item, const CropMapper& mapper,
                 const Frame* frame) const;
};

// The lines of one page on their way through classifier and recogniser.
class LineReader {
 public:
  LineReader(const Options& options, const Recognizer& recognizer, const Classifier* classifier,
             const cv::Mat& image, std::vector<CropShape> shapes, Scratch& scratch)
      : options_(options),
        recognizer_(recognizer),
        classifier_(classifier),
        image_(image),
        shapes_(std::move(shapes)),
        scratch_(scratch),
        items(shapes_.size()),
        angles(shapes_.size()),
        flipped(shapes_.size(), false) {
    for (size_t i = 0; i < shapes_.size(); ++i)
      items[i].width = shapes_[i].out_width(), items[i].height = shapes_[i].out_height();
  }

  void read() {
    const std::string& mode = options_.use_angle_cls;
    std::vector<int> all(shapes_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    if (mode == "true" && classifier_) classify(all);
    if (scratch_.dump)
      for (const int i : all) scratch_.dump->image("crop" + std::to_string(i), cut(i));
    recognizer_.recognize(items, scratch_, [this](int i) { return cut(i); });
    if (mode == "auto" && classifier_) retry_turned();
  }

  const CropShape& shape(size_t i) const { return shapes_[i]; }

 private:
  cv::Mat cut(int i) const {
    cv::Mat crop = cut_crop(image_, shapes_[i]);
    if (flipped[i]) cv::rotate(crop, crop, cv::ROTATE_180);
    return crop;
  }

  void classify(const std::vector<int>& which) {
    const auto scores =
        classifier_->classify(static_cast<int>(which.size()), options_.cls_batch_num, scratch_,
                              [&](int i) { return cut(which[i]); });
    for (size_t k = 0; k < which.size(); ++k) {
      angles[which[k]] = scores[k];
      flipped[which[k]] = is_upside_down(scores[k], options_.cls_thresh);
    }
  }

  // Lines that read badly are asked whether they stand on their head; the better reading stays.
  void retry_turned() {
    std::vector<int> bad;
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].line.score < kReadsBadly) bad.push_back(static_cast<int>(i));
    if (bad.empty()) return;
    classify(bad);
    std::vector<int> turned;
    for (const int i : bad)
      if (flipped[i]) turned.push_back(i);
    std::vector<Recognizer::Item> again;
    for (const int i : turned) again.push_back({items[i].width, items[i].height, {}, {}});
    StageDump* dump = std::exchange(scratch_.dump, nullptr);
    recognizer_.recognize(again, scratch_, [&](int k) { return cut(turned[k]); });
    scratch_.dump = dump;
    for (size_t k = 0; k < turned.size(); ++k) {
      const int i = turned[k];
      if (again[k].line.score > items[i].line.score)
        items[i] = std::move(again[k]);
      else
        flipped[i] = false;
    }
  }

  const Options& options_;
  const Recognizer& recognizer_;
  const Classifier* classifier_;
  const cv::Mat& image_;
  std::vector<CropShape> shapes_;
  Scratch& scratch_;

 public:
  std::vector<Recognizer::Item> items;
  std::vector<AngleScore> angles;
  std::vector<char> flipped;
};

void Pipeline::Impl::open(std::vector<std::string>& warnings) {
  apply_preset(options, options.preset.value);
  const std::string& task = options.task;
  const bool det = task == "e2e" || task == "det", rec = task == "e2e" || task == "rec";
  // Not from the memory that is free just now, nor from the jobs: what tiles a page is searched in
  // must depend on the settings alone.
  const int64_t limit = parse_bytes(options.max_memory.value);
  memory = limit > 0 ? limit / 4 : kPageMemory;
  threads = options.threads > 0 ? options.threads.value : train::usable_cpus();

  const PrecisionChoice precision = choose_precision(options.precision.value);
  if (!precision.note.empty()) warnings.push_back(precision.note);

  std::vector<std::string> characters;
  std::unique_ptr<Model> det_model, rec_model;
  // Null where a model that the task can do without is nowhere.
  const auto load = [&](const char* kind, bool required = true) -> std::unique_ptr<Model> {
    const ModelFiles files = find_model(options, kind, required);
    if (!files.found()) return nullptr;
    if (!files.inference_yml.empty()) {
      auto list = load_inference_yml(options, files.inference_yml, kind);
      if (kind == std::string_view("rec")) characters = std::move(list);
    }
    return std::make_unique<Model>(load_model(files, kind, options));
  };
  if (det) det_model = load("det");
  if (rec) rec_model = load("rec");
  if (det_model) {
    info.models.push_back(det_model->note);
    detector = std::make_unique<Detector>(std::move(*det_model), options, memory);
  }
  if (rec_model) {
    info.models.push_back(rec_model->note);
    recognizer =
        std::make_unique<Recognizer>(std::move(*rec_model), options, std::move(characters));
  }
  const std::string& angle = options.use_angle_cls;
  const bool vote = det && options.use_doc_orientation_classify && options.doc_thresh > 0;
  if (task == "cls" || (rec && angle != "false") || vote) {
    if (auto model = load("cls", task == "cls" || (rec && angle == "true"))) {
      info.models.push_back(model->note);
      const ClassifierInput input = line_input(*model, options);
      line_classifier =
          std::make_unique<Classifier>(std::move(*model), input, options.label_list.value);
    }
  }
  if (vote && !line_classifier)
    warnings.push_back("no line angle classifier: a page's turn is the page classifier's guess");
  if (det && options.use_doc_orientation_classify) {
    auto model = load("doc");
    info.models.push_back(model->note);
    page_classifier = std::make_unique<Classifier>(
        std::move(*model), ClassifierInput::doc_orientation(), options.doc_label_list.value);
  }
  // A width that was asked for is the least that lines are read at.
  if (options.rec_image_shape.source >= Source::kConfig &&
      options.rec_min_width.source < options.rec_image_shape.source)
    set_option(options, "rec_min_width", std::to_string(options.rec_image_shape.value[2]),
               options.rec_image_shape.source, options.rec_image_shape.where);
  info.version = train::kVersion;
  info.task = task;
  if (!precision.note.empty()) options.precision.value = precision.name;  // what was used
  info.settings = describe_options(options);
}

Frame Pipeline::Impl::make_frame(const ImageView& page, int rotation) const {
  Frame frame;
  frame.image = as_mat(page);
  frame.page_width = page.width, frame.page_height = page.height;
  frame.rotation = rotation;
  constexpr int turns[] = {-1, cv::ROTATE_90_CLOCKWISE, cv::ROTATE_180,
                           cv::ROTATE_90_COUNTERCLOCKWISE};
  if (rotation) {
    cv::Mat turned;
    cv::rotate(frame.image, turned, turns[rotation / 90]);
    frame.image = turned;
  }
  frame.upright_width = frame.image.cols, frame.upright_height = frame.image.rows;
  if (options.det_rescale.value == "rapidocr") {
    frame.rapid = true;
    frame.rapid_page = rapidocr_page(frame.image.rows, frame.image.cols);
    frame.image = rapidocr_copy(frame.image, frame.rapid_page);
  }
  return frame;
}

void Pipeline::Impl::find_turn(const ImageView& page, Scratch& scratch, PageResult& result) const {
  const AngleScore top =
      page_classifier->classify(1, 1, scratch, [&](int) { return as_mat(page); })[0];
  result.rotation = (360 - top.degrees) % 360;  // back from where it was turned to
  result.rotation_score = top.score;
  if (top.score >= options.doc_thresh || !line_classifier) return;
  const PageTurn turn = vote_turn(make_frame(page, 0), scratch);
  if (turn.share < kVoteShare) return;
  result.rotation = turn.degrees;
  result.rotation_score = turn.share;
}

PageTurn Pipeline::Impl::vote_turn(const Frame& frame, Scratch& scratch) const {
  std::vector<CropShape> shapes;
  for (const Detection& d : detector->detect(frame.image, scratch).boxes)
    shapes.push_back(line_shape(d));
  // The longest lines say most, and the vote weighs by length.
  std::stable_sort(shapes.begin(), shapes.end(), [](const CropShape& a, const CropShape& b) {
    return std::max(a.width, a.height) > std::max(b.width, b.height);
  });
  if (shapes.size() > kVoters) shapes.resize(kVoters);
  const auto angles =
      line_classifier->classify(static_cast<int>(shapes.size()), options.cls_batch_num, scratch,
                                [&](int i) { return cut_crop(frame.image, shapes[i]); });
  std::vector<LineVote> votes;
  for (size_t i = 0; i < shapes.size(); ++i)
    votes.push_back({static_cast<float>(shapes[i].width), static_cast<float>(shapes[i].height),
                     angles[i].degrees == 180, angles[i].score});
  return vote_page_turn(votes, kVoteShare);
}

CropShape Pipeline::Impl::line_shape(const Detection& d) const {
  if (d.points.size() != 4 || options.det_box_type.value != "quad") return crop_shape(d.points);
  Quad quad;
  std::copy_n(d.points.begin(), 4, quad.begin());
  return crop_shape(quad);
}

std::vector<int> Pipeline::Impl::order(const std::vector<Detection>& boxes) const {
  std::vector<Polygon> polygons;
  for (const Detection& d : boxes) polygons.push_back(d.points);
  if (options.preset.value == "rapidocr") return order_rapidocr(polygons);
  if (options.reading_order.value == "rows") return order_paddle(polygons);
  return reading_order(polygons);
}

void Pipeline::Impl::add_parts(TextLine& line, const Recognizer::Item& item,
                               const CropMapper& mapper, const Frame* frame) const {
  const auto convert = [&](std::vector<TextBox> boxes) {
    std::vector<TextPart> parts;
    for (TextBox& b : boxes) {
      if (frame) frame->to_page(b.quad);
      parts.push_back({std::move(b.text), b.score, b.quad});
    }
    return parts;
  };
  line.words = convert(word_boxes(item.line, item.scale, item.height, mapper));
  line.chars = convert(char_boxes(item.line, item.scale, item.height, mapper));
  if (recognizer->right_to_left()) {
    read_from_the_right(line.words);
    read_from_the_right(line.chars);
  }
}

void Pipeline::Impl::read_lines(const Frame& frame, const std::vector<Detection>& boxes,
                                Scratch& scratch, PageResult& result) const {
  std::vector<CropShape> shapes;
  for (const Detection& d : boxes) shapes.push_back(line_shape(d));
  LineReader reader(options, *recognizer, line_classifier.get(), frame.image, std::move(shapes),
                    scratch);
  reader.read();
  for (size_t i = 0; i < boxes.size(); ++i) {
    const CtcLine& ctc = reader.items[i].line;
    if (is_blank(ctc.text) || ctc.score < options.drop_score) continue;
    TextLine line;
    line.points = boxes[i].points;
    frame.to_page(line.points);
    line.det_score = boxes[i].score;
    line.text = text_of(ctc);
    line.score = ctc.score;
    line.vertical = reader.shape(i).turned;
    line.angle = reader.flipped[i] ? 180 : 0;
    line.angle_score = reader.angles[i].score;
    if (options.return_word_box)
      add_parts(line, reader.items[i], CropMapper(reader.shape(i), reader.flipped[i]), &frame);
    result.lines.push_back(std::move(line));
  }
}

void Pipeline::Impl::read_page(const ImageView& page, Scratch& scratch, PageResult& result) const {
  if (page_classifier) find_turn(page, scratch, result);
  const Frame frame = make_frame(page, result.rotation);
  if (scratch.dump) scratch.dump->image("decode", frame.image);
  Detections found = detector->detect(frame.image, scratch);
  result.tiles = found.tiles;
  if (found.cut_candidates > 0)
    result.warnings.push_back(
        cat(found.cut_candidates, " places beyond det_max_candidates were not looked at"));
  std::vector<Detection> boxes;
  for (const int i : order(found.boxes)) boxes.push_back(std::move(found.boxes[i]));
  for (const Detection& d : boxes) {
    result.detected.push_back(d.points);
    frame.to_page(result.detected.back());
  }
  if (scratch.dump) scratch.dump->boxes(boxes);
  if (recognizer) return read_lines(frame, boxes, scratch, result);
  for (Detection& d : boxes) {
    TextLine line;
    frame.to_page(d.points);
    line.points = std::move(d.points);
    line.det_score = d.score;
    result.lines.push_back(std::move(line));
  }
}

// Task rec and cls: the whole image is one line.
void Pipeline::Impl::read_crop(const ImageView& page, Scratch& scratch, PageResult& result) const {
  const auto w = static_cast<float>(page.width), h = static_cast<float>(page.height);
  CropShape shape;
  shape.quad = Quad{Point2f{0, 0}, Point2f{w, 0}, Point2f{w, h}, Point2f{0, h}};
  shape.width = page.width, shape.height = page.height;
  const cv::Mat image = as_mat(page);
  TextLine line;
  line.points.assign(shape.quad.begin(), shape.quad.end());
  if (!recognizer) {
    const AngleScore top = line_classifier->classify(1, 1, scratch, [&](int) { return image; })[0];
    line.angle = top.degrees == 180 ? 180 : 0;
    line.angle_score = top.score;
  } else {
    LineReader reader(options, *recognizer, line_classifier.get(), image, {shape}, scratch);
    reader.read();
    line.text = text_of(reader.items[0].line);
    line.score = reader.items[0].line.score;
    line.angle = reader.flipped[0] ? 180 : 0;
    line.angle_score = reader.angles[0].score;
    if (options.return_word_box)
      add_parts(line, reader.items[0], CropMapper(shape, reader.flipped[0]), nullptr);
  }
  result.lines.push_back(std::move(line));
}

Pipeline::Pipeline() : impl_(std::make_unique<Impl>()) {}
Pipeline::~Pipeline() = default;

std::shared_ptr<const Pipeline> Pipeline::open(Options options,
                                               std::vector<std::string>* warnings) {
  std::vector<std::string> unused;
  std::shared_ptr<Pipeline> pipeline(new Pipeline);
  pipeline->impl_->options = std::move(options);
  cv::setNumThreads(1);  // the pages' own pools are the only threads
  pipeline->impl_->open(warnings ? *warnings : unused);
  return pipeline;
}

PageResult Pipeline::run(const ImageView& page) const {
  std::unique_ptr<Scratch> scratch;
  {
    std::lock_guard lock(impl_->mutex);
    if (!impl_->idle.empty()) {
      scratch = std::move(impl_->idle.back());
      impl_->idle.pop_back();
    }
  }
  if (!scratch) scratch = std::make_unique<Scratch>(impl_->threads);
  PageResult result = run(page, *scratch);
  std::lock_guard lock(impl_->mutex);
  impl_->idle.push_back(std::move(scratch));
  return result;
}

PageResult Pipeline::run(const ImageView& page, Scratch& scratch) const {
  const auto start = std::chrono::steady_clock::now();
  if (page.empty() || !page.data) throw train::ShapeError("an image without pixels");
  const train::PoolScope scope(&scratch.pool());
  PageResult result;
  result.width = page.width, result.height = page.height;
  std::unique_ptr<StageDump> dump;
  if (!impl_->options.dump_stages.value.empty()) {
    dump = std::make_unique<StageDump>(impl_->options.dump_stages,
                                       "page" + std::to_string(impl_->dumped++));
  }
  scratch.dump = dump.get();
  const std::string& task = impl_->options.task;
  if (task == "rec" || task == "cls")
    impl_->read_crop(page, scratch, result);
  else
    impl_->read_page(page, scratch, result);
  scratch.dump = nullptr;
  scratch.end_page();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::unique_ptr<Scratch, void (*)(Scratch*)> Pipeline::make_scratch(int threads) const {
  return {new Scratch(threads > 0 ? threads : impl_->threads), [](Scratch* s) { delete s; }};
}

const Options& Pipeline::options() const { return impl_->options; }
const RunInfo& Pipeline::info() const { return impl_->info; }

int64_t Pipeline::estimate_memory(int width, int height) const {
  const int64_t per_pixel = impl_->detector ? impl_->detector->bytes_per_pixel() : 0;
  const int64_t recogniser = int64_t{64} << 20;  // a batch of lines and its probabilities
  return std::max(per_pixel * width * height, recogniser);
}

}  // namespace ocr
