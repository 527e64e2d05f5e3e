// What a training will take, told before it begins; one that cannot fit is refused.
#pragma once
#include <optional>

#include "libocr/training/estimate.h"

namespace app {

/// Estimates and says parameters, memory and time. Throws train::Error, with the setting to change,
/// when more memory would be needed than `limit_mib` (0: no limit; none given: what can be used).
/// Where no estimate can be made, that is a warning.
void tell_estimate(const ocr::EstimateParts& parts, std::optional<int> limit_mib);

}  // namespace app
