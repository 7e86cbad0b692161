#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/embedding.h"
#include "engine/request.h"
#include "templates/chat.h"

// JSON of OpenAI's clients, with the further fields of vLLM's and llama-server's, to requests of the engine. A field that would change the
// answer and cannot be honoured is refused; one that means nothing here is listed in `ignored`.
namespace quern::openai {

/// A request is refused: the parts of OpenAI's error object, and its HTTP status.
class Refusal : public std::exception {
 public:
  Refusal(int status, std::string message, std::string param = "", std::string code = "", int retry_after = 1)
      : status(status), message(std::move(message)), param(std::move(param)), code(std::move(code)), retry_after(retry_after) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status;
  std::string message;
  std::string param, code;  // empty: null
  int retry_after;          // seconds, told with 429 and 503
};

/// What the served model can take.
struct Abilities {
  std::int64_t vocabulary = 0;
  std::int64_t embedding_width = 0;
  bool tools = false;      // its chat template has a place for them
  bool developer = false;  // its chat template knows the role; otherwise it becomes "system"
};

struct Limits {
  std::size_t json_depth = 64, json_items = 1 << 20, fields = 512;
  std::size_t messages = 16384, prompts = 2048, inputs = 2048;
  std::int64_t choices = 128;  // prompts times n
};

/// What chats and completions have in common.
struct Common {
  std::string model;                // as asked for; empty when not
  std::string user = {};            // whose request it is, as the caller says
  engine::Request request;          // without a prompt
  std::int64_t n = 1, best_of = 1;  // the best n of so many are returned
  bool beams = false;               // the n best that a search finds
  bool prompt_logprobs = false;     // in vLLM's form
  bool stream = false, include_usage = false, continuous_usage = false;
  bool include_stop = false;                  // the stop text is part of the answer
  bool token_ids = false;                     // answers tell their ids
  bool tokens_as_ids = false;                 // log-probabilities name tokens "token_id:7"
  bool add_special = true;                    // begin tokens around a plain prompt
  std::optional<std::int64_t> truncate = {};  // keep so many of the prompt's last tokens; -1: what fits
  bool truncate_end = false;                  // … of its first tokens
  std::optional<std::chrono::milliseconds> timeout = {};
  std::vector<std::string> bad_words = {};  // that the answer must not have
  std::string cache_salt = {};              // of tenants who share no cached prompts
  std::vector<std::string> ignored = {};    // names of unknown fields

  std::int64_t answers() const { return best_of; }  // to each prompt, of which n are shown
};

struct ChatRequest : Common {
  templates::ChatInput conversation;
};

struct Prompt {
  std::string text;
  std::optional<std::vector<std::int32_t>> ids = {};  // instead of the text
};

struct CompletionRequest : Common {
  std::vector<Prompt> prompts;  // at least one
  bool echo = false;
};

struct EmbeddingRequest : Common {
  std::vector<Prompt> inputs;  // at least one, and none empty; or …
  std::optional<templates::ChatInput> conversation = {};
  bool base64 = false;          // numbers as bytes of little-endian f32
  std::int64_t dimensions = 0;  // the first so many; 0: all
  engine::Norm norm = {};
};

/// Of /tokenize: a text or a conversation.
struct TokenizeRequest {
  std::string text;
  std::optional<templates::ChatInput> conversation = {};
  bool llama = false;  // asked and answered as llama-server does
  bool add_special = true, parse_special = true, pieces = false;
};

/// Errors: Refusal. Nothing else but std::bad_alloc, whatever the bytes.
ChatRequest parse_chat(std::string_view body, const Abilities& abilities, const Limits& limits = {});
CompletionRequest parse_completion(std::string_view body, const Abilities& abilities, const Limits& limits = {});
EmbeddingRequest parse_embedding(std::string_view body, const Abilities& abilities, const Limits& limits = {});
TokenizeRequest parse_tokenize(std::string_view body, const Abilities& abilities, const Limits& limits = {});
/// The ids of /detokenize, checked.
std::vector<std::int32_t> parse_detokenize(std::string_view body, const Abilities& abilities, const Limits& limits = {});

}  // namespace quern::openai
