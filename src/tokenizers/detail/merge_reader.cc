#include "tokenizers/detail/merge_reader.h"

#include <algorithm>
#include <span>
#include <thread>
#include <utility>

#include "base/error.h"

namespace quern::tokenizers::detail {

MergeReader::MergeReader(const Strings& texts, const TokenIndex& index, const std::vector<bool>& found, std::size_t most,
                         std::function<void()> prepare)
    : texts_(texts), index_(index), found_(found), prepare_(std::move(prepare)), most_(most) {
  out_.reserve(most);
  found_merges_ = out_.data();
  const bool threaded = texts.size() >= kLarge && std::thread::hardware_concurrency() > 1;
  if (prepare_ && !threaded) std::exchange(prepare_, {})();
  prepared_ = !prepare_;
  // Where the system gives no thread, all is done when finish() asks.
  if (threaded) other_ = std::async(std::launch::async | std::launch::deferred, [this] { work(); });
}

MergeReader::~MergeReader() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  waiting_.clear();
  changed_.notify_all();
}

void MergeReader::hand_over() {
  const std::size_t rank = out_.size();
  if (rows_.size() > most_ - rank) throw Error(Code::internal, "a merge reader was told of fewer merges than came");
  out_.resize(rank + rows_.size());
  Chunk chunk{std::exchange(rows_, {}), std::exchange(kept_, {}), rank};
  if (!other_.valid()) {
    look_up(chunk);
    rows_ = std::move(chunk.rows);
    rows_.clear();
    return;
  }
  rows_.reserve(kChunk);
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(chunk));
  changed_.notify_one();
}

void MergeReader::work() {
  std::unique_lock lock(mutex_);
  if (!prepared_) {
    lock.unlock();
    prepare_();
    lock.lock();
    prepared_ = true;
  }
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Chunk chunk = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    look_up(chunk);
    lock.lock();
  }
}

void MergeReader::look_up(const Chunk& chunk) {
  std::string both;
  TokenIndex::Key lefts[kTogether], rights[kTogether];
  std::int32_t product = 0;  // a merge mostly makes the same token as the one before, or the next
  for (std::size_t begin = 0; begin < chunk.rows.size(); begin += kTogether) {
    const std::span<const Row> rows = std::span(chunk.rows).subspan(begin, std::min(kTogether, chunk.rows.size() - begin));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      index_.prefetch(lefts[i] = index_.key_of(rows[i].left));
      index_.prefetch(rights[i] = index_.key_of(rows[i].right));
    }
    const auto each_guess = [&](auto&& fetch) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (const TokenIndex::Key* key : {&lefts[i], &rights[i]})
          if (const std::int32_t id = index_.guess(*key); id >= 0) fetch(static_cast<std::size_t>(id));
    };
    each_guess([&](std::size_t id) { texts_.prefetch_end(id); });
    each_guess([&](std::size_t id) { texts_.prefetch(id); });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string_view left = rows[i].left, tail = rows[i].right.substr(rows[i].skipped);
      const auto is = [&](std::int32_t id) {
        const auto at = static_cast<std::size_t>(id);
        if (at >= texts_.size() || !found_[at]) return false;
        const std::string_view token = texts_[at];
        return token.size() == left.size() + tail.size() && TokenIndex::equal(token.substr(0, left.size()), left) &&
               TokenIndex::equal(token.substr(left.size()), tail);
      };
      if (!is(product)) {
        if (is(product + 1)) {
          ++product;
        } else {
          both.assign(left);
          both += tail;
          product = index_.find(both, texts_);
        }
      }
      ResolvedMerge merge{index_.find(left, lefts[i], texts_), index_.find(rows[i].right, rights[i], texts_), product};
      if (merge.left < 0 || merge.right < 0 || merge.product < 0) merge = {};
      found_merges_[chunk.rank + begin + i] = merge;
    }
  }
}

PageVector<ResolvedMerge> MergeReader::finish() {
  hand_over();
  if (!other_.valid()) return std::move(out_);
  bool helps = false;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    helps = prepared_;
    changed_.notify_all();
  }
  if (helps) work();
  other_.get();
  return std::move(out_);
}

}  // namespace quern::tokenizers::detail
