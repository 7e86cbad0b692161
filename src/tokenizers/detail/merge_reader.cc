#include "tokenizers/detail/merge_reader.h"

#include <span>
#include <utility>

namespace quern::tokenizers::detail {

void MergeReader::look_up() {
  const std::span<const Row> rows = std::span(rows_).first(count_);
  const auto each_guess = [&](auto&& fetch) {
    for (const Row& row : rows)
      for (const TokenIndex::Key* key : {&row.left_key, &row.right_key})
        if (const std::int32_t id = index_.guess(*key); id >= 0) fetch(static_cast<std::size_t>(id));
  };
  each_guess([&](std::size_t id) { texts_.prefetch_end(id); });
  each_guess([&](std::size_t id) { texts_.prefetch(id); });
  std::string both;
  for (const Row& row : rows) {
    const std::string_view left = row.left, tail = row.right.substr(row.skipped);
    const auto is = [&](std::int32_t id) {
      const auto at = static_cast<std::size_t>(id);
      if (at >= texts_.size() || !found_[at]) return false;
      const std::string_view token = texts_[at];
      return token.size() == left.size() + tail.size() && TokenIndex::equal(token.substr(0, left.size()), left) &&
             TokenIndex::equal(token.substr(left.size()), tail);
    };
    if (!is(product_)) {
      if (is(product_ + 1)) {
        ++product_;
      } else {
        both.assign(left);
        both += tail;
        product_ = index_.find(both, texts_);
      }
    }
    ResolvedMerge merge{index_.find(left, row.left_key, texts_), index_.find(row.right, row.right_key, texts_), product_};
    if (merge.left < 0 || merge.right < 0 || merge.product < 0) merge = {};
    out_.push_back(merge);
  }
  count_ = 0;
  kept_.clear();
}

PageVector<ResolvedMerge> MergeReader::finish() {
  look_up();
  return std::move(out_);
}

}  // namespace quern::tokenizers::detail
