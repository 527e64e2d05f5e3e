// Curves of trainings as one HTML page that needs nothing else: drawn as SVG, values on hover.
#pragma once
#include <string>
#include <vector>

#include "apps/ocr/run_folder.h"

namespace app {

/// One chart per metric (evaluation first, then loss and its parts, rate and speed), all runs in
/// each, by global_step.
std::string plot_page(const std::vector<RunRecord>& runs);

/// Round numbers (1, 2 or 5 times a power of ten apart), about `count` of them, that lie in
/// [low, high].
std::vector<double> ticks(double low, double high, int count);

/// At most about `most` points of a curve: of every stretch its least and greatest value stay.
std::vector<std::pair<int64_t, double>> thinned(const Curve& curve, size_t most);

}  // namespace app
