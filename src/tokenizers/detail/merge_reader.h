#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/page_memory.h"
#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/strings.h"
#include "tokenizers/detail/token_index.h"

namespace quern::tokenizers::detail {

/// Merges by the texts of their halves, the most urgent first, to merges by ids. In blocks whose lookups wait for memory together: one
/// after the other they would take most of the time that loading a vocabulary takes. Where there are many, a second thread looks up what
/// the caller has added while it reads on.
class MergeReader {
 public:
  /// The tokens that may be named are those of `texts` that `index` finds; `found` says which they are. All outlive the reader, and must
  /// not change before finish(). At most `most` merges will come: address space, not memory. `prepare` fills `index`, by the second thread
  /// where the vocabulary is large; nothing: it is there.
  MergeReader(const Strings& texts, const TokenIndex& index, const std::vector<bool>& found, std::size_t most,
              std::function<void()> prepare = {});
  ~MergeReader();
  MergeReader(const MergeReader&) = delete;
  MergeReader& operator=(const MergeReader&) = delete;

  /// The halves stay where they are for finish() to see, or are keep()'s. The product is the left and, without the `skipped` bytes in
  /// front, the right.
  void add(std::string_view left, std::string_view right, std::size_t skipped = 0) {
    rows_.push_back({left, right, skipped});
    if (rows_.size() == kChunk) hand_over();
  }
  /// A copy that lasts until the merge has been added and looked up.
  std::string_view keep(std::string_view half) { return kept_.emplace_back(half); }
  /// By rank; -1 three times for those that name or make something that is no token. Errors: those of `prepare`.
  PageVector<ResolvedMerge> finish();

 private:
  static constexpr std::size_t kChunk = 1 << 13;  // rows that are handed over at once
  static constexpr std::size_t kTogether = 32;    // lookups that wait for memory together
  static constexpr std::size_t kLarge = 1 << 15;  // tokens that are worth a thread
  struct Row {
    std::string_view left, right;
    std::size_t skipped;
  };
  struct Chunk {
    std::vector<Row> rows;
    std::deque<std::string> kept;
    std::size_t rank;  // of the first row
  };
  void hand_over();
  /// Looks up chunks until there are no more to come.
  void work();
  void look_up(const Chunk& chunk);

  const Strings& texts_;
  const TokenIndex& index_;
  const std::vector<bool>& found_;
  std::function<void()> prepare_;
  std::size_t most_;
  std::vector<Row> rows_;
  std::deque<std::string> kept_;
  PageVector<ResolvedMerge> out_;  // never grows beyond what it reserved, so that the other thread may write what is there
  ResolvedMerge* found_merges_;    // its elements

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Chunk> waiting_;
  bool prepared_ = false, closed_ = false;
  std::future<void> other_;  // the last member: it ends before the rest goes
};

}  // namespace quern::tokenizers::detail
