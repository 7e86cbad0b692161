#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/page_memory.h"
#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/strings.h"
#include "tokenizers/detail/token_index.h"

namespace quern::tokenizers::detail {

/// Merges by the texts of their halves, the most urgent first, to merges by ids. In blocks whose lookups wait for memory together: one
/// after the other they would take most of the time that loading a vocabulary takes.
class MergeReader {
 public:
  /// The tokens that may be named are those of `texts` that `index` finds; `found` says which they are. All outlive the reader.
  MergeReader(const Strings& texts, const TokenIndex& index, const std::vector<bool>& found)
      : texts_(texts), index_(index), found_(found) {}

  /// No more merges than this will come: address space, not memory.
  void reserve(std::size_t merges) { out_.reserve(merges); }
  /// The halves stay where they are for finish() to see, or are keep()'s. The product is the left and, without the `skipped` bytes in
  /// front, the right.
  void add(std::string_view left, std::string_view right, std::size_t skipped = 0) {
    Row& row = rows_[count_];
    row = {left, right, skipped, index_.key_of(left), index_.key_of(right)};
    index_.prefetch(row.left_key), index_.prefetch(row.right_key);
    if (++count_ == kTogether) look_up();
  }
  /// A copy that lasts until the merge has been added and looked up.
  std::string_view keep(std::string_view half) { return kept_.emplace_back(half); }
  /// By rank; -1 three times for those that name or make something that is no token.
  PageVector<ResolvedMerge> finish();

 private:
  static constexpr std::size_t kTogether = 32;
  struct Row {
    std::string_view left, right;
    std::size_t skipped;
    TokenIndex::Key left_key, right_key;
  };
  void look_up();

  const Strings& texts_;
  const TokenIndex& index_;
  const std::vector<bool>& found_;
  Row rows_[kTogether];
  std::size_t count_ = 0;
  std::deque<std::string> kept_;
  std::int32_t product_ = 0;  // a merge mostly makes the same token as the one before, or the next
  PageVector<ResolvedMerge> out_;
};

}  // namespace quern::tokenizers::detail
