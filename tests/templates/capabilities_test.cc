// What templates are found to do, on templates of which that is plain to read.
#include "templates/capabilities.h"

#include <gtest/gtest.h>

#include "templates/chat.h"

namespace quern::templates {
namespace {

Capabilities of(const std::string& source) { return probe(Template(source)); }

std::string text(const std::string& source, const std::string& messages, bool continue_final = false) {
  const Template chat(source);
  const Capabilities can = probe(chat);
  ChatInput input;
  input.messages_json = messages;
  input.capabilities = &can;
  input.continue_final = continue_final;
  input.add_generation_prompt = !continue_final;
  return text_of(render_chat(chat, input));
}

constexpr const char* kPlain = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";

TEST(Capabilities, are_few_in_a_template_that_prints_content_alone) {
  const Capabilities c = of(kPlain);
  EXPECT_TRUE(c.renders && c.text_content && c.system_role && c.developer_role && c.tool_results);
  EXPECT_FALSE(c.content_parts || c.tools || c.tool_calls || c.reasoning || c.starts_reasoning);
  EXPECT_TRUE(c.switches.empty());
}

TEST(Capabilities, see_a_system_role_that_is_refused_or_dropped) {
  EXPECT_FALSE(of("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}")
                   .system_role);
  EXPECT_FALSE(of("{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}").system_role);
}

TEST(Capabilities, see_parts_of_content) {
  const char* both =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% "
      "endif %}{% endfor %}";
  EXPECT_TRUE(of(both).content_parts && of(both).text_content);
  const char* only = "{% for m in messages %}{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endfor %}";
  EXPECT_TRUE(of(only).content_parts && !of(only).text_content);
}

const std::string kCalls =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ "
    "c.function.name }}(";
const std::string kEnd = "){% endfor %}{% endfor %}";

TEST(Capabilities, tell_arguments_as_objects_from_those_as_text) {
  const Capabilities objects = of(kCalls + "{{ c.function.arguments | tojson }}" + kEnd);
  EXPECT_TRUE(objects.tools && objects.tool_calls && objects.parallel_tool_calls && objects.tool_results);
  EXPECT_TRUE(objects.object_arguments && !objects.string_arguments);
  const Capabilities texts = of(kCalls + "{{ c.function.arguments }}" + kEnd);
  EXPECT_TRUE(texts.string_arguments && !texts.object_arguments && texts.tool_calls);
  const Capabilities either = of(kCalls + "{% set a = c.function.arguments %}{{ a if a is string else a | tojson }}" + kEnd);
  EXPECT_TRUE(either.string_arguments && either.object_arguments);
}

TEST(Capabilities, see_that_one_call_is_all) {
  EXPECT_FALSE(of("{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one') "
                  "}}{% endif %}"
                  "{{ m.tool_calls[0].function | tojson }}{% endif %}{% endfor %}")
                   .parallel_tool_calls);
}

TEST(Capabilities, see_reasoning_that_is_shown_beside_tool_calls_only) {
  const Capabilities c =
      of("{% for m in messages %}{{ m.content }}{% for t in m.tool_calls or [] %}{{ m.reasoning_content }}{{ t.function.name }}"
         "{{ t.function.arguments | tojson }}{% endfor %}{% endfor %}{{ reasoning_strength }}");
  EXPECT_TRUE(c.reasoning);
  EXPECT_EQ(c.switches, std::vector<std::string>{"reasoning_strength"});
}

TEST(Capabilities, see_reasoning_and_what_switches_it) {
  const Capabilities c =
      of("{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}{% endfor %}"
         "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and not enable_thinking %}<think></think>{% else "
         "%}<think>{% endif %}{% endif %}");
  EXPECT_TRUE(c.reasoning && c.starts_reasoning);
  EXPECT_EQ(c.switches, std::vector<std::string>{"enable_thinking"});
}

TEST(Capabilities, of_a_template_that_fails_or_never_ends_are_none) {
  EXPECT_FALSE(of("{{ raise_exception('no') }}").renders);
  EXPECT_FALSE(of("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}{{ messages[0].content }}").renders);
}

TEST(ChatInput, gives_a_template_that_wants_text_its_arguments_as_text) {
  const char* messages =
      R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, "é"]}}}]}])";
  EXPECT_EQ(text(kCalls + "{{ c.function.arguments }}" + kEnd, messages), "uf({\"a\": [1, \"é\"]})");
  EXPECT_EQ(text(kCalls + "{{ c.function.arguments | tojson }}" + kEnd, messages), "uf({\"a\": [1, \"é\"]})");
}

TEST(ChatInput, puts_a_system_message_before_the_users_where_there_is_no_system_role) {
  const std::string roles = R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])";
  EXPECT_EQ(text("{% for m in messages %}{% if m.role in ['system', 'developer'] %}{{ raise_exception('no') }}{% endif %}[{{ m.role }}]{{ "
                 "m.content }}{% endfor %}",
                 roles),
            "[user]s\n\nu");
}

TEST(ChatInput, joins_parts_or_makes_one) {
  const std::string parts = R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  EXPECT_EQ(text(kPlain, parts), "[user]ab");
  EXPECT_EQ(text("{% for m in messages %}{% for p in m.content %}<{{ p['text'] }}>{% endfor %}{% endfor %}",
                 R"([{"role": "user", "content": "c"}])"),
            "<c>");
}

TEST(ChatInput, ends_with_the_text_of_a_message_that_is_to_be_continued) {
  const std::string turns = R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "I am  "}])";
  EXPECT_EQ(text("{% for m in messages %}<{{ m.content }}>{% endfor %}", turns, true), "<u><I am  ");
  EXPECT_EQ(text("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}", turns, true), "<u><I am");
  EXPECT_THROW(text("{% for m in messages %}<{{ m.role }}>{% endfor %}{{ messages[0].content }}", turns, true), Error);
  EXPECT_THROW(text(kPlain, R"([{"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f"}}]}])", true), Error);
}

TEST(NamedTemplates, render_a_conversation_with_a_system_message) {
  ChatInput input;
  input.messages = {{"system", "s"}, {"user", "u"}, {"assistant", "a"}, {"user", "v"}};
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  for (const std::string_view name : template_names()) {
    const Template chat{std::string(named_template(name))};
    EXPECT_TRUE(probe(chat).system_role) << name;
    EXPECT_FALSE(text_of(render_chat(chat, input)).empty()) << name;
  }
  EXPECT_EQ(
      text_of(render_chat(Template(std::string(named_template("chatml"))), input)),
      "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\nv<|im_end|>\n"
      "<|im_start|>assistant\n");
  EXPECT_EQ(text_of(render_chat(Template(std::string(named_template("mistral"))), input)), "<s>[INST] s\n\nu[/INST] a</s>[INST] v[/INST]");
  EXPECT_TRUE(named_template("none such").empty());
}

}  // namespace
}  // namespace quern::templates
