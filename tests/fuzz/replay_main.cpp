// Runs a fuzzer's function without libFuzzer: over the files of a corpus, then over seeded
// mutations of them. usage: fuzz_NAME [--mutations N] [--seed S] [--only K] PATH...    prints what
// reproduces an input that crashes
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<uint8_t>;
constexpr size_t kMaxBytes = 1 << 20;
char current[4096];  // what is being run, for the message of a crash

void say_current() {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, current, std::strlen(current));
}

void on_signal(int signal_number) {
  say_current();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

std::vector<Bytes> run_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) files.push_back(entry.path().string());
      }
    } else {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());  // the order decides what a seed gives
  std::vector<Bytes> inputs;
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      std::exit(2);
    }
    Bytes bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (bytes.size() > kMaxBytes) continue;
    std::snprintf(current, sizeof current, "\nwhile running the file %s\n", file.c_str());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

// One edit: flip a bit, write a byte or an extreme number, cut, repeat or borrow a piece.
void edit(Bytes& bytes, const std::vector<Bytes>& inputs, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  const size_t at = below(bytes.size() + 1);
  const size_t length = std::min(bytes.size() - at, 1 + below(below(4) ? 8 : 256));
  static constexpr uint64_t kExtreme[] = {
      0,      1,          0x7f,       0x80,       0xff,       0x7fff,     0x8000,
      0xffff, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull >> 1, 1ull << 63, ~0ull};
  switch (below(6)) {
    case 0:
      if (at < bytes.size()) bytes[at] ^= static_cast<uint8_t>(1u << below(8));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<uint8_t>(random());
      break;
    case 2: {
      uint64_t value = kExtreme[below(std::size(kExtreme))];
      const bool big_endian = below(2);
      if (big_endian)
        value =
            __builtin_bswap64(value) >> (64 - 8 * std::min<size_t>(8, std::max<size_t>(1, length)));
      if (length > 0) std::memcpy(bytes.data() + at, &value, std::min<size_t>(8, length));
      break;
    }
    case 3:
      bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at),
                  bytes.begin() + static_cast<ptrdiff_t>(at + length));
      break;
    case 4: {
      const Bytes piece(bytes.begin() + static_cast<ptrdiff_t>(at),
                        bytes.begin() + static_cast<ptrdiff_t>(at + length));
      bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(below(bytes.size() + 1)), piece.begin(),
                   piece.end());
      break;
    }
    default: {
      const Bytes& other = inputs[below(inputs.size())];
      const size_t from = below(other.size() + 1);
      const size_t end = std::min(other.size(), from + 1 + below(64));
      bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at),
                   other.begin() + static_cast<ptrdiff_t>(from),
                   other.begin() + static_cast<ptrdiff_t>(end));
    }
  }
}

void run_mutation(const std::vector<Bytes>& inputs, uint64_t seed, uint64_t number) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15ull + number);
  Bytes bytes = inputs[random() % inputs.size()];
  for (uint64_t edits = 1 + random() % 8; edits > 0; --edits) edit(bytes, inputs, random);
  if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
  std::snprintf(current, sizeof current, "\nwhile running: --seed %llu --only %llu\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(number));
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t mutations = 0, seed = 1;
  int64_t only = -1;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--mutations" && has_value) {
      mutations = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && has_value) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--only" && has_value) {
      only = std::strtoll(argv[++i], nullptr, 10);
    } else {
      paths.push_back(argument);
    }
  }
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(say_current);
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL})
    std::signal(signal_number, on_signal);
  const std::vector<Bytes> inputs = run_files(paths);
  if (inputs.empty()) {
    std::fprintf(stderr, "no input files\n");
    return 2;
  }
  if (only >= 0) {
    run_mutation(inputs, seed, static_cast<uint64_t>(only));
  } else {
    for (uint64_t i = 0; i < mutations; ++i) run_mutation(inputs, seed, i);
  }
  std::printf("%zu files, %llu mutations\n", inputs.size(),
              static_cast<unsigned long long>(mutations));
  return 0;
}
