#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizers/detail/regex.h"

namespace quern::tokenizers::detail {

/// The steps of a decoder, each named after that of tokenizer.json.
namespace decoders {
struct Join {};  // what is done where a file has no decoder: a space between tokens
struct ByteLevel {};
struct WordPiece {
  std::string prefix;
  bool cleanup;
};
struct Metaspace {
  std::string mark;
  bool drops_first;  // marks of the first token are no spaces
};
struct Bpe {
  std::string suffix;
};
struct Ctc {
  std::string pad, delimiter;
  bool cleanup;
};
struct Replace {
  std::variant<std::string, Regex> pattern;
  std::string content;
};
struct Fuse {};
struct Strip {
  std::string character;
  std::size_t start, stop;
};
struct ByteFallback {};
/// U+2581 is a space, dropped from the front of the first token (of all up to the first text where it `squeezes`); bytes that are no
/// character are shown one by one.
struct SentencePiece {
  bool strips, squeezes;
};
}  // namespace decoders

/// Turns tokens into text by steps from a list of tokens to a list of tokens, the last of which are joined.
class Decoder {
 public:
  using Step = std::variant<decoders::Join, decoders::ByteLevel, decoders::WordPiece, decoders::Metaspace, decoders::Bpe, decoders::Ctc,
                            decoders::Replace, decoders::Fuse, decoders::Strip, decoders::ByteFallback, decoders::SentencePiece>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  /// After the last add().
  void finish();

  /// Whether the text of a token depends on the token, on whether it is the first, and on whether it is a byte: then text can be shown
  /// while tokens come. Where not, decode_all() it is.
  bool streams() const { return streams_; }
  /// What a token adds to the text. Of a decoder that streams.
  void piece(std::string_view token, bool first, std::string& text) const;
  /// Whether bytes "<0xHH>" are put together to characters, those that are none becoming U+FFFD one by one.
  bool joins_bytes() const { return joins_bytes_; }
  /// Characters equal to this are dropped from the front of the whole text, at most `count` of them.
  struct Trim {
    std::string character = {};
    std::size_t count = 0;
  };
  const Trim& trim() const { return trim_; }
  /// As SentencePiece has it; nothing: not SentencePiece's.
  const decoders::SentencePiece* sentence_piece() const {
    return steps_.size() == 1 ? std::get_if<decoders::SentencePiece>(&steps_[0]) : nullptr;
  }

  std::string decode_all(std::vector<std::string> tokens) const;

 private:
  std::vector<Step> steps_;
  std::size_t local_ = 0;  // the first steps that work on each token alone
  bool streams_ = false, joins_bytes_ = false;
  Trim trim_;
};

/// The byte that "<0xHH>" stands for, or -1.
int byte_of(std::string_view token);

}  // namespace quern::tokenizers::detail
