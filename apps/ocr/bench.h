// The parts of `ocr bench`: a net or whole pages measured, as JSON that is printed or compared.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libocr/image/collect.h"
#include "libocr/pipeline/options.h"

namespace app {

using Json = nlohmann::ordered_json;

struct BenchRequest {
  std::string model, shape, compare;
  ocr::CollectOptions pages;
  ocr::Options options;  // of the pages; threads also of a net
  int runs = 0;          // 0: enough for two seconds
  bool layers = false, json = false;
};

/// Time of the net on an input of the shape asked for, and of its layers beside their rooflines.
Json measure_net(const BenchRequest& request);
void print_net(const Json& measured);

/// Pages per second over whole passes, with decoding, at the pipeline's settings.
Json measure_pages(const BenchRequest& request);
void print_pages(const Json& measured);

/// Reads what an earlier `ocr bench --json` wrote. Throws train::DataError when it did not.
Json read_earlier(const std::string& path);

/// Adds "ratio" (the earlier time / this one: above 1 is faster) to a measurement and, where both
/// have layers, to each layer that is in both. Throws train::ConfigError when another net, shape or
/// page set was measured. `path` is for the message.
void compare_with(const Json& earlier, const std::string& path, Json& measured);

}  // namespace app
