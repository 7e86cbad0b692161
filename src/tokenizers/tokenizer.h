#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/page_memory.h"
#include "tokenizers/detail/strings.h"

namespace quern::tokenizers {

/// A token's number: its row in the embedding table. Never negative in what encode() returns.
using Id = std::int32_t;

/// What a token is for; the numbers are those of GGUF's token_type array.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,       ///< Has a meaning for the model (turn markers); in text only where the caller says so, never shown to a reader.
  user_defined = 4,  ///< Always cut out of text as one token, before anything else.
  unused = 5,
  byte = 6,  ///< "<0xHH>"
};

/// Ids with a role; -1 where there is none. 64 bits, so that a file's value is checked here and not lost in a cast.
struct SpecialIds {
  std::int64_t bos = -1, eos = -1, eot = -1, eom = -1, unk = -1, sep = -1, pad = -1, mask = -1;
};

/// A vocabulary as a model file spells it. Everything in it is untrusted; make_tokenizer checks it. The views need to live only until
/// make_tokenizer returns.
struct Spec {
  std::string model = {};                    ///< GGUF's tokenizer.ggml.model: "gpt2", "gemma4", "llama", "t5", "bert" or "rwkv".
  std::string pre_tokenizer = {};            ///< GGUF's tokenizer.ggml.pre, e.g. "smollm"; empty means "default".
  PageVector<std::string_view> tokens = {};  ///< By id.
  PageVector<std::int32_t> types = {};       ///< By id, GGUF's numbers; empty means all normal.
  PageVector<std::string_view> merges = {};  ///< "left right", the most urgent first.
  PageVector<float> scores = {};             ///< By id, the most urgent highest; empty means all 0. For "llama".
  SpecialIds special = {};
  std::optional<bool> add_bos = {}, add_eos = {};                 ///< Nothing: what the model or the pre-tokenizer's name implies.
  std::optional<bool> add_space_prefix = {};                      ///< Of "llama": text begins with a space. Nothing: it does.
  bool remove_extra_whitespaces = false;                          ///< Of "llama": spaces at the ends are dropped, several become one.
  std::string_view precompiled_charsmap = {};                     ///< Of "t5": what is replaced before anything else.
  std::vector<std::int64_t> strips_left = {}, strips_right = {};  ///< Special tokens that take the white space before or after them along.
  std::vector<std::int64_t> end_ids = {};                         ///< Further ids that end a generation, e.g. of a generation config.
};

struct EncodeOptions {
  bool parse_special = true;  ///< Texts of control tokens become those tokens. Off for text that somebody else wrote.
  bool add_special = false;   ///< Put begin and end tokens where the model wants them; one that the text already has is not doubled.
  unsigned threads = 1;       ///< At most so many work on a long text, where the model can. The ids are the same.
};

/// A part of a text, with its own word on whether control tokens may be parsed out of it.
struct Piece {
  std::string_view text;
  bool parse_special = false;
};

/// A part of a text, in bytes.
struct TextRange {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

/// Ids with where each comes from. What add_special put there comes from nowhere: an empty range.
struct LocatedIds {
  std::vector<Id> ids;
  std::vector<TextRange> ranges;
};

struct DecodeOptions {
  bool skip_special = false;  ///< Leave out control and unknown tokens.
  bool continues = false;     ///< The ids go on after others: a space that they begin with is text, not what encode() put in front.
};

/// Text to ids and back. Immutable once made; every method may be called from many threads at once.
/// Text is UTF-8; each malformed sequence in it counts as U+FFFD (one for each maximal subpart, as Unicode recommends). At most 1 GiB.
class Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  std::vector<Id> encode(std::string_view text, EncodeOptions options = {}) const;
  /// Appends to `ids`. Allocates nothing when `ids` has room and the buffers are warm.
  void encode(std::string_view text, EncodeOptions options, std::vector<Id>& ids) const;
  /// The pieces are consecutive parts of one text, and give the ids of that text, except that a control token is parsed only where all of
  /// its characters stand in pieces that allow it. So a user's words cannot forge a turn marker, not even half of one.
  std::vector<Id> encode(std::span<const Piece> pieces, bool add_special = false) const;
  void encode(std::span<const Piece> pieces, bool add_special, std::vector<Id>& ids) const;

  /// encode(), and the bytes of `text` that each id stands for. Ranges ascend; a token that is part of a character has its bytes of it, or
  /// where the text is malformed there, all of them. Where a model rewrites text before it is cut (lower case, normal forms), they are the
  /// nearest that can be told from the tokens.
  LocatedIds encode_located(std::string_view text, EncodeOptions options = {}) const;

  /// Text of the ids; bytes that are not UTF-8 become U+FFFD. Errors: invalid_argument for an id outside the vocabulary.
  std::string decode(std::span<const Id> ids, DecodeOptions options = {}) const;

  std::size_t size() const { return types_.size(); }
  /// The bytes a token stands for: may be part of a character. For a control token, its text. Errors: invalid_argument.
  std::string_view token_bytes(Id id) const;
  /// The token as the vocabulary spells it. Errors: invalid_argument.
  std::string_view token_text(Id id) const;
  TokenType type(Id id) const;
  /// Control or unknown: not text that a reader should see. Errors: invalid_argument.
  bool is_special(Id id) const;
  /// The control or user-defined token of this very text.
  std::optional<Id> find_special(std::string_view text) const;

  const SpecialIds& special() const { return special_; }
  bool adds_bos() const { return add_bos_; }
  bool adds_eos() const { return add_eos_; }
  /// Ids after which a generation is over, ascending: those of the metadata (eos, eot, eom, end_ids) and known turn ends.
  std::span<const Id> end_ids() const { return end_ids_; }
  bool is_end(Id id) const;
  /// What was odd about the vocabulary and put up with, one sentence each; for the log.
  std::span<const std::string> notes() const { return notes_; }

 protected:
  /// Checks and copies what all models share; `defaults` are the model's roles where the file names none. Errors: data_corrupt.
  explicit Tokenizer(const Spec& spec, const SpecialIds& defaults = {});

  /// Appends the ids of valid UTF-8 without special tokens.
  virtual void encode_text(std::string_view text, std::vector<Id>& ids) const = 0;
  /// The same by several threads; called where parallel_ says that the model can.
  virtual void encode_text_parallel(std::string_view text, unsigned threads, std::vector<Id>& ids) const;
  /// Appends the ids of valid UTF-8, special tokens included. `trust_changes`: ascending offsets where the text turns from trusted to not
  /// or back; `trusted`: what it is at its start.
  virtual void encode_valid(std::string_view text, std::span<const std::size_t> trust_changes, bool trusted, std::vector<Id>& ids) const;

  /// What decoding keeps from token to token.
  struct Decoding {
    bool begun = false;
    std::string held;     // bytes whose text depends on what follows
    std::vector<Id> ids;  // of a decoder that needs all of them
  };
  /// Appends the bytes that a token adds to decoded text.
  virtual void decode_next(Id id, DecodeOptions options, Decoding& state, std::string& out) const;
  /// Appends what is left after the last token.
  virtual void decode_end(DecodeOptions options, Decoding& state, std::string& out) const;

  std::size_t checked(Id id) const;
  /// Ids that add_special puts around a text, in place of the begin and the end token.
  void set_frame(std::vector<Id> before, std::vector<Id> after);
  void set_default_bos(bool on) { add_bos_ = add_bos_given_.value_or(on) && special_.bos >= 0; }

  detail::Strings texts_;        // by id, as spelled
  detail::Strings token_bytes_;  // what they stand for; filled by the model
  std::vector<TokenType> types_;
  std::vector<std::string> notes_;
  bool space_prefix_ = false;  // encode_text() puts a space in front
  bool parallel_ = false;      // encode_text_parallel() is more than encode_text()

 private:
  friend class StreamDecoder;
  struct Match {
    std::size_t length = 0;
    Id id = -1;
  };
  void encode(std::span<const Piece> pieces, bool add_special, unsigned threads, std::vector<Id>& ids) const;
  void take_special_ids(const Spec& spec, const SpecialIds& defaults);
  void collect_end_ids(const Spec& spec);
  void index_specials();
  Match longest_special(std::string_view text, std::size_t trusted) const;
  template <class Plain>
  void walk_specials(std::string_view text, std::span<const std::size_t> trust_changes, bool trusted, std::vector<Id>& ids,
                     Plain plain) const;

  SpecialIds special_;
  std::optional<bool> add_bos_given_;
  bool add_bos_ = false, add_eos_ = false;
  std::optional<std::pair<std::vector<Id>, std::vector<Id>>> frame_;  // before and after a text
  std::vector<Id> end_ids_;
  std::vector<Id> strips_left_, strips_right_;   // ascending
  std::vector<Id> specials_;                     // sorted by text: control, unknown and user-defined tokens
  std::vector<std::uint32_t> specials_by_byte_;  // [257] first index into specials_ of each first byte
};

/// Errors: unsupported (a model or pre-tokenizer that Quern does not know; the message names those it does), data_corrupt (lengths that
/// disagree, ids out of range, malformed merges and byte tokens), resource_exhausted (more than 2^31 tokens or 1 GiB of text).
std::unique_ptr<Tokenizer> make_tokenizer(const Spec& spec);

/// Ids to text while they are generated: gives each character once it is complete, and exactly decode()'s text in all.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {}) : tokenizer_(&tokenizer), options_(options) {}

  /// Text that this token completes, possibly none; valid until the next call. Errors: as decode().
  std::string_view push(Id id);
  /// What is left: U+FFFD for a character that never became complete, else nothing. The decoder then starts anew.
  std::string_view finish();

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  Tokenizer::Decoding state_;
  std::string pending_, text_;
};

}  // namespace quern::tokenizers
