// Reading the sections of a configuration that `name` what they configure.
#pragma once
#include "libtrain/config/reader.h"
#include "libtrain/config/training.h"

namespace ocr {

/// A section's keys through `take(reader)`, `name` aside.
template <class Take>
void read_section(const train::config::NamedSection& section, const char* path,
                  train::config::ReadContext& context, Take&& take) {
  train::config::Reader reader(section.node, path, context);
  reader.ignore("name");
  take(reader);
  reader.finish();
}

}  // namespace ocr
