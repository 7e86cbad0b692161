#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ir/op.h"
#include "plan/program.h"

namespace quern::plan {

/// Which of the machine's peaks a step's arithmetic is compared with, by the type of its first input.
enum class Arithmetic { f32, bf16, int8 };

/// What one run of a step costs, whatever kernel runs it.
struct Cost {
  double operations = 0;
  Arithmetic arithmetic = Arithmetic::f32;
  double bytes = 0;  // read and written
  double memory_bytes =
      0;  // of these, what must come from memory or go there: weights, states, inputs; activations when caches cannot hold them
};

/// What a session's runs took. Set with Session::set_profile; the session writes, anybody reads between two runs. Times are of
/// std::chrono::steady_clock, in nanoseconds.
///
/// The time of all workers during the runs is divided without rest: in tasks of a step; waiting for a step (another worker was in it, and
/// it had to be done first); and idle (at the end of a run, with nothing left to claim, and not yet awake).
class Profile {
 public:
  struct Step {
    double busy_ns = 0, waiting_ns = 0;  // summed over workers and runs
    std::int64_t tasks = 0;              // of one run
    Cost cost;                           // summed over runs
    Cost run_cost;                       // of the latest run
  };
  /// All runs of one program with the same sizes.
  struct Group {
    std::shared_ptr<const Program> program;
    std::vector<std::int64_t> sizes;  // of program->symbols()
    unsigned workers = 0;
    std::int64_t runs = 0;
    double wall_ns = 0, processor_ns = 0;  // processor: of the whole process
    double idle_ns = 0;
    std::vector<Step> steps;  // one a step of the program
  };
  struct Event {
    std::int64_t begin_ns, end_ns;
    std::uint32_t group, step, task;
    std::uint32_t worker;
  };
  struct Run {
    std::int64_t begin_ns, end_ns;
    std::uint32_t group;
  };

  /// `max_events`: tasks and runs to keep one by one; later ones are only summed.
  explicit Profile(std::size_t max_events = 0) : max_events_(max_events) {}

  std::span<const Group> groups() const { return groups_; }
  std::span<const Event> events() const { return events_; }
  std::span<const Run> runs() const { return runs_; }
  bool complete() const { return complete_; }  // every event was kept, and every size had a group

  /// A run begins / has ended. `calls` and `steps`: of the binding. For the session.
  void begin(std::span<const ThreadPool::Step> steps, unsigned workers);
  void end(const std::shared_ptr<const Program>& program, std::span<const std::int64_t> sizes, std::span<const ir::Call> calls,
           std::span<const ThreadPool::Step> steps, std::int64_t arena_bytes);
  /// A task has ended. From the worker that ran it, between begin and end.
  void add(unsigned worker, std::uint32_t step, std::uint32_t task, std::int64_t begin_ns) noexcept {
    Track& track = tracks_[worker];
    track.tasks[track.count++] = {begin_ns, now(), step, task};
  }
  static std::int64_t now() noexcept;

  static constexpr std::size_t kMaxGroups = 256;

 private:
  struct Task {
    std::int64_t begin_ns, end_ns;
    std::uint32_t step, task;
  };
  struct alignas(64) Track {  // of one worker, in this run
    std::unique_ptr<Task[]> tasks;
    std::size_t count = 0;
  };

  Group* find(const std::shared_ptr<const Program>& program, std::span<const std::int64_t> sizes, std::size_t steps);
  void divide_time(Group& group, std::span<const ThreadPool::Step> steps, std::int64_t end_ns);
  void keep_events(std::uint32_t group, std::int64_t end_ns);

  std::size_t max_events_;
  bool complete_ = true;
  std::vector<Group> groups_;
  std::vector<Event> events_;
  std::vector<Run> runs_;

  std::vector<Track> tracks_;
  std::size_t track_tasks_ = 0;  // that a track has room for
  unsigned workers_ = 0;
  std::int64_t begin_ns_ = 0, processor_begin_ns_ = 0;
  struct Span {
    std::int64_t begin_ns, end_ns;
  };
  std::vector<Span> spans_;          // of each step: from the first task's begin to the last one's end
  std::vector<std::uint32_t> last_;  // of each step: which of the steps up to it ended last
};

}  // namespace quern::plan
