#include "plan/profile.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace quern::plan {
namespace {

std::int64_t processor_now() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// Bytes that stay in the processor from one step to the next.
std::int64_t cache_bytes() {
  static const std::int64_t bytes = [] {
    std::int64_t largest = std::int64_t{4} << 20;  // where the system does not say
#if defined(_SC_LEVEL3_CACHE_SIZE)
    largest = std::max<std::int64_t>(largest, ::sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
    return largest;
  }();
  return bytes;
}

Arithmetic arithmetic_of(ir::DType first_input) {
  switch (first_input) {
    case ir::DType::a8:
    case ir::DType::i8:
    case ir::DType::u8: return Arithmetic::int8;
    case ir::DType::f16:
    case ir::DType::bf16: return Arithmetic::bf16;
    default: return Arithmetic::f32;
  }
}

Cost cost_of(const Program& program, const ProgramStep& step, const ir::Call& call, bool activations_in_memory) {
  const ir::Op& op = *step.node->op;
  Cost cost;
  if (op.operations != nullptr)
    cost.operations = op.operations(call);
  else if (has(op.traits, ir::Trait::elementwise))
    cost.operations = double(call.out(0).elements());
  if (!step.inputs.empty() && step.inputs[0] >= 0) cost.arithmetic = arithmetic_of(call.in(0).dtype);
  const auto add = [&](std::size_t i, int slot, const ir::TensorView& view) {
    const double bytes = op.touched_bytes != nullptr ? op.touched_bytes(call, i) : double(view.bytes());
    cost.bytes += bytes;
    if (activations_in_memory || program.storages()[program.slots()[slot].storage].kind != Storage::Kind::arena) cost.memory_bytes += bytes;
  };
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    if (step.inputs[i] >= 0) add(i, step.inputs[i], call.in(i));
  for (std::size_t i = 0; i < step.node->outputs.size(); ++i) add(step.inputs.size() + i, step.outputs[i], call.out(i));  // no workspace
  return cost;
}

}  // namespace

std::int64_t Profile::now() noexcept { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

void Profile::begin(std::span<const ThreadPool::Step> steps, unsigned workers) {
  std::size_t tasks = 0;
  for (const ThreadPool::Step& step : steps) tasks += step.tasks;
  if (tasks > track_tasks_ || workers > tracks_.size()) {
    track_tasks_ = std::max(tasks, track_tasks_);
    tracks_ = std::vector<Track>(std::max<std::size_t>(workers, tracks_.size()));
    for (Track& track : tracks_) track.tasks = std::make_unique_for_overwrite<Task[]>(track_tasks_);
  }
  for (Track& track : tracks_) track.count = 0;
  workers_ = std::max(1u, workers);
  processor_begin_ns_ = processor_now();
  begin_ns_ = now();
}

void Profile::end(const std::shared_ptr<const Program>& program, std::span<const std::int64_t> sizes, std::span<const ir::Call> calls,
                  std::span<const ThreadPool::Step> steps, std::int64_t arena_bytes) {
  const std::int64_t end_ns = now(), processor_ns = processor_now() - processor_begin_ns_;
  Group* group = find(program, sizes, steps.size());
  if (group == nullptr) return;
  ++group->runs;
  group->wall_ns += double(end_ns - begin_ns_);
  group->processor_ns += double(processor_ns);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = group->steps[s];
    step.tasks = steps[s].tasks;
    // The second part of a kernel writes the same slots as the first, which no other step does: a node's cost counts once.
    if (s > 0 && program->steps()[s].outputs == program->steps()[s - 1].outputs) continue;
    // Only ops that count what they touch look at the data.
    if (group->runs == 1 || program->steps()[s].node->op->touched_bytes != nullptr)
      step.run_cost = cost_of(*program, program->steps()[s], calls[s], arena_bytes > cache_bytes());
    step.cost.operations += step.run_cost.operations;
    step.cost.bytes += step.run_cost.bytes;
    step.cost.memory_bytes += step.run_cost.memory_bytes;
    step.cost.arithmetic = step.run_cost.arithmetic;
  }
  divide_time(*group, steps, end_ns);
  keep_events(static_cast<std::uint32_t>(group - groups_.data()), end_ns);
}

Profile::Group* Profile::find(const std::shared_ptr<const Program>& program, std::span<const std::int64_t> sizes, std::size_t steps) {
  for (Group& group : groups_)
    if (group.program == program && group.workers == workers_ &&
        std::equal(sizes.begin(), sizes.end(), group.sizes.begin(), group.sizes.end()))
      return &group;
  if (groups_.size() >= kMaxGroups) {
    complete_ = false;
    return nullptr;
  }
  Group& group = groups_.emplace_back();
  group.program = program;
  group.sizes.assign(sizes.begin(), sizes.end());
  group.workers = workers_;
  group.steps.resize(steps);
  return &group;
}

void Profile::divide_time(Group& group, std::span<const ThreadPool::Step> steps, std::int64_t end_ns) {
  spans_.assign(steps.size(), {end_ns, begin_ns_});
  for (unsigned w = 0; w < workers_; ++w)
    for (std::size_t i = 0; i < tracks_[w].count; ++i) {
      const Task& task = tracks_[w].tasks[i];
      Span& span = spans_[task.step];
      span = {std::min(span.begin_ns, task.begin_ns), std::max(span.end_ns, task.end_ns)};
    }
  last_.resize(steps.size());
  for (std::size_t s = 0; s < steps.size(); ++s)
    last_[s] = s > 0 && spans_[last_[s - 1]].end_ns > spans_[s].end_ns ? last_[s - 1] : static_cast<std::uint32_t>(s);

  // A gap in a worker's time, before a task that waits for steps up to `wait_for`: from its end backwards, to the step that ended last as
  // long as that one ran, then to the one before it …; what is left between them is nobody's.
  const auto divide_gap = [&](std::int64_t begin, std::int64_t end, std::int64_t wait_for) {
    while (wait_for >= 0 && begin < end) {
      const std::uint32_t step = last_[static_cast<std::size_t>(wait_for)];
      if (spans_[step].end_ns <= begin) break;
      const std::int64_t until = std::min(spans_[step].end_ns, end), from = std::clamp(spans_[step].begin_ns, begin, until);
      group.steps[step].waiting_ns += double(until - from);
      group.idle_ns += double(end - until);
      end = from;
      wait_for = std::int64_t{step} - 1;
    }
    group.idle_ns += double(end - begin);
  };
  for (unsigned w = 0; w < workers_; ++w) {
    std::int64_t at = begin_ns_;
    for (std::size_t i = 0; i < tracks_[w].count; ++i) {
      const Task& task = tracks_[w].tasks[i];
      divide_gap(at, task.begin_ns, steps[task.step].wait_for);
      group.steps[task.step].busy_ns += double(task.end_ns - task.begin_ns);
      at = task.end_ns;
    }
    divide_gap(at, end_ns, std::int64_t(steps.size()) - 1);
  }
}

void Profile::keep_events(std::uint32_t group, std::int64_t end_ns) {
  std::size_t tasks = 1;
  for (unsigned w = 0; w < workers_; ++w) tasks += tracks_[w].count;
  if (max_events_ == 0) return;
  if (events_.size() + runs_.size() + tasks > max_events_) {
    complete_ = false;
    return;
  }
  runs_.push_back({begin_ns_, end_ns, group});
  for (unsigned w = 0; w < workers_; ++w)
    for (std::size_t i = 0; i < tracks_[w].count; ++i) {
      const Task& task = tracks_[w].tasks[i];
      events_.push_back({task.begin_ns, task.end_ns, group, task.step, task.task, w});
    }
}

}  // namespace quern::plan
