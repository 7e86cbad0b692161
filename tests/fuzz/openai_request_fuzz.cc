// Any bytes as the body of a chat, a completion, an embedding, a text to tokenize or ids: a request within its bounds, or a refusal with a
// status below 500. The first byte chooses which.
#include <cstdint>
#include <string_view>

#include "serving/openai/request.h"

namespace {

void check(const quern::openai::Common& c, const quern::openai::Limits& limits) {
  const auto& s = c.request.sampling;
  const bool holds = c.n >= 1 && c.n <= c.best_of && c.best_of <= limits.choices && c.request.prompt_logprobs <= 20 && s.temperature >= 0 &&
                     s.temperature <= 2 && s.top_p > 0 && s.top_p <= 1 && c.request.max_tokens >= -1 && c.request.logprobs >= -1 &&
                     c.request.logprobs <= 20 && c.request.stop.size() <= 32;
  if (!holds) __builtin_trap();
  for (const auto& [id, bias] : s.bias)
    if (id < 0 || id >= 1000 || !(bias >= -100 && bias <= 100)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::openai;
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Abilities abilities{.vocabulary = 1000, .embedding_width = 64, .tools = (data[0] & 4) != 0, .developer = (data[0] & 8) != 0};
  const Limits limits;
  try {
    switch (data[0] & 3) {
      case 0: check(parse_chat(body, abilities), limits); break;
      case 1: {
        const CompletionRequest completion = parse_completion(body, abilities);
        check(completion, limits);
        if (completion.prompts.empty() || static_cast<std::int64_t>(completion.prompts.size()) * completion.answers() > limits.choices)
          __builtin_trap();
        break;
      }
      case 2:
        if ((data[0] & 16) != 0) {
          const EmbeddingRequest embedding = parse_embedding(body, abilities);
          if (embedding.inputs.empty() != embedding.conversation.has_value() || embedding.inputs.size() > limits.inputs ||
              embedding.dimensions < 0 || embedding.dimensions > 64)
            __builtin_trap();
          break;
        }
        parse_tokenize(body, abilities);
        break;
      default:
        for (const std::int32_t id : parse_detokenize(body, abilities))
          if (id < 0 || id >= 1000) __builtin_trap();
    }
  } catch (const Refusal& refusal) {
    if (refusal.status < 400 || refusal.status >= 500 || refusal.message.empty()) __builtin_trap();
  }
  return 0;
}
