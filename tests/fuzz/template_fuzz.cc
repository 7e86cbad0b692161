// Any text as a chat template, rendered under a small budget: text, or an Error with a place.
#include <string>

#include "templates/chat.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::templates;
  ChatInput input;
  input.messages_json =
      R"([{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]},
          {"role": "assistant", "content": null, "thinking": "t", "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]}])";
  input.tools_json = R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";
  Budget budget;
  budget.steps = 20'000;
  budget.output_bytes = 1 << 20;
  budget.value_bytes = 16 << 20;
  budget.time = std::chrono::seconds(2);
  budget.now = 0;
  try {
    const Template chat(std::string(reinterpret_cast<const char*>(data), size));
    for (const Piece& piece : render_chat(chat, input, budget))
      if (piece.text.empty()) __builtin_trap();
  } catch (const quern::Error& e) {
    if (e.code() == quern::Code::internal) __builtin_trap();
  }
  return 0;
}
