// SentencePiece's .model: a ModelProto as protobuf writes it. Field numbers are those of sentencepiece_model.proto.
#include <fmt/format.h>

#include <bit>
#include <deque>
#include <limits>

#include "base/error.h"
#include "tokenizers/detail/sentence_piece.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::size_t kMaxPieces = 1 << 24;

[[noreturn]] void fail(std::string_view what) {
  throw Error(Code::data_corrupt, fmt::format("the SentencePiece model is malformed: {}", what));
}

/// The fields of a message, from front to back.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  /// Moves to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    number_ = key >> 3;
    wire_ = static_cast<int>(key & 7);
    switch (wire_) {
      case 0: value_ = varint(); break;
      case 1: bytes_ = take(8); break;
      case 2: bytes_ = take(varint()); break;
      case 5: bytes_ = take(4); break;
      default: fail("a field of a kind that is not used");
    }
    return true;
  }
  std::uint64_t number() const { return number_; }
  std::uint64_t integer() const { return expect(0), value_; }
  std::string_view bytes() const { return expect(2), bytes_; }
  float real() const {
    expect(5);
    std::uint32_t bits = 0;
    for (int i = 3; i >= 0; --i) bits = bits << 8 | static_cast<unsigned char>(bytes_[static_cast<std::size_t>(i)]);
    return std::bit_cast<float>(bits);
  }

 private:
  void expect(int wire) const {
    if (wire_ != wire) fail(fmt::format("field {} is of the wrong kind", number_));
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number that is too long");
  }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail("it ends within a field");
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_, bytes_;
  std::uint64_t number_ = 0, value_ = 0;
  int wire_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentence_piece_file(std::string_view bytes, Spec spec) {
  SentencePieceRules rules;
  std::int64_t unk = 0, bos = 1, eos = 2, pad = -1;
  const auto read_piece = [&](Fields piece) {
    if (spec.tokens.size() >= kMaxPieces) throw Error(Code::resource_exhausted, "the SentencePiece model has 2^24 pieces or more");
    std::string_view text;
    float score = 0;
    std::int32_t type = 1;
    while (piece.next()) {
      if (piece.number() == 1) text = piece.bytes();
      if (piece.number() == 2) score = piece.real();
      if (piece.number() == 3) type = static_cast<std::int32_t>(std::min<std::uint64_t>(piece.integer(), 99));
    }
    if (text.empty() || valid_prefix(text) != text.size()) fail(fmt::format("piece {} is empty or not UTF-8", spec.tokens.size()));
    spec.tokens.push_back(text);
    spec.scores.push_back(score);
    spec.types.push_back(type);
  };
  const auto id = [](const Fields& f) { return static_cast<std::int64_t>(static_cast<std::int32_t>(f.integer())); };
  const auto read_trainer = [&](Fields trainer) {
    while (trainer.next()) {
      switch (trainer.number()) {
        case 3:
          if (trainer.integer() != 1 && trainer.integer() != 2)
            throw Error(Code::unsupported, "SentencePiece models of words or characters are not supported")
                .hint("supported: Unigram and BPE");
          rules.unigram = trainer.integer() == 1;
          break;
        case 24: rules.whitespace_as_suffix = trainer.integer() != 0; break;
        case 35: rules.byte_fallback = trainer.integer() != 0; break;
        case 40: unk = id(trainer); break;
        case 41: bos = id(trainer); break;
        case 42: eos = id(trainer); break;
        case 43: pad = id(trainer); break;
        case 44: rules.unknown_surface = trainer.bytes(); break;
        default: break;
      }
    }
  };
  const auto read_normalizer = [&](Fields normalizer) {
    while (normalizer.next()) {
      switch (normalizer.number()) {
        case 2: rules.charsmap = normalizer.bytes(); break;
        case 3: rules.dummy_prefix = normalizer.integer() != 0; break;
        case 4: rules.remove_extra_whitespaces = normalizer.integer() != 0; break;
        case 5: rules.escape_whitespaces = normalizer.integer() != 0; break;
        default: break;
      }
    }
  };
  Fields model(bytes);
  while (model.next()) {
    if (model.number() == 1) read_piece(Fields(model.bytes()));
    if (model.number() == 2) read_trainer(Fields(model.bytes()));
    if (model.number() == 3) read_normalizer(Fields(model.bytes()));
  }
  if (spec.tokens.empty()) fail("it has no pieces");
  const auto role = [&](std::int64_t& place, std::int64_t value) {
    if (place < 0 && value >= 0 && static_cast<std::size_t>(value) < spec.tokens.size()) place = value;
  };
  role(spec.special.unk, unk);
  role(spec.special.bos, bos);
  role(spec.special.eos, eos);
  role(spec.special.pad, pad);
  return make_sentence_piece(spec, rules);
}

}  // namespace quern::tokenizers::detail
