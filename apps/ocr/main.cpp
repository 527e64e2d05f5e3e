#include <cstdio>

#include "libtrain/core/version.h"

int main() {
  std::printf("ocr %s\n", train::kVersion);
  return 0;
}
