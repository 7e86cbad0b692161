#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/capabilities.h"
#include "templates/template.h"

namespace quern::templates {

/// One turn of a conversation, for callers that have plain text. Anything richer (tool calls, parts, reasoning) comes as JSON.
struct Message {
  std::string role;
  std::string content;
};

/// What a chat template is rendered with.
struct ChatInput {
  std::vector<Message> messages;
  std::string messages_json;   // a JSON array of message objects; used instead of `messages` when not empty
  std::string tools_json;      // a JSON array; empty = no tools (`tools` is none)
  std::string documents_json;  // a JSON array; empty = none
  bool add_generation_prompt = true;
  /// The last message, an assistant's, is to be gone on with: the prompt ends with the end of its text. Wants add_generation_prompt false.
  bool continue_final = false;
  /// JSON text in `arguments` of tool calls becomes an object.
  bool open_arguments = true;
  /// What the template can do. With it, messages that it would refuse or drop are rewritten: arguments become JSON text, a system message
  /// goes before the first of the user, parts of text are joined (or a text becomes a part). Null: messages stay as they are.
  const Capabilities* capabilities = nullptr;
  /// Texts of special tokens by the names templates use: bos_token, eos_token, pad_token, unk_token … Trusted.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::string extra_json;  // a JSON object of further names (enable_thinking …), which win over all others; empty = none
};

/// The text a model is given, with the origin of every part: what came in messages, tools, documents and extra names is untrusted, what the
/// template and the special tokens say is trusted. A role is trusted if it is one of the names in use (system, user, assistant, tool …), so
/// that templates may build a marker from it, and untrusted otherwise. Reasoning of past turns is offered under reasoning_content,
/// reasoning and thinking at once, and `arguments` of tool calls that are JSON text become objects. Errors: invalid_argument (JSON, roles,
/// whatever the template raises), resource_exhausted.
std::vector<Piece> render_chat(const Template& chat, const ChatInput& input, const Budget& budget = {});

/// A template by the name of its format ("chatml"), empty where there is none; and the names there are.
std::string_view named_template(std::string_view name);
std::vector<std::string_view> template_names();

/// The pieces joined.
std::string text_of(const std::vector<Piece>& pieces);

}  // namespace quern::templates
