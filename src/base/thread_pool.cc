#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <string>

#include "base/cpu.h"
#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quern {
namespace {

// Long enough for a partner that is running to finish a task of ordinary size, short enough that a core is not wasted while it is not.
constexpr auto kSpin = std::chrono::microseconds(30);
// Between two walks (sampling, scheduling) workers stay awake a little longer: waking costs 5–50 µs.
constexpr auto kSpinBetweenWalks = std::chrono::microseconds(100);

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `ready` says so; false when the time is over.
template <class Ready>
bool spin(std::chrono::nanoseconds limit, Ready ready) {
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

constexpr std::uint64_t word(std::uint32_t number, std::uint32_t count) { return std::uint64_t{number} << 32 | count; }
constexpr std::uint32_t number_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
constexpr std::uint32_t count_of(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

/// The calling thread runs on these hardware threads only; where the system refuses, anywhere.
void run_on(const std::vector<int>& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &mask);
  ::sched_setaffinity(0, sizeof mask, &mask);
}

/// Asks Linux (6.12 and later; older ones do nothing) to give the calling thread its share of a busy core in short pieces: at the same
/// priority, so nobody gets less. A worker that is put aside in a task makes the others wait, hence sleep; with short pieces it is back
/// soon, and they, woken, need not wait for the end of somebody's piece: all run at the same moments (docs/decisions/0006 has figures).
void ask_for_short_slices() {
#if defined(SYS_sched_setattr)
  struct {  // struct sched_attr, version 0: sched_setattr(2)
    std::uint32_t size = 48, policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
  } attributes;
  static_assert(sizeof attributes == 48);
  constexpr std::uint64_t kSlice = 100'000;  // the least that Linux takes
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = kSlice;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);  // refused: as before
#endif
}

/// Nanoseconds that a thread has run; -1 when the system will not say.
std::int64_t run_time(clockid_t clock) {
  timespec t;
  return ::clock_gettime(clock, &t) == 0 ? t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec : -1;
}

std::atomic<unsigned> default_workers{0};

// Of a node: each worker looks at each team's share of each step, so more of them would cost more than they save.
constexpr unsigned kMostTeams = 4;

}  // namespace

ThreadPool::ThreadPool(unsigned workers) : ThreadPool(workers, read_topology("/sys/devices/system", allowed_cpus())) {}

ThreadPool::ThreadPool(unsigned workers, const Topology& topology) {
  if (workers == 0) workers = static_cast<unsigned>(usable_cores());
  try {
    workers_ = std::make_unique<Worker[]>(workers);
    const std::vector<int> nodes = spread_workers(topology, workers);
    make_teams(nodes);
    threads_.reserve(workers - 1);
    for (unsigned w = 1; w < workers; ++w)
      threads_.emplace_back([this, w, near = topology.nodes > 1 ? topology.cpus_of(nodes[w]) : std::vector<int>()] {
        ask_for_short_slices();
        if (!near.empty()) run_on(near);
        workers_[w].is_this_thread();
        worker_loop(w);
      });
  } catch (const std::exception& e) {  // the limits of the system; length_error and bad_alloc of absurd numbers
    stop();
    throw Error(Code::resource_exhausted, "cannot start " + std::to_string(workers) + " threads: " + e.what()).hint("ask for fewer");
  }
}

ThreadPool::~ThreadPool() { stop(); }

/// `nodes`: of each worker, ascending.
void ThreadPool::make_teams(const std::vector<int>& nodes) {
  std::vector<unsigned> team_nodes;
  for (auto begin = nodes.begin(); begin != nodes.end(); ++nodes_) {
    const auto end = std::upper_bound(begin, nodes.end(), *begin);
    const auto count = static_cast<unsigned>(end - begin), teams = std::min(count, kMostTeams);
    for (unsigned w = 0; w < count; ++w) worker_teams_.push_back(static_cast<int>(team_nodes.size() + w * teams / count));
    team_nodes.insert(team_nodes.end(), teams, nodes_);
    begin = end;
  }
  const auto teams = static_cast<unsigned>(team_nodes.size());
  claim_order_.resize(teams);
  for (unsigned own = 0; own < teams; ++own) {
    std::vector<unsigned>& order = claim_order_[own];
    for (const bool near : {true, false})
      for (unsigned i = 0; i < teams; ++i)
        if (const unsigned team = (own + i) % teams; (team_nodes[team] == team_nodes[own]) == near) order.push_back(team);
  }
}

std::optional<std::uint32_t> ThreadPool::likely_task(std::uint32_t tasks, unsigned worker, std::uint32_t before) const {
  const int team = worker_teams_[worker];
  const auto [first, last] = std::equal_range(worker_teams_.begin(), worker_teams_.end(), team);
  const auto mates = static_cast<std::uint32_t>(last - first), index = worker - static_cast<std::uint32_t>(first - worker_teams_.begin());
  const Share share = share_of_group(tasks, worker_teams_, team);
  const std::uint64_t from_end = index + std::uint64_t{mates} * before;
  if (from_end >= share.end - share.begin) return std::nullopt;
  return share.end - 1 - static_cast<std::uint32_t>(from_end);
}

void ThreadPool::stop() {
  stop_.store(true);
  number_.fetch_add(2);
  number_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::walk(std::span<const Step> steps, Task task, void* context, unsigned max_workers, Meanwhile meanwhile) {
  if (steps.empty()) return;
  if (thread_local bool asked = false; max_workers > 1 && !asked && !threads_.empty()) {
    asked = true;
    ask_for_short_slices();
  }
  const std::lock_guard lock(one_walk_);
  if (max_workers > 1) workers_[0].is_this_thread();
  if (steps.size() > board_size_) {
    board_size_ = steps.size() + steps.size() / 2;
    boards_.push_back(std::make_unique<Board>(
        Board{std::make_unique<Progress[]>(board_size_), std::make_unique<Queue[]>(board_size_ * (claim_order_.size() - 1))}));
  }
  const std::uint32_t number = number_.load(std::memory_order_relaxed) + 2;
  number_.store(number - 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const Board& board = *boards_.back();
  const std::size_t teams = claim_order_.size();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    board.steps[i].wait_for.store(steps[i].wait_for, std::memory_order_relaxed);
    board.steps[i].unfinished.store(word(number, steps[i].tasks), std::memory_order_relaxed);
    for (std::size_t team = 1; team < teams; ++team) {
      const Share share = share_of_group(steps[i].tasks, worker_teams_, static_cast<int>(team));
      Queue& queue = board.queues[i * (teams - 1) + team - 1];
      queue.first.store(share.begin, std::memory_order_relaxed);
      queue.unclaimed.store(word(number, share.end - share.begin), std::memory_order_release);
    }
    board.steps[i].unclaimed.store(word(number, share_of_group(steps[i].tasks, worker_teams_, 0).end), std::memory_order_release);
  }
  const Walk walk{number, static_cast<std::uint32_t>(steps.size()), &board, task, meanwhile, context};
  announced_steps_.store(walk.steps, std::memory_order_relaxed);
  announced_workers_.store(max_workers, std::memory_order_relaxed);
  announced_board_.store(&board, std::memory_order_relaxed);
  announced_task_.store(task, std::memory_order_relaxed);
  announced_meanwhile_.store(meanwhile, std::memory_order_relaxed);
  announced_context_.store(context, std::memory_order_relaxed);
  // Sequentially consistent: notify_all looks for sleepers, and a look that overtakes the store misses one that is just going to sleep.
  number_.store(number, std::memory_order_seq_cst);
  if (max_workers > 1) number_.notify_all();

  take_part(walk, 0);
  for (std::uint32_t s = 0; s < walk.steps; ++s) wait_until_done(walk, s, walk.steps, 0);
  if (meanwhile == nullptr) return;
  for (unsigned w = 1; w < workers(); ++w)  // one may still do something meanwhile
    while (!spin(kSpin, [&] { return !workers_[w].in_task.load(std::memory_order_seq_cst); })) fetch_workers_put_aside(0);
}

void ThreadPool::worker_loop(unsigned worker) {
  std::uint32_t seen = 0;
  for (;;) {
    std::uint32_t number = seen;
    const auto announced = [&] {
      number = number_.load(std::memory_order_acquire);
      return number != seen && number % 2 == 0;
    };
    if (!spin(kSpinBetweenWalks, announced)) {
      number_.wait(number, std::memory_order_acquire);
      continue;
    }
    if (stop_.load()) return;
    const Walk walk{number,
                    announced_steps_.load(std::memory_order_relaxed),
                    announced_board_.load(std::memory_order_relaxed),
                    announced_task_.load(std::memory_order_relaxed),
                    announced_meanwhile_.load(std::memory_order_relaxed),
                    announced_context_.load(std::memory_order_relaxed)};
    const unsigned max_workers = announced_workers_.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (number_.load(std::memory_order_relaxed) != number) continue;  // another walk was announced while we read
    seen = number;
    if (worker < max_workers) take_part(walk, worker);
  }
}

void ThreadPool::take_part(const Walk& walk, unsigned worker) {
  std::int32_t done = 0;  // steps [0, done) are known to be done
  const std::vector<unsigned>& teams = claim_order_[static_cast<std::size_t>(worker_teams_[worker])];
  for (std::uint32_t s = 0; s < walk.steps; ++s)
    for (const unsigned team : teams)
      if (!take_tasks(walk, s, team, worker, done)) return;
}

/// What is left of a team's share of a step. False when the walk is over.
bool ThreadPool::take_tasks(const Walk& walk, std::uint32_t s, unsigned team, unsigned worker, std::int32_t& done) {
  Progress& p = walk.board->steps[s];
  Queue* queue = team == 0 ? nullptr : &walk.board->queues[s * (claim_order_.size() - 1) + team - 1];
  std::atomic<std::uint64_t>& unclaimed_tasks = queue == nullptr ? p.unclaimed : queue->unclaimed;
  std::uint64_t unclaimed = unclaimed_tasks.load(std::memory_order_acquire);
  for (;;) {
    if (number_of(unclaimed) != walk.number) return false;
    if (count_of(unclaimed) == 0) return true;
    for (const std::int32_t needed = p.wait_for.load(std::memory_order_relaxed); done <= needed; ++done)
      if (!wait_until_done(walk, static_cast<std::uint32_t>(done), s, worker)) return false;
    if (!unclaimed_tasks.compare_exchange_weak(unclaimed, unclaimed - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    const std::uint32_t first = queue == nullptr ? 0 : queue->first.load(std::memory_order_relaxed);
    workers_[worker].in_task.store(true, std::memory_order_relaxed);
    walk.task(walk.context, s, first + count_of(unclaimed) - 1, worker);
    workers_[worker].in_task.store(false, std::memory_order_relaxed);
    if (count_of(p.unfinished.fetch_sub(1, std::memory_order_seq_cst)) == 1 && sleepers_.load(std::memory_order_seq_cst) != 0) {
      wake_.fetch_add(1, std::memory_order_seq_cst);
      wake_.notify_all();
    }
    unclaimed = unclaimed_tasks.load(std::memory_order_acquire);
  }
}

void ThreadPool::Worker::is_this_thread() {
  clockid_t of_thread;
  const bool known = ::pthread_getcpuclockid(::pthread_self(), &of_thread) == 0;
  clock.store(known ? of_thread : 0, std::memory_order_relaxed);
  thread.store(known ? ::gettid() : 0, std::memory_order_relaxed);
}

/// A worker that is about to sleep gives its core to those it waits for, if they are in a task and do not run: another process has their
/// core for milliseconds, and nobody would come to fetch them, since to the system no core is idle. They may run anywhere again at once.
void ThreadPool::fetch_workers_put_aside(unsigned worker) {
  constexpr auto kLook = std::chrono::microseconds(5);  // who runs has run after that
  constexpr unsigned kMost = 64;
  std::int64_t before[kMost];
  const unsigned count = std::min(workers(), kMost);
  bool any = false;
  for (unsigned w = 0; w < count; ++w) {
    before[w] = w != worker && workers_[w].in_task.load(std::memory_order_relaxed) ? run_time(workers_[w].clock.load()) : -1;
    any = any || before[w] >= 0;
  }
  if (!any) return;
  spin(kLook, [] { return false; });
  for (unsigned w = 0; w < count; ++w) {
    Worker& other = workers_[w];
    if (before[w] < 0 || !other.in_task.load(std::memory_order_relaxed) || run_time(other.clock.load()) != before[w]) continue;
    if (other.being_moved.exchange(true)) continue;
    cpu_set_t mask, here;
    const int cpu = ::sched_getcpu();
    const pid_t thread = other.thread.load();
    if (thread != 0 && cpu >= 0 && cpu < CPU_SETSIZE && ::sched_getaffinity(thread, sizeof mask, &mask) == 0 && CPU_ISSET(cpu, &mask)) {
      CPU_ZERO(&here);
      CPU_SET(cpu, &here);
      if (::sched_setaffinity(thread, sizeof here, &here) == 0) ::sched_setaffinity(thread, sizeof mask, &mask);
    }
    other.being_moved.store(false);
  }
}

/// False when the walk is over (it was left behind by a worker that came late).
bool ThreadPool::wait_until_done(const Walk& walk, std::uint32_t step, std::uint32_t next, unsigned worker) {
  std::uint64_t unfinished = 0;
  const auto settled = [&] {
    unfinished = walk.board->steps[step].unfinished.load(std::memory_order_seq_cst);
    return count_of(unfinished) == 0 || number_of(unfinished) != walk.number;
  };
  if (walk.meanwhile != nullptr && next < walk.steps) {
    // The walk does not return while this is set, and it cannot have returned where a step is not done: both in one order for all.
    workers_[worker].in_task.store(true, std::memory_order_seq_cst);
    while (!settled() && walk.meanwhile(walk.context, next, worker)) {
    }
    workers_[worker].in_task.store(false, std::memory_order_seq_cst);
  }
  while (!settled() && !spin(kSpin, settled)) {
    fetch_workers_put_aside(worker);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t before = wake_.load(std::memory_order_seq_cst);
    if (!settled()) wake_.wait(before, std::memory_order_seq_cst);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return number_of(unfinished) == walk.number;
}

void set_default_workers(unsigned workers) { default_workers.store(workers); }

ThreadPool& process_pool() {
  static ThreadPool pool(default_workers.load());
  return pool;
}

}  // namespace quern
