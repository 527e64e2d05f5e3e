#include "libtrain/core/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

namespace train {
namespace {

constexpr char kGood = '+', kBad = '-';

void write_all(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the parent is gone
    at += static_cast<size_t>(n);
  }
}

std::string read_all(int fd) {
  std::string all;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return all;
    all.append(buffer, static_cast<size_t>(n));
  }
}

[[noreturn]] void be_the_copy(int fd, pid_t parent, FunctionRef<std::string()> f) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  std::string result;
  try {
    result = kGood + f();
  } catch (const std::exception& e) {
    result = kBad + std::string(e.what());
  } catch (...) {
    result = kBad;
  }
  write_all(fd, result);
  ::_exit(0);  // no destructor, no buffer: what is open belongs to the parent
}

}  // namespace

std::string call_in_copy(FunctionRef<std::string()> f) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw DeviceError(cat("cannot make a pipe: ", std::strerror(errno)));
  const pid_t self = ::getpid(), child = ::fork();
  if (child == 0) be_the_copy(ends[1], self, f);
  const int error = errno;
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    throw DeviceError(cat("cannot copy this process: ", std::strerror(error)));
  }
  const std::string answer = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (answer.empty())
    throw CopyKilled(WIFSIGNALED(status)
                         ? cat("a copy of this process was ended by signal ", WTERMSIG(status))
                         : std::string("a copy of this process ended without a word"));
  if (answer[0] != kGood) throw Error(answer.substr(1));
  return answer.substr(1);
}

int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace train
