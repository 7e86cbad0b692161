#include "tokenizers/detail/ranked_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <future>
#include <thread>

#include "base/error.h"
#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/normal_forms.h"

namespace quern::tokenizers::detail {

constexpr std::size_t kLongestCharacter = 4;  // bytes
constexpr std::size_t kManyMerges = 1 << 15;  // that are worth a thread

RankedBpe::RankedBpe(const Spec& spec, const PreTokenizerRow& row)
    : Tokenizer(spec),
      pre_tokenizer_(row.patterns),
      ignore_merges_(row.ignore_merges),
      composes_(row.composes),
      index_(0),
      merges_(0, {}, MergeTable::Which::first) {
  set_default_bos(row.add_bos);
}

void RankedBpe::Scratch::trim() {
  constexpr std::size_t kKept = 1 << 20;
  merger.trim();
  if (symbols.capacity() > kKept) symbols = {}, ids = {};
  if (words.capacity() > kKept) words = {}, other = {};
  if (text.capacity() > 4 * kKept) text = {};
}

void RankedBpe::read_vocabulary(const Spec& spec) {
  std::vector<bool> found = read_tokens();
  PageVector<ResolvedMerge> merges;
  {
    TokenIndex spelled(size());  // merges name tokens as they are spelled
    if (const std::size_t duplicates = spelled.add_all(texts_, found); duplicates > 0) {
      notes_.push_back(fmt::format("{} tokens have the same text as another; text becomes the last of them", duplicates));
      for (std::size_t i = 0; i < size(); ++i) found[i] = found[i] && spelled.find(texts_[i], texts_) == static_cast<Id>(i);
    }
    merges = read_merges(spec, spelled, found);
  }
  // By a second thread where there are many.
  auto table = std::async(merges.size() >= kManyMerges ? std::launch::async | std::launch::deferred : std::launch::deferred,
                          [&] { return MergeTable(size(), merges, MergeTable::Which::first); });
  // Where merges make the words, text is only looked for by character.
  if (!ignore_merges_)
    for (std::size_t i = 0; i < size(); ++i) found[i] = found[i] && token_bytes_[i].size() <= kLongestCharacter;
  index_ = TokenIndex(static_cast<std::size_t>(std::count(found.begin(), found.end(), true)));
  index_.add_all(token_bytes_, found);
  merges_ = table.get();
}

std::vector<bool> RankedBpe::read_tokens() {
  byte_ids_.fill(-1);
  token_bytes_.reserve(size(), texts_.bytes.size());
  std::vector<bool> found(size());
  std::string bytes;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string_view text = texts_[i];
    bytes.clear();
    if (types_[i] == TokenType::byte) {
      const unsigned char value = byte_token_value(i, text);
      byte_ids_[value] = static_cast<Id>(i);
      token_bytes_.add(std::string_view(reinterpret_cast<const char*>(&value), 1));
      continue;
    }
    // A control token's bytes are its text, and no merge may ever lead to it: then text cannot forge it.
    const bool plain = types_[i] != TokenType::control && types_[i] != TokenType::unknown;
    found[i] = plain && !text.empty() && append_bytes(i, bytes);
    token_bytes_.add(found[i] ? std::string_view(bytes) : text);
  }
  return found;
}

PageVector<ResolvedMerge> RankedBpe::read_merges(const Spec& spec, const TokenIndex& spelled, const std::vector<bool>& found) {
  MergeReader reader(texts_, spelled, found, spec.merges.size());
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string_view merge = spec.merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string_view::npos || space + 1 == merge.size()) {
      throw Error(Code::data_corrupt,
                  fmt::format("merge {} is '{}' where two tokens with a space between were expected", rank, merge.substr(0, 80)));
    }
    reader.add(merge.substr(0, space), merge.substr(space + 1));
  }
  PageVector<ResolvedMerge> merges = reader.finish();
  std::size_t skipped = 0, first_skipped = 0;
  for (std::size_t rank = merges.size(); rank-- > 0;)
    if (merges[rank].left < 0) ++skipped, first_skipped = rank;
  if (skipped > 0) {
    notes_.push_back(fmt::format("{} merges name or make no ordinary token and are skipped; the first is merge {} '{}'", skipped,
                                 first_skipped, spec.merges[first_skipped].substr(0, 80)));
  }
  return merges;
}

std::string_view RankedBpe::composed(std::string_view text, Scratch& scratch) const {
  return composes_ && normalize(NormalForm::nfc, text, scratch.text) ? scratch.text : text;
}

void RankedBpe::encode_text(std::string_view given, std::vector<Id>& ids) const {
  const ScratchPool<Scratch>::Lease scratch(scratch_);
  const std::string_view text = composed(given, *scratch);
  pre_tokenizer_.split(text, scratch->words, scratch->other);
  IdSink sink(ids);
  std::uint32_t begin = 0;
  for (const std::uint32_t end : scratch->words) {
    encode_word(text.substr(begin, end - begin), *scratch, sink);
    begin = end;
  }
}

void RankedBpe::encode_text_parallel(std::string_view given, unsigned threads, std::vector<Id>& ids) const {
  const ScratchPool<Scratch>::Lease cut(scratch_);
  const std::string_view text = composed(given, *cut);
  pre_tokenizer_.split(text, cut->words, cut->other);
  const std::span<const std::uint32_t> ends = cut->words;
  threads = static_cast<unsigned>(std::clamp<std::size_t>(ends.size() / 1024, 1, threads));
  std::vector<std::vector<Id>> parts(threads);
  std::vector<std::exception_ptr> failures(threads);
  // A part is the words that end in an equal share of the text.
  const auto share = [&](unsigned part) {
    const auto end = static_cast<std::uint32_t>(text.size() * part / threads);
    return part == threads ? ends.size() : static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), end) - ends.begin());
  };
  const auto work = [&](unsigned part) noexcept {
    try {
      const ScratchPool<Scratch>::Lease scratch(scratch_);
      IdSink sink(parts[part]);
      const std::size_t first = share(part), last = share(part + 1);
      std::uint32_t begin = first > 0 ? ends[first - 1] : 0;
      for (std::size_t i = first; i < last; ++i) {
        encode_word(text.substr(begin, ends[i] - begin), *scratch, sink);
        begin = ends[i];
      }
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned part = 1; part < threads; ++part) others.emplace_back(work, part);
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (const std::vector<Id>& part : parts) ids.insert(ids.end(), part.begin(), part.end());
}

void RankedBpe::encode_word(std::string_view word, Scratch& scratch, IdSink& ids) const {
  ids.append(scratch.cache.ids_of(word, scratch.ids, [&](std::vector<Id>& made) {
    if (const Id whole = ignore_merges_ ? find(word) : -1; whole >= 0) {
      made.push_back(whole);
      return;
    }
    scratch.symbols.clear();
    begin_word(word, scratch.symbols);
    scratch.merger.run(merges_, scratch.symbols);
    end_word(scratch.symbols, made);
  }));
}

}  // namespace quern::tokenizers::detail
