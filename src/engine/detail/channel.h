#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/request.h"

namespace quern::engine::detail {

/// The events of one request on their way from the scheduler's thread to the reader's, and the reader's wish to stop on its way back.
class Channel {
 public:
  void put(Event event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
      if (ready_) ready_();
    }
    arrived_.notify_one();
  }

  /// Ends the stream when there is no memory for a last event: the reader makes one itself.
  void abandon() noexcept {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
      if (ready_) ready_();
    }
    arrived_.notify_one();
  }

  /// See Stream::notify. Called with the lock held, so that nothing is called any more once this has returned with another function.
  void notify(std::function<void()> ready) {
    const std::lock_guard lock(mutex_);
    ready_ = std::move(ready);
    if (ready_ && (!events_.empty() || abandoned_)) ready_();
  }

  /// Waits; nothing once the last event was taken.
  std::optional<Event> take() {
    std::unique_lock lock(mutex_);
    if (ended_) return std::nullopt;
    arrived_.wait(lock, [&] { return !events_.empty() || abandoned_; });
    return first();
  }
  /// Does not wait.
  std::optional<Event> poll() {
    const std::lock_guard lock(mutex_);
    if (ended_ || (events_.empty() && !abandoned_)) return std::nullopt;
    return first();
  }

  void cancel() {
    cancelled_.store(true, std::memory_order_relaxed);
    cancellations_.fetch_add(1, std::memory_order_release);
  }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  /// How many streams of the process were ever cancelled: as long as it stays, nobody need be asked.
  static std::uint64_t cancellations() { return cancellations_.load(std::memory_order_acquire); }

 private:
  Event first() {
    if (events_.empty()) {
      ended_ = true;
      Event event;
      event.finish = FinishReason::error;
      event.error = "out of memory";
      event.error_code = Code::resource_exhausted;
      return event;
    }
    Event event = std::move(events_.front());
    events_.pop_front();
    ended_ = event.finish != FinishReason::none;
    return event;
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;
  std::function<void()> ready_;
  bool ended_ = false, abandoned_ = false;
  std::atomic<bool> cancelled_{false};
  static inline std::atomic<std::uint64_t> cancellations_{0};
};

}  // namespace quern::engine::detail
