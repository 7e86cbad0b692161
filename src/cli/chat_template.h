#pragma once

#include <functional>
#include <string>

#include "templates/capabilities.h"
#include "templates/template.h"

namespace quern::cli {

/// What --chat-template takes.
std::string template_help();
/// A chat template from a file (or a tokenizer_config.json), or by the name of its format. Errors: not_found, invalid_argument (does not
/// parse: with line and column).
templates::Template read_template(const std::string& file_or_name);
/// The template of a tokenizer_config.json (its "default" where there are several), empty when it has none. Errors: data_corrupt.
std::string template_of_config(const std::string& text, const std::string& path);
/// A whole file. Errors: not_found, invalid_argument.
std::string read_file(const std::string& path);

}  // namespace quern::cli
