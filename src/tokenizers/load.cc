#include "tokenizers/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizers/detail/json_reader.h"
#include "tokenizers/detail/rank_file.h"
#include "tokenizers/detail/sentence_piece.h"
#include "tokenizers/detail/tokenizer_json.h"

namespace quern::tokenizers {
namespace {

namespace fs = std::filesystem;
using detail::JsonReader;
using detail::TokenizerSettings;

std::string_view text_of(const MappedFile& file) { return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}; }

/// A token as configurations name it: its text, or an object with the text as content.
void read_token(JsonReader& json, std::string& out) {
  if (json.kind() == JsonReader::Kind::string) {
    out = json.string();
  } else if (json.kind() == JsonReader::Kind::object) {
    json.object([&](std::string_view key) {
      key == "content" && json.kind() == JsonReader::Kind::string ? void(out = json.string()) : json.skip();
    });
  } else {
    json.skip();
  }
}

void read_added(JsonReader& json, TokenizerSettings& s) {
  json.object([&](std::string_view key) {
    std::int64_t id = -1;
    std::from_chars(key.data(), key.data() + key.size(), id);
    std::string content;
    read_token(json, content);
    if (id >= 0 && id < 1 << 24 && !content.empty() && s.added.size() < 1 << 18) s.added.emplace_back(id, std::move(content));
  });
}

void read_config(JsonReader& json, TokenizerSettings& s) {
  json.object([&](std::string_view key) {
    const bool is_flag = json.kind() == JsonReader::Kind::boolean;
    if (key == "bos_token") return read_token(json, s.bos);
    if (key == "eos_token") return read_token(json, s.eos);
    if (key == "unk_token") return read_token(json, s.unk);
    if (key == "sep_token") return read_token(json, s.sep);
    if (key == "pad_token") return read_token(json, s.pad);
    if (key == "mask_token") return read_token(json, s.mask);
    if (key == "added_tokens_decoder" && json.kind() == JsonReader::Kind::object) return read_added(json, s);
    if (key == "add_bos_token" && is_flag) return void(s.add_bos = json.boolean());
    if (key == "add_eos_token" && is_flag) return void(s.add_eos = json.boolean());
    json.skip();
  });
}

void read_generation_config(JsonReader& json, TokenizerSettings& s) {
  const auto id = [&] { json.kind() == JsonReader::Kind::number ? s.end_ids.push_back(json.integer(0, (1 << 24) - 1)) : json.skip(); };
  json.object([&](std::string_view key) {
    if (key != "eos_token_id") return json.skip();
    json.kind() == JsonReader::Kind::array ? json.array(id) : id();
  });
}

enum class Kind { tokenizer_json, tekken, tiktoken, sentence_piece };

Kind kind_of(std::string_view text) {
  const std::size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (text.substr(start).starts_with('{')) {
    // Their first keys tell the two apart.
    const std::size_t key = std::min(text.find('"', start), text.size());
    const auto begins = [&](std::string_view name) { return text.substr(key).starts_with(name); };
    return begins("\"config\"") || begins("\"vocab\"") || begins("\"special_tokens\"") || begins("\"image\"") ? Kind::tekken
                                                                                                              : Kind::tokenizer_json;
  }
  if (text.starts_with("version https://git-lfs"))
    throw Error(Code::data_corrupt, "this is a pointer of Git LFS, not the tokenizer").hint("fetch the file itself, with `git lfs pull`");
  if (text.starts_with('\n')) return Kind::sentence_piece;  // field 1, a piece
  const std::string_view line = text.substr(0, std::min<std::size_t>(text.find('\n'), 1 << 12));
  if (std::count(line.begin(), line.end(), ' ') == 1 && !line.starts_with(' ')) return Kind::tiktoken;
  throw Error(Code::unsupported, "this is no tokenizer that Quern knows")
      .hint("known: tokenizer.json, tekken.json, rank files of tiktoken, SentencePiece models, and GGUF models");
}

template <class Read>
void read_beside(const fs::path& folder, const char* name, TokenizerSettings& settings, Read read) {
  const std::string path = (folder / name).string();
  if (std::error_code error; !fs::is_regular_file(path, error)) return;
  const MappedFile file(path);
  JsonReader json(text_of(file));
  try {
    read(json, settings);
  } catch (Error& error) {
    throw error.at(path);
  }
}

}  // namespace

std::unique_ptr<Tokenizer> load(const std::string& given) {
  std::error_code error;
  fs::path path = given;
  if (fs::is_directory(path, error)) {
    constexpr const char* kNames[] = {"tokenizer.json",          "tekken.json",   "tokenizer.model", "spiece.model",
                                      "sentencepiece.bpe.model", "tiktoken.model"};
    const auto* name = std::find_if(std::begin(kNames), std::end(kNames), [&](const char* n) { return fs::exists(path / n, error); });
    if (name == std::end(kNames))
      throw Error(Code::not_found, "the folder has no tokenizer")
          .at(given)
          .hint("looked for: tokenizer.json, tekken.json, tokenizer.model, tiktoken.model");
    path /= *name;
  }
  const MappedFile file(path.string());
  TokenizerSettings settings;
  const fs::path folder = path.parent_path();
  read_beside(folder, "special_tokens_map.json", settings, read_config);
  read_beside(folder, "tokenizer_config.json", settings, read_config);
  read_beside(folder, "generation_config.json", settings, read_generation_config);
  try {
    const std::string_view text = text_of(file);
    switch (kind_of(text)) {
      case Kind::tokenizer_json: return detail::read_tokenizer_json(text, settings);
      case Kind::tekken: return detail::read_tekken(text, settings);
      case Kind::tiktoken: return detail::read_tiktoken(text, settings);
      case Kind::sentence_piece: {
        Spec spec;
        spec.add_bos = settings.add_bos, spec.add_eos = settings.add_eos, spec.end_ids = settings.end_ids;
        return detail::read_sentence_piece_file(text, std::move(spec));
      }
    }
    throw Error(Code::internal, "a kind of file without its reader");
  } catch (Error& e) {
    throw e.at(path.string());
  }
}

}  // namespace quern::tokenizers
