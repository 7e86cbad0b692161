#include "serving/openai/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace quern::openai {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMany = std::int64_t{1} << 31;
constexpr std::size_t kMostStops = 32, kMostStopIds = 1024, kMostBias = 1024, kMostTools = 1024;
constexpr std::int64_t kMostLogprobs = 20;
constexpr std::size_t kMostSalt = 128;

[[noreturn]] void refuse(const std::string& param, std::string message, std::string code = "") {
  throw Refusal(400, std::move(message), param, std::move(code));
}
[[noreturn]] void refuse_type(const std::string& param, const char* wanted, const Json& value) {
  refuse(param, fmt::format("'{}' must be {}, and is of the type {}", param, wanted, value.type_name()));
}
[[noreturn]] void refuse_unsupported(const std::string& param, std::string_view what) {
  refuse(param, fmt::format("'{}': {} is not supported", param, what), "unsupported_value");
}

/// Builds the document within bounds of depth and size, in time that grows with its length. A repeated name is kept; member() finds the
/// last.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const Limits& limits) : limits_(limits) {}
  Json root;

  bool null() override { return put(nullptr), true; }
  bool boolean(bool value) override { return put(value), true; }
  bool number_integer(number_integer_t value) override { return put(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return put(value), true; }
  bool number_float(number_float_t value, const string_t&) override { return put(value), true; }
  bool string(string_t& value) override { return put(std::move(value)), true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()), true; }
  bool start_array(std::size_t) override { return open(Json::array()), true; }
  bool key(string_t& name) override { return key_ = std::move(name), true; }
  bool end_object() override { return stack_.pop_back(), true; }
  bool end_array() override { return stack_.pop_back(), true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    refuse("", fmt::format("the body is not JSON: something is wrong at byte {}", at));
  }

 private:
  Json* put(Json value) {
    if (++items_ > limits_.json_items) refuse("", fmt::format("the body has more than {} JSON values", limits_.json_items));
    if (stack_.empty()) return &(root = std::move(value));
    Json& parent = *stack_.back();
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    return &parent.get_ref<Json::object_t&>().emplace_back(std::move(key_), std::move(value)).second;
  }
  void open(Json value) {
    if (stack_.size() >= limits_.json_depth) refuse("", fmt::format("the body is nested deeper than {} levels", limits_.json_depth));
    stack_.push_back(put(std::move(value)));
  }

  const Limits& limits_;
  std::vector<Json*> stack_;
  std::string key_;
  std::size_t items_ = 0;
};

/// Null counts as absent.
const Json* member(const Json& object, std::string_view name) {
  const auto& members = object.get_ref<const Json::object_t&>();
  for (auto it = members.rbegin(); it != members.rend(); ++it)
    if (it->first == name) return it->second.is_null() ? nullptr : &it->second;
  return nullptr;
}

std::int64_t integer_of(const Json& value, const std::string& param, std::int64_t low, std::int64_t high) {
  std::int64_t number = 0;
  bool fits = true;
  if (value.is_number_unsigned()) {
    const auto given = value.get<std::uint64_t>();
    fits = given <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    number = static_cast<std::int64_t>(given);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>()) {
    fits = std::abs(value.get<double>()) < 9e18;
    number = fits ? static_cast<std::int64_t>(value.get<double>()) : 0;
  } else {
    refuse_type(param, "a whole number", value);
  }
  if (!fits || number < low || number > high) refuse(param, fmt::format("'{}' must be between {} and {}", param, low, high));
  return number;
}

/// The fields of the body, by name and type; remembers which were asked for.
class Fields {
 public:
  Fields(const Json& body, const Limits& limits) : body_(body) {
    if (!body.is_object()) refuse("", "the body must be a JSON object");
    if (body.size() > limits.fields) refuse("", fmt::format("the body has more than {} fields", limits.fields));
  }

  const Json* get(const std::string& name) {
    known_.push_back(name);
    return member(body_, name);
  }
  bool boolean(const std::string& name, bool otherwise) {
    const Json* value = get(name);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse_type(name, "true or false", *value);
    return value->get<bool>();
  }
  double number(const std::string& name, double low, double high, double otherwise) {
    const Json* value = get(name);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) refuse_type(name, "a number", *value);
    const auto number = value->get<double>();
    if (!(number >= low && number <= high)) refuse(name, fmt::format("'{}' is {}; it must be between {} and {}", name, number, low, high));
    return number;
  }
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t low, std::int64_t high) {
    const Json* value = get(name);
    return value == nullptr ? std::nullopt : std::optional(integer_of(*value, name, low, high));
  }
  std::string text(const std::string& name) {
    const Json* value = get(name);
    if (value == nullptr) return "";
    if (!value->is_string()) refuse_type(name, "a string", *value);
    return value->get<std::string>();
  }
  const Json* array(const std::string& name, std::size_t most) {
    const Json* value = get(name);
    if (value == nullptr) return nullptr;
    if (!value->is_array()) refuse_type(name, "an array", *value);
    if (value->size() > most) refuse(name, fmt::format("'{}' has {} entries; at most {} are possible", name, value->size(), most));
    return value;
  }

  /// Given, such a field asks for what we cannot do.
  void refuse_all(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const Json* value = get(name);
      const bool nothing = value == nullptr || (value->is_boolean() && !value->get<bool>()) || (value->is_structured() && value->empty()) ||
                           (value->is_string() && value->get_ref<const std::string&>().empty());
      if (!nothing) refuse_unsupported(name, "it");
    }
  }
  /// Such a field is fine as long as it says nothing.
  void refuse_unless(const std::string& name, double neutral) {
    const Json* value = get(name);
    if (value != nullptr && !(value->is_number() && value->get<double>() == neutral)) refuse_unsupported(name, "it");
  }
  /// Such a field changes no answer here.
  void accept_all(std::initializer_list<const char*> names) { known_.insert(known_.end(), names.begin(), names.end()); }

  std::vector<std::string> ignored() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : body_.get_ref<const Json::object_t&>())
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) names.push_back(name);
    return names;
  }

 private:
  const Json& body_;
  std::vector<std::string> known_;
};

Json parse(std::string_view body, const Limits& limits) {
  Builder builder(limits);
  Json::sax_parse(body, &builder);
  return std::move(builder.root);
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::vector<std::int32_t> ids_of(const Json& list, const std::string& param, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) ids.push_back(static_cast<std::int32_t>(integer_of(id, param, 0, vocabulary - 1)));
  return ids;
}

void read_stops(Fields& fields, engine::Request& request, const Abilities& abilities) {
  if (const Json* stop = fields.get("stop")) {
    if (stop->is_string()) {
      request.stop.push_back(stop->get<std::string>());
    } else if (stop->is_array()) {
      if (stop->size() > kMostStops)
        refuse("stop", fmt::format("'stop' has {} entries; at most {} are possible", stop->size(), kMostStops));
      for (const Json& text : *stop) {
        if (!text.is_string()) refuse_type("stop", "a string or an array of strings", text);
        request.stop.push_back(text.get<std::string>());
      }
    } else {
      refuse_type("stop", "a string or an array of strings", *stop);
    }
    if (std::any_of(request.stop.begin(), request.stop.end(), [](const std::string& text) { return text.empty(); }))
      refuse("stop", "a stop string is empty");
  }
  if (const Json* ids = fields.array("stop_token_ids", kMostStopIds))
    request.stop_ids = ids_of(*ids, "stop_token_ids", abilities.vocabulary);
}

void read_bias(Fields& fields, sampling::Parameters& sampling, const Abilities& abilities) {
  const Json* bias = fields.get("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) refuse_type("logit_bias", "an object of token ids and numbers", *bias);
  if (bias->size() > kMostBias)
    refuse("logit_bias", fmt::format("'logit_bias' has {} entries; at most {} are possible", bias->size(), kMostBias));
  for (const auto& [name, value] : bias->get_ref<const Json::object_t&>()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id < 0 || id >= abilities.vocabulary)
      refuse("logit_bias",
             fmt::format("'logit_bias' names the token '{}'; ids go from 0 to {}", name.substr(0, 40), abilities.vocabulary - 1));
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 100))
      refuse("logit_bias", "the values of 'logit_bias' must be numbers between -100 and 100");
    sampling.bias.emplace_back(id, value.get<float>());
  }
}

void read_sampling(Fields& fields, sampling::Parameters& s, const Abilities& abilities) {
  s.profile = sampling::Profile::openai;
  s.temperature = fields.number("temperature", 0, 2, 1);
  s.top_p = std::max(fields.number("top_p", 0, 1, 1), 1e-9);  // 0 leaves the most probable token
  s.min_p = fields.number("min_p", 0, 1, 0);
  s.top_k = static_cast<std::int32_t>(fields.integer("top_k", -1, kMany - 1).value_or(0));
  s.presence_penalty = fields.number("presence_penalty", -2, 2, 0);
  s.frequency_penalty = fields.number("frequency_penalty", -2, 2, 0);
  const double llama = fields.number("repeat_penalty", 1e-3, 100, 1);
  s.repeat_penalty = fields.number("repetition_penalty", 1e-3, 100, llama);
  s.penalty_window = static_cast<std::int32_t>(fields.integer("repeat_last_n", -1, kMany - 1).value_or(-1));
  if (const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()))
    s.seed = static_cast<std::uint64_t>(*seed);
  read_bias(fields, s, abilities);
}

void read_common(Fields& fields, Common& c, const Abilities& abilities, const Limits& limits) {
  c.model = fields.text("model");
  engine::Request& request = c.request;
  read_sampling(fields, request.sampling, abilities);
  read_stops(fields, request, abilities);
  request.ignore_end = fields.boolean("ignore_eos", false);
  c.n = fields.integer("n", 1, limits.choices).value_or(1);
  if (const auto best = fields.integer("best_of", 1, limits.choices); best && *best != c.n) {
    if (*best < c.n) refuse("best_of", "'best_of' must be at least 'n'");
    refuse_unsupported("best_of", "choosing the best of more answers than are returned");
  }
  c.stream = fields.boolean("stream", false);
  if (const Json* options = fields.get("stream_options")) {
    if (!options->is_object()) refuse_type("stream_options", "an object", *options);
    if (!c.stream) refuse("stream_options", "'stream_options' is for requests with 'stream': true");
    Fields of(*options, limits);
    c.include_usage = of.boolean("include_usage", false);
    c.continuous_usage = of.boolean("continuous_usage_stats", false);
    c.include_usage |= c.continuous_usage;
  }
  c.include_stop = fields.boolean("include_stop_str_in_output", false);
  c.token_ids = fields.boolean("return_token_ids", false);
  c.tokens_as_ids = fields.boolean("return_tokens_as_token_ids", false);
  c.truncate = fields.integer("truncate_prompt_tokens", -1, kMany);
  if (c.truncate == 0) refuse("truncate_prompt_tokens", "'truncate_prompt_tokens' must be -1 or above 0");
  if (const auto time = fields.integer("timeout_ms", 1, kMany)) c.timeout = std::chrono::milliseconds(*time);
  if (!fields.boolean("skip_special_tokens", true)) refuse_unsupported("skip_special_tokens", "showing control tokens in the text");
  request.min_tokens = fields.integer("min_tokens", 0, kMany).value_or(0);
  c.cache_salt = fields.text("cache_salt");
  if (c.cache_salt.size() > kMostSalt) refuse("cache_salt", fmt::format("'cache_salt' has more than {} bytes", kMostSalt));
  if (const Json* format = fields.get("response_format")) {
    const Json* type = format->is_object() ? member(*format, "type") : nullptr;
    if (type == nullptr || !type->is_string()) refuse("response_format", "'response_format' must be an object with a 'type'");
    if (*type != "text") refuse_unsupported("response_format", fmt::format("the type '{}'", type->get<std::string>().substr(0, 40)));
  }
  fields.refuse_all({"use_beam_search",
                     "structured_outputs",
                     "guided_json",
                     "guided_regex",
                     "guided_choice",
                     "guided_grammar",
                     "grammar",
                     "json_schema",
                     "regex",
                     "ebnf",
                     "stop_regex",
                     "bad_words",
                     "allowed_token_ids",
                     "logprob_token_ids",
                     "prompt_embeds",
                     "lora",
                     "lora_path",
                     "logits_processors",
                     "custom_logit_processor",
                     "repetition_detection",
                     "thinking_token_budget",
                     "thinking_budget_tokens",
                     "reasoning_budget_tokens",
                     "no_stop_trim",
                     "samplers",
                     "return_hidden_states",
                     "input_ids"});
  if (fields.get("prompt_logprobs") != nullptr) refuse_unsupported("prompt_logprobs", "the log-probabilities of a prompt");
  fields.refuse_unless("typical_p", 1);
  fields.refuse_unless("top_n_sigma", -1);
  for (const char* off : {"xtc_probability", "dry_multiplier", "dynatemp_range", "mirostat", "n_keep", "n_discard"})
    fields.refuse_unless(off, 0);
  // Hints, bookkeeping, and parameters of samplers that are off.
  fields.accept_all({"user",
                     "metadata",
                     "safety_identifier",
                     "store",
                     "service_tier",
                     "prompt_cache_key",
                     "prompt_cache_options",
                     "prompt_cache_retention",
                     "prediction",
                     "verbosity",
                     "spaces_between_special_tokens",
                     "length_penalty",
                     "early_stopping",
                     "truncation_side",
                     "cache_prompt",
                     "request_id",
                     "rid",
                     "session_id",
                     "xtc_threshold",
                     "dry_base",
                     "dry_allowed_length",
                     "dry_penalty_last_n",
                     "dry_sequence_breakers",
                     "dynatemp_exponent",
                     "mirostat_tau",
                     "mirostat_eta"});
}

// --- chats ------------------------------------------------------------------------------------------------------------------------------

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

/// Parts of text become one text, line by line.
Json content_of(const Json& content, const std::string& place) {
  if (content.is_string()) return content;
  if (!content.is_array()) refuse_type(place, "a string or an array of parts", content);
  std::string text;
  bool first = true;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string where = fmt::format("{}[{}]", place, i);
    std::string piece;
    if (part.is_string()) {
      piece = part.get<std::string>();
    } else {
      if (!part.is_object()) refuse_type(where, "an object", part);
      const Json* type = member(part, "type");
      if (type == nullptr || !type->is_string()) refuse(where, fmt::format("'{}' has no 'type'", where));
      if (*type != "text" && *type != "refusal" && *type != "input_text" && *type != "output_text")
        refuse(where,
               fmt::format("'{}' is of the type '{}', and this model takes text only", where, type->get<std::string>().substr(0, 40)),
               "unsupported_value");
      const Json* value = member(part, *type == "refusal" ? "refusal" : "text");
      if (value == nullptr || !value->is_string()) refuse(where, fmt::format("'{}' has no text", where));
      piece = value->get<std::string>();
    }
    text += (first ? "" : "\n") + piece;
    first = false;
  }
  return text;
}

Json message_of(const Json& message, const std::string& place, const Abilities& abilities) {
  if (!message.is_object()) refuse_type(place, "an object", message);
  const Json* role = member(message, "role");
  if (role == nullptr || !role->is_string()) refuse(place + ".role", fmt::format("'{}' has no role", place));
  const auto& name = role->get_ref<const std::string&>();
  if (std::find(std::begin(kRoles), std::end(kRoles), name) == std::end(kRoles))
    refuse(place + ".role",
           fmt::format("'{}' is no role; there are system, developer, user, assistant, tool and function", name.substr(0, 40)));
  Json out = Json::object();
  out["role"] = name == "developer" && !abilities.developer ? "system" : name;
  const Json* content = member(message, "content");
  const bool may_be_empty = name == "assistant";
  if (content == nullptr && !may_be_empty) refuse(place + ".content", fmt::format("'{}' has no content", place));
  out["content"] = content == nullptr ? Json(nullptr) : content_of(*content, place + ".content");
  auto& members = out.get_ref<Json::object_t&>();
  for (const auto& [key, value] : message.get_ref<const Json::object_t&>())
    if (key != "role" && key != "content") members.emplace_back(key, value);
  return out;
}

void read_messages(Fields& fields, templates::ChatInput& chat, const Abilities& abilities, const Limits& limits) {
  const Json* messages = fields.array("messages", limits.messages);
  if (messages == nullptr) refuse("messages", "'messages' is missing");
  if (messages->empty()) refuse("messages", "'messages' is empty");
  Json out = Json::array();
  for (std::size_t i = 0; i < messages->size(); ++i) out.push_back(message_of((*messages)[i], fmt::format("messages[{}]", i), abilities));
  chat.messages_json = dump(out);
}

void read_tools(Fields& fields, templates::ChatInput& chat, const Abilities& abilities) {
  fields.refuse_all({"functions", "function_call"});
  const Json* tools = fields.array("tools", kMostTools);
  std::string choice = "auto";
  if (const Json* given = fields.get("tool_choice")) {
    choice = given->is_string() ? given->get<std::string>() : "object";
    if (choice != "auto" && choice != "none")
      refuse_unsupported("tool_choice", given->is_string() ? fmt::format("'{}'", choice.substr(0, 40)) : "forcing certain tools");
  }
  fields.accept_all({"parallel_tool_calls", "parse_tool_calls"});
  if (tools == nullptr || tools->empty() || choice == "none") return;
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const std::string place = fmt::format("tools[{}]", i);
    const Json& tool = (*tools)[i];
    const Json* type = tool.is_object() ? member(tool, "type") : nullptr;
    if (type == nullptr || !type->is_string()) refuse(place, fmt::format("'{}' must be an object with a 'type'", place));
    if (*type != "function") refuse_unsupported(place + ".type", fmt::format("'{}'", type->get<std::string>().substr(0, 40)));
    const Json* function = member(tool, "function");
    const Json* name = function != nullptr && function->is_object() ? member(*function, "name") : nullptr;
    if (name == nullptr || !name->is_string()) refuse(place + ".function", fmt::format("'{}' has no function with a name", place));
    if (const Json* strict = member(*function, "strict"); strict != nullptr && *strict == true)
      refuse_unsupported(place + ".function.strict", "holding arguments to a schema");
  }
  if (!abilities.tools) refuse("tools", "the model's chat template has no place for tools", "unsupported_value");
  chat.tools_json = dump(*tools);
}

/// Names that the template sees beside the conversation.
void read_template_names(Fields& fields, templates::ChatInput& chat) {
  Json extra = Json::object();
  if (const Json* names = fields.get("chat_template_kwargs")) {
    if (!names->is_object()) refuse_type("chat_template_kwargs", "an object", *names);
    extra = *names;
  }
  if (const std::string effort = fields.text("reasoning_effort"); !effort.empty()) {
    extra["reasoning_effort"] = effort;
    if (effort == "none") extra["enable_thinking"] = false;
  }
  if (const Json* thinking = fields.get("enable_thinking")) extra["enable_thinking"] = *thinking;
  if (const Json* thinking = fields.get("thinking")) {
    const Json* type = thinking->is_object() ? member(*thinking, "type") : nullptr;
    if (type == nullptr || (*type != "enabled" && *type != "disabled"))
      refuse("thinking", "'thinking' must be an object with the 'type' enabled or disabled");
    extra["enable_thinking"] = *type == "enabled";
  }
  if (!extra.empty()) chat.extra_json = dump(extra);
  chat.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  if (const Json* documents = fields.array("documents", 4096)) chat.documents_json = dump(*documents);
  fields.refuse_all({"chat_template"});
  chat.continue_final = fields.boolean("continue_final_message", false);
  if (chat.continue_final && fields.get("add_generation_prompt") != nullptr && chat.add_generation_prompt)
    refuse("continue_final_message", "'continue_final_message' and 'add_generation_prompt' exclude each other");
  if (chat.continue_final) chat.add_generation_prompt = false;
}

}  // namespace

ChatRequest parse_chat(std::string_view body, const Abilities& abilities, const Limits& limits) {
  const Json json = parse(body, limits);
  Fields fields(json, limits);
  ChatRequest chat;
  read_common(fields, chat, abilities, limits);
  read_messages(fields, chat.conversation, abilities, limits);
  read_tools(fields, chat.conversation, abilities);
  read_template_names(fields, chat.conversation);
  const auto most = fields.integer("max_tokens", 0, kMany);
  chat.request.max_tokens = fields.integer("max_completion_tokens", 0, kMany).value_or(most.value_or(-1));
  const bool logprobs = fields.boolean("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, kMostLogprobs);
  if (top && *top > 0 && !logprobs) refuse("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  if (logprobs) chat.request.logprobs = static_cast<std::int32_t>(top.value_or(0));
  if (fields.boolean("echo", false)) refuse_unsupported("echo", "repeating a conversation");
  fields.refuse_all({"audio", "web_search_options"});
  if (const Json* kinds = fields.array("modalities", 8); kinds != nullptr && *kinds != Json::array({"text"}))
    refuse_unsupported("modalities", "anything but [\"text\"]");
  fields.accept_all(
      {"moderation", "reasoning_format", "separate_reasoning", "stream_reasoning", "include_reasoning", "add_special_tokens"});
  chat.ignored = fields.ignored();
  return chat;
}

CompletionRequest parse_completion(std::string_view body, const Abilities& abilities, const Limits& limits) {
  const Json json = parse(body, limits);
  Fields fields(json, limits);
  CompletionRequest completion;
  read_common(fields, completion, abilities, limits);
  const Json* prompt = fields.get("prompt");
  if (prompt == nullptr) refuse("prompt", "'prompt' is missing");
  const auto all = [&](auto is) { return std::all_of(prompt->begin(), prompt->end(), is); };
  if (prompt->is_string()) {
    completion.prompts.push_back({prompt->get<std::string>()});
  } else if (!prompt->is_array()) {
    refuse_type("prompt", "a string, an array of strings, or ids", *prompt);
  } else if (prompt->empty()) {
    refuse("prompt", "'prompt' is empty");
  } else if (all([](const Json& x) { return x.is_number(); })) {
    completion.prompts.push_back({"", ids_of(*prompt, "prompt", abilities.vocabulary)});
  } else {
    if (prompt->size() > limits.prompts) refuse("prompt", fmt::format("more than {} prompts", limits.prompts));
    for (const Json& one : *prompt) {
      if (one.is_string()) {
        completion.prompts.push_back({one.get<std::string>()});
      } else if (one.is_array()) {
        completion.prompts.push_back({"", ids_of(one, "prompt", abilities.vocabulary)});
      } else {
        refuse_type("prompt", "a string, an array of strings, or ids", one);
      }
    }
  }
  if (static_cast<std::int64_t>(completion.prompts.size()) * completion.n > limits.choices)
    refuse("prompt", fmt::format("{} prompts times {} answers is more than {}", completion.prompts.size(), completion.n, limits.choices));
  completion.request.max_tokens = fields.integer("max_tokens", 0, kMany).value_or(16);
  if (const Json* logprobs = fields.get("logprobs"); logprobs != nullptr && *logprobs != false)
    completion.request.logprobs =
        logprobs->is_boolean() ? 0 : static_cast<std::int32_t>(integer_of(*logprobs, "logprobs", 0, kMostLogprobs));
  completion.echo = fields.boolean("echo", false);
  if (completion.echo && completion.request.logprobs >= 0) refuse_unsupported("echo", "together with 'logprobs', the prompt's own");
  completion.add_special = fields.boolean("add_special_tokens", true);
  fields.refuse_all({"suffix"});
  completion.ignored = fields.ignored();
  return completion;
}

TokenizeRequest parse_tokenize(std::string_view body, const Abilities& abilities, const Limits& limits) {
  const Json json = parse(body, limits);
  Fields fields(json, limits);
  TokenizeRequest request;
  if (fields.get("content") != nullptr) {
    request.llama = true;
    request.text = fields.text("content");
    request.add_special = fields.boolean("add_special", false);
    request.parse_special = fields.boolean("parse_special", true);
    request.pieces = fields.boolean("with_pieces", false);
    return request;
  }
  request.pieces = fields.boolean("return_token_strs", false);
  if (fields.get("messages") != nullptr) {
    templates::ChatInput& chat = request.conversation.emplace();
    read_messages(fields, chat, abilities, limits);
    read_tools(fields, chat, abilities);
    read_template_names(fields, chat);
    return request;
  }
  if (fields.get("prompt") == nullptr) refuse("prompt", "there is nothing to tokenize: 'prompt', 'messages' or 'content' is missing");
  request.text = fields.text("prompt");
  request.add_special = fields.boolean("add_special_tokens", true);
  return request;
}

std::vector<std::int32_t> parse_detokenize(std::string_view body, const Abilities& abilities, const Limits& limits) {
  const Json json = parse(body, limits);
  Fields fields(json, limits);
  const Json* tokens = fields.array("tokens", limits.json_items);
  if (tokens == nullptr) refuse("tokens", "'tokens' is missing");
  return ids_of(*tokens, "tokens", abilities.vocabulary);
}

}  // namespace quern::openai
