#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "support/allocations.h"

namespace quern {
namespace {

/// A list of steps whose tasks write plain (not atomic) numbers that later steps read, so that a wait that does not hold is a wrong number
/// here and a data race for the thread sanitizer.
class Work {
 public:
  void make(std::mt19937& random, std::size_t steps, std::uint32_t most_tasks) {
    steps_.resize(steps);
    first_.resize(steps);
    std::size_t tasks = 0;
    for (std::size_t s = 0; s < steps; ++s) {
      steps_[s].tasks = 1 + static_cast<std::uint32_t>(random() % most_tasks);
      steps_[s].wait_for = s == 0 ? -1 : static_cast<std::int32_t>(random() % (s + 1)) - 1;
      first_[s] = tasks;
      tasks += steps_[s].tasks;
    }
    done_.assign(tasks, 0);
  }
  void run(ThreadPool& pool, unsigned max_workers = ~0u) {
    ++round_;
    max_workers_ = max_workers;
    pool.walk(steps_, task, this, max_workers);
  }
  /// Every task ran once a round, after what it waits for, on a worker that may take part.
  ::testing::AssertionResult good() const {
    if (wrong_order_ != 0) return ::testing::AssertionFailure() << wrong_order_ << " tasks began before what they wait for had ended";
    if (wrong_worker_ != 0) return ::testing::AssertionFailure() << wrong_worker_ << " tasks ran on a worker past max_workers";
    for (const int n : done_)
      if (n != round_) return ::testing::AssertionFailure() << "a task ran " << n << " times in " << round_ << " walks";
    return ::testing::AssertionSuccess();
  }

 private:
  static void task(void* context, std::uint32_t step, std::uint32_t task, unsigned worker) noexcept {
    auto& work = *static_cast<Work*>(context);
    if (worker >= work.max_workers_) ++work.wrong_worker_;
    const std::int32_t last = work.steps_[step].wait_for;
    for (const std::int32_t s : {last, last / 2}) {
      if (last < 0) continue;
      const std::size_t begin = work.first_[static_cast<std::size_t>(s)], end = begin + work.steps_[static_cast<std::size_t>(s)].tasks;
      for (std::size_t i = begin; i < end; ++i)
        if (work.done_[i] != work.round_) ++work.wrong_order_;
    }
    ++work.done_[work.first_[step] + task];
  }

  std::vector<ThreadPool::Step> steps_;
  std::vector<std::size_t> first_;  // of each step, in done_
  std::vector<int> done_;
  int round_ = 0;
  unsigned max_workers_ = 0;
  std::atomic<int> wrong_order_{0}, wrong_worker_{0};
};

TEST(ThreadPool, every_task_runs_once_and_after_what_it_waits_for) {
  std::mt19937 random(1);
  for (const unsigned workers : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(workers);
    EXPECT_EQ(pool.workers(), workers);
    for (int walk = 0; walk < 400; ++walk) {  // of changing length, so that late workers meet other lists of steps
      Work work;
      work.make(random, 1 + random() % 60, 1 + static_cast<std::uint32_t>(random() % 20));
      work.run(pool);
      ASSERT_TRUE(work.good()) << "walk " << walk << " of " << workers << " workers";
    }
  }
}

TEST(ThreadPool, a_walk_of_no_steps_returns) {
  ThreadPool pool(2);
  pool.walk({}, nullptr, nullptr);
}

TEST(ThreadPool, walks_at_any_moment_find_workers_that_spin_that_fall_asleep_and_that_sleep) {
  std::mt19937 random(2);
  ThreadPool pool(4);
  Work work;
  work.make(random, 20, 6);
  for (int walk = 0; walk < 1000; ++walk) {
    work.run(pool);
    ASSERT_TRUE(work.good()) << "walk " << walk;
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 250);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
}

TEST(ThreadPool, only_as_many_workers_as_allowed_take_part) {
  std::mt19937 random(3);
  ThreadPool pool(4);
  Work work;
  work.make(random, 30, 8);
  for (int walk = 0; walk < 200; ++walk) {
    work.run(pool, 1 + static_cast<unsigned>(walk) % 5);
    ASSERT_TRUE(work.good()) << "walk " << walk;
  }
}

TEST(ThreadPool, tasks_finish_on_a_machine_that_is_busy_with_other_work) {
  std::mt19937 random(4);
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    others.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  {
    ThreadPool pool(2 * std::thread::hardware_concurrency());
    for (int walk = 0; walk < 50; ++walk) {
      Work work;
      work.make(random, 40, 8);
      work.run(pool);
      EXPECT_TRUE(work.good()) << "walk " << walk;
    }
  }
  stop = true;
  for (std::thread& t : others) t.join();
}

TEST(ThreadPool, threads_that_walk_at_the_same_time_go_one_after_the_other) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> bad{0};
  for (unsigned caller = 0; caller < 3; ++caller)
    callers.emplace_back([&, caller] {
      std::mt19937 random(caller);
      for (int walk = 0; walk < 200; ++walk) {
        Work work;
        work.make(random, 1 + random() % 30, 6);
        work.run(pool);
        if (!work.good()) ++bad;
      }
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(bad, 0);
}

TEST(ThreadPool, allocates_nothing_once_a_walk_of_that_many_steps_was_made) {
  if (!testing::counts_allocations()) GTEST_SKIP() << "a sanitizer's allocator is in use";
  std::mt19937 random(5);
  ThreadPool pool(3);
  Work work;
  work.make(random, 200, 10);
  work.run(pool);
  const std::size_t before = testing::allocations();
  for (int walk = 0; walk < 100; ++walk) work.run(pool);
  const std::size_t after = testing::allocations();
  EXPECT_EQ(after, before);
  EXPECT_TRUE(work.good());
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ThreadPool, idle_workers_use_no_processor_time) {
  std::mt19937 random(6);
  ThreadPool pool(4);
  Work work;
  work.make(random, 20, 6);
  work.run(pool);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time to fall asleep
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.006);
}

TEST(ThreadPool, workers_of_a_machine_with_several_nodes_stay_on_theirs) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two hardware threads";
  Topology topology;  // two nodes of a core each
  topology.cores = {{{cpus[0]}, 0}, {{cpus[1]}, 1}};
  topology.nodes = 2;
  ThreadPool pool(4, topology);
  struct Seen {
    std::vector<int> cpus[4];
    std::atomic<unsigned> arrived{0};
  } seen;
  const ThreadPool::Step step{4, -1};  // a task a worker: each waits for the others
  pool.walk(
      {&step, 1},
      [](void* context, std::uint32_t, std::uint32_t, unsigned worker) noexcept {
        auto& s = *static_cast<Seen*>(context);
        s.cpus[worker] = allowed_cpus();
        ++s.arrived;
        while (s.arrived < 4) std::this_thread::yield();
      },
      &seen);
  EXPECT_EQ(seen.cpus[0], cpus) << "the calling thread is the caller's";
  EXPECT_EQ(seen.cpus[1], (std::vector{cpus[0]}));
  EXPECT_EQ(seen.cpus[2], (std::vector{cpus[1]}));
  EXPECT_EQ(seen.cpus[3], (std::vector{cpus[1]}));
}

TEST(ThreadPool, workers_begin_with_the_share_of_their_node_and_help_others_in_the_end) {
  Topology topology;
  for (int core = 0; core < 4; ++core) topology.cores.push_back({{}, core / 3});  // three cores and one: no mask fits, so all run anywhere
  topology.nodes = 2;
  ThreadPool pool(4, topology);
  EXPECT_EQ(pool.nodes(), 2u);
  struct Seen {
    std::atomic<int> runs[100];
    std::atomic<std::uint32_t> first_task[4] = {1000, 1000, 1000, 1000};
    std::atomic<unsigned> arrived{0};
  } seen;
  const ThreadPool::Step steps[] = {{100, -1}, {1, 0}, {7, 1}};
  pool.walk(
      steps,
      [](void* context, std::uint32_t step, std::uint32_t task, unsigned worker) noexcept {
        auto& s = *static_cast<Seen*>(context);
        if (step > 0) return;
        ++s.runs[task];
        if (s.first_task[worker] != 1000) return;
        s.first_task[worker] = task;
        ++s.arrived;  // nobody goes on before all have a task
        while (s.arrived < 4) std::this_thread::yield();
      },
      &seen);
  for (const auto& runs : seen.runs) EXPECT_EQ(runs, 1);
  for (int worker = 0; worker < 3; ++worker) EXPECT_LT(seen.first_task[worker], 75u) << worker;
  EXPECT_GE(seen.first_task[3], 75u);
}

TEST(ThreadPool, likely_tasks_of_all_workers_are_all_tasks) {
  for (const unsigned workers : {1u, 2u, 3u, 7u, 12u})
    for (const int nodes : {1, 2}) {
      Topology topology;
      for (int core = 0; core < 4; ++core) topology.cores.push_back({{}, core * nodes / 4});
      topology.nodes = nodes;
      const ThreadPool pool(workers, topology);
      for (const std::uint32_t tasks : {1u, 2u, 8u, 29u}) {
        std::vector<int> times(tasks, 0);
        for (unsigned w = 0; w < workers; ++w)
          for (std::uint32_t before = 0; const auto task = pool.likely_task(tasks, w, before); ++before) ++times[*task];
        EXPECT_EQ(times, std::vector<int>(tasks, 1)) << workers << " workers, " << nodes << " nodes";
      }
    }
}

TEST(ThreadPool, a_worker_alone_takes_the_tasks_that_are_likely) {
  ThreadPool pool(1);
  struct Seen {
    std::vector<std::uint32_t> tasks;
  } seen;
  const ThreadPool::Step step{9, -1};
  pool.walk(
      {&step, 1},
      [](void* context, std::uint32_t, std::uint32_t task, unsigned) noexcept { static_cast<Seen*>(context)->tasks.push_back(task); },
      &seen);
  ASSERT_EQ(seen.tasks.size(), 9u);
  for (std::uint32_t i = 0; i < 9; ++i) EXPECT_EQ(pool.likely_task(9, 0, i), seen.tasks[i]);
}

TEST(ThreadPool, nobody_does_anything_meanwhile_when_the_walk_has_returned) {
  ThreadPool pool(4);
  struct Seen {
    std::atomic<bool> walking{false};
    std::atomic<int> inside{0}, calls{0}, late{0};
  } seen;
  std::vector<ThreadPool::Step> steps;
  for (int s = 0; s < 20; ++s) steps.push_back({s % 2 == 0 ? 1u : 6u, s - 1});
  for (int i = 0; i < 500 || (seen.calls == 0 && i < 100'000); ++i) {  // on a busy machine nobody may come in time to wait
    seen.walking = true;
    pool.walk(
        steps,
        [](void*, std::uint32_t, std::uint32_t, unsigned) noexcept {
          for (volatile int spin = 0; spin < 200; spin = spin + 1) {
          }
        },
        &seen, ~0u,
        [](void* context, std::uint32_t step, unsigned) noexcept {
          auto& s = *static_cast<Seen*>(context);
          ++s.inside;
          if (!s.walking || step == 0) ++s.late;
          const bool more = ++s.calls % 7 != 0;
          --s.inside;
          return more;
        });
    EXPECT_EQ(seen.inside, 0);
    seen.walking = false;
  }
  EXPECT_GT(seen.calls, 0);
  EXPECT_EQ(seen.late, 0);
}

TEST(ThreadPool, workers_of_a_machine_with_one_node_run_where_the_process_may) {
  const std::vector<int> cpus = allowed_cpus();
  ThreadPool pool(2);
  if (read_topology("/sys/devices/system", cpus).nodes > 1) GTEST_SKIP() << "several nodes";
  struct Seen {
    std::vector<int> cpus[2];
    std::atomic<unsigned> arrived{0};
  } seen;
  const ThreadPool::Step step{2, -1};
  pool.walk(
      {&step, 1},
      [](void* context, std::uint32_t, std::uint32_t, unsigned worker) noexcept {
        auto& s = *static_cast<Seen*>(context);
        s.cpus[worker] = allowed_cpus();
        ++s.arrived;
        while (s.arrived < 2) std::this_thread::yield();
      },
      &seen);
  EXPECT_EQ(seen.cpus[1], cpus);
}

TEST(ThreadPool, pools_come_and_go) {
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(1 + static_cast<unsigned>(random() % 5));
    if (i % 3 == 0) continue;  // never used
    Work work;
    work.make(random, 5, 5);
    work.run(pool);
    ASSERT_TRUE(work.good());
  }
}

TEST(ThreadPool, more_threads_than_the_system_has_are_an_error_and_not_the_end) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process where a thread cannot start";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers end the process where a thread cannot start";
#endif
#endif
  rlimit old{};
  getrlimit(RLIMIT_AS, &old);
  rlimit small = old;
  small.rlim_cur = rlim_t{1} << 30;  // room for some hundred stacks of 8 MiB
  setrlimit(RLIMIT_AS, &small);
  std::string what;
  try {
    ThreadPool pool(100000);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::resource_exhausted);
    what = e.what();
  }
  setrlimit(RLIMIT_AS, &old);
  EXPECT_NE(what.find("cannot start 100000 threads"), std::string::npos) << what;
}

TEST(ThreadPool, workers_that_fetch_each_other_beside_busy_loops_may_still_run_where_they_could_before) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  std::atomic<bool> stop{false};
  std::vector<std::thread> loops;
  for (int i = 0; i < CPU_COUNT(&before) && i < 8; ++i)
    loops.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  struct Context {
    cpu_set_t before;
    std::atomic<int> done{0}, elsewhere{0};
  } context{.before = before};
  ThreadPool pool(3);
  std::vector<ThreadPool::Step> steps;
  for (std::int32_t s = 0; s < 200; ++s) steps.push_back({6, s - 1});
  const auto work = [](void* c, std::uint32_t, std::uint32_t, unsigned) noexcept {
    auto& of = *static_cast<Context*>(c);
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
    while (std::chrono::steady_clock::now() < end) {
    }
    ++of.done;
  };
  for (int round = 0; round < 3; ++round) pool.walk(steps, work, &context);
  // Nobody waits for anybody now, so every mask is what it was.
  const std::vector<ThreadPool::Step> last = {{1, -1}};
  for (int i = 0; i < 20; ++i)
    pool.walk(
        last,
        [](void* c, std::uint32_t, std::uint32_t, unsigned) noexcept {
          auto& of = *static_cast<Context*>(c);
          cpu_set_t now;
          if (sched_getaffinity(0, sizeof now, &now) != 0 || !CPU_EQUAL(&now, &of.before)) ++of.elsewhere;
        },
        &context);
  stop = true;
  for (std::thread& t : loops) t.join();
  EXPECT_EQ(context.done, 3 * 200 * 6);
  EXPECT_EQ(context.elsewhere, 0);
}

}  // namespace
}  // namespace quern
