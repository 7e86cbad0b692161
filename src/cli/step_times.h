#pragma once

#include <memory>

#include "engine/simulator.h"
#include "runtime/language_model.h"

namespace quern::cli {

/// Measures how long steps of a model take on this machine by what they hold, and what serving costs beside them: some seconds of a small
/// model. Errors: those of engine::TextModel; resource_exhausted, unsupported when there can be no server on the loopback address.
engine::StepTimes measure_step_times(const std::shared_ptr<const runtime::LanguageModel>& model);

}  // namespace quern::cli
