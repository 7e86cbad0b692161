#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/topology.h"

namespace quern {

/// The workers of the process, who walk lists of steps together. One walk at a time; the calling thread takes part as worker 0.
///
/// A step is a number of tasks that may run in any order on any worker. Workers are in teams of one or a few, all of one node of the
/// machine, and each team has its share of a step's tasks, the same of every step of as many (share_of_group): its workers claim those
/// first, then those of other teams, of their own node before the rest. So what a task touched first lies near the workers who run that
/// task again, and a worker that waits knows what it will read next. Workers claim tasks one by one, so a worker that the operating system
/// has put aside holds up nobody but the one task it may be in: on a machine busy with other work the rest go on without it. A step that
/// needs the results of earlier steps waits for those steps to be done, not for workers to arrive. Waiting is a spin of microseconds, then
/// sleep. Nothing here allocates once a walk of that many steps has been made before.
class ThreadPool {
 public:
  struct Step {
    std::uint32_t tasks;    // at least 1
    std::int32_t wait_for;  // every step up to and including this one must be done first; -1: none
  };
  using Task = void (*)(void* context, std::uint32_t step, std::uint32_t task, unsigned worker) noexcept;

  /// Does a little that makes a later step faster, for a worker that waits to begin `step`; false when there is nothing more to do.
  using Meanwhile = bool (*)(void* context, std::uint32_t step, unsigned worker) noexcept;

  /// `workers` counts the calling thread; 0 takes one a physical core that this process may use.
  /// Errors: resource_exhausted when the system refuses so many threads.
  explicit ThreadPool(unsigned workers = 0);
  /// The same on a machine of that shape. Where it has several nodes, the workers are spread over them (spread_workers) and each may run on
  /// any core of its own, so that the pages it touches first stay near. Within a node nothing is pinned: beside other work a pinned worker
  /// waits for its core while another one is free. The calling thread is left alone.
  ThreadPool(unsigned workers, const Topology& topology);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned workers() const { return static_cast<unsigned>(threads_.size()) + 1; }
  /// Over how many nodes the workers are spread.
  unsigned nodes() const { return nodes_; }
  /// Of a step of so many tasks, the one that this worker is likely to be in after `before` others; nothing when its team has no more.
  std::optional<std::uint32_t> likely_task(std::uint32_t tasks, unsigned worker, std::uint32_t before) const;
  /// Runs all steps and returns when every task has ended. At most `max_workers` take part. Any thread may call it; one walk goes after the
  /// other. Not from within a task.
  /// While a worker waits to begin a step it calls `meanwhile`, if there is one, until that has nothing more to do.
  void walk(std::span<const Step> steps, Task task, void* context, unsigned max_workers = ~0u, Meanwhile meanwhile = nullptr);

 private:
  // One line of cache a step. The upper half of both words is the walk they belong to: a worker that comes late sees a number that is not
  // its own and leaves without touching anything of the caller's.
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> unclaimed{0};  // of the first team's share; tasks are claimed from its end
    std::atomic<std::uint64_t> unfinished{0};
    std::atomic<std::int32_t> wait_for{-1};
  };
  /// The share of a further team.
  struct alignas(64) Queue {
    std::atomic<std::uint64_t> unclaimed{0};
    std::atomic<std::uint32_t> first{0};
  };
  struct Board {
    std::unique_ptr<Progress[]> steps;
    std::unique_ptr<Queue[]> queues;  // teams - 1 of the first step, and so on
  };
  struct Walk {
    std::uint32_t number;
    std::uint32_t steps;
    const Board* board;
    Task task;
    Meanwhile meanwhile;
    void* context;
  };

  /// What the others must know of a worker to help it along when it is put aside in a task. One line of cache each.
  struct alignas(64) Worker {
    std::atomic<bool> in_task{false};
    std::atomic<bool> being_moved{false};
    std::atomic<std::int32_t> thread{0};  // the system's number; 0: unknown
    std::atomic<std::int32_t> clock{0};   // of its CPU time
    void is_this_thread();
  };

  void make_teams(const std::vector<int>& nodes);
  void stop();
  void fetch_workers_put_aside(unsigned worker);
  void worker_loop(unsigned worker);
  void take_part(const Walk& walk, unsigned worker);
  bool take_tasks(const Walk& walk, std::uint32_t step, unsigned team, unsigned worker, std::int32_t& done);
  bool wait_until_done(const Walk& walk, std::uint32_t step, std::uint32_t next, unsigned worker);

  std::mutex one_walk_;
  std::vector<std::unique_ptr<Board>> boards_;      // the last is in use; older ones are kept for workers that come late
  std::size_t board_size_ = 0;                      // steps
  std::vector<int> worker_teams_;                   // counted from 0, ascending
  std::vector<std::vector<unsigned>> claim_order_;  // of each team: whose tasks its workers claim, first their own
  unsigned nodes_ = 0;

  // What is announced; read between two looks at number_ (odd while it is being written).
  std::atomic<std::uint32_t> number_{0};
  std::atomic<std::uint32_t> announced_steps_{0}, announced_workers_{0};
  std::atomic<const Board*> announced_board_{nullptr};
  std::atomic<Task> announced_task_{nullptr};
  std::atomic<Meanwhile> announced_meanwhile_{nullptr};
  std::atomic<void*> announced_context_{nullptr};

  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> wake_{0};
  std::atomic<bool> stop_{false};
  std::unique_ptr<Worker[]> workers_;
  std::vector<std::thread> threads_;
};

/// Runs work(0) … work(count - 1) in any order, on all workers of a pool, or on the calling thread when it is null.
template <class Work>
void for_each_task(ThreadPool* pool, std::size_t count, const Work& work) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // tasks are counted in 32 bits
  for (std::size_t first = 0; first < count; first += kMost) {
    struct Context {
      const Work* work;
      std::size_t first;
    } context{&work, first};
    const auto tasks = static_cast<std::uint32_t>(count - first < kMost ? count - first : kMost);
    if (pool == nullptr) {
      for (std::uint32_t task = 0; task < tasks; ++task) work(first + task);
      continue;
    }
    const ThreadPool::Step step{tasks, -1};
    pool->walk(
        {&step, 1},
        [](void* c, std::uint32_t, std::uint32_t task, unsigned) noexcept {
          const auto& of = *static_cast<Context*>(c);
          (*of.work)(of.first + task);
        },
        &context);
  }
}

/// The pool that everything in the process shares, made on first use with `default_workers` (see set_default_workers).
ThreadPool& process_pool();
/// How many workers process_pool() will have; 0: one a physical core. Has no effect once the pool is made.
void set_default_workers(unsigned workers);

}  // namespace quern
