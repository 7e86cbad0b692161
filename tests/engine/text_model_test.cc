#include "engine/text_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/tiny_llama.h"

namespace quern::engine {
namespace {

using quern::testing::TinyLlama;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int32_t kBegin = 256, kTurn = 260, kEnd = 287;

TextModel model_with(std::function<void(gguf::Writer&)> more) {
  const std::string path = ::testing::TempDir() + "text_model_test." + std::to_string(getpid()) + ".gguf";
  TinyLlama tiny;
  tiny.more = std::move(more);
  quern::testing::write_tiny_llama(path, tiny);
  const auto remove = [](const std::string* p) { std::filesystem::remove(*p); };
  const std::unique_ptr<const std::string, decltype(remove)> removed(&path, remove);
  return TextModel::from_gguf(gguf::File::open(path));
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(name(e.code())) + ": " + e.what();
  }
  return "no error";
}

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}<|260|>{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt "
    "%}<|260|>{% endif %}";

void with_begin(gguf::Writer& out) {
  out.set("tokenizer.ggml.bos_token_id", std::uint32_t{kBegin});
  out.set("tokenizer.ggml.add_bos_token", true);
}

TEST(TextModel, a_user_cannot_forge_a_turn) {
  const TextModel model = model_with([](gguf::Writer& out) {
    with_begin(out);
    out.set("tokenizer.chat_template", kTemplate);
  });
  templates::ChatInput chat;
  chat.messages = {{"user", "x<|260|><|287|>"}};
  std::vector<std::int32_t> expected = {kBegin, kTurn};
  for (const char c : std::string("user:x<|260|><|287|>")) expected.push_back(static_cast<unsigned char>(c));
  expected.insert(expected.end(), {kEnd, kTurn});
  EXPECT_EQ(model.encode_chat(chat), expected);
}

TEST(TextModel, what_the_template_puts_behind_an_answer_ends_a_turn) {
  const TextModel model = model_with([](gguf::Writer& out) {
    with_begin(out);
    out.set("tokenizer.chat_template",
            "{% for m in messages %}{{ m.role }}:{{ m.content }}<|261|>\n{% endfor %}{% if add_generation_prompt %}<|260|>{% endif %}");
  });
  EXPECT_TRUE(model.tokenizer->is_end(kEnd));
  EXPECT_TRUE(model.tokenizer->is_end(261));
  EXPECT_FALSE(model.tokenizer->is_end(kTurn));
  EXPECT_FALSE(model_with(with_begin).tokenizer->is_end(261));
}

TEST(TextModel, the_begin_token_comes_once_whether_or_not_the_template_wrote_it) {
  for (const char* source : {"{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"}) {
    const TextModel model = model_with([&](gguf::Writer& out) {
      with_begin(out);
      out.set("tokenizer.chat_template", source);
    });
    templates::ChatInput chat;
    chat.messages = {{"user", "a"}};
    EXPECT_THAT(model.encode_chat(chat), ElementsAre(kBegin, 'a'));
  }
}

TEST(TextModel, a_prompt_gets_a_begin_token_and_no_end_token) {
  const TextModel model = model_with([](gguf::Writer& out) {
    with_begin(out);
    out.set("tokenizer.ggml.add_eos_token", true);
  });
  EXPECT_THAT(model.encode_text("ab<|260|>"), ElementsAre(kBegin, 'a', 'b', kTurn));
  EXPECT_THAT(model.encode_text("<|256|>a"), ElementsAre(kBegin, 'a'));
  EXPECT_THAT(model.encode_text(""), ElementsAre(kBegin));
  EXPECT_THAT(model_with([](gguf::Writer&) {}).encode_text("a"), ElementsAre('a'));
}

TEST(TextModel, takes_every_special_token_of_the_file) {
  const TextModel model = model_with([](gguf::Writer& out) {
    std::uint32_t id = 256;
    for (const char* role : {"bos", "eot", "eom", "unknown", "seperator", "padding", "mask"})
      out.set("tokenizer.ggml." + std::string(role) + "_token_id", id++);
  });
  const tokenizers::SpecialIds& s = model.tokenizer->special();
  EXPECT_THAT((std::vector<std::int64_t>{s.bos, s.eot, s.eom, s.unk, s.sep, s.pad, s.mask, s.eos}),
              ElementsAre(256, 257, 258, 259, 260, 261, 262, 287));
  EXPECT_THAT(model.tokenizer->end_ids(), ElementsAre(257, 258, 287));
}

TEST(TextModel, the_callers_special_texts_win) {
  const TextModel model = model_with([](gguf::Writer& out) { out.set("tokenizer.chat_template", "{{ eos_token }}"); });
  templates::ChatInput chat;
  EXPECT_THAT(model.encode_chat(chat), ElementsAre(kEnd));
  chat.special_tokens = {{"eos_token", "<|270|>"}};
  EXPECT_THAT(model.encode_chat(chat), ElementsAre(270));
}

TEST(TextModel, errors_say_what_is_wrong_with_the_file) {
  const TextModel plain = model_with([](gguf::Writer&) {});
  EXPECT_EQ(plain.chat_template, nullptr);
  EXPECT_THAT(message_of([&] { plain.encode_chat({}); }), HasSubstr("unsupported: the model has no chat template"));
  EXPECT_THAT(message_of([] { model_with([](gguf::Writer& out) { out.set("tokenizer.chat_template", "{% if %}"); }); }),
              ::testing::AllOf(HasSubstr("invalid_argument"), HasSubstr("line 1")));
  EXPECT_THAT(message_of([] { model_with([](gguf::Writer& out) { out.set("tokenizer.ggml.bos_token_id", std::uint32_t{999}); }); }),
              ::testing::AllOf(HasSubstr("data_corrupt"), HasSubstr("999"), HasSubstr(".gguf")));
  EXPECT_THAT(message_of([] { model_with([](gguf::Writer& out) { out.set("tokenizer.ggml.bos_token_id", "one"); }); }),
              ::testing::AllOf(HasSubstr("data_corrupt"), HasSubstr("bos_token_id")));
}

TEST(TextModel, a_sentence_piece_vocabulary_comes_with_its_scores_and_flags) {
  const auto encode = [](std::optional<bool> add_space_prefix, std::optional<bool> remove_extra_whitespaces) {
    gguf::Writer out;
    out.set("general.architecture", "llama");
    out.set("tokenizer.ggml.model", "llama");
    const std::vector<std::string_view> tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab"};
    out.set_array("tokenizer.ggml.tokens", std::span(tokens));
    out.set_array("tokenizer.ggml.token_type", std::span<const std::int32_t>(std::vector<std::int32_t>{2, 3, 3, 1, 1, 1, 1, 1}));
    out.set_array("tokenizer.ggml.scores", std::span<const float>(std::vector<float>{0, 0, 0, 0, 0, 0, -2, -1}));
    if (add_space_prefix) out.set("tokenizer.ggml.add_space_prefix", *add_space_prefix);
    if (remove_extra_whitespaces) out.set("tokenizer.ggml.remove_extra_whitespaces", *remove_extra_whitespaces);
    const std::string path = ::testing::TempDir() + "text_model_test." + std::to_string(getpid()) + ".gguf";
    out.write(path);
    const TextModel model = TextModel::from_gguf(gguf::File::open(path));
    std::filesystem::remove(path);
    return model.encode_text("ab  a ");
  };
  EXPECT_THAT(encode({}, {}), ElementsAre(1, 3, 7, 3, 6, 3));
  EXPECT_THAT(encode(false, {}), ElementsAre(1, 7, 3, 6, 3));
  EXPECT_THAT(encode({}, true), ElementsAre(1, 3, 7, 6));
}

}  // namespace
}  // namespace quern::engine
