// Building by depth-first search over the sorted keys. Source: An efficient digital search algorithm by using a double-array structure,
// Aoe 1989; with exclusive or in place of addition, so that the children of a node share a block of 256 units.
#include "tokenizers/detail/double_array.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::uint32_t kBlock = 256;
constexpr int kTries = 24;  // free units looked at for a place where all children of a node fit, before a new block is opened

/// A list of the units that are free.
class FreeList {
 public:
  bool is_free(std::uint32_t unit) const { return unit < next_.size() && next_[unit] != unit; }
  std::uint32_t end() const { return kEnd; }
  std::uint32_t front() const { return head_; }
  std::uint32_t next(std::uint32_t unit) const { return next_[unit]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(next_.size()); }

  void take(std::uint32_t unit) {
    const std::uint32_t before = previous_[unit], after = next_[unit];
    (before == kEnd ? head_ : next_[before]) = after;
    (after == kEnd ? tail_ : previous_[after]) = before;
    next_[unit] = unit;  // itself: taken
  }
  void reserve(std::size_t units) { next_.reserve(units), previous_.reserve(units); }
  void grow() {
    const auto begin = static_cast<std::uint32_t>(next_.size());
    next_.resize(begin + kBlock);
    previous_.resize(begin + kBlock);
    for (std::uint32_t unit = begin; unit < begin + kBlock; ++unit) {
      previous_[unit] = tail_;
      (tail_ == kEnd ? head_ : next_[tail_]) = unit;
      next_[unit] = kEnd;
      tail_ = unit;
    }
  }
  /// Moves the head behind everything: units that were tried too often.
  void rotate(std::uint32_t new_head) {
    if (new_head == head_ || new_head == kEnd) return;
    const std::uint32_t last = previous_[new_head];
    next_[tail_] = head_, previous_[head_] = tail_;
    tail_ = last, next_[last] = kEnd;
    head_ = new_head, previous_[new_head] = kEnd;
  }

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFEu;
  PageVector<std::uint32_t> next_, previous_;
  std::uint32_t head_ = kEnd, tail_ = kEnd;
};

using Key = DoubleArray::Key;

/// By the first eight bytes as a number, which leaves few to be compared.
void sort(PageVector<Key>& keys) {
  struct Entry {
    std::uint64_t start;
    std::uint32_t index;
  };
  PageVector<Entry> entries(keys.size()), other(keys.size());
  std::uint32_t counts[8][256] = {};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string_view text = keys[i].first;
    std::uint64_t start = 0;
    for (std::size_t at = 0; at < 8; ++at) start = start << 8 | (at < text.size() ? static_cast<unsigned char>(text[at]) : 0u);
    entries[i] = {start, static_cast<std::uint32_t>(i)};
    for (int byte = 0; byte < 8; ++byte) ++counts[byte][start >> 8 * byte & 0xFF];
  }
  for (int byte = 0; byte < 8; ++byte) {  // the last byte first: each pass keeps the order of the one before
    std::uint32_t place = 0;
    for (std::uint32_t& count : counts[byte]) place += std::exchange(count, place);
    for (const Entry& entry : entries) other[counts[byte][entry.start >> 8 * byte & 0xFF]++] = entry;
    entries.swap(other);
  }
  for (std::size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
    while (end < entries.size() && entries[end].start == entries[begin].start) ++end;
    if (end - begin > 1)
      std::sort(entries.begin() + static_cast<std::ptrdiff_t>(begin), entries.begin() + static_cast<std::ptrdiff_t>(end),
                [&](const Entry& a, const Entry& b) { return keys[a.index] < keys[b.index]; });
  }
  PageVector<Key> sorted(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) sorted[i] = keys[entries[i].index];
  keys = std::move(sorted);
}

}  // namespace

std::uint32_t DoubleArray::add_tail(std::string_view rest, std::int32_t value) {
  const std::size_t at = tails_.size();
  for (const char byte : rest) tails_.push_back(static_cast<unsigned char>(byte));
  for (const std::uint32_t last :
       {std::uint32_t{kEnd}, static_cast<std::uint32_t>(value) & 0xFFFF, static_cast<std::uint32_t>(value) >> 16})
    tails_.push_back(static_cast<std::uint16_t>(last));
  return kTail + static_cast<std::uint32_t>(at);
}

DoubleArray::DoubleArray(PageVector<Key> keys) {
  std::size_t bytes = 0;
  for (const Key& key : keys) bytes += key.first.size();
  if (bytes + 3 * keys.size() >= kTail / 2)
    throw Error(Code::resource_exhausted, "the texts of the vocabulary are more than a trie can hold");
  sort(keys);
  tails_.reserve(bytes + 3 * keys.size());
  FreeList free;
  free.reserve(std::min(bytes, 2 * keys.size()) + 2 * kBlock);
  free.grow();
  free.take(kRoot);
  units_.reserve(std::min(bytes, 2 * keys.size()) + 2 * kBlock);  // what vocabularies need
  units_.resize(kBlock);
  struct Range {
    std::size_t begin, end, depth;
    std::uint32_t node;
  };
  std::vector<Range> open = {{0, keys.size(), 0, kRoot}};
  std::vector<std::pair<unsigned char, std::size_t>> children;  // label, first key
  while (!open.empty()) {
    Range range = open.back();
    open.pop_back();
    for (; range.begin < range.end && keys[range.begin].first.size() == range.depth; ++range.begin)
      units_[range.node].value = keys[range.begin].second;
    if (range.begin == range.end) continue;
    const std::string_view first = keys[range.begin].first;
    if (keys[range.end - 1].first == first) {  // one key, if more than once: the last has the highest value
      units_[range.node].base = add_tail(first.substr(range.depth), keys[range.end - 1].second);
      continue;
    }
    children.clear();
    for (std::size_t i = range.begin; i < range.end;) {
      const auto label = static_cast<unsigned char>(keys[i].first[range.depth]);
      children.emplace_back(label, i);
      // The next key with another label: galloping, since most nodes have few children and some have many keys.
      std::size_t stride = 1;
      while (i + stride < range.end && static_cast<unsigned char>(keys[i + stride].first[range.depth]) == label) stride *= 2;
      std::size_t low = i + stride / 2, high = std::min(i + stride, range.end);
      while (low + 1 < high) {
        const std::size_t middle = (low + high) / 2;
        (static_cast<unsigned char>(keys[middle].first[range.depth]) == label ? low : high) = middle;
      }
      i = low + 1;
    }
    std::uint32_t unit = free.front(), base = 0;
    bool placed = false;
    for (int t = 0; t < kTries && unit != free.end() && !placed; ++t) {
      base = unit ^ children[0].first;
      placed = std::all_of(children.begin() + 1, children.end(), [&](const auto& child) { return free.is_free(base ^ child.first); });
      if (!placed) unit = free.next(unit);
    }
    if (!placed) {
      if (unit != free.end() && children.size() < 8) free.rotate(unit);
      base = free.size();
      free.grow();
      if (free.size() > units_.capacity()) units_.reserve(2 * units_.capacity());
      units_.resize(free.size());
    }
    units_[range.node].base = base;
    for (std::size_t c = 0; c < children.size(); ++c) {
      const std::uint32_t child = base ^ children[c].first;
      free.take(child);
      units_[child].parent = range.node;
      open.push_back({children[c].second, c + 1 < children.size() ? children[c + 1].second : range.end, range.depth + 1, child});
    }
  }
  units_.shrink_to_fit();
  tails_.shrink_to_fit();
}

}  // namespace quern::tokenizers::detail
