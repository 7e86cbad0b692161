#include "cli/chat_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "templates/chat.h"

namespace quern::cli {

std::string template_help() {
  return fmt::format("A chat template to use: a file, or one of {}", fmt::join(templates::template_names(), ", "));
}

std::string read_file(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string template_of_config(const std::string& text, const std::string& path) {
  const auto config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) throw Error(Code::data_corrupt, "not a JSON object").at(path);
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  std::string source;
  if (found->is_array())
    for (const auto& entry : *found) {
      const bool whole = entry.is_object() && entry.contains("template") && entry["template"].is_string();
      if (whole && (source.empty() || entry.value("name", nlohmann::json()) == "default")) source = entry["template"].get<std::string>();
    }
  if (source.empty()) throw Error(Code::data_corrupt, "'chat_template' is neither a text nor a list of named texts").at(path);
  return source;
}

templates::Template read_template(const std::string& file_or_name) {
  std::error_code error;
  if (!std::filesystem::exists(file_or_name, error)) {
    const std::string_view source = templates::named_template(file_or_name);
    if (!source.empty()) return templates::Template(std::string(source), "template " + file_or_name);
    throw Error(Code::not_found, fmt::format("'{}' is neither a file nor the name of a chat template", file_or_name))
        .hint(fmt::format("there are {}", fmt::join(templates::template_names(), ", ")));
  }
  const std::string text = read_file(file_or_name);
  if (!file_or_name.ends_with(".json")) return templates::Template(text, file_or_name);
  const std::string source = template_of_config(text, file_or_name);
  if (source.empty()) throw Error(Code::not_found, "the file has no chat template").at(file_or_name);
  return templates::Template(source, file_or_name);
}

}  // namespace quern::cli
