#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quern::kvcache {

/// Some of the numbers 0 … size - 1, in the order of their last use. Nothing but the constructor allocates.
class UseOrder {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit UseOrder(std::size_t size) : links_(size) {}

  std::int32_t oldest() const { return oldest_; }
  void add_newest(std::int32_t i) {
    at(i) = {.older = newest_, .newer = kNone};
    (newest_ == kNone ? oldest_ : at(newest_).newer) = i;
    newest_ = i;
  }
  void add_oldest(std::int32_t i) {
    at(i) = {.older = kNone, .newer = oldest_};
    (oldest_ == kNone ? newest_ : at(oldest_).older) = i;
    oldest_ = i;
  }
  void remove(std::int32_t i) {
    const Links links = at(i);
    (links.older == kNone ? oldest_ : at(links.older).newer) = links.newer;
    (links.newer == kNone ? newest_ : at(links.newer).older) = links.older;
  }
  /// One that is in it is used now.
  void touch(std::int32_t i) {
    remove(i);
    add_newest(i);
  }

 private:
  struct Links {
    std::int32_t older = kNone, newer = kNone;
  };
  Links& at(std::int32_t i) { return links_[static_cast<std::size_t>(i)]; }

  std::vector<Links> links_;
  std::int32_t oldest_ = kNone, newest_ = kNone;
};

}  // namespace quern::kvcache
