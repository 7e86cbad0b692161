#pragma once

#include <string>
#include <string_view>

#include "engine/simulator.h"

namespace quern::cli {

/// A file of step times, as `quern bench --cost` writes and `quern simulate` reads it: JSON. Errors: invalid_argument when it cannot be
/// written.
void write_step_times(const std::string& path, const engine::StepTimes& times, std::string_view model, unsigned threads);
/// Errors: not_found; data_corrupt when it is no such file.
engine::StepTimes read_step_times(const std::string& path);

}  // namespace quern::cli
