#include "engine/detail/waiting_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace quern::engine::detail {
namespace {

using ::testing::ElementsAre;

class Room : public WaitingRoom<int> {
 public:
  void come(int id, Ticket ticket) {
    ticket.arrival = static_cast<std::uint64_t>(id);
    add(id, ticket);
  }
  /// All that wait, as they would be admitted if nothing else happened.
  std::vector<int> order(double now = 0) {
    std::vector<int> ids;
    begin(now);
    while (const int* id = next()) ids.push_back(*id);
    return ids;
  }
  int admit(double now = 0) {
    begin(now);
    return next() == nullptr ? -1 : take();
  }
};

TEST(WaitingRoom, goes_by_arrival_when_nothing_else_is_said) {
  Room room;
  for (const int id : {3, 1, 2}) room.come(id, {});
  EXPECT_THAT(room.order(), ElementsAre(1, 2, 3));
  EXPECT_EQ(room.size(), 3u);
}

TEST(WaitingRoom, lets_the_lower_priority_and_then_the_earlier_deadline_go_first) {
  Room room;
  room.come(1, {.priority = 1});
  room.come(2, {});
  room.come(3, {.deadline = 50});
  room.come(4, {.deadline = 40});
  room.come(5, {.priority = -3});
  EXPECT_THAT(room.order(), ElementsAre(5, 4, 3, 2, 1));
}

TEST(WaitingRoom, lets_a_class_that_waits_rise_until_one_of_it_is_admitted) {
  Room room;
  for (int id = 1; id <= 3; ++id) room.come(id, {.arrived = 0, .priority = 2});
  for (int id = 10; id < 20; ++id) room.come(id, {.arrived = 15});
  EXPECT_EQ(room.admit(19), 10) << "19 s are one step of two";
  EXPECT_EQ(room.admit(21), 1) << "two steps, and it came first";
  EXPECT_EQ(room.admit(22), 11) << "the next of the class begins to wait anew";
  for (double now = 22.5; now < 26; now += 0.5) EXPECT_GE(room.admit(now), 10);
  EXPECT_EQ(room.admit(42), 19) << "the last of the urgent rises, too";
  EXPECT_EQ(room.admit(42), 2);
}

TEST(WaitingRoom, starves_nobody_however_busy_the_urgent_are) {
  Room room;
  room.come(0, {.priority = 5});
  double now = 0;
  for (int id = 1;; ++id, now += 0.1) {
    ASSERT_LT(now, 100) << "the request of priority 5 waits for ever";
    room.come(id, {.arrived = now});
    if (room.admit(now) == 0) break;
  }
  EXPECT_NEAR(now, 50, 1);
}

TEST(WaitingRoom, lets_the_tenant_go_next_who_was_served_least) {
  Room room;
  for (int id = 0; id < 100; ++id) room.come(id, {.tenant = 1});
  room.come(100, {.tenant = 2});
  room.come(101, {.priority = 7, .tenant = 2});
  EXPECT_EQ(room.admit(), 0);
  room.charge(1, 500);
  EXPECT_EQ(room.admit(), 100) << "not behind a hundred others";
  room.charge(2, 300);
  EXPECT_EQ(room.admit(), 101) << "whatever priority it gave itself: 300 are less than 500";
  room.charge(2, 300);
  EXPECT_EQ(room.admit(), 1);
}

TEST(WaitingRoom, gives_tenants_equal_shares_of_the_service_whatever_they_ask_for) {
  // Three tenants with requests of other sizes, who all want more than there is: four run at once.
  Room room;
  const std::map<std::uint64_t, double> size = {{1, 40}, {2, 400}, {3, 1000}};
  std::map<std::uint64_t, double> served;
  std::vector<std::pair<std::uint64_t, double>> running;  // tenant, and what is left
  int next_id = 0;
  std::map<int, std::uint64_t> tenant_of;
  for (double now = 0; now < 8000; ++now) {
    for (const auto& [tenant, cost] : size) {
      int waiting = 0;
      for (const int id : room.order(now)) waiting += tenant_of[id] == tenant;
      const int wanted = tenant == 1 ? 20 : 3;  // one of them floods
      for (; waiting < wanted; ++waiting) {
        tenant_of[next_id] = tenant;
        room.come(next_id++, {.arrived = now, .tenant = tenant});
      }
    }
    while (running.size() < 4) {
      const int id = room.admit(now);
      running.emplace_back(tenant_of[id], size.at(tenant_of[id]));
      room.charge(tenant_of[id], size.at(tenant_of[id]) / 2);  // the prompt
    }
    for (auto& [tenant, left] : running) {
      left -= 10;
      served[tenant] += 10;
      room.charge(tenant, 5);
      if (left <= 0) room.left(tenant);
    }
    std::erase_if(running, [](const auto& r) { return r.second <= 0; });
  }
  const double all = served[1] + served[2] + served[3];
  for (const auto& [tenant, tokens] : served) EXPECT_NEAR(tokens / all, 1.0 / 3, 0.02) << tenant;
}

TEST(WaitingRoom, lets_nobody_save_up) {
  Room room;
  for (int id = 0; id < 10; ++id) room.come(id, {.tenant = 1});
  for (int i = 0; i < 5; ++i) {
    room.admit();
    room.charge(1, 1000);
  }
  for (int id = 10; id < 20; ++id) room.come(id, {.tenant = 2});  // who asked for nothing while 1 was served 5000
  EXPECT_EQ(room.service(2), 5000);
  room.charge(2, 1);
  EXPECT_EQ(room.admit(), 5);
}

TEST(WaitingRoom, forgets_tenants_who_have_nothing_to_ask_but_not_what_they_owe) {
  Room room;
  room.come(1, {.tenant = 1});
  room.come(2, {.tenant = 2});
  room.admit();
  room.charge(1, 100);
  room.left(1);
  EXPECT_EQ(room.service(1), 100);
  room.charge(2, 150);
  EXPECT_EQ(room.admit(), 2);
  room.come(3, {.tenant = 3});
  room.left(2);
  room.come(4, {.tenant = 1});
  EXPECT_GE(room.service(1), 100);
}

TEST(WaitingRoom, gives_the_rest_of_its_order_to_who_passes_some) {
  Room room;
  for (int id = 1; id <= 4; ++id) room.come(id, {});
  room.begin(0);
  EXPECT_EQ(*room.next(), 1);
  EXPECT_EQ(*room.next(), 2);
  EXPECT_EQ(room.take(), 2);
  EXPECT_EQ(*room.next(), 3);
  EXPECT_EQ(room.take(), 3);
  EXPECT_THAT(room.order(), ElementsAre(1, 4));
  room.erase_if([](int id, const Ticket&) { return id == 1; });
  EXPECT_THAT(room.order(), ElementsAre(4));
}

TEST(WaitingRoom, loses_nobody_among_random_comings_and_goings) {
  std::mt19937 random(4);
  Room room;
  std::set<int> inside;
  std::map<int, std::uint64_t> tenant_of;
  std::vector<int> running;
  for (int id = 0; id < 20000; ++id) {
    const Ticket ticket{.arrived = id * 0.01,
                        .deadline = random() % 3 == 0 ? id * 0.01 + random() % 50 : std::numeric_limits<double>::infinity(),
                        .priority = static_cast<std::int64_t>(random() % 4),
                        .tenant = random() % 5};
    tenant_of[id] = ticket.tenant;
    room.come(id, ticket);
    inside.insert(id);
    if (random() % 2 == 0) {
      room.begin(id * 0.01);
      int* next = room.next();
      for (unsigned passed = random() % 3; passed > 0 && next != nullptr; --passed)
        if (int* const another = room.next())
          next = another;
        else
          break;
      if (inside.size() > 4) {
        const int admitted = room.take();
        ASSERT_EQ(inside.erase(admitted), 1u);
        running.push_back(admitted);
        room.charge(tenant_of[admitted], random() % 100);
      }
    }
    if (running.size() > 8) {
      room.left(tenant_of[running.back()]);
      running.pop_back();
    }
    if (random() % 50 == 0) room.erase_if([&](int one, const Ticket& t) { return t.deadline < id * 0.01 && inside.erase(one) == 1; });
    ASSERT_EQ(room.size(), inside.size());
  }
  const std::vector<int> rest = room.order();
  EXPECT_EQ(std::set<int>(rest.begin(), rest.end()), inside);
}

}  // namespace
}  // namespace quern::engine::detail
