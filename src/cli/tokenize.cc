// quern tokenize: text to token ids and back, as the model sees them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/token_table.h"
#include "engine/text_model.h"
#include "formats/gguf/file.h"
#include "tokenizers/load.h"

namespace quern::cli {
namespace {

using Json = nlohmann::ordered_json;  // linear in the keys for each: for what is printed, never for what is read
using tokenizers::Id;
using tokenizers::Tokenizer;

struct Options {
  std::string model;
  std::optional<std::string> text;
  std::vector<Id> ids;
  bool json = false, lines_json = false, no_special = false, add_special = false, verbose = false;
};

std::string dump(const Json& json, int indent = -1) { return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json to_json(const Tokenizer& tokenizer, const tokenizers::LocatedIds& located) {
  Json tokens = Json::array();
  for (std::size_t i = 0; i < located.ids.size(); ++i) {
    const Id id = located.ids[i];
    const std::string_view bytes = tokenizer.token_bytes(id);
    Json token = {{"id", id}, {"piece", bytes}, {"special", tokenizer.is_special(id)}};
    if (!is_text(bytes)) token["bytes"] = std::vector<std::uint8_t>(bytes.begin(), bytes.end());  // part of a character
    token["begin"] = located.ranges[i].begin, token["end"] = located.ranges[i].end;
    tokens.push_back(std::move(token));
  }
  return {{"ids", located.ids}, {"tokens", std::move(tokens)}, {"count", located.ids.size()}};
}

/// The text of a line: a JSON string, or {"bytes": […]} for one that is not UTF-8.
std::optional<std::string> text_of(const nlohmann::json& line) {
  if (line.is_string()) return line.get<std::string>();
  const auto bytes = line.is_object() ? line.find("bytes") : line.end();
  if (!line.is_object() || bytes == line.end() || !bytes->is_array()) return std::nullopt;
  std::string text;
  for (const nlohmann::json& byte : *bytes) {
    if (!byte.is_number_unsigned() || byte.get<std::uint64_t>() > 255) return std::nullopt;
    text.push_back(static_cast<char>(byte.get<std::uint64_t>()));
  }
  return text;
}

/// One text or array of ids a line in, one object a line out: what suites of tests drive.
void tokenize_lines(const Tokenizer& tokenizer, tokenizers::EncodeOptions encode) {
  std::size_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    const auto text = nlohmann::json::parse(line, nullptr, false);
    if (text.is_array()) {
      std::vector<Id> ids;
      for (const nlohmann::json& id : text)
        ids.push_back(id.is_number_unsigned() ? static_cast<Id>(std::min<std::uint64_t>(id.get<std::uint64_t>(), INT32_MAX)) : -1);
      print(dump({{"text", tokenizer.decode(ids, {.skip_special = !encode.parse_special})}}));
      continue;
    }
    const std::optional<std::string> words = text_of(text);
    if (!words)
      throw Error(Code::invalid_argument, fmt::format("line {} of the input is neither a JSON string nor an array of ids", number));
    print(dump({{"ids", tokenizer.encode(*words, encode)}}));
  }
}

/// Of a model, or a tokenizer's own file or folder.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path) {
  if (std::error_code error; !std::filesystem::is_directory(path, error)) {
    const MappedFile file(path);
    const bool is_gguf = file.bytes().size() >= 4 && std::memcmp(file.bytes().data(), "GGUF", 4) == 0;
    if (is_gguf || path.ends_with(".gguf")) return engine::TextModel::from_gguf(gguf::File::open(path)).tokenizer;
  }
  return tokenizers::load(path);
}

void tokenize(const Options& options) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(options.model);
  if (options.verbose)
    for (const std::string& note : tokenizer->notes()) fmt::print(stderr, "quern: note: {}\n", printable(note));
  if (!options.ids.empty()) {
    const std::string text = tokenizer->decode(options.ids);
    print(options.json ? dump({{"ids", options.ids}, {"text", text}}, 2) : (stdout_is_terminal() ? printable(text, true) : text) + "\n");
    return;
  }
  const tokenizers::EncodeOptions encode{.parse_special = !options.no_special, .add_special = options.add_special};
  if (options.lines_json) return tokenize_lines(*tokenizer, encode);
  const std::string text = options.text ? *options.text : std::string(std::istreambuf_iterator<char>(std::cin), {});
  if (options.json) return print(dump(to_json(*tokenizer, tokenizer->encode_located(text, encode)), 2));
  print_tokens(*tokenizer, tokenizer->encode(text, encode), options.verbose);
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tokenize", "Show the token ids of a text (on standard input, exactly as it comes), or the text of ids");
  auto options = std::make_shared<Options>();
  add_model(*command, options->model);
  auto* text = command->add_option("-p,--text", options->text, "The text, instead of standard input")->type_name("TEXT");
  auto* ids = command->add_option("--ids", options->ids, "Ids to turn into text")->delimiter(',')->type_name("1,2,3")->excludes(text);
  command->add_flag("--no-special", options->no_special, "Texts of special tokens are plain text");
  command->add_flag("--add-special", options->add_special, "Add begin and end tokens as the model wants them");
  add_json(*command, options->json);
  command
      ->add_flag("--lines-json", options->lines_json,
                 "Each line of standard input is a JSON string, or an array of ids; print {\"ids\": […]} or {\"text\": …} for each")
      ->excludes(text)
      ->excludes(ids);
  add_verbose(*command, options->verbose, "Also how many, and what is odd about the vocabulary");
  add_examples(*command,
               "  echo -n 'Hello world' | quern tokenize model.gguf\n"
               "  quern tokenize model.gguf -p '<|im_start|>user' --json\n"
               "  quern tokenize model.gguf --ids 19556,905");
  command->callback([options] { tokenize(*options); });
}

}  // namespace quern::cli
