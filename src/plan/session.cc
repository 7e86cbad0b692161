#include "plan/session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/memory.h"

namespace quern::plan {
namespace {

constexpr std::int64_t kAlignment = 64;
// A task shorter than this costs more to hand over than to do.
constexpr double kTaskNanoseconds = 3000;
// More tasks than workers let the rest go on when one is put aside; more than this is only counting.
constexpr unsigned kTasksPerWorker = 4;

std::int64_t round_up(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

bool is_empty(const ir::TensorView& view) { return std::find(view.dims, view.dims + view.rank, 0) != view.dims + view.rank; }

// What a worker that waits fetches of later steps: not more than fits beside other things into the second-level cache of today's servers (1
// to 2 MiB), and in pieces of some hundred nanoseconds, so that it is there when the step may begin.
constexpr std::int64_t kMostAhead = 768 << 10;
constexpr std::size_t kAheadBytes = 1 << 10;

constexpr char kHint[] = "give smaller inputs, or a shorter prompt at a time";
// Below this, asking what is left costs more than it saves.
constexpr std::int64_t kUncheckedBytes = std::int64_t{64} << 20;

PageMemory allocate(std::int64_t bytes) {
  // The system promises memory that it does not have; a process that touches it all is killed.
  if (const std::int64_t left = bytes > kUncheckedBytes ? memory().available : 0; left > 0 && bytes > left)
    throw Error(Code::resource_exhausted,
                "activations need " + std::to_string(bytes >> 20) + " MiB, " + std::to_string(left >> 20) + " MiB of memory are left")
        .hint(kHint);
  return PageMemory(static_cast<std::size_t>(bytes), "activations", kHint);
}

}  // namespace

Binding::Binding(const Program& program, std::span<const std::int64_t> values, unsigned workers)
    : program_(&program), values_(values.begin(), values.end()) {
  ir::SymbolValues symbols;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] < 0) throw Error(Code::invalid_argument, "the size '" + program.symbols()[i] + "' is negative");
    symbols.emplace(program.symbols()[i], values_[i]);
  }
  for (const Slot& slot : program.slots()) {
    ir::TensorView view;
    view.dtype = slot.type.dtype;
    view.rank = static_cast<std::int64_t>(slot.type.shape.size());
    for (std::int64_t d = 0; d < view.rank; ++d) {
      view.dims[d] = slot.type.shape[d].evaluate(symbols);
      if (view.dims[d] < 0)
        throw Error(Code::invalid_argument, "'" + slot.name + "' would have the size " + std::to_string(view.dims[d]))
            .hint("the inputs' sizes do not fit the model");
    }
    views_.push_back(view);
  }
  for (const ir::Dim& buffer : program.memory().buffers) {
    buffer_offsets_.push_back(arena_bytes_);
    if (__builtin_add_overflow(arena_bytes_, round_up(buffer.evaluate(symbols)), &arena_bytes_))
      throw Error(Code::resource_exhausted, "activations overflow 64 bits");
  }

  failures_ = std::make_unique<std::atomic<const char*>[]>(program.steps().size());
  std::vector<double> costs;  // of each step, in nanoseconds
  std::size_t operands = 0;
  for (const ProgramStep& step : program.steps()) operands += step.inputs.size() + step.outputs.size();
  operands_.reserve(operands);
  for (const ProgramStep& step : program.steps()) {
    const std::size_t first = operands_.size();
    for (const int slot : step.inputs) operands_.push_back(slot < 0 ? nullptr : &views_[slot]);
    for (const int slot : step.outputs) operands_.push_back(&views_[slot]);
    ir::Call call;
    call.node = step.node.get();
    call.inputs = operands_.data() + first;
    call.outputs = call.inputs + step.inputs.size();
    call.failure = &failures_[calls_.size()];
    Split split = step.kernel->split(call);
    // Where there is nothing to write there is nothing to run, however large the other sizes are.
    if (std::all_of(step.outputs.begin(), step.outputs.end(), [&](int slot) { return is_empty(views_[slot]); })) split.units = 0;
    const double worth = double(split.units) * split.unit_nanoseconds / kTaskNanoseconds;
    const unsigned most = workers == 1 ? 1 : workers * kTasksPerWorker;
    steps_.push_back({static_cast<std::uint32_t>(std::max(1.0, std::min({double(split.units), worth, double(most)}))), step.wait_for});
    units_.push_back(split.units);
    costs.push_back(double(split.units) * split.unit_nanoseconds);
    scratch_bytes_ = std::max(scratch_bytes_, step.kernel->scratch_bytes(call));
    calls_.push_back(call);
  }
  join_small_steps(costs);
}

/// A step that waits for the one before it, when neither is worth a second worker nor both together, is joined with it in the walk: the
/// worker that ends the one goes on with the other at once.
void Binding::join_small_steps(const std::vector<double>& costs) {
  std::vector<std::int32_t> joined(steps_.size());  // which step of the walk each step is in
  double cost = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const bool joins = s > 0 && steps_[s].wait_for == static_cast<std::int32_t>(s) - 1 && steps_[s].tasks == 1 &&
                       steps_[s - 1].tasks == 1 && cost + costs[s] <= kTaskNanoseconds;
    if (!joins) {
      walk_.push_back({steps_[s].tasks, -1});
      walk_first_.push_back(static_cast<std::uint32_t>(s));
      cost = 0;
    }
    cost += costs[s];
    joined[s] = static_cast<std::int32_t>(walk_.size()) - 1;
    // What it needs beside its neighbour may not be done just because its neighbour could begin.
    for (const int needed : program_->steps()[s].needs)
      if (const std::int32_t in = joined[static_cast<std::size_t>(needed)]; in < joined[s])
        walk_.back().wait_for = std::max(walk_.back().wait_for, in);
  }
  walk_first_.push_back(static_cast<std::uint32_t>(steps_.size()));
  readers_.resize(walk_.size());
  auto reader = static_cast<std::uint32_t>(steps_.size());
  for (std::size_t w = walk_.size(); w-- > 0;) {
    for (std::uint32_t s = walk_first_[w + 1]; s-- > walk_first_[w];)
      if (!program_->steps()[s].kernel->constants(calls_[s], 0, units_[s], 0).empty()) reader = s;
    readers_[w] = reader;
  }
}

void Binding::point_at(std::byte* arena) {
  if (arena == arena_) return;
  arena_ = arena;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const Storage& storage = program_->storages()[program_->slots()[i].storage];
    if (storage.kind == Storage::Kind::arena) views_[i].data = arena + buffer_offsets_[storage.index];
    if (storage.kind == Storage::Kind::constant) views_[i].data = const_cast<std::byte*>(storage.constant);
  }
}

Session::Session(std::shared_ptr<const Program> program, ThreadPool& pool)
    : program_(std::move(program)), pool_(pool), ahead_(std::make_unique<Ahead[]>(pool.workers())) {
  states_.resize(program_->states().size());
}

Binding& Session::bind(std::span<const std::int64_t> values) {
  QUERN_ASSERT(values.size() == program_->symbols().size());
  ++clock_;
  if (Binding* binding = find(values)) {
    binding->last_used_ = clock_;
    return *binding;
  }
  auto made = std::unique_ptr<Binding>(new Binding(*program_, values, pool_.workers()));
  made->last_used_ = clock_;
  reserve(made->arena_bytes_, made->scratch_bytes_);
  if (bindings_.size() >= kMaxBindings) {
    auto oldest =
        std::min_element(bindings_.begin(), bindings_.end(), [](const auto& a, const auto& b) { return a->last_used_ < b->last_used_; });
    *oldest = std::move(made);
    return **oldest;
  }
  bindings_.push_back(std::move(made));
  return *bindings_.back();
}

Binding* Session::find(std::span<const std::int64_t> values) const {
  for (const auto& binding : bindings_)
    if (std::equal(values.begin(), values.end(), binding->values_.begin(), binding->values_.end())) return binding.get();
  return nullptr;
}

void Session::reserve(std::int64_t arena, std::int64_t scratch) {
  // What is there goes first, so that memory never holds both.
  if (arena > arena_capacity_ || arena_.data() == nullptr) {
    arena_ = PageMemory();
    arena_capacity_ = 0;
    arena_ = allocate(arena);
    arena_capacity_ = arena;
  }
  const std::int64_t stride = round_up(scratch);
  if (stride > scratch_stride_) {
    scratch_ = PageMemory();
    scratch_stride_ = scratch_capacity_ = 0;
    scratch_ = allocate(stride * pool_.workers());
    scratch_stride_ = stride;
    scratch_capacity_ = stride * pool_.workers();
  }
}

void Session::run(Binding& binding, std::span<const std::byte* const> inputs, unsigned max_workers) {
  QUERN_ASSERT(inputs.size() == program_->inputs().size());
  binding.point_at(arena_.data());
  // Inputs and states lie where the caller says, this time; views of them (reshapes) share their storage.
  for (std::size_t i = 0; i < binding.views_.size(); ++i) {
    const Storage& storage = program_->storages()[program_->slots()[i].storage];
    if (storage.kind == Storage::Kind::input) binding.views_[i].data = const_cast<std::byte*>(inputs[storage.index]);
    if (storage.kind == Storage::Kind::state) {
      binding.views_[i].data = states_[storage.index].data;
      binding.views_[i].gap_stride = states_[storage.index].stride;
    }
  }
  running_ = &binding;
  std::fill_n(ahead_.get(), pool_.workers(), Ahead());
  const ThreadPool::Meanwhile fetch = [](void* context, std::uint32_t joined, unsigned worker) noexcept {
    return static_cast<Session*>(context)->fetch_ahead(joined, worker);
  };
  if (profile_ == nullptr) {
    pool_.walk(binding.walk_, run_joined, this, max_workers, fetch);
  } else {
    profile_->begin(binding.steps_, std::min(max_workers, pool_.workers()));
    pool_.walk(binding.walk_, run_joined_in_profile, this, max_workers, fetch);
    profile_->end(program_, binding.values_, binding.calls_, binding.steps_, binding.arena_bytes_);
  }
  // The first step in order that failed: those after it may have met what it left unfinished.
  const std::size_t steps = binding.calls_.size();
  for (std::size_t s = 0; s < steps; ++s)
    if (const char* what = binding.failures_[s].load(std::memory_order_relaxed)) {
      for (std::size_t i = s; i < steps; ++i) binding.failures_[i].store(nullptr, std::memory_order_relaxed);
      const ir::Node& node = *program_->steps()[s].node;
      throw Error(Code::invalid_argument, std::string(node.op->name) + ": " + what).in("node '" + node.name + "'");
    }
}

void Session::run_task(std::uint32_t step, std::uint32_t task, unsigned worker) const noexcept {
  const Binding& binding = *running_;
  const std::int64_t units = binding.units_[step], tasks = binding.steps_[step].tasks;
  const std::int64_t begin = units * task / tasks, end = units * (task + 1) / tasks;
  if (begin == end) return;
  program_->steps()[step].kernel->run(binding.calls_[step], begin, end, scratch_.data() + worker * scratch_stride_);
}

/// Asks memory for some of what the worker's first tasks of the next step with constants will read.
bool Session::fetch_ahead(std::uint32_t joined, unsigned worker) noexcept {
  const Binding& binding = *running_;
  const std::uint32_t step = binding.readers_[joined];
  if (step == binding.steps_.size()) return false;
  Ahead& ahead = ahead_[worker];
  if (ahead.step != step) ahead = {.step = step};
  if (ahead.fetched >= kMostAhead) return false;
  const std::int64_t units = binding.units_[step], tasks = binding.steps_[step].tasks;
  const std::optional<std::uint32_t> task = pool_.likely_task(binding.steps_[step].tasks, worker, ahead.tasks);
  if (!task) return false;
  const std::span<const std::byte> piece =
      program_->steps()[step].kernel->constants(binding.calls_[step], units * *task / tasks, units * (*task + 1) / tasks, ahead.piece);
  if (piece.empty()) {
    ++ahead.tasks;
    ahead.piece = 0;
    return true;
  }
  const std::size_t end = std::min(piece.size(), ahead.offset + kAheadBytes);
  for (std::size_t i = ahead.offset; i < end; i += 64) __builtin_prefetch(piece.data() + i, 0, 2);
  ahead.fetched += static_cast<std::int64_t>(end - ahead.offset);
  ahead.offset = end;
  if (end == piece.size()) {
    ++ahead.piece;
    ahead.offset = 0;
  }
  return true;
}

void Session::run_joined(void* context, std::uint32_t joined, std::uint32_t task, unsigned worker) noexcept {
  const auto& session = *static_cast<const Session*>(context);
  const std::vector<std::uint32_t>& first = session.running_->walk_first_;
  for (std::uint32_t step = first[joined]; step < first[joined + 1]; ++step) session.run_task(step, task, worker);
}

void Session::run_joined_in_profile(void* context, std::uint32_t joined, std::uint32_t task, unsigned worker) noexcept {
  const auto& session = *static_cast<const Session*>(context);
  const std::vector<std::uint32_t>& first = session.running_->walk_first_;
  for (std::uint32_t step = first[joined]; step < first[joined + 1]; ++step) {
    const std::int64_t begin = Profile::now();
    session.run_task(step, task, worker);
    session.profile_->add(worker, step, task, begin);
  }
}

}  // namespace quern::plan
