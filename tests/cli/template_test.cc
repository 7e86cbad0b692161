// quern template: a conversation as the model will see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "support/tiny_llama.h"

namespace quern::cli {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::json;

class TemplateCommand : public ::testing::Test {
 protected:
  TemplateCommand() {
    write_file(chat,
               "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
               "{% if tools %}{{ tools | tojson }}{% endif %}{% if mood %}({{ mood }}){% endif %}{% if add_generation_prompt %}[answer]{% "
               "endif %}");
    write_file(messages, R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])");
    write_file(tools, R"([{"type": "function"}])");
  }

  Folder folder;
  std::string chat = folder / "chat.jinja", messages = folder / "messages.json", tools = folder / "tools.json";
};

TEST_F(TemplateCommand, renders_a_conversation_with_the_template_of_a_file) {
  EXPECT_EQ(quern({"template", chat, "--messages", messages}).out, "[user]a[assistant]b[answer]");
  EXPECT_EQ(quern({"template", chat, "--messages", messages, "--no-generation-prompt"}).out, "[user]a[assistant]b");
  EXPECT_EQ(quern({"template", chat, "--messages", messages, "--tools", tools}).out,
            "[user]a[assistant]b[{\"type\": \"function\"}][answer]");
  EXPECT_EQ(quern({"template", chat, "-p", "hi", "--system", "be brief"}).out, "[system]be brief[user]hi[answer]");
  EXPECT_EQ(quern({"template", chat, "-p", "hi", "--var", "mood=glad", "--var", "add_generation_prompt=false"}).out, "[user]hi(glad)");
  EXPECT_EQ(quern({"template", chat, "--messages", "-"}, R"({"messages": [{"role": "user", "content": "x"}], "tools": []})").out,
            "[user]x[answer]");
  EXPECT_EQ(quern({"template", chat, "--messages", messages, "--continue-final"}).out, "[user]a[assistant]b");
}

TEST_F(TemplateCommand, reads_the_template_of_a_configuration) {
  const std::string config = folder / "tokenizer_config.json";
  write_file(config, R"({"bos_token": {"content": "<s>"}, "chat_template": [{"name": "tool_use", "template": "no"},
                         {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}"}]})");
  EXPECT_EQ(quern({"template", config, "-p", "hi"}).out, "<s>hi");
  EXPECT_EQ(quern({"template", folder.path().string(), "-p", "hi"}).out, "<s>hi");
  EXPECT_EQ(quern({"template", config, "-p", "hi", "--chat-template", "chatml"}).out,
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(TemplateCommand, says_which_part_comes_from_the_conversation_and_what_the_template_can_do) {
  const json out = json::parse(quern({"template", chat, "-p", "hi", "--json"}).out);
  EXPECT_EQ(out["text"], "[user]hi[answer]");
  EXPECT_EQ(out["pieces"][1], json({{"text", "hi"}, {"untrusted", true}}));
  EXPECT_TRUE(out["ids"].is_null());
  EXPECT_EQ(out["capabilities"]["tools"], "yes");
  EXPECT_EQ(out["capabilities"]["tool calls"], "no");
  EXPECT_THAT(quern({"template", chat, "-p", "hi", "-v"}).err, HasSubstr("system message: yes"));
}

TEST_F(TemplateCommand, reads_an_object_of_many_keys_in_time_that_grows_with_their_number) {
  std::string keys;
  for (int i = 0; i < 200'000; ++i) keys += (i == 0 ? "\"k" : ", \"k") + std::to_string(i) + "\": 1";
  const std::string message = R"({"role": "user", "content": "x", "more": {)" + keys + "}}", list = "[" + message + "]";
  write_file(tools, "[{" + keys + "}]");
  write_file(chat, "{{ messages[0].more | length }} {{ tools[0] | length }}");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(quern({"template", chat, "--messages", "-", "--tools", tools}, list).out, "200000 200000");
  EXPECT_EQ(quern({"template", chat, "--messages", "-"}, R"({"messages": )" + list + R"(, "tools": [{)" + keys + "}]}").out,
            "200000 200000");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // comparing each key with all others took 8 s a pass
}

TEST_F(TemplateCommand, keeps_the_order_of_keys_that_a_variable_has) {
  write_file(chat, "{{ a | tojson }} {{ b }} {{ c }}");
  EXPECT_EQ(quern({"template", chat, "-p", "x", "--var", R"(a={"z": 1, "b": [2.0]})", "--var", "b=plain", "--var", "c=1e3"}).out,
            R"({"z": 1, "b": [2.0]} plain 1000.0)");
}

TEST_F(TemplateCommand, refuses_what_it_cannot_read) {
  EXPECT_THAT(quern({"template", chat, "-p", "x", "--chat-template", "none such"}).err, HasSubstr("chatml"));
  write_file(chat, "a\n{% if %}");
  EXPECT_THAT(quern({"template", chat, "-p", "x"}).err, HasSubstr("line 2, column"));
  EXPECT_EQ(quern({"template", folder / "none.jinja", "-p", "x"}).status, 1);
  write_file(chat, "x");
  EXPECT_EQ(quern({"template", chat, "-p", "x", "--var", "novalue"}).status, 2);
  EXPECT_EQ(quern({"template", chat, "-p", "x", "--ids"}).status, 2);
  EXPECT_THAT(quern({"template", chat, "--messages", messages, "--continue-final"}).err, HasSubstr("cannot be continued"));
  write_file(messages, "{\"messages\": 5}");
  EXPECT_THAT(quern({"template", chat, "--messages", messages}).err, HasSubstr("messages must be a JSON array"));
}

TEST_F(TemplateCommand, shows_ids_with_a_model) {
  const std::string model = folder / "chat.gguf";
  testing::TinyLlama with_template;
  with_template.more = [](gguf::Writer& out) {
    out.set("tokenizer.chat_template", "{% for m in messages %}<|256|>{{ m.content }}{% endfor %}");
  };
  testing::write_tiny_llama(model, with_template);
  EXPECT_EQ(quern({"template", model, "-p", "<|256|>"}).out, "<|256|><|256|>");
  const json out = json::parse(quern({"template", model, "-p", "A", "--json"}).out);
  EXPECT_EQ(out["ids"], json({256, 'A'}));
  EXPECT_THAT(quern({"template", model, "-p", "A", "--ids"}).out, HasSubstr("256  \"<|256|>\"\n"));
}

}  // namespace
}  // namespace quern::cli
