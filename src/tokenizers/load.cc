#include "tokenizers/load.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizers/detail/json_reader.h"
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

void read_config(JsonReader& json, TokenizerSettings& s) {
  json.object([&](std::string_view key) {
    const bool is_flag = json.kind() == JsonReader::Kind::boolean;
    if (key == "bos_token") return read_token(json, s.bos);
    if (key == "eos_token") return read_token(json, s.eos);
    if (key == "unk_token") return read_token(json, s.unk);
    if (key == "sep_token") return read_token(json, s.sep);
    if (key == "pad_token") return read_token(json, s.pad);
    if (key == "mask_token") return read_token(json, s.mask);
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
  const fs::path path = fs::is_directory(given, error) ? fs::path(given) / "tokenizer.json" : fs::path(given);
  const MappedFile file(path.string());
  TokenizerSettings settings;
  const fs::path folder = path.parent_path();
  read_beside(folder, "special_tokens_map.json", settings, read_config);
  read_beside(folder, "tokenizer_config.json", settings, read_config);
  read_beside(folder, "generation_config.json", settings, read_generation_config);
  try {
    return detail::read_tokenizer_json(text_of(file), settings);
  } catch (Error& e) {
    throw e.at(path.string());
  }
}

}  // namespace quern::tokenizers
