#include "tokenizers/detail/json_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"
#include "tokenizers/detail/known_patterns.h"
#include "tokenizers/detail/rank_file.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::size_t kMaxSteps = 1000;
constexpr int kMaxSequences = 8;  // within one another: each level is read once more
constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

/// The fields of a step, all that any of them has.
struct Fields {
  std::string type;
  std::string prepend, content, charsmap, replacement, delimiter, prefix, suffix, pad_token, word_delimiter_token, behavior, prepend_scheme;
  std::optional<bool> clean_text, handle_chinese_chars, strip_accents, lowercase, strip_left, strip_right, add_prefix_space, use_regex,
      split, individual_digits, invert, cleanup;
  std::size_t length = 5, start = 0, stop = 0;
  std::string pattern;
  bool pattern_is_regex = false, has_pattern = false;
};

std::string text_of(JsonReader& json) {
  std::string text = json.string();
  if (valid_prefix(text) != text.size()) json.fail("a string that is not UTF-8");
  return text;
}

void read_pattern(JsonReader& json, Fields& f) {
  f.has_pattern = true;
  json.object([&](std::string_view key) {
    f.pattern_is_regex = key == "Regex";
    if (key != "String" && key != "Regex") json.fail("a pattern is a String or a Regex");
    f.pattern = text_of(json);
  });
}

/// Reads all but the members named `sequence`, at whose values it calls each().
template <class Each>
Fields read_fields(JsonReader& json, std::string_view sequence, Each each) {
  Fields f;
  const std::pair<std::string_view, std::string Fields::*> strings[] = {{"prepend", &Fields::prepend},
                                                                        {"content", &Fields::content},
                                                                        {"precompiled_charsmap", &Fields::charsmap},
                                                                        {"replacement", &Fields::replacement},
                                                                        {"delimiter", &Fields::delimiter},
                                                                        {"prefix", &Fields::prefix},
                                                                        {"suffix", &Fields::suffix},
                                                                        {"pad_token", &Fields::pad_token},
                                                                        {"word_delimiter_token", &Fields::word_delimiter_token},
                                                                        {"behavior", &Fields::behavior},
                                                                        {"prepend_scheme", &Fields::prepend_scheme}};
  const std::pair<std::string_view, std::optional<bool> Fields::*> flags[] = {{"clean_text", &Fields::clean_text},
                                                                              {"handle_chinese_chars", &Fields::handle_chinese_chars},
                                                                              {"strip_accents", &Fields::strip_accents},
                                                                              {"lowercase", &Fields::lowercase},
                                                                              {"strip_left", &Fields::strip_left},
                                                                              {"strip_right", &Fields::strip_right},
                                                                              {"add_prefix_space", &Fields::add_prefix_space},
                                                                              {"use_regex", &Fields::use_regex},
                                                                              {"split", &Fields::split},
                                                                              {"individual_digits", &Fields::individual_digits},
                                                                              {"invert", &Fields::invert},
                                                                              {"cleanup", &Fields::cleanup}};
  const std::pair<std::string_view, std::size_t Fields::*> counts[] = {
      {"length", &Fields::length}, {"start", &Fields::start}, {"stop", &Fields::stop}};
  const auto find = [](const auto& list, std::string_view key) {
    return std::find_if(std::begin(list), std::end(list), [&](const auto& entry) { return entry.first == key; });
  };
  const std::size_t begin = json.offset();
  json.object([&](std::string_view key) {  // the type decides what the rest means, and may come last
    key == "type" ? void(f.type = text_of(json)) : json.skip();
  });
  const std::size_t end = json.offset();
  json.seek(begin);
  json.object([&](std::string_view key) {
    if (key == sequence && f.type == "Sequence") return each();
    if (json.null()) return;
    if (key == "pattern") return read_pattern(json, f);
    if (const auto* s = find(strings, key); s != std::end(strings)) return void(f.*(s->second) = text_of(json));
    if (const auto* b = find(flags, key); b != std::end(flags)) return void(f.*(b->second) = json.boolean());
    if (const auto* n = find(counts, key); n != std::end(counts))
      return void(f.*(n->second) = static_cast<std::size_t>(json.integer(0, kMaxId)));
    json.skip();
  });
  if (json.offset() != end) json.fail("a step that reads differently the second time");
  return f;
}

[[noreturn]] void unknown(std::string_view what, const std::string& type, std::string_view known) {
  throw Error(Code::unsupported, fmt::format("{} '{}' is not supported", what, type.substr(0, 80)))
      .hint("supported: " + std::string(known));
}

std::variant<std::string, Regex> pattern_of(JsonReader& json, const Fields& f) {
  if (!f.has_pattern) json.fail("a step without its pattern");
  if (f.pattern_is_regex) return Regex(f.pattern);
  return f.pattern;
}

std::string one_character(JsonReader& json, const std::string& text) {
  if (text.empty() || character_length(text[0]) != text.size()) json.fail("one character was expected");
  return text;
}

std::string from_base64(JsonReader& json, std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  if (!append_base64(text, out)) json.fail("a charsmap that is not base64");
  return out;
}

Behaviour behaviour_of(JsonReader& json, const std::string& text) {
  if (text == "Removed") return Behaviour::removed;
  if (text == "Isolated") return Behaviour::isolated;
  if (text == "MergedWithPrevious") return Behaviour::merged_with_previous;
  if (text == "MergedWithNext") return Behaviour::merged_with_next;
  if (text == "Contiguous") return Behaviour::contiguous;
  json.fail("a behaviour that is not known");
}

cutters::Metaspace metaspace_of(JsonReader& json, const Fields& f) {
  using Prepend = cutters::Metaspace::Prepend;
  Prepend prepend = f.prepend_scheme == "first" ? Prepend::first : f.prepend_scheme == "never" ? Prepend::never : Prepend::always;
  if (f.add_prefix_space == false) prepend = Prepend::never;
  return {one_character(json, f.replacement), prepend, f.split.value_or(true)};
}

/// Counts steps over all sequences.
class Reading {
 public:
  explicit Reading(JsonReader& json) : json_(json) {}

  void normalizer(Normalizer& out) {
    if (json_.null()) return;
    enter();
    const Fields f = read_fields(json_, "normalizers", [&] { json_.array([&] { normalizer(out); }); });
    --depth_;
    const auto on = [](std::optional<bool> flag) { return flag.value_or(true); };
    if (f.type == "Sequence") return;
    if (f.type == "NFC") return out.add(NormalForm::nfc);
    if (f.type == "NFD") return out.add(NormalForm::nfd);
    if (f.type == "NFKC") return out.add(NormalForm::nfkc);
    if (f.type == "NFKD") return out.add(NormalForm::nfkd);
    if (f.type == "Lowercase") return out.add(normalizers::Lowercase{});
    if (f.type == "StripAccents") return out.add(normalizers::StripAccents{});
    if (f.type == "Nmt") return out.add(normalizers::Nmt{});
    if (f.type == "ByteLevel") return out.add(normalizers::ByteLevel{});
    if (f.type == "Prepend") return out.add(normalizers::Prepend{f.prepend});
    if (f.type == "Strip") return out.add(normalizers::Strip{on(f.strip_left), on(f.strip_right)});
    if (f.type == "Precompiled") return out.add(Charsmap(from_base64(json_, f.charsmap)));
    if (f.type == "Replace") return out.add(normalizers::Replace{pattern_of(json_, f), f.content});
    if (f.type == "BertNormalizer" || f.type == "Bert")
      return out.add(
          normalizers::Bert{on(f.clean_text), on(f.handle_chinese_chars), f.strip_accents.value_or(on(f.lowercase)), on(f.lowercase)});
    unknown(
        "the normalizer", f.type,
        "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Nmt, ByteLevel, Prepend, Strip, Precompiled, Replace, BertNormalizer");
  }

  void pre_tokenizer(PieceCutter& out) {
    if (json_.null()) return;
    enter();
    const Fields f = read_fields(json_, "pretokenizers", [&] { json_.array([&] { pre_tokenizer(out); }); });
    --depth_;
    if (f.type == "Sequence") return;
    if (f.type == "ByteLevel") return out.add(cutters::ByteLevel{f.add_prefix_space.value_or(true), f.use_regex.value_or(true)});
    if (f.type == "Whitespace") return out.add(cutters::Whitespace{});
    if (f.type == "WhitespaceSplit") return out.add(cutters::WhitespaceSplit{});
    if (f.type == "BertPreTokenizer") return out.add(cutters::Bert{});
    if (f.type == "Metaspace") return out.add(metaspace_of(json_, f));
    if (f.type == "Punctuation")
      return out.add(cutters::Punctuation{f.behavior.empty() ? Behaviour::isolated : behaviour_of(json_, f.behavior)});
    if (f.type == "Digits") return out.add(cutters::Digits{f.individual_digits.value_or(false)});
    if (f.type == "CharDelimiterSplit" || f.type == "Delimiter") return out.add(cutters::Delimiter{one_character(json_, f.delimiter)});
    if (f.type == "UnicodeScripts") return out.add(cutters::UnicodeScripts{});
    if (f.type == "FixedLength") {
      if (f.length == 0) json_.fail("pieces of no characters");
      return out.add(cutters::FixedLength{f.length});
    }
    if (f.type == "Split") {
      const Behaviour behaviour = behaviour_of(json_, f.behavior);
      const Scanner scanner = f.pattern_is_regex && behaviour == Behaviour::isolated ? scanner_of(f.pattern) : nullptr;
      if (scanner != nullptr) return out.add(cutters::Scan{scanner});
      return out.add(cutters::Split{pattern_of(json_, f), behaviour, f.invert.value_or(false)});
    }
    unknown("the pre-tokenizer", f.type,
            "Sequence, ByteLevel, Whitespace, WhitespaceSplit, BertPreTokenizer, Metaspace, Punctuation, Digits, CharDelimiterSplit, "
            "UnicodeScripts, FixedLength, Split");
  }

  void decoder(Decoder& out) {
    enter();
    const Fields f = read_fields(json_, "decoders", [&] { json_.array([&] { decoder(out); }); });
    --depth_;
    if (f.type == "Sequence") return;
    if (f.type == "ByteLevel") return out.add(decoders::ByteLevel{});
    if (f.type == "WordPiece") return out.add(decoders::WordPiece{f.prefix, f.cleanup.value_or(true)});
    if (f.type == "Metaspace") {
      const cutters::Metaspace m = metaspace_of(json_, f);
      return out.add(decoders::Metaspace{m.mark, m.prepend != cutters::Metaspace::Prepend::never});
    }
    if (f.type == "BPEDecoder") return out.add(decoders::Bpe{f.suffix});
    if (f.type == "CTC") return out.add(decoders::Ctc{f.pad_token, f.word_delimiter_token, f.cleanup.value_or(true)});
    if (f.type == "Replace") return out.add(decoders::Replace{pattern_of(json_, f), f.content});
    if (f.type == "Fuse") return out.add(decoders::Fuse{});
    if (f.type == "Strip") return out.add(decoders::Strip{one_character(json_, f.content), f.start, f.stop});
    if (f.type == "ByteFallback") return out.add(decoders::ByteFallback{});
    unknown("the decoder", f.type, "Sequence, ByteLevel, WordPiece, Metaspace, BPEDecoder, CTC, Replace, Fuse, Strip, ByteFallback");
  }

  void post_processor(std::optional<Frame>& out) {
    if (json_.null()) return;
    enter();
    std::string type;
    const std::size_t begin = json_.offset();
    json_.object([&](std::string_view key) { key == "type" ? void(type = text_of(json_)) : json_.skip(); });
    json_.seek(begin);
    if (type == "Sequence") {
      json_.object([&](std::string_view key) { key == "processors" ? json_.array([&] { post_processor(out); }) : json_.skip(); });
    } else if (type == "TemplateProcessing") {
      add_template(out);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      std::int32_t cls = 0, sep = 0;
      json_.object([&](std::string_view key) {
        if (key != "cls" && key != "sep") return json_.skip();
        std::size_t n = 0;
        json_.array([&] {
          if (n++ == 1) return void((key == "cls" ? cls : sep) = static_cast<std::int32_t>(json_.integer(0, kMaxId)));
          json_.skip();
        });
      });
      wrap(out, {cls}, {sep});
    } else if (type == "ByteLevel") {
      json_.skip();  // is about offsets
    } else {
      unknown("the post-processor", type, "Sequence, TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel");
    }
    --depth_;
  }

 private:
  static Scanner scanner_of(std::string_view pattern);

  void enter() {
    if (++depth_ > kMaxSequences) json_.fail(fmt::format("sequences are nested more than {} deep", kMaxSequences));
    if (++steps_ > kMaxSteps) throw Error(Code::resource_exhausted, fmt::format("the tokenizer has more than {} steps", kMaxSteps));
  }

  static void wrap(std::optional<Frame>& out, std::vector<std::int32_t> before, std::vector<std::int32_t> after) {
    if (!out) out.emplace();
    out->first.insert(out->first.begin(), before.begin(), before.end());
    out->second.insert(out->second.end(), after.begin(), after.end());
  }

  void add_template(std::optional<Frame>& out) {
    std::vector<std::string> pieces;  // of special tokens; empty: the text
    std::map<std::string, std::vector<std::int32_t>, std::less<>> ids;
    json_.object([&](std::string_view key) {
      if (key == "single") {
        json_.array([&] {
          if (pieces.size() >= kMaxSteps) throw Error(Code::resource_exhausted, "the template of the post-processor is too long");
          json_.object([&](std::string_view kind) {
            const bool is_text = kind == "Sequence";
            if (!is_text && kind != "SpecialToken") json_.fail("a template is of Sequence and SpecialToken");
            pieces.emplace_back();
            json_.object([&](std::string_view field) { field == "id" && !is_text ? void(pieces.back() = text_of(json_)) : json_.skip(); });
          });
        });
      } else if (key == "special_tokens") {
        json_.object([&](std::string_view name) {
          if (ids.size() >= kMaxSteps) throw Error(Code::resource_exhausted, "the post-processor has too many special tokens");
          std::vector<std::int32_t>& list = ids[std::string(name)];
          json_.object([&](std::string_view field) {
            if (field != "ids") return json_.skip();
            json_.array([&] {
              if (list.size() >= kMaxSteps) throw Error(Code::resource_exhausted, "the post-processor has too many ids");
              list.push_back(static_cast<std::int32_t>(json_.integer(0, kMaxId)));
            });
          });
        });
      } else {
        json_.skip();
      }
    });
    std::vector<std::int32_t> before, after;
    int texts = 0;
    for (const std::string& piece : pieces) {
      if (piece.empty()) {
        ++texts;
        continue;
      }
      const auto it = ids.find(piece);
      if (it == ids.end()) json_.fail("a template names a special token that it does not list");
      std::vector<std::int32_t>& side = texts > 0 ? after : before;
      side.insert(side.end(), it->second.begin(), it->second.end());
    }
    if (texts != 1) throw Error(Code::unsupported, "the template of the post-processor does not have the text exactly once");
    wrap(out, std::move(before), std::move(after));
  }

  JsonReader& json_;
  int depth_ = 0;
  std::size_t steps_ = 0;
};

Scanner Reading::scanner_of(std::string_view pattern) {
  for (const KnownPattern& known : known_patterns())
    if (pattern == known.pattern && known.syntax.value_or(RegexSyntax::oniguruma) == RegexSyntax::oniguruma) return known.scanner;
  return nullptr;
}

}  // namespace

void read_normalizer(JsonReader& json, Normalizer& out) { Reading(json).normalizer(out); }
void read_pre_tokenizer(JsonReader& json, PieceCutter& out) { Reading(json).pre_tokenizer(out); }
void read_decoder(JsonReader& json, Decoder& out) {
  json.null() ? out.add(decoders::Join{}) : Reading(json).decoder(out);
  out.finish();
}
void read_post_processor(JsonReader& json, std::optional<Frame>& out) { Reading(json).post_processor(out); }

}  // namespace quern::tokenizers::detail
