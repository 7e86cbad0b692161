#include "tokenizers/detail/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizers/detail/json_reader.h"

namespace quern::tokenizers {
namespace {

using detail::JsonReader;

/// What the library makes of strings with one tokenizer.
struct Case {
  std::string name, tokenizer;
  std::vector<std::string> strings, plain_strings, decoded, skipped;
  std::vector<std::vector<Id>> ids, plain, framed;
};

std::vector<std::string> read_strings(JsonReader& json) {
  std::vector<std::string> out;
  json.array([&] { out.push_back(json.string()); });
  return out;
}

std::vector<std::vector<Id>> read_ids(JsonReader& json) {
  std::vector<std::vector<Id>> out;
  json.array([&] {
    out.emplace_back();
    json.array([&] { out.back().push_back(static_cast<Id>(json.integer(0, 1 << 30))); });
  });
  return out;
}

const std::vector<Case>& cases() {
  static const auto all = [] {
    std::vector<Case> read;
    std::ifstream file(QUERN_SOURCE_DIR "/tests/tokenizers/data/tokenizer_json.cases");
    for (std::string line; std::getline(file, line);) {
      JsonReader json(line);
      Case& c = read.emplace_back();
      json.object([&](std::string_view key) {
        if (key == "name") return void(c.name = json.string());
        if (key == "strings") return void(c.strings = read_strings(json));
        if (key == "plain_strings") return void(c.plain_strings = read_strings(json));
        if (key == "decoded") return void(c.decoded = read_strings(json));
        if (key == "skipped") return void(c.skipped = read_strings(json));
        if (key == "ids") return void(c.ids = read_ids(json));
        if (key == "plain") return void(c.plain = read_ids(json));
        if (key == "framed") return void(c.framed = read_ids(json));
        const std::size_t begin = json.offset();
        json.skip();
        if (key == "tokenizer") c.tokenizer = line.substr(begin, json.offset() - begin);
      });
    }
    return read;
  }();
  return all;
}

TEST(TokenizerJson, gives_the_ids_and_the_text_of_the_library) {
  ASSERT_GT(cases().size(), 30u);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto t = detail::read_tokenizer_json(c.tokenizer, {});
    for (std::size_t i = 0; i < c.strings.size(); ++i) {
      SCOPED_TRACE(c.strings[i]);
      EXPECT_EQ(t->encode(c.strings[i]), c.ids[i]);
      EXPECT_EQ(t->encode(c.strings[i], {.parse_special = false}), c.plain[i]);
      EXPECT_EQ(t->decode(c.ids[i]), c.decoded[i]);
      EXPECT_EQ(t->decode(c.ids[i], {.skip_special = true}), c.skipped[i]);
    }
    for (std::size_t i = 0; i < c.plain_strings.size(); ++i) {
      SCOPED_TRACE(c.plain_strings[i]);
      EXPECT_EQ(t->encode(c.plain_strings[i], {.add_special = true}), c.framed[i]);
    }
  }
}

TEST(TokenizerJson, streams_the_text_that_it_decodes) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto t = detail::read_tokenizer_json(c.tokenizer, {});
    for (const auto& ids : c.ids) {
      for (const bool skip_special : {false, true}) {
        StreamDecoder stream(*t, {.skip_special = skip_special});
        std::string text;
        for (const Id id : ids) text += stream.push(id);
        text += stream.finish();
        EXPECT_EQ(text, t->decode(ids, {.skip_special = skip_special}));
      }
    }
  }
}

TEST(TokenizerJson, does_not_double_a_frame_that_the_text_has) {
  for (const Case& c : cases()) {
    if (c.name != "byte fallback") continue;
    const auto t = detail::read_tokenizer_json(c.tokenizer, {.bos = "<s>"});
    EXPECT_TRUE(t->adds_bos());
    EXPECT_EQ(t->encode("<s>Hello", {.add_special = true}), t->encode("<s>Hello"));
    EXPECT_EQ(t->encode("Hello", {.add_special = true}).front(), 0);
  }
}

/// A small tokenizer with `part` put in.
std::string with(const std::string& part, const std::string& model = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})") {
  return R"({"version":"1.0",)" + (part.empty() ? "" : part + ",") + R"("model":)" + model + "}";
}

TEST(TokenizerJson, refuses_what_is_malformed_and_says_where) {
  const auto message = [](const std::string& json) -> std::string {
    try {
      detail::read_tokenizer_json(json, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_EQ(message(with("")), "");
  EXPECT_THAT(message(""), HasSubstr("ends too early"));
  EXPECT_THAT(message("{}"), HasSubstr("no model"));
  EXPECT_THAT(message(with("") + "x"), HasSubstr("more after its end"));
  EXPECT_THAT(message(with(R"("normalizer":{"type":"Upside"})")), HasSubstr("'Upside' is not supported"));
  EXPECT_THAT(message(with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated","invert":false})")),
              HasSubstr("pattern"));
  EXPECT_THAT(message(with(R"("pre_tokenizer":{"type":"FixedLength","length":0})")), HasSubstr("no characters"));
  EXPECT_THAT(message(with(R"("decoder":{"type":"Metaspace","replacement":"ab"})")), HasSubstr("one character"));
  EXPECT_THAT(message(with(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="})")), HasSubstr("charsmap"));
  EXPECT_THAT(message(with(R"("post_processor":{"type":"BertProcessing","cls":["a",0],"sep":["b",99]})")), HasSubstr("token 99"));
  EXPECT_THAT(message(with("", R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]})")), HasSubstr("merge \"a b\""));
  EXPECT_THAT(message(with("", R"({"type":"BPE","vocab":{"a":0,"b":0},"merges":[]})")), HasSubstr("two tokens have id 0"));
  EXPECT_THAT(message(with("", R"({"type":"BPE","vocab":{"a":16000000},"merges":[]})")), HasSubstr("much larger"));
  EXPECT_THAT(message(with("", R"({"type":"Unigram","unk_id":7,"vocab":[["a",-1]]})")), HasSubstr("unknown token is 7"));
  EXPECT_THAT(message(with("", R"({"type":"Unigram","vocab":[["a",1e999]]})")), HasSubstr("number"));
  EXPECT_THAT(message(with("", R"({"type":"Transducer","vocab":{"a":0}})")), HasSubstr("'Transducer' is not supported"));
  EXPECT_THAT(message(with(R"("x":)" + std::string(100, '[') + std::string(100, ']'))), HasSubstr("nested more than 64"));
  std::string sequences = R"({"type":"NFC"})";
  for (int i = 0; i < 9; ++i) sequences = R"({"type":"Sequence","normalizers":[)" + sequences + "]}";
  EXPECT_THAT(message(with("\"normalizer\":" + sequences)), HasSubstr("nested more than 8"));
}

TEST(TokenizerJson, reads_merges_that_come_before_the_vocabulary) {
  const auto t = detail::read_tokenizer_json(with("", R"({"merges":[["a","b"]],"vocab":{"a":0,"b":1,"ab":2},"type":"BPE"})"), {});
  EXPECT_EQ(t->encode("abb"), (std::vector<Id>{2, 1}));
}

TEST(TokenizerJson, every_truncation_of_a_file_is_refused_or_read) {
  const std::string& json = cases()[5].tokenizer;
  for (std::size_t length = 0; length < json.size(); length += 7) {
    EXPECT_THROW(detail::read_tokenizer_json(json.substr(0, length), {}), Error) << length;
  }
}

TEST(TokenizerJson, a_word_of_two_megabytes_takes_linear_time) {
  for (const char* name : {"byte level", "byte fallback", "fused unknown", "Unigram", "Unigram, whole text", "BERT", "words"}) {
    const auto c = std::find_if(cases().begin(), cases().end(), [&](const Case& each) { return each.name == name; });
    ASSERT_NE(c, cases().end()) << name;
    const auto t = detail::read_tokenizer_json(c->tokenizer, {});
    std::string word;
    while (word.size() < 2'000'000) word += "aaaab\xC3\xA9\xCC\x81z";
    EXPECT_GT(t->encode(word).size(), 0u) << name;
  }
}

TEST(TokenizerJson, a_million_merges_are_read_and_a_pattern_that_explodes_is_refused) {
  std::string vocabulary, merges;
  for (int i = 0; i < 1000; ++i) vocabulary += (i ? ",\"" : "\"") + std::to_string(i) + "x\":" + std::to_string(i);
  vocabulary += ",\"0x1x\":1000";
  for (int i = 0; i < 1'000'000; ++i) merges += i ? ",\"0x 1x\"" : "\"0x 1x\"";
  const auto t = detail::read_tokenizer_json(with("", R"({"type":"BPE","vocab":{)" + vocabulary + R"(},"merges":[)" + merges + "]}"), {});
  EXPECT_EQ(t->size(), 1001u);
  const auto slow = detail::read_tokenizer_json(
      with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?>(a|aa)+)+$|(a*)*b"},"behavior":"Isolated","invert":false})"), {});
  try {  // linear time, or an error before the time gets out of hand
    slow->encode(std::string(20'000, 'a') + "c");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
  }
}

TEST(TokenizerJson, added_tokens_that_contain_one_another_are_found_in_linear_time) {
  std::string added;
  for (int i = 1; i <= 500; ++i)
    added += (i > 1 ? "," : "") + std::string(R"({"content":")") + std::string(static_cast<std::size_t>(i), 'a') +
             R"(","normalized":false,"lstrip":true,"rstrip":true})";
  const auto t = detail::read_tokenizer_json(with("\"added_tokens\":[" + added + "]"), {});
  EXPECT_EQ(t->encode(std::string(1'000'000, 'a')).size(), 2000u);
}

}  // namespace
}  // namespace quern::tokenizers
