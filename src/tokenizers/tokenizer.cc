#include "tokenizers/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "tokenizers/detail/unicode.h"
#include "tokenizers/detail/utf8.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;
constexpr std::size_t kMaxSpecialText = 512;  // longer special tokens are not looked for in text, so that looking stays linear

// Turn ends of the chat formats. A token of such a text ends a generation even if the metadata forgot it. `sure`: the text can mean nothing
// else, so that a file which calls it an ordinary token is corrected.
struct TurnEnd {
  std::string_view text;
  bool sure;
};
constexpr TurnEnd kTurnEnds[] = {
    {"<|im_end|>", true},
    {"<|eot_id|>", true},
    {"<|eom_id|>", true},
    {"<|end|>", true},
    {"<|endoftext|>", true},
    {"<|end_of_text|>", true},
    {"<|return|>", true},
    {"<|call|>", true},
    {"<|calls|>", true},
    {"<|flush|>", true},
    {"<end_of_turn>", true},
    {"<|END_OF_TURN_TOKEN|>", true},
    {"<end_of_utterance>", true},
    {"<｜end▁of▁sentence｜>", true},
    {"<turn|>", true},
    {"<|tool_response>", false},
    {"[e~[", false},
    {"<EOT>", false},
    {"_<EOT>", false},
    {"[EOT]", false},
    {"[EOS]", false},
    {"</s>", false},
    {"<eos>", false},
};

}  // namespace

Tokenizer::~Tokenizer() = default;

Tokenizer::Tokenizer(const Spec& spec, const SpecialIds& defaults) {
  const std::size_t count = spec.tokens.size();
  if (count == 0) throw Error(Code::data_corrupt, "the vocabulary has no tokens");
  if (count > static_cast<std::size_t>(std::numeric_limits<Id>::max())) {
    throw Error(Code::resource_exhausted, fmt::format("the vocabulary has {} tokens; the limit is 2^31 - 1", count));
  }
  if (!spec.types.empty() && spec.types.size() != count) {
    throw Error(Code::data_corrupt, fmt::format("the vocabulary has {} tokens but {} token types", count, spec.types.size()));
  }
  std::size_t bytes = 0;
  for (const std::string_view text : spec.tokens) {
    if (text.size() > kMaxText - bytes) throw Error(Code::resource_exhausted, "the texts of the vocabulary are more than 1 GiB");
    bytes += text.size();
  }
  texts_.reserve(count, bytes);
  for (const std::string_view text : spec.tokens) texts_.add(text);
  types_.assign(count, TokenType::normal);
  for (std::size_t i = 0; i < spec.types.size(); ++i) {
    const std::int32_t type = spec.types[i];
    if (type < 0 || type > static_cast<std::int32_t>(TokenType::byte)) {
      throw Error(Code::data_corrupt, fmt::format("token {} has type {}; types are 1 to 6", i, type));
    }
    if (type != 0) types_[i] = static_cast<TokenType>(type);  // 0: "undefined", which means nothing special
  }
  take_special_ids(spec, defaults);
  collect_end_ids(spec);
  index_specials();
  const auto take = [this](const std::vector<std::int64_t>& given, std::vector<Id>& ids) {
    for (const std::int64_t id : given) {
      if (id >= 0 && static_cast<std::uint64_t>(id) < size()) ids.push_back(static_cast<Id>(id));
    }
    std::sort(ids.begin(), ids.end());
  };
  take(spec.strips_left, strips_left_);
  take(spec.strips_right, strips_right_);
  add_bos_given_ = spec.add_bos;
  add_bos_ = spec.add_bos.value_or(false) && special_.bos >= 0;
  add_eos_ = spec.add_eos.value_or(false) && special_.eos >= 0;
}

void Tokenizer::take_special_ids(const Spec& spec, const SpecialIds& defaults) {
  special_ = spec.special;
  const auto fill = [&](std::int64_t& id, std::int64_t otherwise) {
    if (id == -1 && otherwise < static_cast<std::int64_t>(size())) id = otherwise;
  };
  fill(special_.bos, defaults.bos);
  fill(special_.eos, defaults.eos);
  fill(special_.unk, defaults.unk);
  const auto check = [&](std::int64_t& id, std::string_view role, bool needed) {
    if (id < 0 || id == 0xFFFFFFFF) {
      id = -1;  // 2^32 - 1 is how files write "none" in a u32
    } else if (static_cast<std::uint64_t>(id) >= size()) {
      const std::string what = fmt::format("the {} token is {} where the vocabulary has {} tokens", role, id, size());
      if (needed) throw Error(Code::data_corrupt, what);
      notes_.push_back(what + "; it is ignored");
      id = -1;
    }
  };
  check(special_.bos, "begin-of-sequence", true);
  check(special_.eos, "end-of-sequence", true);
  check(special_.eot, "end-of-turn", true);
  check(special_.eom, "end-of-message", true);
  check(special_.unk, "unknown", false);
  check(special_.sep, "separator", false);
  check(special_.pad, "padding", false);
  check(special_.mask, "mask", false);
}

void Tokenizer::collect_end_ids(const Spec& spec) {
  for (const std::int64_t id : {special_.eos, special_.eot, special_.eom}) {
    if (id >= 0) end_ids_.push_back(static_cast<Id>(id));
  }
  for (const std::int64_t id : spec.end_ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= size()) {
      throw Error(Code::data_corrupt, fmt::format("an end-of-generation token is {} where the vocabulary has {} tokens", id, size()));
    }
    end_ids_.push_back(static_cast<Id>(id));
  }
  const std::size_t from_metadata = end_ids_.size();
  std::vector<std::pair<std::string_view, Id>> found;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string_view text = texts_[i];
    if (text.empty() || (text[0] != '<' && text[0] != '[' && text[0] != '_')) continue;
    const auto* known = std::find_if(std::begin(kTurnEnds), std::end(kTurnEnds), [&](const TurnEnd& t) { return t.text == text; });
    if (known == std::end(kTurnEnds)) continue;
    if (types_[i] != TokenType::control) {
      if (!known->sure) continue;
      notes_.push_back(fmt::format("token {} '{}' is not marked as control; it is one", i, text));
      types_[i] = TokenType::control;
    }
    found.emplace_back(text, static_cast<Id>(i));
  }
  const auto has = [&](std::string_view text) {
    return std::any_of(found.begin(), found.end(), [&](const auto& f) { return f.first == text; });
  };
  // In formats with channels <|end|> ends one message of several, and <|return|> or <|call|> the turn.
  const bool channels = (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"));
  for (const auto& [text, id] : found) {
    if (!(channels && text == "<|end|>")) end_ids_.push_back(id);
  }
  if (channels) {
    const auto not_end = [&](Id id) { return texts_[static_cast<std::size_t>(id)] == "<|end|>"; };
    const auto begin = end_ids_.begin();
    end_ids_.erase(std::remove_if(begin, begin + static_cast<std::ptrdiff_t>(from_metadata), not_end),
                   begin + static_cast<std::ptrdiff_t>(from_metadata));
  }
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
}

void Tokenizer::index_specials() {
  for (std::size_t i = 0; i < size(); ++i) {
    const TokenType type = types_[i];
    if (type != TokenType::control && type != TokenType::unknown && type != TokenType::user_defined) continue;
    if (texts_[i].empty()) continue;
    if (texts_[i].size() > kMaxSpecialText) {
      notes_.push_back(fmt::format("special token {} has {} bytes; it is not looked for in text", i, texts_[i].size()));
      continue;
    }
    specials_.push_back(static_cast<Id>(i));
  }
  const auto text = [&](Id id) { return texts_[static_cast<std::size_t>(id)]; };
  std::sort(specials_.begin(), specials_.end(), [&](Id a, Id b) { return std::pair(text(a), a) < std::pair(text(b), b); });
  specials_by_byte_.assign(257, 0);
  for (const Id id : specials_) ++specials_by_byte_[static_cast<unsigned char>(text(id)[0]) + 1u];
  std::partial_sum(specials_by_byte_.begin(), specials_by_byte_.end(), specials_by_byte_.begin());
}

Tokenizer::Match Tokenizer::longest_special(std::string_view text, std::size_t trusted) const {
  const auto first = static_cast<unsigned char>(text[0]);
  auto low = specials_.begin() + specials_by_byte_[first], high = specials_.begin() + specials_by_byte_[first + 1u];
  Match best;
  // Narrow the range of specials that begin with the text's first `length` bytes, one byte at a time.
  for (std::size_t length = 1; low != high; ++length) {
    const auto spelled = [&](Id id) { return texts_[static_cast<std::size_t>(id)]; };
    for (auto it = low; it != high && spelled(*it).size() == length; ++it) {  // of several with one text the last id counts
      if (types_[static_cast<std::size_t>(*it)] == TokenType::user_defined || length <= trusted) best = {length, *it};
    }
    while (low != high && spelled(*low).size() == length) ++low;
    if (length == text.size()) break;
    const auto byte_at = [&](Id id) { return static_cast<unsigned char>(spelled(id)[length]); };
    const auto next = static_cast<unsigned char>(text[length]);
    low = std::lower_bound(low, high, next, [&](Id id, unsigned char b) { return byte_at(id) < b; });
    high = std::upper_bound(low, high, next, [&](unsigned char b, Id id) { return b < byte_at(id); });
  }
  return best;
}

// Appends the special tokens of a text, and calls plain(part) for what is between them.
template <class Plain>
void Tokenizer::walk_specials(std::string_view text, std::span<const std::size_t> trust_changes, bool trusted, std::vector<Id>& ids,
                              Plain plain_part) const {
  std::size_t plain = 0;  // start of text not yet encoded
  std::size_t change = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (specials_by_byte_[byte] == specials_by_byte_[byte + 1u]) {
      ++i;
      continue;
    }
    for (; change < trust_changes.size() && trust_changes[change] <= i; ++change) trusted = !trusted;
    const std::size_t trust_end = change < trust_changes.size() ? trust_changes[change] : text.size();
    const Match match = longest_special(text.substr(i, kMaxSpecialText), trusted ? trust_end - i : 0);
    if (match.length == 0) {
      ++i;
      continue;
    }
    const auto strips = [&](const std::vector<Id>& which) { return std::binary_search(which.begin(), which.end(), match.id); };
    std::size_t plain_end = i;
    if (strips(strips_left_)) {
      for (std::size_t at = i; at > plain;) {
        do --at;
        while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
        if (!detail::is_white_space(detail::code_point(text.data() + at))) break;
        plain_end = at;
      }
    }
    if (plain_end > plain) plain_part(text.substr(plain, plain_end - plain));
    ids.push_back(match.id);
    i += match.length;
    if (strips(strips_right_)) {
      while (i < text.size() && detail::is_white_space(detail::code_point(text.data() + i))) i += detail::character_length(text[i]);
    }
    plain = i;
  }
  if (plain < text.size()) plain_part(text.substr(plain));
}

void Tokenizer::encode_valid(std::string_view text, std::span<const std::size_t> trust_changes, bool trusted, std::vector<Id>& ids) const {
  walk_specials(text, trust_changes, trusted, ids, [&](std::string_view part) { encode_text(part, ids); });
}

void Tokenizer::encode_text_parallel(std::string_view text, unsigned, std::vector<Id>& ids) const { encode_text(text, ids); }

std::vector<Id> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<Id> ids;
  encode(text, options, ids);
  return ids;
}

void Tokenizer::encode(std::string_view text, EncodeOptions options, std::vector<Id>& ids) const {
  const Piece piece{text, options.parse_special};
  encode(std::span(&piece, 1), options.add_special, options.threads, ids);
}

std::vector<Id> Tokenizer::encode(std::span<const Piece> pieces, bool add_special) const {
  std::vector<Id> ids;
  encode(pieces, add_special, ids);
  return ids;
}

void Tokenizer::encode(std::span<const Piece> pieces, bool add_special, std::vector<Id>& ids) const { encode(pieces, add_special, 1, ids); }

void Tokenizer::encode(std::span<const Piece> pieces, bool add_special, unsigned threads, std::vector<Id>& ids) const {
  constexpr std::size_t kLongText = 1 << 18;  // from here, starting threads costs little beside the work
  const auto check_size = [](std::size_t bytes) {
    if (bytes > kMaxText) throw Error(Code::invalid_argument, "the text is longer than 1 GiB");
  };
  const Id bos = static_cast<Id>(special_.bos), eos = static_cast<Id>(special_.eos);
  std::span<const Id> before, after;
  if (add_special && frame_) before = frame_->first, after = frame_->second;
  if (add_special && !frame_ && add_bos_) before = std::span(&bos, 1);
  if (add_special && !frame_ && add_eos_) after = std::span(&eos, 1);
  ids.insert(ids.end(), before.begin(), before.end());
  const std::size_t first = ids.size();
  if (pieces.size() == 1 && detail::valid_prefix(pieces[0].text) == pieces[0].text.size()) {
    const std::string_view text = pieces[0].text;
    check_size(text.size());
    if (threads > 1 && parallel_ && text.size() >= kLongText) {
      walk_specials(text, {}, pieces[0].parse_special, ids, [&](std::string_view part) {
        part.size() >= kLongText ? encode_text_parallel(part, threads, ids) : encode_text(part, ids);
      });
    } else {
      encode_valid(text, {}, pieces[0].parse_special, ids);
    }
  } else {
    std::string text;
    std::vector<std::size_t> trust_changes;
    bool trusted = false;
    for (const Piece& piece : pieces) {
      check_size(piece.text.size());
      if (piece.text.empty()) continue;
      if (piece.parse_special != trusted) trust_changes.push_back(text.size());
      trusted = piece.parse_special;
      detail::append_replaced(piece.text, false, text);
      check_size(text.size());
    }
    encode_valid(text, trust_changes, false, ids);
  }
  // What the text has already is not doubled.
  const auto text_begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
  if (!before.empty() && std::span(text_begin, ids.end()).size() >= before.size() && std::equal(before.begin(), before.end(), text_begin))
    ids.erase(text_begin - static_cast<std::ptrdiff_t>(before.size()), text_begin);
  const std::size_t count = after.size(), own = ids.size() - std::min(ids.size(), first - before.size());
  if (count > 0 && (own < count || !std::equal(after.begin(), after.end(), ids.end() - static_cast<std::ptrdiff_t>(count))))
    ids.insert(ids.end(), after.begin(), after.end());
}

void Tokenizer::set_frame(std::vector<Id> before, std::vector<Id> after) {
  add_bos_ = !before.empty() && before.front() == special_.bos;
  add_eos_ = !after.empty() && after.back() == special_.eos;
  frame_.emplace(std::move(before), std::move(after));
}

std::size_t Tokenizer::checked(Id id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size()) {
    throw Error(Code::invalid_argument, fmt::format("token id {} is outside the vocabulary of {} tokens", id, size()));
  }
  return static_cast<std::size_t>(id);
}

std::string_view Tokenizer::token_bytes(Id id) const { return token_bytes_[checked(id)]; }
std::string_view Tokenizer::token_text(Id id) const { return texts_[checked(id)]; }
TokenType Tokenizer::type(Id id) const { return types_[checked(id)]; }

bool Tokenizer::is_special(Id id) const {
  const TokenType t = type(id);
  return t == TokenType::control || t == TokenType::unknown;
}

std::optional<Id> Tokenizer::find_special(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const Match match = longest_special(text, text.size());
  return match.length == text.size() ? std::optional(match.id) : std::nullopt;
}

bool Tokenizer::is_end(Id id) const { return std::binary_search(end_ids_.begin(), end_ids_.end(), id); }

void Tokenizer::decode_next(Id id, DecodeOptions options, Decoding& state, std::string& out) const {
  if (options.skip_special && is_special(id)) return;
  std::string_view bytes = token_bytes(id);
  if (space_prefix_ && !state.begun && !options.continues && type(id) == TokenType::normal && bytes.starts_with(' '))
    bytes.remove_prefix(1);
  state.begun = true;
  out += bytes;
}

void Tokenizer::decode_end(DecodeOptions, Decoding&, std::string&) const {}

std::string Tokenizer::decode(std::span<const Id> ids, DecodeOptions options) const {
  std::string bytes;
  Decoding state;
  for (const Id id : ids) decode_next(id, options, state, bytes);
  decode_end(options, state, bytes);
  if (detail::valid_prefix(bytes) == bytes.size()) return bytes;
  std::string text;
  detail::append_replaced(bytes, false, text);
  return text;
}

std::string_view StreamDecoder::push(Id id) {
  text_.clear();
  tokenizer_->decode_next(id, options_, state_, pending_);
  pending_.erase(0, detail::append_replaced(pending_, true, text_));
  return text_;
}

std::string_view StreamDecoder::finish() {
  text_.clear();
  tokenizer_->decode_end(options_, state_, pending_);
  detail::append_replaced(pending_, false, text_);
  pending_.clear();
  state_ = {};
  return text_;
}

std::unique_ptr<Tokenizer> make_tokenizer(const Spec& spec) {
  if (spec.model == "gpt2") return make_byte_level_bpe(spec);
  if (spec.model == "gemma4") return make_character_bpe(spec);
  if (spec.model == "llama") return make_sentence_piece_bpe(spec);
  if (spec.model == "t5") return make_unigram(spec);
  if (spec.model == "bert") return make_word_piece(spec);
  if (spec.model == "rwkv") return make_rwkv(spec);
  throw Error(Code::unsupported, fmt::format("tokenizer model '{}' is not supported", spec.model))
      .hint(
          "supported: gpt2 (byte-level BPE), gemma4 (BPE over characters), llama (SentencePiece BPE), t5 (Unigram), bert (WordPiece), "
          "rwkv");
}

}  // namespace quern::tokenizers
