#include "libtrain/dist/mpi_ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "libtrain/dist/mpi/mpi_table.h"

namespace train::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSpin = 200e-6;    // seconds of waiting before a rank begins to sleep
constexpr double kNap = 50e-6;      // how long it sleeps between looks at the operation
constexpr double kLookEvery = .02;  // seconds between looks at the other ranks
constexpr double kRollCall = 2;     // seconds that ranks have to say where they are
constexpr size_t kMaxNote = 1000;   // bytes
constexpr int kPiece = 1 << 26;     // bytes of one broadcast: MPI counts in int

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A number that processes share when they can see each other's process ids. At most 2^52, so that a
// double holds it.
double machine_number() {
  std::string text;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, text);
  char link[64];
  const ssize_t n = ::readlink("/proc/self/ns/pid", link, sizeof(link));
  if (n > 0) text.append(link, static_cast<size_t>(n));
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return static_cast<double>(hash >> 12);
}

// Whether the process is gone, or dead and not yet buried.
bool is_dead(int64_t pid) {
  std::ifstream in(cat("/proc/", pid, "/stat"));
  std::string text;
  if (!std::getline(in, text)) return true;
  const size_t at = text.rfind(") ");
  return at != std::string::npos && at + 2 < text.size() &&
         (text[at + 2] == 'Z' || text[at + 2] == 'X');
}

std::string join_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += cat(i ? ", " : "", ranks[i]);
  return text;
}

class Ranks final : public MpiRanks {
 public:
  Ranks(const OcrMpiTable& table, const MpiOptions& options) : t_(table), options_(options) {
    if (t_.init(&rank_, &size_) != 0) fail_mpi();
  }

  // The first operation: who is on this machine, and under which process id.
  void meet() {
    std::vector<double> all(2 * static_cast<size_t>(size_));
    const auto mine = 2 * static_cast<size_t>(rank_);
    all[mine] = machine_number();
    all[mine + 1] = ::getpid();
    all_reduce(std::span<double>(all));
    for (int r = 0; r < size_; ++r) {
      const auto at = 2 * static_cast<size_t>(r);
      near_.push_back(all[at] == all[mine] ? static_cast<int64_t>(all[at + 1]) : 0);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Request> start_all_reduce(std::span<float> data) override {
    return std::make_unique<Pending>(
        *this, begin(t_.start_sum_f32(data.data(), static_cast<int>(data.size())),
                     cat("all_reduce(f32) of ", data.size(), " elements")));
  }
  void all_reduce(std::span<double> data) override {
    wait(begin(t_.start_sum_f64(data.data(), static_cast<int>(data.size())),
               cat("all_reduce(f64) of ", data.size(), " elements")));
  }
  void broadcast(std::span<char> data) override {
    for (size_t at = 0; at < data.size(); at += kPiece) {
      const auto piece = data.subspan(at, std::min<size_t>(kPiece, data.size() - at));
      wait(begin(t_.start_broadcast(piece.data(), static_cast<int>(piece.size())),
                 cat("broadcast of ", piece.size(), " bytes")));
    }
  }
  void barrier() override { wait(begin(t_.start_barrier(), "barrier")); }

  void finish() override {
    barrier();
    t_.finalize();
  }
  void say_failed(const std::string& why) override { tell_all(rank_, why); }
  void abort(int code) override { t_.abort(code); }

 private:
  // An operation that was started.
  struct Operation {
    void* request = nullptr;  // null: ended
    std::string what;
    int64_t number = 0;
    Clock::time_point ready;  // not before
  };
  struct Pending final : Request {
    Pending(Ranks& ranks, Operation operation) : ranks(ranks), operation(std::move(operation)) {
      this->operation.ready =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(ranks.options_.latency_seconds));
    }
    bool poll() override { return ranks.poll(operation) && Clock::now() >= operation.ready; }
    void wait() override {
      ranks.wait(operation);
      std::this_thread::sleep_until(operation.ready);
    }
    Ranks& ranks;
    Operation operation;
  };

  [[noreturn]] void fail_mpi() const { throw DeviceError(cat("MPI failed: ", t_.last_error())); }

  Operation begin(void* request, std::string what) {
    if (!request) fail_mpi();
    return {request, std::move(what), ++started_, {}};
  }

  bool poll(Operation& o) {
    if (!o.request) return true;
    const int done = t_.test(o.request);
    if (done < 0) fail_mpi();
    if (done > 0) o.request = nullptr;
    return done > 0;
  }

  void wait(Operation&& o) { wait(o); }
  void wait(Operation& o) {
    const auto start = Clock::now();
    double next_look = kLookEvery;
    while (!poll(o)) {
      const double waited = seconds_since(start);
      if (waited < kSpin) {
        ::sched_yield();
        continue;
      }
      if (waited >= next_look) {
        look_around(o, waited);
        next_look = waited + kLookEvery;
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(kNap));
    }
  }

  std::string place(const Operation& o) const { return cat(o.what, " (operation ", o.number, ")"); }

  // Called now and then while this rank waits.
  void look_around(Operation& o, double waited) {
    read_notes(o);
    for (int r = 0; r < static_cast<int>(near_.size()); ++r) {
      if (r == rank_ || near_[static_cast<size_t>(r)] == 0) continue;
      if (!is_dead(near_[static_cast<size_t>(r)])) continue;
      if (poll(o)) return;
      read_notes(o);  // it may have said why
      give_up(cat("rank ", r, " (process ", near_[static_cast<size_t>(r)], ") died; rank ", rank_,
                  " waited for it in ", place(o)),
              living());
    }
    if (waited >= options_.timeout_seconds) roll_call(o);
  }

  // Ranks of this machine that live, and all others.
  std::vector<int> living() const {
    std::vector<int> all;
    for (int r = 0; r < size_; ++r) {
      const int64_t pid = near_.empty() ? 0 : near_[static_cast<size_t>(r)];
      if (r == rank_ || pid == 0 || !is_dead(pid)) all.push_back(r);
    }
    return all;
  }

  // Notes are a letter and text. "?": where are you; "!": its answer; "F": RANK TEXT, the job has
  // failed, and that rank reports it. Returns the sender and text of an answer, if one came.
  std::optional<std::pair<int, std::string>> read_notes(const Operation& o) {
    std::string text(kMaxNote, '\0');
    int from = 0;
    while (const int n = t_.receive_note(&from, text.data(), static_cast<int>(kMaxNote))) {
      const std::string note = text.substr(0, static_cast<size_t>(n));
      if (note[0] == '!') return std::pair(from, note.substr(1));
      if (note[0] == '?') send(from, "!" + place(o));
      if (note[0] == 'F') {
        const size_t space = note.find(' ');
        throw RankFailure(note.substr(std::min(space, note.size() - 1) + 1),
                          std::atoi(note.c_str() + 1) == rank_);
      }
    }
    return {};
  }

  // Asks all where they are, and throws what came of it.
  [[noreturn]] void roll_call(Operation& o) {
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send(r, "?");
    std::vector<std::string> answers(static_cast<size_t>(size_));
    int missing = size_ - 1;
    for (const auto start = Clock::now(); missing > 0 && seconds_since(start) < kRollCall;) {
      if (const auto answer = read_notes(o)) {
        std::string& text = answers[static_cast<size_t>(answer->first)];
        missing -= text.empty();
        text = answer->second;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::vector<int> silent, here;
    std::string elsewhere;
    for (int r = 0; r < size_; ++r) {
      const std::string& text = answers[static_cast<size_t>(r)];
      if (r != rank_ && text.empty()) {
        silent.push_back(r);
        continue;
      }
      here.push_back(r);
      if (r != rank_ && text != place(o)) elsewhere += cat("; rank ", r, " is in ", text);
    }
    std::string message =
        cat("rank ", rank_, " waited ", options_.timeout_seconds, " s in ", place(o));
    if (!silent.empty())
      message += cat("; ", join_ranks(silent), silent.size() == 1 ? " does" : " do",
                     " not answer: dead, hung, or much slower than the others");
    give_up(message + elsewhere, here);
  }

  // The lowest of those that can still speak reports.
  [[noreturn]] void give_up(const std::string& message, const std::vector<int>& speakers) {
    const int reporter = *std::ranges::min_element(speakers);
    tell_all(reporter, message);
    throw RankFailure(message, reporter == rank_);
  }

  void tell_all(int reporter, const std::string& message) {
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send(r, cat("F", reporter, " ", message));
  }

  void send(int to, std::string note) {
    if (note.size() > kMaxNote) note.resize(kMaxNote);
    t_.send_note(to, note.data(), static_cast<int>(note.size()));
  }

  const OcrMpiTable& t_;
  const MpiOptions options_;
  int rank_ = 0, size_ = 1;
  int64_t started_ = 0;
  std::vector<int64_t> near_;  // process ids; 0: on another machine
};

std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof(path));
  const std::string text(path, n > 0 ? static_cast<size_t>(n) : 0);
  return text.substr(0, text.rfind('/'));
}

const OcrMpiTable& load_table(const std::string& path) {
  // Global: MPI libraries load parts of their own, which look for the library's symbols.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) throw DeviceError(cat("the MPI plug-in does not load: ", ::dlerror()));
  const auto function = reinterpret_cast<OcrMpiTableFunction>(::dlsym(library, kOcrMpiSymbol));
  const OcrMpiTable* table = function ? function() : nullptr;
  if (!table || table->version != kOcrMpiVersion)
    throw DeviceError(cat(path,
                          ": is not the MPI plug-in of this version of the program; build "
                          "both together"));
  return *table;
}

}  // namespace

std::vector<std::string> mpi_plugin_places() {
  if (const char* path = std::getenv("OCR_MPI_PLUGIN"); path && *path) return {path};
  const std::string here = program_folder();
  return {here + "/libocr_mpi.so", here + "/../" OCR_PLUGIN_DIR "/libocr_mpi.so"};
}

std::string find_mpi_plugin() {
  for (const std::string& path : mpi_plugin_places())
    if (::access(path.c_str(), R_OK) == 0) return path;
  return {};
}

std::unique_ptr<MpiRanks> join_mpi(int size, const MpiOptions& options) {
  const std::string path = options.plugin.empty() ? find_mpi_plugin() : options.plugin;
  if (path.empty()) {
    std::string places;
    for (const std::string& p : mpi_plugin_places()) places += (places.empty() ? "" : ", ") + p;
    throw DeviceError(
        cat("ranks need the MPI plug-in libocr_mpi.so, which is not there (looked for ", places,
            "). Install libopenmpi-dev and build again, or let OCR_MPI_PLUGIN name the file"));
  }
  auto ranks = std::make_unique<Ranks>(load_table(path), options);
  if (size > 0 && ranks->size() != size)
    throw DeviceError(cat("the launcher started ", size, " ranks, but MPI sees ", ranks->size(),
                          ": start them with the mpirun of the MPI library that ", path,
                          " was built with (Slurm: srun --mpi=pmix)"));
  ranks->meet();
  return ranks;
}

}  // namespace train::dist
