#include "serving/openai/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "serving/openai/detail/fields.h"

namespace quern::openai {
namespace {

using namespace detail;

constexpr std::int64_t kMany = std::int64_t{1} << 31;
constexpr std::size_t kMostStops = 32, kMostStopIds = 1024, kMostBias = 1024, kMostTools = 1024, kMostBadWords = 1024;
constexpr std::int64_t kMostLogprobs = 20;
constexpr double kMostKept = 3600;  // seconds
constexpr std::size_t kMostSalt = 128;

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
  s.temperature = fields.number("temperature", 0, 2, 1);
  s.top_p = std::max(fields.number("top_p", 0, 1, 1), 1e-9);  // 0 leaves the most probable token
  s.min_p = fields.number("min_p", 0, 1, 0);
  s.top_k = static_cast<std::int32_t>(fields.integer("top_k", -1, kMany - 1).value_or(0));
  s.presence_penalty = fields.number("presence_penalty", -2, 2, 0);
  s.frequency_penalty = fields.number("frequency_penalty", -2, 2, 0);
  const double llama = fields.number("repeat_penalty", 1e-3, 100, 1);
  s.repeat_penalty = fields.number("repetition_penalty", 1e-3, 100, llama);
  const std::string profile = fields.text("sampler_profile");
  if (!profile.empty() && profile != "openai" && profile != "llama") refuse("sampler_profile", "'sampler_profile' must be openai or llama");
  s.profile = profile == "llama" ? sampling::Profile::llama : sampling::Profile::openai;
  const std::int64_t window = s.profile == sampling::Profile::llama ? 64 : -1;
  s.penalty_window = static_cast<std::int32_t>(fields.integer("repeat_last_n", -1, kMany - 1).value_or(window));
  if (const Json* ids = fields.array("allowed_token_ids", static_cast<std::size_t>(abilities.vocabulary))) {
    if (ids->empty()) refuse("allowed_token_ids", "'allowed_token_ids' allows nothing");
    s.allowed = ids_of(*ids, "allowed_token_ids", abilities.vocabulary);
  }
  if (const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()))
    s.seed = static_cast<std::uint64_t>(*seed);
  read_bias(fields, s, abilities);
}

/// What any request to the model may say.
void read_basics(Fields& fields, Common& c, bool truncate_end) {
  c.model = fields.text("model");
  c.truncate = fields.integer("truncate_prompt_tokens", -1, kMany);
  if (c.truncate == 0) refuse("truncate_prompt_tokens", "'truncate_prompt_tokens' must be -1 or above 0");
  const std::string side = fields.text("truncation_side");
  if (!side.empty() && side != "left" && side != "right") refuse("truncation_side", "'truncation_side' must be left or right");
  c.truncate_end = side.empty() ? truncate_end : side == "right";
  if (const auto time = fields.integer("timeout_ms", 1, kMany)) c.timeout = std::chrono::milliseconds(*time);
  c.cache_salt = fields.text("cache_salt");
  if (c.cache_salt.size() > kMostSalt) refuse("cache_salt", fmt::format("'cache_salt' has more than {} bytes", kMostSalt));
  c.request.keep_seconds = fields.number("cache_ttl", 0, kMostKept, 0);
  if (const std::string retention = fields.text("prompt_cache_retention"); retention == "24h") {
    c.request.keep_seconds = std::max(c.request.keep_seconds, kMostKept);
  } else if (!retention.empty() && retention != "in_memory" && retention != "in-memory") {
    refuse("prompt_cache_retention", "'prompt_cache_retention' must be in_memory or 24h");
  }
  c.user = fields.text("user");
  c.request.priority = fields.integer("priority", -kMany, kMany).value_or(0);
  fields.accept_all({"metadata", "safety_identifier", "request_id", "rid", "session_id"});
}

/// As vLLM's server takes it: the width is n (or best_of), and what shapes drawn answers has no place.
void read_beams(Fields& fields, Common& c) {
  const double penalty = fields.number("length_penalty", -10, 10, 1);
  c.beams = fields.boolean("use_beam_search", false);
  if (!c.beams) return;
  if (c.stream) refuse("use_beam_search", "a beam search has nothing to say before its end, and cannot be streamed");
  if (fields.boolean("early_stopping", false)) refuse_unsupported("early_stopping", "ending a search before it is decided");
  engine::Request& request = c.request;
  const sampling::Parameters& s = request.sampling;
  const std::pair<const char*, bool> without[] = {{"logit_bias", s.bias.empty()},
                                                  {"allowed_token_ids", s.allowed.empty()},
                                                  {"bad_words", c.bad_words.empty()},
                                                  {"stop", request.stop.empty()},
                                                  {"min_tokens", request.min_tokens == 0},
                                                  {"repetition_penalty", s.repeat_penalty == 1},
                                                  {"frequency_penalty", s.frequency_penalty == 0},
                                                  {"presence_penalty", s.presence_penalty == 0},
                                                  {"top_k", s.top_k <= 0},
                                                  {"top_p", s.top_p == 1},
                                                  {"min_p", s.min_p == 0}};
  for (const auto& [name, absent] : without)
    if (!absent) refuse(name, fmt::format("'{}' has no place in a beam search", name), "unsupported_value");
  request.beam_width = c.best_of;
  request.length_penalty = penalty;
}

void read_common(Fields& fields, Common& c, const Abilities& abilities, const Limits& limits) {
  read_basics(fields, c, false);
  engine::Request& request = c.request;
  read_sampling(fields, request.sampling, abilities);
  read_stops(fields, request, abilities);
  request.ignore_end = fields.boolean("ignore_eos", false);
  if (const Json* words = fields.array("bad_words", kMostBadWords))
    for (const Json& word : *words) {
      if (!word.is_string()) refuse_type("bad_words", "an array of strings", word);
      c.bad_words.push_back(word.get<std::string>());
      if (c.bad_words.back().find_first_not_of(' ') == std::string::npos) refuse("bad_words", "a bad word is empty");
    }
  c.n = fields.integer("n", 1, limits.choices).value_or(1);
  c.stream = fields.boolean("stream", false);
  c.best_of = fields.integer("best_of", 1, limits.choices).value_or(c.n);
  if (c.best_of < c.n) refuse("best_of", "'best_of' must be at least 'n'");
  if (c.best_of > c.n && c.stream)
    refuse("best_of", "which answers are the best is known at their end: 'best_of' above 'n' cannot be streamed");
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
  if (!fields.boolean("skip_special_tokens", true)) refuse_unsupported("skip_special_tokens", "showing control tokens in the text");
  request.min_tokens = fields.integer("min_tokens", 0, kMany).value_or(0);
  read_beams(fields, c);
  if (const Json* format = fields.get("response_format")) {
    const Json* type = format->is_object() ? member(*format, "type") : nullptr;
    if (type == nullptr || !type->is_string()) refuse("response_format", "'response_format' must be an object with a 'type'");
    if (*type != "text") refuse_unsupported("response_format", fmt::format("the type '{}'", type->get<std::string>().substr(0, 40)));
  }
  fields.refuse_all({"structured_outputs",
                     "guided_json",
                     "guided_regex",
                     "guided_choice",
                     "guided_grammar",
                     "grammar",
                     "json_schema",
                     "regex",
                     "ebnf",
                     "stop_regex",
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
  if (const auto n = fields.integer("prompt_logprobs", 0, kMostLogprobs)) {
    if (c.stream) refuse("prompt_logprobs", "'prompt_logprobs' cannot be streamed");
    c.prompt_logprobs = true;
    request.prompt_logprobs = static_cast<std::int32_t>(*n);
  }
  fields.refuse_unless("typical_p", 1);
  fields.refuse_unless("top_n_sigma", -1);
  for (const char* off : {"xtc_probability", "dry_multiplier", "dynatemp_range", "mirostat", "n_keep", "n_discard"})
    fields.refuse_unless(off, 0);
  // Hints, bookkeeping, and parameters of samplers that are off.
  fields.accept_all({"store", "service_tier", "prompt_cache_key", "prompt_cache_options", "prediction", "verbosity",
                     "spaces_between_special_tokens", "early_stopping", "cache_prompt", "xtc_threshold", "dry_base", "dry_allowed_length",
                     "dry_penalty_last_n", "dry_sequence_breakers", "dynatemp_exponent", "mirostat_tau", "mirostat_eta"});
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
  const Json json = parse_json(body, limits);
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

namespace {

/// A text, several, ids, or several lists of ids.
std::vector<Prompt> read_prompts(Fields& fields, const std::string& name, std::size_t most, const Abilities& abilities) {
  const Json* given = fields.get(name);
  if (given == nullptr) refuse(name, fmt::format("'{}' is missing", name));
  constexpr const char* kWanted = "a string, an array of strings, or ids";
  std::vector<Prompt> prompts;
  if (given->is_string()) {
    prompts.push_back({given->get<std::string>()});
  } else if (!given->is_array()) {
    refuse_type(name, kWanted, *given);
  } else if (given->empty()) {
    refuse(name, fmt::format("'{}' is empty", name));
  } else if (std::all_of(given->begin(), given->end(), [](const Json& x) { return x.is_number(); })) {
    prompts.push_back({"", ids_of(*given, name, abilities.vocabulary)});
  } else {
    if (given->size() > most) refuse(name, fmt::format("'{}' has {} entries; at most {} are possible", name, given->size(), most));
    for (const Json& one : *given) {
      if (one.is_string()) {
        prompts.push_back({one.get<std::string>()});
      } else if (one.is_array()) {
        prompts.push_back({"", ids_of(one, name, abilities.vocabulary)});
      } else {
        refuse_type(name, kWanted, one);
      }
    }
  }
  return prompts;
}

engine::Norm read_norm(Fields& fields) {
  engine::Norm norm;
  // vLLM's and llama-server's words for it.
  if (!fields.boolean("normalize", fields.boolean("use_activation", true))) norm.kind = engine::Norm::Kind::none;
  if (const auto kind = fields.integer("embd_normalize", -1, 1024)) {
    norm.kind = *kind < 0 ? engine::Norm::Kind::none : (*kind == 0 ? engine::Norm::Kind::max_abs : engine::Norm::Kind::p);
    norm.p = static_cast<std::int32_t>(*kind);
  }
  return norm;
}

}  // namespace

CompletionRequest parse_completion(std::string_view body, const Abilities& abilities, const Limits& limits) {
  const Json json = parse_json(body, limits);
  Fields fields(json, limits);
  CompletionRequest completion;
  read_common(fields, completion, abilities, limits);
  completion.prompts = read_prompts(fields, "prompt", limits.prompts, abilities);
  if (static_cast<std::int64_t>(completion.prompts.size()) * completion.best_of > limits.choices)
    refuse("prompt",
           fmt::format("{} prompts times {} answers is more than {}", completion.prompts.size(), completion.best_of, limits.choices));
  completion.request.max_tokens = fields.integer("max_tokens", 0, kMany).value_or(16);
  if (const Json* logprobs = fields.get("logprobs"); logprobs != nullptr && *logprobs != false)
    completion.request.logprobs =
        logprobs->is_boolean() ? 0 : static_cast<std::int32_t>(integer_of(*logprobs, "logprobs", 0, kMostLogprobs));
  completion.echo = fields.boolean("echo", false);
  if (completion.echo) completion.request.prompt_logprobs = std::max(completion.request.prompt_logprobs, completion.request.logprobs);
  completion.add_special = fields.boolean("add_special_tokens", true);
  fields.refuse_all({"suffix"});
  completion.ignored = fields.ignored();
  return completion;
}

EmbeddingRequest parse_embedding(std::string_view body, const Abilities& abilities, const Limits& limits) {
  const Json json = parse_json(body, limits);
  Fields fields(json, limits);
  EmbeddingRequest request;
  read_basics(fields, request, true);
  if (fields.get("messages") != nullptr) {
    if (fields.get("input") != nullptr) refuse("input", "'input' and 'messages' exclude each other");
    templates::ChatInput& chat = request.conversation.emplace();
    read_messages(fields, chat, abilities, limits);
    read_template_names(fields, chat);
    if (fields.get("add_generation_prompt") == nullptr) chat.add_generation_prompt = false;  // as vLLM has it
  } else {
    request.inputs = read_prompts(fields, "input", limits.inputs, abilities);
    for (const Prompt& input : request.inputs)
      if (input.ids ? input.ids->empty() : input.text.empty()) refuse("input", "an input is empty");
  }
  const std::string format = fields.text("encoding_format");
  if (!format.empty() && format != "float" && format != "base64")
    refuse("encoding_format", fmt::format("'encoding_format' is '{}'; there are float and base64", format.substr(0, 40)));
  request.base64 = format == "base64";
  if (const std::string type = fields.text("embed_dtype"); !type.empty() && type != "float32")
    refuse_unsupported("embed_dtype", fmt::format("'{}'", type.substr(0, 40)));
  if (const auto dimensions = fields.integer("dimensions", 1, kMany)) {
    if (*dimensions > abilities.embedding_width)
      refuse("dimensions", fmt::format("'dimensions' is {}; the model's embeddings have {}", *dimensions, abilities.embedding_width));
    request.dimensions = *dimensions;
  }
  request.norm = read_norm(fields);
  request.add_special = fields.boolean("add_special_tokens", true);
  fields.refuse_all({"input_type", "late_chunking", "lora", "lora_path", "prompt_embeds"});
  request.ignored = fields.ignored();
  return request;
}

TokenizeRequest parse_tokenize(std::string_view body, const Abilities& abilities, const Limits& limits) {
  const Json json = parse_json(body, limits);
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
  const Json json = parse_json(body, limits);
  Fields fields(json, limits);
  const Json* tokens = fields.array("tokens", limits.json_items);
  if (tokens == nullptr) refuse("tokens", "'tokens' is missing");
  return ids_of(*tokens, "tokens", abilities.vocabulary);
}

}  // namespace quern::openai
