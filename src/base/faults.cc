#include "base/faults.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/error.h"

namespace quern::faults {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"block", "step", "disk_read", "disk_write", "draft"};

class Schedule {
 public:
  void set(std::string_view text) {
    std::array<std::uint32_t, kNames.size()> every{};
    while (!text.empty()) {
      const std::string_view item = text.substr(0, text.find(','));
      text.remove_prefix(std::min(text.size(), item.size() + 1));
      const std::size_t split = item.find('=');
      std::size_t point = 0;
      while (point < kNames.size() && kNames[point] != item.substr(0, split)) ++point;
      const std::string_view number = split == std::string_view::npos ? "" : item.substr(split + 1);
      std::uint32_t n = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
      if (point == kNames.size() || error != std::errc() || end != number.data() + number.size() || n == 0)
        throw Error(Code::invalid_argument, "QUERN_FAULTS has '" + std::string(item) + "'")
            .hint("it is a list like step=50,disk_read=3 of block, step, disk_read, disk_write and draft: every how manieth fails");
      every[point] = n;
    }
    bool any = false;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      every_[i] = every[i];
      count_[i] = 0;
      any |= every[i] > 0;
    }
    any_ = any;
  }

  bool due(Point point) {
    if (!any_.load(std::memory_order_relaxed)) return false;
    const auto i = static_cast<std::size_t>(point);
    const std::uint32_t every = every_[i].load(std::memory_order_relaxed);
    return every > 0 && (count_[i].fetch_add(1, std::memory_order_relaxed) + 1) % every == 0;
  }

 private:
  std::atomic<bool> any_ = false;
  std::array<std::atomic<std::uint32_t>, kNames.size()> every_{};
  std::array<std::atomic<std::uint64_t>, kNames.size()> count_{};
};

constinit Schedule schedule;

}  // namespace

bool due(Point point) { return schedule.due(point); }
void set(std::string_view text) { schedule.set(text); }

void set_from_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (const char* wish = std::getenv("QUERN_FAULTS"); wish != nullptr) set(wish);
  });
}

}  // namespace quern::faults
