#include "tokenizers/detail/rank_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "tokenizers/detail/json_reader.h"
#include "tokenizers/detail/known_patterns.h"
#include "tokenizers/detail/pipeline.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::int64_t kMaxId = (1 << 24) - 1;

/// A vocabulary of byte strings that merge by rank.
struct Ranks {
  std::string bytes;
  std::vector<std::size_t> ends;  // of each token in `bytes`
  std::vector<std::int64_t> ids;

  std::string_view token(std::size_t i) const {
    const std::size_t begin = i ? ends[i - 1] : 0;
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
};

struct Special {
  std::string text;
  std::int64_t id;
};

std::unique_ptr<Tokenizer> make(const Ranks& ranks, std::string_view pattern, const std::vector<Special>& specials, SpecialIds roles,
                                const TokenizerSettings& settings) {
  Spec spec;
  const auto set = [&](std::int64_t id, std::string_view text, TokenType type) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= spec.tokens.size()) spec.tokens.resize(i + 1), spec.types.resize(i + 1, static_cast<std::int32_t>(TokenType::unused));
    if (!spec.tokens[i].empty()) throw Error(Code::data_corrupt, fmt::format("two tokens have id {}", id));
    spec.tokens[i] = text;
    spec.types[i] = static_cast<std::int32_t>(type);
  };
  std::int64_t largest = 0;
  for (const std::int64_t id : ranks.ids) largest = std::max(largest, id);
  if (largest > static_cast<std::int64_t>(4 * ranks.ids.size() + (1 << 20)))
    throw Error(Code::data_corrupt, "ids are much larger than the vocabulary");
  for (std::size_t i = 0; i < ranks.ids.size(); ++i) set(ranks.ids[i], ranks.token(i), TokenType::normal);
  const std::size_t ordinary = spec.tokens.size();
  Pipeline pipeline;
  std::vector<Id> hidden;
  for (const Special& special : specials) {
    set(special.id, special.text, TokenType::control);
    pipeline.added.push_back({{.text = special.text, .id = static_cast<Id>(special.id), .special = true}});
    if (special.id < static_cast<std::int64_t>(ordinary)) hidden.push_back(static_cast<Id>(special.id));
  }
  const auto role = [&](std::int64_t& place, const std::string& text) {
    if (text.empty()) return;
    const auto it = std::find_if(specials.begin(), specials.end(), [&](const Special& s) { return s.text == text; });
    if (it != specials.end()) place = it->id;
  };
  role(roles.bos, settings.bos);
  role(roles.eos, settings.eos);
  role(roles.pad, settings.pad);
  role(roles.unk, settings.unk);
  spec.special = roles;
  spec.add_bos = settings.add_bos;
  spec.add_eos = settings.add_eos;
  spec.end_ids = settings.end_ids;

  const auto known = known_patterns();
  const auto it = std::find_if(known.begin(), known.end(), [&](const KnownPattern& k) {
    return k.pattern == pattern && k.syntax.value_or(RegexSyntax::rust) == RegexSyntax::rust;
  });
  if (it != known.end()) {
    pipeline.cutter.add(cutters::Scan{it->scanner});
  } else {  // what no match covers is left out, as the library does
    pipeline.cutter.add(cutters::Split{Regex(pattern, RegexSyntax::rust), Behaviour::removed, true});
  }
  pipeline.decoder.add(decoders::Fuse{});
  pipeline.decoder.finish();
  pipeline.make_model = [&](PieceCutter&) {
    std::vector<bool> present(spec.tokens.size(), true);
    for (std::size_t i = 0; i < present.size(); ++i) present[i] = spec.types[i] == static_cast<std::int32_t>(TokenType::normal);
    std::vector<std::uint32_t> by_id(spec.tokens.size());
    for (std::size_t i = 0; i < by_id.size(); ++i) by_id[i] = static_cast<std::uint32_t>(i);
    Vocabulary vocabulary(spec.tokens, std::move(present));
    for (int b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      if (vocabulary.find(std::string_view(&byte, 1)) < 0)
        throw Error(Code::data_corrupt, fmt::format("no token is the byte {:#04x} alone", b));
    }
    return make_scored_bpe_model(std::move(vocabulary), std::move(by_id), {.bytes = true});
  };
  return make_pipeline_tokenizer(spec, std::move(pipeline));
}

constexpr std::string_view kR50k = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)";
constexpr std::string_view kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// What the makers' programs know of their rank files.
struct Encoding {
  std::size_t ranks;  // how many lines it has
  std::string_view pattern;
  std::vector<Special> specials;
};

std::vector<Special> llama3_specials() {
  std::vector<Special> out;
  int reserved = 0;
  for (int i = 0; i < 256; ++i) {
    const char* name = i == 0   ? "<|begin_of_text|>"
                       : i == 1 ? "<|end_of_text|>"
                       : i == 6 ? "<|start_header_id|>"
                       : i == 7 ? "<|end_header_id|>"
                       : i == 9 ? "<|eot_id|>"
                                : nullptr;
    out.push_back({name ? name : fmt::format("<|reserved_special_token_{}|>", reserved++), 128000 + i});
  }
  return out;
}

Encoding encoding_of(std::size_t count) {
  switch (count) {
    case 50256: return {count, kR50k, {{"<|endoftext|>", 50256}}};
    case 50280: return {count, kR50k, {{"<|endoftext|>", 50256}}};
    case 100256:
      return {count,
              kCl100k,
              {{"<|endoftext|>", 100257},
               {"<|fim_prefix|>", 100258},
               {"<|fim_middle|>", 100259},
               {"<|fim_suffix|>", 100260},
               {"<|endofprompt|>", 100276}}};
    case 199998: return {count, kO200k, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}};
    case 128000: return {count, kLlama3, llama3_specials()};
    case 163584: return {count, kKimi, {{"[BOS]", 163584}, {"[EOS]", 163585}}};
    default:
      throw Error(Code::unsupported,
                  fmt::format("a rank file of {} tokens is not known, and does not say how text is cut into words", count))
          .hint("known: r50k, p50k, cl100k, o200k, Llama 3 and Kimi K2; a tokenizer.json says everything");
  }
}

}  // namespace

bool append_base64(std::string_view text, std::string& out) {
  static constexpr auto kValues = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < kAlphabet.size(); ++i) values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
    return values;
  }();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) >= 8) out.push_back(static_cast<char>(bits >> (count -= 8)));
  }
  return true;
}

std::unique_ptr<Tokenizer> read_tiktoken(std::string_view text, const TokenizerSettings& settings) {
  Ranks ranks;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    std::int64_t id = -1;
    const std::string_view digits = space == line.npos ? std::string_view() : line.substr(space + 1);
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (space == 0 || error != std::errc() || id < 0 || id > kMaxId || !append_base64(line.substr(0, space), ranks.bytes))
      throw Error(Code::data_corrupt, fmt::format("line {} of the rank file is no token in base64 with its rank", number));
    ranks.ends.push_back(ranks.bytes.size());
    ranks.ids.push_back(id);
  }
  Encoding encoding = encoding_of(ranks.ids.size());
  if (!settings.added.empty()) {
    encoding.specials.clear();
    for (const auto& [id, content] : settings.added) encoding.specials.push_back({content, id});
  }
  SpecialIds roles;
  for (const Special& special : encoding.specials) {
    if (special.text == "<|endoftext|>" || special.text == "<|end_of_text|>" || special.text == "[EOS]") roles.eos = special.id;
    if (special.text == "<|begin_of_text|>" || special.text == "[BOS]") roles.bos = special.id;
  }
  return make(ranks, encoding.pattern, encoding.specials, roles, settings);
}

std::unique_ptr<Tokenizer> read_tekken(std::string_view text, const TokenizerSettings& settings) {
  constexpr const char* kOldSpecials[] = {"<unk>",
                                          "<s>",
                                          "</s>",
                                          "[INST]",
                                          "[/INST]",
                                          "[AVAILABLE_TOOLS]",
                                          "[/AVAILABLE_TOOLS]",
                                          "[TOOL_RESULTS]",
                                          "[/TOOL_RESULTS]",
                                          "[TOOL_CALLS]",
                                          "[IMG]",
                                          "<pad>",
                                          "[IMG_BREAK]",
                                          "[IMG_END]",
                                          "[PREFIX]",
                                          "[MIDDLE]",
                                          "[SUFFIX]",
                                          "[SYSTEM_PROMPT]",
                                          "[/SYSTEM_PROMPT]",
                                          "[TOOL_CONTENT]"};
  JsonReader json(text);
  std::string pattern, buffer;
  std::int64_t size = -1, special_count = -1;
  Ranks ranks;
  std::vector<Special> specials;
  json.object([&](std::string_view key) {
    if (key == "config") {
      json.object([&](std::string_view field) {
        if (field == "pattern") return void(pattern = json.string());
        if (field == "default_vocab_size") return void(size = json.integer(0, kMaxId));
        if (field == "default_num_special_tokens") return void(special_count = json.integer(0, 1 << 16));
        json.skip();
      });
    } else if (key == "vocab") {
      json.array([&] {
        if (ranks.ids.size() > static_cast<std::size_t>(kMaxId))
          throw Error(Code::resource_exhausted, "the vocabulary has 2^24 tokens or more");
        const std::size_t before = ranks.bytes.size();
        std::int64_t rank = -1;
        json.object([&](std::string_view field) {
          if (field == "rank") {
            rank = json.integer(0, kMaxId);
          } else if (field == "token_bytes") {
            ranks.bytes.resize(before);
            if (!append_base64(json.string(buffer), ranks.bytes)) json.fail("a token that is not base64");
          } else {
            json.skip();
          }
        });
        if (rank < 0 || ranks.bytes.size() == before) json.fail("a token without its rank or its bytes");
        ranks.ends.push_back(ranks.bytes.size());
        ranks.ids.push_back(rank);
      });
    } else if (key == "special_tokens" && json.kind() == JsonReader::Kind::array) {
      json.array([&] {
        Special special{"", -1};
        json.object([&](std::string_view field) {
          if (field == "rank") return void(special.id = json.integer(0, 1 << 16));
          if (field == "token_str") return void(special.text = json.string());
          json.skip();
        });
        if (special.id < 0 || specials.size() > 1 << 16) json.fail("a special token without its rank");
        specials.push_back(std::move(special));
      });
    } else {
      json.skip();
    }
  });
  json.finish();
  if (pattern.empty() || size < 0 || special_count < 0 || size < special_count) json.fail("its config lacks pattern or sizes");
  if (specials.empty())
    for (const char* name : kOldSpecials) specials.push_back({name, static_cast<std::int64_t>(specials.size())});
  std::erase_if(specials, [&](const Special& s) { return s.id >= special_count; });
  std::vector<bool> named(static_cast<std::size_t>(special_count));
  for (const Special& s : specials) named[static_cast<std::size_t>(s.id)] = true;
  for (std::size_t id = 0; id < named.size(); ++id)
    if (!named[id]) specials.push_back({fmt::format("<SPECIAL_{}>", id), static_cast<std::int64_t>(id)});
  // The vocabulary is cut to the size of the model; ordinary tokens come after the special ones.
  const auto kept = static_cast<std::size_t>(size - special_count);
  if (ranks.ids.size() < kept) json.fail("it has fewer tokens than its config says");
  ranks.ids.resize(kept), ranks.ends.resize(kept);
  for (std::int64_t& id : ranks.ids) id += special_count;
  SpecialIds roles;
  for (const Special& s : specials) {
    if (s.text == "<unk>") roles.unk = s.id;
    if (s.text == "<s>") roles.bos = s.id;
    if (s.text == "</s>") roles.eos = s.id;
    if (s.text == "<pad>") roles.pad = s.id;
  }
  TokenizerSettings with_bos = settings;
  if (!with_bos.add_bos) with_bos.add_bos = true;
  return make(ranks, pattern, specials, roles, with_bos);
}

}  // namespace quern::tokenizers::detail
