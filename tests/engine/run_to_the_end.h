#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/detail/batcher.h"

namespace quern::engine::testing {

/// Steps until nothing is left, and then nobody may hold a block.
inline void run_to_the_end(detail::Batcher& batcher) {
  for (int steps = 0; batcher.busy(); ++steps) {
    ASSERT_LT(steps, 100000) << "the batcher does not come to an end";
    batcher.step();
    if (batcher.stalled()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(batcher.statistics().cache_blocks_used, 0);
  EXPECT_EQ(batcher.statistics().window_blocks_used, 0);
}

}  // namespace quern::engine::testing
