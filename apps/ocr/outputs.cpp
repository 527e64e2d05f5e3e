#include "apps/ocr/outputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "libocr/image/atomic_file.h"
#include "libtrain/core/error.h"
#include "libtrain/core/sha256.h"

namespace app {
namespace {

namespace fs = std::filesystem;
using ocr::Format;
using train::cat;

constexpr const char* kJournalName = ".ocr_done";
constexpr const char* kJournalHead = "ocr-done 1 ";

// "size mtime" of an input, "" when it cannot be looked at (standard input).
std::string stamp_of(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return "";
  return cat(st.st_size, " ", st.st_mtim.tv_sec, ".", st.st_mtim.tv_nsec);
}

std::string escaped(const std::string& path) {  // a path may hold a line feed
  std::string out;
  for (const char c : path)
    out += c == '\n' ? std::string("\\n") : c == '\\' ? "\\\\" : std::string(1, c);
  return out;
}

void make_folders_for(const std::string& file) {
  const fs::path parent = fs::path(file).parent_path();
  std::error_code e;
  if (!parent.empty()) fs::create_directories(parent, e);
  if (e) throw train::DeviceError(cat(parent.string(), ": cannot be made: ", e.message()));
}

void write_all(int fd, const std::string& text, const std::string& name) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw train::DeviceError(cat(name, ": cannot be written: ", std::strerror(errno)));
    at += static_cast<size_t>(n);
  }
}

}  // namespace

Journal::Journal(std::string path, const std::string& fingerprint, bool resume)
    : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::string head = kJournalHead + fingerprint;
  bool keep = false;
  if (resume) {
    std::ifstream in(path_);
    std::string line;
    keep = static_cast<bool>(std::getline(in, line)) && line == head;
    while (keep && std::getline(in, line)) {
      // length size mtime path; an entry without its line feed was cut short
      if (in.eof()) break;
      const size_t a = line.find(' '), b = line.find(' ', a + 1), c = line.find(' ', b + 1);
      if (c == line.npos) continue;
      length_ = std::atoll(line.c_str());
      entries_[line.substr(c + 1)] = line.substr(a + 1, c - a - 1);
    }
  }
  make_folders_for(path_);
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (keep ? 0 : O_TRUNC), 0666);
  if (fd_ < 0) throw train::DeviceError(cat(path_, ": cannot be written: ", std::strerror(errno)));
  if (!keep) write_all(fd_, head + "\n", path_);
}

Journal::~Journal() {
  if (fd_ >= 0) close(fd_);
}

bool Journal::finished(const std::string& input) const {
  const auto it = entries_.find(escaped(input));
  return it != entries_.end() && it->second == stamp_of(input);
}

void Journal::add(const std::string& input, int64_t length) {
  const std::string stamp = stamp_of(input);
  if (fd_ < 0 || stamp.empty()) return;
  write_all(fd_, cat(length, " ", stamp, " ", escaped(input), "\n"), path_);
}

bool names_a_file(const std::string& target) {
  std::error_code e;
  if (target.ends_with("/") || fs::is_directory(target, e)) return false;
  const std::string ext = fs::path(target).extension().string();
  return ext == ".json" || ext == ".jsonl" || ext == ".txt" || ext == ".tsv";
}

std::string format_of_name(const std::string& target) {
  const std::string ext = names_a_file(target) ? fs::path(target).extension().string() : "";
  return ext.empty() || ext == ".txt" ? "text" : ext.substr(1);
}

std::string fingerprint_of(const ocr::RunInfo& run, Format format) {
  std::string all =
      cat(ocr::kSchema, "\n", run.version, "\n", run.task, "\n", static_cast<int>(format), "\n");
  for (const ocr::ModelNote& m : run.models) all += cat(m.kind, " ", m.sha256, "\n");
  for (const ocr::OptionText& o : run.settings)
    if (o.affects_text) all += cat(o.name, " ", o.json, "\n");
  return train::sha256_hex(all);
}

Outputs::Outputs(const OutputOptions& options, const ocr::RunInfo& run)
    : options_(options), run_(run) {
  const std::string print = fingerprint_of(run, options.format);
  const std::string& target = options.target;
  if (target.empty() || target == "-") {
    journal_ = std::make_unique<Journal>("", print, false);
    if (options.format == Format::kTsv) put(ocr::header_of(options.format));
    return;
  }
  std::string file, journal;
  if (names_a_file(target)) {
    kind_ = Kind::kFile;
    file = target;
    const fs::path p(target);
    journal = (p.parent_path() / cat(".", p.filename().string(), ".done")).string();
  } else {
    kind_ = Kind::kFolder;
    folder_ = target;
    journal = cat(target, "/", kJournalName);
    // PaddleOCR's label format is one file for all images, which PPOCRLabel opens.
    if (options.format == Format::kPaddle) kind_ = Kind::kFile, file = cat(target, "/Label.txt");
  }
  if (kind_ == Kind::kFile && options.format == Format::kJson && options.resume)
    throw train::ConfigError("", 0, 0,
                             "--resume cannot continue a single .json file: use a folder, or "
                             "--format jsonl");
  const bool json_file = kind_ == Kind::kFile && options.format == Format::kJson;
  journal_ = std::make_unique<Journal>(json_file ? "" : journal, print, options.resume);
  if (kind_ == Kind::kFile) open_file(file, options.resume);
}

Outputs::~Outputs() {
  if (kind_ == Kind::kFile && fd_ >= 0) close(fd_);
}

// The one output file, cut to what the journal vouches for.
void Outputs::open_file(const std::string& path, bool resume) {
  make_folders_for(path);
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) throw train::DeviceError(cat(path, ": cannot be written: ", std::strerror(errno)));
  length_ = resume ? journal_->length() : 0;
  if (ftruncate(fd_, length_) != 0 && errno != EINVAL)
    throw train::DeviceError(cat(path, ": cannot be cut: ", std::strerror(errno)));
  lseek(fd_, length_, SEEK_SET);
  if (length_ == 0 && options_.format == Format::kTsv) put(ocr::header_of(options_.format));
}

bool Outputs::finished(const ocr::InputJob& job) const {
  if (!options_.resume || !journal_->finished(job.path)) return false;
  std::error_code e;
  return kind_ != Kind::kFolder || fs::exists(file_of(job, true), e);
}

bool Outputs::to_terminal() const { return kind_ == Kind::kStdout && isatty(1); }

// Label.txt names images as PPOCRLabel does: the folder they are in, and their own name.
std::string Outputs::key_of(const ocr::InputJob& job) const {
  if (kind_ != Kind::kFile || options_.format != Format::kPaddle) return job.path;
  std::error_code e;
  const fs::path p = fs::absolute(job.path, e);
  return p.parent_path().filename().string() + "/" + p.filename().string();
}

std::string Outputs::file_of(const ocr::InputJob& job, bool complete) const {
  const std::string relative = job.path == "-" ? "stdin" : job.relative;
  return folder_ + "/" + relative + (complete ? "" : ".partial") +
         ocr::extension_of(options_.format);
}

std::string Outputs::render(const ocr::InputJob& job, const ocr::DocumentResult& document) const {
  if (!document.error.empty() && document.pages.empty()) return "";
  return ocr::write_document(document, run_, options_.format, key_of(job));
}

void Outputs::put(const std::string& text) {
  write_all(fd_, text, kind_ == Kind::kStdout ? "standard output" : options_.target);
  length_ += static_cast<int64_t>(text.size());
}

void Outputs::write(const ocr::InputJob& job, const ocr::DocumentResult& document, bool complete) {
  const bool failed = !document.error.empty();
  if (kind_ == Kind::kFolder) {
    const std::string text = render(job, document);
    if (failed && text.empty()) return;
    const std::string path = file_of(job, complete);
    make_folders_for(path);
    ocr::write_file(path, text);
    if (complete) unlink(file_of(job, false).c_str());  // of an earlier, interrupted run
  } else if (options_.format == Format::kJson) {
    // Several documents make one array; those that failed are in it with their error.
    std::string text = ocr::write_document(document, run_, options_.format, key_of(job));
    if (options_.documents > 1) {
      text.pop_back();
      text = (written_ == 0 ? "[\n" : ",\n") + text;
    }
    put(text);
  } else {
    std::string text = render(job, document);
    if (failed && options_.format == Format::kJsonl) text += ocr::write_error_line(document);
    if (kind_ == Kind::kStdout && options_.format == Format::kText && run_.task != "rec" &&
        run_.task != "cls" && options_.documents > 1 && !failed)
      text = cat(written_ ? "\n" : "", "==> ", document.path, " <==\n", text);
    put(text);
  }
  ++written_;
  if (complete && !failed) journal_->add(job.path, kind_ == Kind::kFile ? length_ : 0);
}

void Outputs::finish(const ocr::RunSummary& summary) {
  if (kind_ != Kind::kFolder && options_.format == Format::kJson && options_.documents > 1)
    put(written_ ? "\n]\n" : "[]\n");
  if (!folder_.empty())
    ocr::write_file(folder_ + "/ocr_summary.json", write_summary(summary, run_));
  if (kind_ == Kind::kFile && fsync(fd_) != 0 && errno != EINVAL)
    throw train::DeviceError(cat(options_.target, ": ", std::strerror(errno)));
}

}  // namespace app
