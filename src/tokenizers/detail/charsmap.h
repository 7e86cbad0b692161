#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// SentencePiece's precompiled_charsmap: byte strings and what each becomes. The blob is a u32 (bytes of the trie, little-endian), a
/// double-array trie as Darts-clone writes it, and the replacements, each ended by a zero byte.
class Charsmap {
 public:
  /// Errors: data_corrupt when the blob is malformed. Any trie is safe to walk.
  explicit Charsmap(std::string_view blob);

  struct Match {
    std::size_t length = 0;  // of what is replaced; 0: nothing is
    std::string_view replacement = {};
  };
  /// What the longest or the shortest key at the front of `text` becomes.
  Match longest(std::string_view text) const;
  Match shortest(std::string_view text) const;

  /// As Hugging Face's "Precompiled" normalizer: a grapheme of less than six bytes is looked up as a whole (its shortest key replaces all
  /// of it), else its characters one by one. Returns false where nothing changes, else replaces `out`.
  bool normalize_graphemes(std::string_view text, std::string& out) const;

 private:
  std::string_view replacement(std::uint32_t at) const;
  template <class Found>
  void walk(std::string_view text, Found found) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace quern::tokenizers::detail
