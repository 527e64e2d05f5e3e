// Ranks as processes: what mpirun started, joined through libocr_mpi.so.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "libtrain/core/error.h"
#include "libtrain/dist/communicator.h"

namespace train::dist {

struct MpiOptions {
  double timeout_seconds = 300;  // how long a rank waits for the others in one operation
  double latency_seconds = 0;    // added to every f32 sum, as a slow network would: for tests
  std::string plugin = {};       // libocr_mpi.so; empty: where find_mpi_plugin() finds it
};

/// Other ranks failed, died or did not answer; what() names them. Every rank that can still speak
/// gets one; `report` is set on one of them alone, so that a person reads one error.
class RankFailure : public DeviceError {
 public:
  RankFailure(const std::string& message, bool report) : DeviceError(message), report(report) {}
  bool report;
};

/// The communicator of a process that mpirun started. While it waits it looks after the others: one
/// that died on this machine is noticed at once, one that failed says so itself, one that does not
/// come within the timeout is found by asking all of them where they are.
class MpiRanks : public Communicator {
 public:
  /// All ranks have done their work: ends MPI in good order.
  virtual void finish() = 0;
  /// Tells the others that this rank failed and has reported it: they end without a word.
  virtual void say_failed(const std::string& why) = 0;
  /// Ends all processes of the job; does not return where MPI can do that.
  virtual void abort(int code) = 0;
};

/// Loads the plug-in and joins the others; once per process. Throws DeviceError, with the remedy,
/// when there is no plug-in, or when MPI sees another number of ranks than `size`, the launcher's
/// (0: unknown).
std::unique_ptr<MpiRanks> join_mpi(int size, const MpiOptions& options);

/// Where the plug-in may lie: $OCR_MPI_PLUGIN if set, else beside the program, else where it is
/// installed.
std::vector<std::string> mpi_plugin_places();
/// The first of those that exists; empty: none.
std::string find_mpi_plugin();

}  // namespace train::dist
