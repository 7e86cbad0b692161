#include "base/faults.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace quern::faults {
namespace {

TEST(Faults, come_every_so_many_times_and_only_where_they_were_asked_for) {
  set("step=3,disk_read=1");
  std::string happened;
  for (int i = 0; i < 7; ++i) happened += due(Point::step) ? 'x' : '.';
  EXPECT_EQ(happened, "..x..x.");
  EXPECT_TRUE(due(Point::disk_read));
  EXPECT_FALSE(due(Point::block));
  set("");
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(due(Point::step) || due(Point::disk_read));
}

TEST(Faults, a_schedule_that_says_nothing_is_an_error) {
  for (const char* bad : {"step", "step=", "step=0", "step=x", "roof=3", "step=3;block=2", "=3", "step=99999999999"})
    EXPECT_THROW(set(bad), Error) << bad;
  EXPECT_FALSE(due(Point::step));
}

}  // namespace
}  // namespace quern::faults
