#include "templates/capabilities.h"

#include <optional>

#include "templates/chat.h"

namespace quern::templates {
namespace {

constexpr std::string_view kUser = R"({"role": "user", "content": "probe_user"})";
constexpr std::string_view kTools =
    R"([{"type": "function", "function": {"name": "probe_tool", "description": "probe_description", "parameters": {"type": "object",
        "properties": {"probe_key": {"type": "string", "description": "a key"}}, "required": ["probe_key"]}}}])";

// Each name with two values; the prompt differs where the template reads it.
struct Switch {
  std::string_view name, one, other;
};
constexpr Switch kSwitches[] = {
    {"enable_thinking", "true", "false"},
    {"thinking", "true", "false"},
    {"thinking_mode", "\"enabled\"", "\"disabled\""},
    {"reasoning_effort", "\"low\"", "\"high\""},
    {"thinking_effort", "\"low\"", "\"high\""},
    {"reasoning_strength", "\"low\"", "\"high\""},
    {"skip_thinking", "true", "false"},
    {"thinking_option", "\"on\"", "\"off\""},
    {"thinking_budget", "0", "512"},
    {"reasoning", "true", "false"},
    {"add_thoughts", "true", "false"},
};

class Prober {
 public:
  explicit Prober(const Template& chat) : chat_(chat) {
    budget_.steps = 200'000;
    budget_.output_bytes = 1 << 20;
    budget_.value_bytes = 16 << 20;
    budget_.time = std::chrono::milliseconds(50);
    budget_.now = 0;  // so that two renders differ only by what is probed
  }

  std::optional<std::string> text(std::string_view messages, bool tools = false, std::string extra = {}, bool generation = true) const {
    ChatInput input;
    input.messages_json = "[" + std::string(messages) + "]";
    if (tools) input.tools_json = kTools;
    input.extra_json = std::move(extra);
    input.add_generation_prompt = generation;
    input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    input.open_arguments = false;
    try {
      return text_of(render_chat(chat_, input, budget_));
    } catch (const Error&) {
      return std::nullopt;
    }
  }

 private:
  const Template& chat_;
  Budget budget_;
};

bool has(const std::optional<std::string>& text, std::string_view what) { return text && text->find(what) != text->npos; }

std::string joined(std::initializer_list<std::string_view> messages) {
  std::string out;
  for (const std::string_view message : messages) out += (out.empty() ? "" : ", ") + std::string(message);
  return out;
}

std::string call(std::string_view name, std::string_view id, std::string_view arguments) {
  return R"({"id": ")" + std::string(id) + R"(", "type": "function", "function": {"name": ")" + std::string(name) + R"(", "arguments": )" +
         std::string(arguments) + "}}";
}

std::string calling(std::string_view calls) {
  return R"({"role": "assistant", "content": "", "tool_calls": [)" + std::string(calls) + "]}";
}

std::string result(std::string_view name, std::string_view id, std::string_view content) {
  return R"({"role": "tool", "name": ")" + std::string(name) + R"(", "tool_call_id": ")" + std::string(id) + R"(", "content": ")" +
         std::string(content) + R"("})";
}

constexpr std::string_view kObject = R"({"probe_key": "probe_value"})";
constexpr std::string_view kText = R"("{\"probe_key\": \"probe_value\"}")";
constexpr std::string_view kFirst = "probecal1", kSecond = "probecal2";  // nine letters and digits, as some templates insist

// A Python dict where a text was wanted, or a text in quotes where an object was.
bool is_mangled(const std::optional<std::string>& text) { return has(text, "'probe_key'") || has(text, "\\\"probe_key"); }

void probe_tools(const Prober& prober, Capabilities& c) {
  const std::string answered = result("probe_tool", kFirst, "probe_result");
  const auto conversation = [&](std::string_view arguments) {
    return prober.text(joined({kUser, calling(call("probe_tool", kFirst, arguments)), answered}), true);
  };
  const auto objects = conversation(kObject), texts = conversation(kText);
  c.tools = has(prober.text(kUser, true), "probe_tool") || has(prober.text(kUser, true), "probe_description");
  c.object_arguments = has(objects, "probe_key") && has(objects, "probe_value") && !is_mangled(objects);
  c.string_arguments = has(texts, "probe_key") && has(texts, "probe_value") && !is_mangled(texts);
  const std::string_view best = c.string_arguments && !c.object_arguments ? kText : kObject;
  const auto& single = best == kText ? texts : objects;
  c.tool_calls = has(single, "probe_value");
  c.tool_results = has(single, "probe_result");
  const auto both = prober.text(joined({kUser, calling(call("probe_tool", kFirst, best) + ", " + call("probe_other", kSecond, best)),
                                        answered, result("probe_other", kSecond, "probe_more")}),
                                true);
  c.parallel_tool_calls = c.tool_calls && has(both, "probe_other") && has(both, "probe_more");
}

void probe_reasoning(const Prober& prober, Capabilities& c) {
  const std::string thought = R"({"role": "assistant", "content": "probe_answer", "reasoning_content": "probe_thought"})";
  c.reasoning = has(prober.text(joined({kUser, thought}), false, {}, false), "probe_thought") ||
                has(prober.text(joined({kUser, thought, kUser})), "probe_thought");
  if (!c.reasoning && c.tool_calls) {  // some show it only until the calls that came of it are answered
    const std::string calls = call("probe_tool", kFirst, c.object_arguments ? kObject : kText);
    const std::string working =
        R"({"role": "assistant", "content": "", "reasoning_content": "probe_thought", "tool_calls": [)" + calls + "]}";
    c.reasoning = has(prober.text(joined({kUser, working, result("probe_tool", kFirst, "probe_result")}), true), "probe_thought");
  }
  const auto plain = prober.text(kUser), open = prober.text(kUser, false, {}, false);
  if (plain && open && plain->starts_with(*open)) {
    const std::string tail = plain->substr(open->size());
    const std::size_t begin = tail.rfind("think"), end = tail.rfind("/think");
    c.starts_reasoning = begin != tail.npos && (end == tail.npos || end + 1 != begin);
  }
  for (const Switch& s : kSwitches) {
    const auto with = [&](std::string_view value) { return "{\"" + std::string(s.name) + "\": " + std::string(value) + "}"; };
    const auto one = prober.text(kUser, false, with(s.one)), other = prober.text(kUser, false, with(s.other));
    if (one && other && *one != *other) c.switches.emplace_back(s.name);
  }
}

}  // namespace

Capabilities probe(const Template& chat) {
  const Prober prober(chat);
  Capabilities c;
  c.text_content = has(prober.text(kUser), "probe_user");
  const auto parts = prober.text(R"({"role": "user", "content": [{"type": "text", "text": "probe_user"}]})");
  c.content_parts = has(parts, "probe_user") && !has(parts, "'text'") && !has(parts, "\"text\"");
  c.renders = c.text_content || c.content_parts;
  if (!c.renders) return c;
  const auto led_by = [&](const std::string& role) {
    return has(prober.text(joined({"{\"role\": \"" + role + "\", \"content\": \"probe_lead\"}", kUser})), "probe_lead");
  };
  c.system_role = led_by("system");
  c.developer_role = led_by("developer");
  probe_tools(prober, c);
  probe_reasoning(prober, c);
  return c;
}

std::vector<std::pair<std::string, std::string>> described(const Capabilities& c) {
  const auto word = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  std::string switches;
  for (const std::string& name : c.switches) switches += (switches.empty() ? "" : ", ") + name;
  std::string arguments = c.object_arguments && c.string_arguments ? "objects or JSON text" : c.object_arguments ? "objects" : "JSON text";
  return {{"system message", word(c.system_role)},
          {"content in parts", c.text_content ? word(c.content_parts) : "only"},
          {"tools", word(c.tools)},
          {"tool calls",
           !c.tool_calls ? "no" : std::string(c.parallel_tool_calls ? "several at once" : "one at a time") + ", arguments as " + arguments},
          {"tool results", word(c.tool_results)},
          {"past reasoning", word(c.reasoning)},
          {"reasoning switch", switches.empty() ? "none" : switches},
          {"begins reasoning", word(c.starts_reasoning)}};
}

}  // namespace quern::templates
