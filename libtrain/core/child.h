// Trying something in a copy of this process, which leaves no trace in this one.
#pragma once
#include <string>

#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"

namespace train {

/// The copy was ended from outside, most often because the machine ran out of memory.
class CopyKilled : public Error {
 public:
  using Error::Error;
};

/// Calls `f` in a copy of this process (fork) and returns what it returned. The copy has all of
/// this process's memory, whose pages it shares until one of the two writes to them, and none of
/// its other threads: `f` must not wait for any. Where memory is short the system ends the copy
/// first; it ends with its parent. Throws Error with the message of what `f` threw, CopyKilled,
/// and DeviceError when there can be no copy.
std::string call_in_copy(FunctionRef<std::string()> f);

/// The most memory that this process ever had in use, in bytes. A copy's begins with what its
/// original had in use at that time.
int64_t peak_memory();

}  // namespace train
