// The help text of `ocr infer`.
#pragma once
#include <string>

namespace app {

std::string infer_help();

}  // namespace app
