#include "tokenizers/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizers/detail/json_reader.h"
#include "tokenizers/detail/rank_file.h"
#include "tokenizers/detail/sentence_piece.h"

namespace quern::tokenizers {
namespace {

namespace fs = std::filesystem;
using detail::JsonReader;

struct Case {
  std::string name, file;
  std::vector<std::string> strings, decoded;
  std::vector<std::vector<Id>> ids;
};

const std::vector<Case>& cases() {
  static const auto all = [] {
    std::vector<Case> read;
    std::ifstream file(QUERN_SOURCE_DIR "/tests/tokenizers/data/tokenizer_files.cases");
    for (std::string line; std::getline(file, line);) {
      JsonReader json(line);
      Case& c = read.emplace_back();
      json.object([&](std::string_view key) {
        if (key == "name") return void(c.name = json.string());
        if (key == "file") return void(detail::append_base64(json.string(), c.file));
        json.array([&] {
          if (key == "strings") return c.strings.push_back(json.string());
          if (key == "decoded") return c.decoded.push_back(json.string());
          c.ids.emplace_back();
          json.array([&] { c.ids.back().push_back(static_cast<Id>(json.integer(0, 1 << 30))); });
        });
      });
    }
    return read;
  }();
  return all;
}

/// A folder that goes away.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("quern_load_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(Load, gives_the_ids_and_the_text_of_each_file_s_own_library) {
  ASSERT_EQ(cases().size(), 6u);
  const Folder folder;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto t = load(folder.write("file", c.file));
    for (std::size_t i = 0; i < c.strings.size(); ++i) {
      SCOPED_TRACE(c.strings[i]);
      EXPECT_EQ(t->encode(c.strings[i], {.parse_special = false}), c.ids[i]);
      EXPECT_EQ(t->decode(c.ids[i], {.skip_special = true}), c.decoded[i]);
      StreamDecoder stream(*t, {.skip_special = true});
      std::string text;
      for (const Id id : c.ids[i]) text += stream.push(id);
      text += stream.finish();
      EXPECT_EQ(text, c.decoded[i]);
    }
  }
}

TEST(Load, takes_a_folder_and_the_settings_beside_the_file) {
  const Folder folder;
  folder.write("tokenizer.json",
               R"({"added_tokens":[{"id":3,"content":"<s>","special":true,"normalized":false},{"id":4,"content":"</t>","special":true}],
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
  folder.write("tokenizer_config.json", R"({"bos_token":{"content":"<s>"},"eos_token":"</t>","add_bos_token":true,"pad_token":null})");
  folder.write("generation_config.json", R"({"eos_token_id":[4,1]})");
  const auto t = load(folder.path());
  EXPECT_EQ(t->special().bos, 3);
  EXPECT_EQ(t->special().eos, 4);
  EXPECT_TRUE(t->is_end(1));
  EXPECT_TRUE(t->is_end(4));
  EXPECT_EQ(t->encode("ab", {.add_special = true}), (std::vector<Id>{3, 2}));
}

TEST(Load, refuses_what_is_no_tokenizer_and_says_what_it_knows) {
  const Folder folder;
  const auto message = [&](const std::string& bytes) -> std::string {
    try {
      load(folder.write("file", bytes));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_THAT(message(""), HasSubstr("no tokenizer that Quern knows"));
  EXPECT_THAT(message("<html> nothing at all"), HasSubstr("SentencePiece"));
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(message("IQ== 0\n"), HasSubstr("rank file of 1 tokens is not known"));
  EXPECT_THAT(message("I!== 0\n"), HasSubstr("line 1"));
  EXPECT_THAT(message("\n\x7f"), HasSubstr("ends within a field"));
  EXPECT_THAT(message(R"({"config":{"pattern":"x"}})"), HasSubstr("config lacks"));
  EXPECT_THROW(load(folder.path() + "/nothing"), Error);
}

TEST(Load, every_truncation_of_a_file_is_refused_or_read) {
  for (const Case& c : cases()) {
    for (std::size_t length = 0; length < c.file.size(); length += 1 + c.file.size() / 200) {
      const std::string part = c.file.substr(0, length);
      try {
        if (c.name == "tekken") {
          detail::read_tekken(part, {});
        } else {
          detail::read_sentence_piece_file(part, {})->encode("hello <x> world");
        }
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace quern::tokenizers
