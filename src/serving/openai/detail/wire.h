#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/request.h"
#include "serving/http/server.h"
#include "serving/openai/request.h"
#include "tokenizers/tokenizer.h"

// The JSON that goes out. It is written as text: a chunk is made for every token.
namespace quern::openai::detail {

/// Appends the text as a JSON string, quotes included; what is not UTF-8 becomes U+FFFD.
void append_quoted(std::string& out, std::string_view text);
std::string quoted(std::string_view text);

/// OpenAI's error object in braces.
std::string error_json(int status, std::string_view message, std::string_view param = "", std::string_view code = "");
http::Response error_response(const Refusal& refusal);
/// What an error of ours is to a client.
Refusal refusal_of(const Error& error);
Refusal refusal_of(Code code, const std::string& message);

struct Usage {
  std::int64_t prompt = 0, cached = 0, generated = 0;
};
std::string usage_json(const Usage& usage);

/// Log-probabilities as they come, in the shape of chats or of completions.
class Logprobs {
 public:
  Logprobs(const tokenizers::Tokenizer& tokenizer, bool chat, bool tokens_as_ids, std::int64_t offset = 0)
      : tokenizer_(tokenizer), chat_(chat), tokens_as_ids_(tokens_as_ids), offset_(offset) {}
  void add(const engine::Event& event);
  /// Of a prompt that is repeated in front of the answer: nothing is known of its first token.
  void add_prompt(std::span<const std::int32_t> ids, const engine::PromptReading& prompt);
  /// vLLM's form: a list of null and an object of ids a token, the token itself first.
  std::string prompt_json(const engine::PromptReading& prompt) const;
  /// The object of all that was added since the last call.
  std::string take();

 private:
  void add_token(const engine::TokenLogprob& chosen, const std::vector<engine::TokenLogprob>& top);
  std::string name_of(std::int32_t id) const;
  void append_token(std::string& out, const engine::TokenLogprob& token) const;

  const tokenizers::Tokenizer& tokenizer_;
  bool chat_, tokens_as_ids_;
  std::int64_t offset_;  // in characters, of the next token in the text
  std::string tokens_, values_, tops_, offsets_;
};

/// A few of the names, those that a header can carry.
std::string header_names(const std::vector<std::string>& fields);
/// Characters, by their first bytes.
std::int64_t characters(std::string_view utf8);
std::string ids_json(std::span<const std::int32_t> ids);

}  // namespace quern::openai::detail
