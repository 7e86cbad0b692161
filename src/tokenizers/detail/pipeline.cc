#include "tokenizers/detail/pipeline.h"

#include <algorithm>
#include <future>

#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

class PipelineTokenizer final : public Tokenizer {
 public:
  PipelineTokenizer(const Spec& spec, Pipeline pipeline) : Tokenizer(spec), p_(std::move(pipeline)) {
    for (Pipeline::Added& added : p_.added) {
      if (!added.normalized) {
        raw_.add(std::move(added.token));
        continue;
      }
      Normalizer::Buffers buffers;
      bool at_start = true;
      const std::string_view text = p_.normalizer.run(added.token.text, buffers, at_start);
      if (text != added.token.text) shown_as_.emplace_back(added.token.id, text);
      AddedTokens::Token token = added.token;
      token.text = text;
      normalized_.add(std::move(token));
    }
    shown_as_.insert(shown_as_.end(), p_.shown_as.begin(), p_.shown_as.end());
    p_.added.clear();
    raw_.finish();
    normalized_.finish();
    std::sort(shown_as_.begin(), shown_as_.end());
    token_bytes_.reserve(size(), texts_.bytes.size());
    streams_ = p_.decoder.streams();
    // Large vocabularies by two threads: what tokens stand for is no business of the model.
    constexpr std::size_t kLarge = 1 << 15;
    std::future<void> other;
    if (size() >= kLarge) {
      other = std::async(std::launch::async, [this] { read_token_bytes(); });
    } else {
      read_token_bytes();
    }
    model_ = p_.make_model(p_.cutter);
    if (other.valid()) other.get();
    if (p_.frame) set_frame(std::move(p_.frame->first), std::move(p_.frame->second));
    notes_.insert(notes_.end(), p_.notes.begin(), p_.notes.end());
  }

 private:
  struct Scratch {
    Normalizer::Buffers buffers;
    PieceCutter::Pieces pieces;

    void trim() {
      constexpr std::size_t kKept = 1 << 20;
      if (std::max({buffers.a.capacity(), buffers.b.capacity(), pieces.a.capacity(), pieces.b.capacity()}) > kKept ||
          std::max(pieces.pieces.capacity(), pieces.ends.capacity()) > kKept)
        *this = {};
    }
  };

  void read_token_bytes() {
    std::string piece;
    for (std::size_t i = 0; i < size(); ++i) {
      if (streams_) {
        p_.decoder.piece(spelling(static_cast<Id>(i)), false, piece);
      } else {
        piece = texts_[i];
      }
      if (const int byte = p_.decoder.joins_bytes() ? byte_of(piece) : -1; byte >= 0) {
        piece.assign(1, static_cast<char>(byte));
        types_[i] = TokenType::byte;
      }
      token_bytes_.add(piece);
    }
  }

  /// The token as it is decoded: an added token that is looked for in normalised text is shown as it stands there.
  std::string_view spelling(Id id) const {
    const auto it = std::lower_bound(shown_as_.begin(), shown_as_.end(), id, [](const auto& entry, Id i) { return entry.first < i; });
    return it != shown_as_.end() && it->first == id ? std::string_view(it->second) : texts_[static_cast<std::size_t>(id)];
  }

  void encode_text(std::string_view text, std::vector<Id>& ids) const override { encode_valid(text, {}, false, ids); }

  void encode_valid(std::string_view text, std::span<const std::size_t> trust_changes, bool trusted, std::vector<Id>& ids) const override {
    const ScratchPool<Scratch>::Lease scratch(scratch_);
    // Whether all of [begin, end) is trusted.
    const auto trusts = [&](std::size_t begin, std::size_t end) {
      const auto it = std::upper_bound(trust_changes.begin(), trust_changes.end(), begin);
      const bool there = trusted != ((it - trust_changes.begin()) % 2 == 1);
      return there && (it == trust_changes.end() || *it >= end);
    };
    raw_.split(text, trusts, [&](Id id, std::size_t begin, std::size_t end) {
      if (id >= 0) return ids.push_back(id);
      bool at_start = begin == 0;
      const std::string_view normal = p_.normalizer.run(text.substr(begin, end - begin), scratch->buffers, at_start);
      // Where in the normalised text the trust changes is not known, so all of it must be trusted.
      const bool all_trusted = !normalized_.empty() && trusts(begin, end);
      const auto may = [&](std::size_t, std::size_t) { return all_trusted; };
      normalized_.split(normal, may, [&](Id part_id, std::size_t part_begin, std::size_t part_end) {
        if (part_id >= 0) return ids.push_back(part_id);
        p_.cutter.cut(normal.substr(part_begin, part_end - part_begin), at_start && part_begin == 0, scratch->pieces);
        model_->encode(scratch->pieces.text, scratch->pieces.pieces, ids);
      });
    });
  }

  void decode_next(Id id, DecodeOptions options, Decoding& state, std::string& out) const override {
    const auto i = checked(id);
    if ((options.skip_special && types_[i] == TokenType::control) || types_[i] == TokenType::unused) return;
    if (!streams_) {
      state.ids.push_back(id);
      return;
    }
    const auto* sentence_piece = p_.decoder.sentence_piece();
    const bool first = !state.begun && !options.continues;
    state.begun = true;
    if (types_[i] == TokenType::byte) {
      if (sentence_piece) state.begun = !first;  // they may be followed by the first token proper
      state.held += token_bytes_[i];
      return;
    }
    const std::size_t begin = out.size();
    end_bytes(state, out);
    if (first && sentence_piece && out.size() > begin) {
      out += token_bytes_[i];
    } else if (first) {
      std::string piece;
      p_.decoder.piece(spelling(id), true, piece);
      // A token that is nothing but the space in front leaves it to the next to be first, where all spaces in front are dropped.
      if (sentence_piece && piece.empty()) state.begun = !sentence_piece->squeezes && spelling(id).size() > 0;
      out += piece;
    } else {
      out += token_bytes_[i];
    }
    trim(options, state, begin, out);
  }

  void decode_end(DecodeOptions options, Decoding& state, std::string& out) const override {
    const std::size_t begin = out.size();
    if (streams_) {
      end_bytes(state, out);
      return trim(options, state, begin, out);
    }
    std::vector<std::string> tokens;
    tokens.reserve(state.ids.size());
    for (const Id id : state.ids) tokens.emplace_back(spelling(id));
    if (!tokens.empty()) out += p_.decoder.decode_all(std::move(tokens));
  }

  void end_bytes(Decoding& state, std::string& out) const {
    if (p_.decoder.sentence_piece()) {
      for (std::string_view rest = state.held; !rest.empty();) {
        const std::size_t good = valid_prefix(rest);
        out += rest.substr(0, good);
        if (good < rest.size()) out += kReplacement;
        rest.remove_prefix(std::min(good + 1, rest.size()));
      }
    } else if (valid_prefix(state.held) == state.held.size()) {
      out += state.held;
    } else {
      for (std::size_t i = 0; i < state.held.size(); ++i) out += kReplacement;
    }
    state.held.clear();
  }

  /// Drops what the decoder takes off the front of the whole text. state.ids[0] counts the characters that may still be dropped.
  void trim(DecodeOptions options, Decoding& state, std::size_t begin, std::string& out) const {
    const Decoder::Trim& rule = p_.decoder.trim();
    if (rule.count == 0 || options.continues) return;
    if (state.ids.empty()) state.ids.push_back(static_cast<Id>(std::min<std::size_t>(rule.count, 1 << 20)));
    while (state.ids[0] > 0 && out.size() > begin) {
      if (!std::string_view(out).substr(begin).starts_with(rule.character)) {
        state.ids[0] = 0;
        return;
      }
      out.erase(begin, rule.character.size());
      --state.ids[0];
    }
  }

  Pipeline p_;
  std::unique_ptr<WordModel> model_;
  AddedTokens raw_, normalized_;
  std::vector<std::pair<Id, std::string>> shown_as_;  // sorted by id
  bool streams_ = false;
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_pipeline_tokenizer(const Spec& spec, Pipeline pipeline) {
  return std::make_unique<PipelineTokenizer>(spec, std::move(pipeline));
}

}  // namespace quern::tokenizers::detail
