// quern template: a conversation as the model will see it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
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
#include "cli/chat_template.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/token_table.h"
#include "engine/text_model.h"
#include "formats/gguf/file.h"
#include "templates/value.h"
#include "tokenizers/load.h"

namespace quern::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, messages, tools, documents, system, chat_template;
  std::optional<std::string> text;
  std::vector<std::string> variables, special;
  bool no_generation_prompt = false, continue_final = false, ids = false, json = false, verbose = false;
};

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

/// Texts of special tokens that a tokenizer_config.json names: bos_token and the like, as text or {"content": text}.
std::vector<std::pair<std::string, std::string>> special_texts(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> special;
  // Not ordered_json, which compares each key of an object with all before it.
  const auto config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) return special;
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string()) special.emplace_back(key, value.get<std::string>());
    if (value.is_object() && value.contains("content") && value["content"].is_string())
      special.emplace_back(key, value["content"].get<std::string>());
  }
  return special;
}

/// What there is of a model, a folder of one, a template's file or a tokenizer_config.json.
struct Words {
  engine::TextModel model;  // its tokenizer may be null
  std::vector<std::pair<std::string, std::string>> special;
};

void read_config(const std::filesystem::path& path, Words& words) {
  const std::string text = read_file(path.string());
  words.special = special_texts(text);
  if (const std::string source = template_of_config(text, path.string()); !source.empty() && !words.model.chat_template)
    words.model.use_template(templates::Template(source, path.string()));
}

Words open_words(const std::string& path) {
  namespace fs = std::filesystem;
  Words words;
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  if (!folder) {
    const MappedFile file(path);
    if ((file.bytes().size() >= 4 && std::memcmp(file.bytes().data(), "GGUF", 4) == 0) || path.ends_with(".gguf")) {
      words.model = engine::TextModel::from_gguf(gguf::File::open(path));
      return words;
    }
    if (!path.ends_with(".json")) {
      words.model.use_template(templates::Template(read_file(path), path));
      return words;
    }
  }
  const fs::path home = folder ? fs::path(path) : fs::path(path).parent_path();
  if (is_file(home / "chat_template.jinja"))
    words.model.use_template(templates::Template(read_file((home / "chat_template.jinja").string()), "chat_template.jinja"));
  if (const fs::path config = folder ? home / "tokenizer_config.json" : fs::path(path); is_file(config)) read_config(config, words);
  if (is_file(home / "tokenizer.json")) words.model.tokenizer = tokenizers::load((home / "tokenizer.json").string());
  return words;
}

std::string read_input(const std::string& path) {
  return path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(path);
}

/// Reads JSON as the templates do: in time that grows with its length, in the order of its keys. Absent where the text is not JSON.
std::optional<templates::Value> parsed(templates::Heap& heap, const std::string& text) {
  try {
    return templates::parse_json(heap, text);
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument) throw;
    return std::nullopt;
  }
}

/// --messages is an array of messages, or a request: an object with "messages" and perhaps "tools".
void read_messages_file(std::string text, templates::ChatInput& input) {
  using templates::Kind;
  templates::Heap heap;
  const auto json = parsed(heap, text);
  const templates::Value* messages = json && json->is(Kind::dict) ? json->dict->find("messages") : nullptr;
  if (messages == nullptr) {
    input.messages_json = std::move(text);  // the template's own reader says what is wrong with it
    return;
  }
  input.messages_json = templates::to_json(*messages);
  const templates::Value* tools = json->dict->find("tools");
  if (tools != nullptr && tools->is(Kind::list) && tools->list->size != 0) input.tools_json = templates::to_json(*tools);
}

void read_variables(const std::vector<std::string>& variables, templates::ChatInput& input) {
  if (variables.empty()) return;
  templates::Heap heap;
  templates::Dict* extra = templates::make_dict(heap);
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == 0 || equals == variable.npos) throw UsageError(fmt::format("--var is '{}'; NAME=VALUE is needed", variable));
    const std::string value = variable.substr(equals + 1);
    const auto json = parsed(heap, value);
    templates::set(heap, *extra, variable.substr(0, equals), json ? *json : templates::make_string(heap, value));
  }
  input.extra_json = templates::to_json(templates::Value::of(extra));
}

void read_messages(const Options& options, templates::ChatInput& input) {
  if (!options.messages.empty()) {
    read_messages_file(read_input(options.messages), input);
  } else {
    if (!options.system.empty()) input.messages.push_back({"system", options.system});
    const bool piped = !options.text;
    input.messages.push_back({"user", piped ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : *options.text});
  }
  if (!options.tools.empty()) input.tools_json = read_input(options.tools);
  if (!options.documents.empty()) input.documents_json = read_input(options.documents);
  input.add_generation_prompt = !options.no_generation_prompt && !options.continue_final;
  input.continue_final = options.continue_final;
  read_variables(options.variables, input);
}

/// The prompt with its special tokens in colour; without a tokenizer, what the template says and the conversation does not.
void print_prompt(const engine::TextModel& model, const std::vector<templates::Piece>& pieces, const std::vector<std::int32_t>& ids) {
  if (!stdout_is_terminal()) return print(templates::text_of(pieces));
  constexpr std::string_view kMark = "\x1b[35m", kPlain = "\x1b[0m";
  std::string out, run;
  const auto flush_run = [&] {
    out += printable(run, true);
    run.clear();
  };
  if (model.tokenizer) {
    for (const std::int32_t id : ids) {
      const std::string_view bytes = model.tokenizer->token_bytes(id);
      if (!model.tokenizer->is_special(id)) {
        run += bytes;
        continue;
      }
      flush_run();
      out += std::string(kMark) + printable(bytes) + std::string(kPlain);
    }
    flush_run();
  } else {
    for (const templates::Piece& piece : pieces)
      out += piece.untrusted ? printable(piece.text, true) : std::string(kMark) + printable(piece.text, true) + std::string(kPlain);
  }
  print(out + (out.ends_with('\n') ? "" : "\n"));
}

Json to_json(const engine::TextModel& model, const std::vector<templates::Piece>& pieces, const std::vector<std::int32_t>& ids) {
  Json shown = Json::array();
  for (const templates::Piece& piece : pieces) shown.push_back({{"text", piece.text}, {"untrusted", piece.untrusted}});
  Json capabilities = Json::object();
  for (const auto& [what, value] : templates::described(model.capabilities)) capabilities[what] = value;
  return {{"text", templates::text_of(pieces)},
          {"pieces", std::move(shown)},
          {"ids", model.tokenizer ? Json(ids) : Json()},
          {"capabilities", std::move(capabilities)}};
}

void show_template(const Options& options) {
  Words words = open_words(options.model);
  if (!options.chat_template.empty()) words.model.use_template(read_template(options.chat_template));
  if (!words.model.chat_template)
    throw Error(Code::not_found, "there is no chat template").at(options.model).hint("--chat-template names one");
  if (!words.model.tokenizer && options.ids) throw UsageError("--ids needs a model with a tokenizer");
  templates::ChatInput input;
  input.special_tokens = words.special;
  read_messages(options, input);
  const std::vector<templates::Piece> pieces = words.model.render_chat(input);
  std::vector<std::int32_t> ids;
  if (words.model.tokenizer && (options.ids || options.json || stdout_is_terminal())) ids = words.model.encode_chat(input);
  if (options.verbose)
    for (const auto& [what, value] : templates::described(words.model.capabilities)) fmt::print(stderr, "{}: {}\n", what, value);
  if (options.json)
    print(to_json(words.model, pieces, ids).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  else
    options.ids ? print_tokens(*words.model.tokenizer, ids, options.verbose) : print_prompt(words.model, pieces, ids);
}

}  // namespace

void add_template(CLI::App& app) {
  CLI::App* command = app.add_subcommand("template", "Show a conversation as the model will see it: its chat template, rendered");
  auto options = std::make_shared<Options>();
  add_model(*command, options->model, "GGUF file, .jinja file, tokenizer_config.json, or a folder");
  auto* messages =
      command->add_option("--messages", options->messages, "JSON array of messages, or a request with \"messages\"; - is standard input")
          ->type_name("F.json");
  command->add_option("-p,--prompt", options->text, "One message of a user (without this and --messages: standard input)")
      ->type_name("TEXT")
      ->excludes(messages);
  command->add_option("--system", options->system, "A system message before it")->type_name("TEXT")->excludes(messages);
  command->add_option("--tools", options->tools, "JSON array of tools")->type_name("F.json");
  command->add_option("--documents", options->documents, "JSON array of documents")->type_name("F.json");
  command->add_option("--var", options->variables, "A name for the template; the value is JSON, or else a text")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--no-generation-prompt", options->no_generation_prompt, "Do not begin the assistant's answer");
  command->add_flag("--continue-final", options->continue_final, "End with the text of the last message, to be gone on with");
  command->add_option("--chat-template", options->chat_template, template_help())->type_name("FILE|NAME");
  command->add_flag("--ids", options->ids, "A token a line, with its id");
  add_json(*command, options->json);
  add_verbose(*command, options->verbose, "Also what the template can do");
  add_examples(*command,
               "  quern template model.gguf -p 'Hello' --ids\n"
               "  quern template model.gguf --messages chat.json --tools tools.json --var enable_thinking=false\n"
               "  quern template chat_template.jinja --messages chat.json -v");
  command->callback([options] { show_template(*options); });
}

}  // namespace quern::cli
