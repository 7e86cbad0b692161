#pragma once

#include <atomic>
#include <thread>

#include "base/thread_pool.h"

namespace quern::testing {

/// Keeps a pool of workers busy for as long as it lives: whoever wants to use it waits.
class HeldPool {
 public:
  explicit HeldPool(ThreadPool& pool)
      : thread_([this, &pool] {
          const ThreadPool::Step step{1, -1};
          pool.walk(
              {&step, 1},
              [](void* context, std::uint32_t, std::uint32_t, unsigned) noexcept {
                auto& held = *static_cast<HeldPool*>(context);
                held.holds_.store(true);
                held.holds_.notify_all();
                held.free_.wait(false);
              },
              this);
        }) {
    holds_.wait(false);
  }
  ~HeldPool() {
    free_.store(true);
    free_.notify_all();
    thread_.join();
  }
  HeldPool(const HeldPool&) = delete;
  HeldPool& operator=(const HeldPool&) = delete;

 private:
  std::atomic<bool> holds_{false}, free_{false};
  std::thread thread_;
};

}  // namespace quern::testing
