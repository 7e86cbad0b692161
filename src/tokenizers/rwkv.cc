// RWKV's: at each place the longest token that fits. Source: "World" tokenizer of RWKV, https://github.com/BlinkDL/RWKV-LM.
#include <charconv>
#include <deque>
#include <string>

#include "tokenizers/detail/double_array.h"
#include "tokenizers/detail/pipeline.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

/// Greedy; a byte that begins no token is unknown, or left out where there is no unknown token.
class LongestMatch final : public detail::WordModel {
 public:
  LongestMatch(detail::DoubleArray trie, Id unknown) : trie_(std::move(trie)), unknown_(unknown) {}

  void encode(std::string_view text, std::span<const detail::PieceCutter::Piece> pieces, std::vector<Id>& ids) const override {
    for (const auto& piece : pieces) {
      for (std::size_t at = piece.begin; at < piece.end;) {
        std::uint32_t node = detail::DoubleArray::kRoot;
        Id best = unknown_;
        std::size_t end = at + 1;
        for (std::size_t i = at; i < piece.end && i - at < kMaxToken && trie_.step(node, text[i]);) {
          ++i;
          if (trie_.value(node) >= 0) best = trie_.value(node), end = i;
        }
        if (best >= 0) ids.push_back(best);
        at = end;
      }
    }
  }

 private:
  static constexpr std::size_t kMaxToken = 4096;  // so that a text takes linear time
  detail::DoubleArray trie_;
  Id unknown_;
};

/// GGUF spells these tokens with \t, \n, \r, \\ and \xHH.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    unsigned value = 0;
    if (c == 'x' && text.size() - i > 2 &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<Tokenizer> make_rwkv(const Spec& given) {
  Spec spec = given;
  std::deque<std::string> texts;
  detail::Pipeline pipeline;
  PageVector<detail::DoubleArray::Key> keys;
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    spec.tokens[i] = texts.emplace_back(unescaped(spec.tokens[i]));
    const bool special = i < spec.types.size() && (spec.types[i] == static_cast<std::int32_t>(TokenType::control) ||
                                                   spec.types[i] == static_cast<std::int32_t>(TokenType::unknown));
    const Id id = static_cast<Id>(i);
    if (special) {
      pipeline.added.push_back({{.text = texts.back(), .id = id, .special = true}});
    } else if (!texts.back().empty()) {
      keys.emplace_back(spec.tokens[i], id);
    }
  }
  pipeline.decoder.add(detail::decoders::Fuse{});
  pipeline.decoder.finish();
  const Id unknown =
      spec.special.unk >= 0 && static_cast<std::size_t>(spec.special.unk) < spec.tokens.size() ? static_cast<Id>(spec.special.unk) : -1;
  pipeline.make_model = [&](detail::PieceCutter&) { return std::make_unique<LongestMatch>(detail::DoubleArray(std::move(keys)), unknown); };
  return detail::make_pipeline_tokenizer(spec, std::move(pipeline));
}

}  // namespace quern::tokenizers
