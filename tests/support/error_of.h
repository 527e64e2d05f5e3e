// error_of: the message of what a call throws.
#pragma once
#include <string>

#include "libtrain/core/error.h"

namespace train::test {

/// The message of the train::Error that `f` throws, "" when it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace train::test
