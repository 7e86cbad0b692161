#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/page_memory.h"
#include "base/thread_pool.h"
#include "plan/profile.h"
#include "plan/program.h"

namespace quern::plan {

/// A program laid out for one set of symbol values: every shape a number, every view in place. Owned by its session.
class Binding {
 public:
  /// Input i of the program (states not counted), output i. The output's bytes are valid until the session's next bind or run.
  const ir::TensorView& input(std::size_t i) const { return views_[program_->inputs()[i]]; }
  const ir::TensorView& output(std::size_t i) const { return views_[program_->outputs()[i]]; }

 private:
  friend class Session;
  Binding(const Program& program, std::span<const std::int64_t> values, unsigned workers);
  void join_small_steps(const std::vector<double>& costs);
  void point_at(std::byte* arena);

  const Program* program_;
  std::vector<std::int64_t> values_;
  std::vector<ir::TensorView> views_;         // one a slot
  std::vector<std::int64_t> buffer_offsets_;  // of the arena
  std::int64_t arena_bytes_ = 0, scratch_bytes_ = 0;
  std::byte* arena_ = nullptr;                            // what the views point at now
  std::vector<const ir::TensorView*> operands_;           // inputs then outputs of all steps, one after the other
  std::vector<ir::Call> calls_;                           // one a step
  std::unique_ptr<std::atomic<const char*>[]> failures_;  // of each step: what its kernel met; null between runs
  std::vector<ThreadPool::Step> steps_;
  std::vector<ThreadPool::Step> walk_;     // what the pool walks: steps, small neighbours joined
  std::vector<std::uint32_t> walk_first_;  // the first step of each of them, and the number of steps
  std::vector<std::uint32_t> readers_;     // of each of them: the next step from there on whose kernel reads constants
  std::vector<std::int64_t> units_;        // of each step, divided evenly among its tasks
  std::uint64_t last_used_ = 0;
};

/// Runs a program again and again: owns the arena, the workers' scratch memory and the latest bindings. Not for concurrent use.
class Session {
 public:
  Session(std::shared_ptr<const Program> program, ThreadPool& pool);

  const Program& program() const { return *program_; }
  /// The layout for these symbol values (in the order of program().symbols()); kept for the next time, the least recently used of
  /// kMaxBindings is dropped. Errors: invalid_argument (a size is negative or makes no sense), resource_exhausted (too large).
  Binding& bind(std::span<const std::int64_t> values);
  /// Whether bind() would find that layout made.
  bool is_bound(std::span<const std::int64_t> values) const { return find(values) != nullptr; }
  /// Where state i lies; must be set before the first run and stay valid. Its shape is that of the program's slot, evaluated. `stride`:
  /// bytes from one index of its first dimension to the next, so that the same index of many states can lie together; 0: it is dense.
  void set_state(std::size_t i, std::byte* data, std::int64_t stride = 0) { states_[i] = {data, stride}; }
  /// Runs all steps. `inputs`: the bytes of each input, of the binding's shapes. At most `max_workers` take part; the result does not
  /// depend on it. Errors: invalid_argument when a kernel met data it cannot use (an index out of range); the outputs are then undefined.
  void run(Binding& binding, std::span<const std::byte* const> inputs, unsigned max_workers = ~0u);
  /// Every run from now on is written down in `profile`, which must live as long; null: in none. Without one it costs nothing.
  void set_profile(Profile* profile) { profile_ = profile; }
  /// Bytes of arena and scratch held now.
  std::int64_t memory_bytes() const { return arena_capacity_ + scratch_capacity_; }

  static constexpr std::size_t kMaxBindings = 64;

 private:
  struct State {
    std::byte* data = nullptr;
    std::int64_t stride = 0;
  };
  void run_task(std::uint32_t step, std::uint32_t task, unsigned worker) const noexcept;
  /// How far a worker has come with fetching what its first tasks of a step will read.
  struct alignas(64) Ahead {
    std::uint32_t step = ~0u, tasks = 0;  // tasks: of it, fetched as a whole
    std::int64_t fetched = 0;             // bytes of the step
    std::size_t piece = 0, offset = 0;    // of the task
  };
  bool fetch_ahead(std::uint32_t joined, unsigned worker) noexcept;
  static void run_joined(void* context, std::uint32_t joined, std::uint32_t task, unsigned worker) noexcept;
  static void run_joined_in_profile(void* context, std::uint32_t joined, std::uint32_t task, unsigned worker) noexcept;
  Binding* find(std::span<const std::int64_t> values) const;
  void reserve(std::int64_t arena, std::int64_t scratch);

  std::shared_ptr<const Program> program_;
  ThreadPool& pool_;
  std::vector<std::unique_ptr<Binding>> bindings_;
  std::vector<State> states_;
  PageMemory arena_, scratch_;
  std::int64_t arena_capacity_ = 0, scratch_capacity_ = 0, scratch_stride_ = 0;
  std::uint64_t clock_ = 0;
  Binding* running_ = nullptr;
  std::unique_ptr<Ahead[]> ahead_;  // by worker
  Profile* profile_ = nullptr;
};

}  // namespace quern::plan
