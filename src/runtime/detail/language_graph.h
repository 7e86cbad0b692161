#pragma once

#include <memory>

#include "models/family.h"
#include "runtime/language_model.h"

namespace quern::runtime {

/// The graph of a model file as it will be compiled: made for the precision asked for, passes applied.
/// Errors: as LanguageModel::load.
models::LanguageModel language_graph(const std::shared_ptr<const gguf::File>& file, const LanguageOptions& options);

}  // namespace quern::runtime
