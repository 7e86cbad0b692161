#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "templates/template.h"

namespace quern::templates {

/// What a chat template does with a conversation. Found out by rendering short conversations and looking for what was put in, so it holds
/// for templates nobody has seen; what a template takes only together with something unusual can be missed.
struct Capabilities {
  bool renders = false;         // the plainest conversation gives text at all
  bool text_content = false;    // content as a string
  bool content_parts = false;   // content as a list of {"type": "text", "text": …}
  bool system_role = false;     // a system message reaches the model
  bool developer_role = false;  // the role "developer" too
  bool tools = false;           // the list of tools
  bool tool_calls = false;      // calls in past assistant messages
  bool parallel_tool_calls = false;
  bool tool_results = false;          // messages of the role "tool"
  bool object_arguments = false;      // `arguments` of a call as an object
  bool string_arguments = false;      // … as JSON text
  bool reasoning = false;             // the reasoning of past turns is shown, at least the latest
  bool starts_reasoning = false;      // the prompt leaves off inside a reasoning block
  std::vector<std::string> switches;  // names that change the prompt: enable_thinking, reasoning_effort …
};

/// Renders at most some thirty short conversations, each under a small budget. Never fails: what fails to render is not a capability.
Capabilities probe(const Template& chat);

/// The lines of a report: "tools: yes" and the like, in the order above.
std::vector<std::pair<std::string, std::string>> described(const Capabilities& capabilities);

}  // namespace quern::templates
