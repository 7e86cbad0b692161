#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
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
    }
    arrived_.notify_one();
  }

  /// Ends the stream when there is no memory for a last event: the reader makes one itself.
  void abandon() noexcept {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
    }
    arrived_.notify_one();
  }

  /// Waits; nothing once the last event was taken.
  std::optional<Event> take() {
    std::unique_lock lock(mutex_);
    if (ended_) return std::nullopt;
    arrived_.wait(lock, [&] { return !events_.empty() || abandoned_; });
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

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;
  bool ended_ = false, abandoned_ = false;
  std::atomic<bool> cancelled_{false};
};

}  // namespace quern::engine::detail
