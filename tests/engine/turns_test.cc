#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/held_pool.h"
#include "tiny_engine.h"

namespace quern::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::wait_for;

/// An engine that runs one request at a time, and has one whose step does not end before it is let go.
class TurnsTest : public testing::TinyEngine {
 protected:
  void SetUp() override {
    engine_ = make({.max_sequences = 1});
    held_ = std::make_unique<quern::testing::HeldPool>(pool_);
    Request first = request(4, 1, 1);
    first.tenant = 99;
    first_ = engine_->submit(first);
    while (engine_->heartbeat().step_seconds == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// Asks for one token; notes when it comes.
  Stream& ask(int id, const std::function<void(Request&)>& change) {
    Request r = request(8 + static_cast<std::size_t>(id), static_cast<unsigned>(100 + id), 1);
    change(r);
    auto& stream = streams_.emplace_back(engine_->submit(r));
    stream->notify([this, id] {
      const std::lock_guard lock(mutex_);
      order_.push_back(id);
    });
    return *stream;
  }
  std::vector<int> order() {
    held_.reset();
    for (const auto& stream : streams_) wait_for(*stream);
    const std::lock_guard lock(mutex_);
    return order_;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<quern::testing::HeldPool> held_;
  std::unique_ptr<Stream> first_;
  std::mutex mutex_;
  std::vector<int> order_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

TEST_F(TurnsTest, requests_wait_their_turn_by_priority_and_arrival) {
  ask(1, [](Request& r) { r.priority = 5; });
  ask(2, [](Request&) {});
  ask(3, [](Request& r) { r.priority = -1; });
  ask(4, [](Request&) {});
  EXPECT_THAT(order(), ElementsAre(3, 2, 4, 1));
}

TEST_F(TurnsTest, a_tenant_does_not_wait_behind_all_of_another_s) {
  for (int id = 1; id <= 6; ++id) ask(id, [](Request& r) { r.tenant = 1; });
  ask(10, [](Request& r) { r.tenant = 2; });
  ask(11, [](Request& r) { r.tenant = 2; });
  const std::vector<int> all = order();
  const auto place = [&](int id) { return std::find(all.begin(), all.end(), id) - all.begin(); };
  EXPECT_LE(place(10), 1);
  EXPECT_LE(place(11), 4);
}

TEST_F(TurnsTest, who_still_waits_at_the_deadline_is_told_so) {
  Stream& late = ask(1, [](Request& r) { r.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20); });
  Stream& patient = ask(2, [](Request& r) { r.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  held_.reset();
  const Event event = wait_for(late).last;
  EXPECT_EQ(event.finish, FinishReason::error);
  EXPECT_EQ(event.error_code, Code::cancelled);
  EXPECT_THAT(event.error, HasSubstr("deadline"));
  EXPECT_EQ(wait_for(patient).last.finish, FinishReason::length);
}

TEST_F(TurnsTest, the_heartbeat_tells_of_a_step_that_does_not_end) {
  const Engine::Heartbeat stuck = engine_->heartbeat();
  EXPECT_EQ(stuck.steps, 1);
  EXPECT_EQ(stuck.tokens, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(engine_->heartbeat().step_seconds, stuck.step_seconds + 0.005);
  held_.reset();
  EXPECT_EQ(wait_for(*first_).last.finish, FinishReason::length);
  wait_until_idle(*engine_);
  EXPECT_EQ(engine_->heartbeat().step_seconds, 0);
}

}  // namespace
}  // namespace quern::engine
