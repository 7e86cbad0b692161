#include "backends/cpu/measure/measure.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/measure/loops.h"
#include "base/cpu.h"
#include "base/page_memory.h"

namespace quern::cpu {
namespace {

float f32_baseline(std::int64_t rounds) {
  float x[4 * kAccumulators];
  for (int i = 0; i < 4 * kAccumulators; ++i) x[i] = float(i);
  for (std::int64_t r = 0; r < rounds; ++r)
    for (float& lane : x) lane = lane * 0.5f + 0.25f;
  float total = 0;
  for (const float lane : x) total += lane;
  return total;
}

float bf16_baseline(std::int64_t rounds) {
  std::uint32_t pairs[kBf16Pairs];
  for (int i = 0; i < kBf16Pairs; ++i) pairs[i] = 0x3c003c00u + std::uint32_t(i);
  float low[8] = {}, high[8] = {};
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kBf16Pairs; i += 8)
      for (int j = 0; j < 8; ++j) {
        low[j] += std::bit_cast<float>(pairs[i + j] << 16) * 1e-3f;
        high[j] += std::bit_cast<float>(pairs[i + j] & 0xffff0000u) * 1e-3f;
      }
  float total = 0;
  for (int j = 0; j < 8; ++j) total += low[j] + high[j];
  return total;
}

float int8_baseline(std::int64_t rounds) {
  std::int8_t a[kInt8Bytes], b[kInt8Bytes];
  for (int i = 0; i < kInt8Bytes; ++i) a[i] = static_cast<std::int8_t>(i), b[i] = static_cast<std::int8_t>(i >> 3);
  std::uint32_t total = 0;
  for (std::int64_t r = 0; r < rounds; ++r) {
    a[r % kInt8Bytes] ^= 1;  // else one round could stand for all
    std::int32_t sum = 0;
    for (int i = 0; i < kInt8Bytes; ++i) sum += std::int32_t{a[i]} * b[i];
    total += static_cast<std::uint32_t>(sum);
  }
  return static_cast<float>(total);
}

std::uint64_t read_baseline(const std::byte* data, std::size_t bytes) {
  std::uint64_t x[16] = {};
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  for (std::size_t at = 0; at < bytes / 8; at += 16) {
    __builtin_prefetch(words + at + kReadAhead / 8);
    __builtin_prefetch(words + at + kReadAhead / 8 + 8);
    for (std::size_t i = 0; i < 16; ++i) x[i] += words[at + i];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t word : x) total += word;
  return total;
}

struct Loop {
  RegisterLoop run;
  double operations;  // a round
};

struct Loops {
  Isa isa;
  Loop f32, bf16, int8;
  ReadLoop read;
};

constexpr Loops kLoops[] = {
    {Isa::baseline, {f32_baseline, kOpsF32Baseline}, {bf16_baseline, kOpsBf16Emulated}, {int8_baseline, kOpsInt8Baseline}, read_baseline},
#if defined(__x86_64__)
    {Isa::avx2, {f32_avx2, kOpsF32Avx2}, {bf16_avx2, kOpsBf16Emulated}, {int8_avx2, kOpsInt8Ymm}, read_avx2},
    {Isa::avxvnni, {f32_avx2, kOpsF32Avx2}, {bf16_avx2, kOpsBf16Emulated}, {int8_avxvnni, kOpsInt8Ymm}, read_avx2},
    {Isa::avx512, {f32_avx512, kOpsF32Avx512}, {bf16_avx512, kOpsBf16Emulated}, {int8_avx512, kOpsInt8Zmm}, read_avx512},
    {Isa::avx512vnni, {f32_avx512, kOpsF32Avx512}, {bf16_avx512, kOpsBf16Emulated}, {int8_avx512vnni, kOpsInt8Zmm}, read_avx512},
    {Isa::amx, {f32_avx512, kOpsF32Avx512}, {bf16_amx, kOpsBf16Amx}, {int8_amx, kOpsInt8Amx}, read_avx512},
#endif
};

using Clock = std::chrono::steady_clock;

/// Runs `tasks` tasks on all workers; seconds.
double timed(ThreadPool& pool, std::uint32_t tasks, ThreadPool::Task task, void* context) {
  const ThreadPool::Step step{tasks, -1};
  const auto start = Clock::now();
  pool.walk({&step, 1}, task, context);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::atomic<std::uint64_t> kept;  // results go here, so that they are needed

/// Operations a second: the best of many runs of some milliseconds, since others may use the machine meanwhile.
double measure_loop(ThreadPool& pool, const Loop& loop) {
  struct Context {
    RegisterLoop run;
    std::int64_t rounds;
  } context{loop.run, 64};
  const ThreadPool::Task task = [](void* c, std::uint32_t, std::uint32_t, unsigned) noexcept {
    const auto& [run, rounds] = *static_cast<Context*>(c);
    kept.fetch_add(std::bit_cast<std::uint32_t>(run(rounds)), std::memory_order_relaxed);
  };
  const std::uint32_t tasks = 4 * pool.workers();  // more than workers: one that was put aside holds up little
  while (timed(pool, tasks, task, &context) < 0.003 && context.rounds < std::int64_t{1} << 40) context.rounds *= 2;
  double best = 0;
  for (int run = 0; run < 32; ++run)
    best = std::max(best, double(context.rounds) * tasks * loop.operations / timed(pool, tasks, task, &context));
  return best;
}

/// A buffer that is too large for caches, its pages touched by the workers that will read them (more or less: tasks are claimed freely).
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : memory_(bytes, "a buffer to measure with", "close other programs"), bytes_(bytes) {}
  std::byte* data() const { return memory_.data(); }
  std::size_t bytes() const { return bytes_; }

 private:
  PageMemory memory_;
  std::size_t bytes_;
};

double measure_memory(ThreadPool& pool, ReadLoop read) {
  constexpr std::size_t kPiece = std::size_t{2} << 20, kMost = std::size_t{512} << 20, kLeast = std::size_t{32} << 20;
  const std::size_t available =
      static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_AVPHYS_PAGES))) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Buffer buffer(std::clamp(available / 4, kLeast, kMost) / kPiece * kPiece);
  static_assert(kPiece % kReadBlock == 0);
  struct Context {
    std::byte* data;
    ReadLoop read;
  } context{buffer.data(), read};
  const auto tasks = static_cast<std::uint32_t>(buffer.bytes() / kPiece);
  timed(
      pool, tasks,
      [](void* c, std::uint32_t, std::uint32_t t, unsigned) noexcept {
        std::fill_n(static_cast<Context*>(c)->data + t * kPiece, kPiece, std::byte(t));
      },
      &context);
  // In windows of some milliseconds: on a busy machine few are undisturbed. A window comes again only after the whole buffer.
  constexpr int kPasses = 3;
  const std::uint32_t window = std::min(tasks, std::max(16u, 4 * pool.workers()));
  double best = 0;
  for (std::uint32_t first = 0; first + window <= kPasses * tasks; first += window) {
    context.data = buffer.data() + first % (tasks / window * window) * kPiece;
    const double seconds = timed(
        pool, window,
        [](void* c, std::uint32_t, std::uint32_t t, unsigned) noexcept {
          const auto& [data, read_piece] = *static_cast<Context*>(c);
          kept.fetch_add(read_piece(data + t * kPiece, kPiece), std::memory_order_relaxed);
        },
        &context);
    best = std::max(best, double(window) * kPiece / seconds);
  }
  return best;
}

}  // namespace

Speed measure_speed(ThreadPool& pool) {
  const Loops* loops = kLoops;
  for (const Loops& candidate : kLoops)
    if (has_isa(candidate.isa)) loops = &candidate;
  Speed speed;
  speed.memory_read_bytes_per_s = measure_memory(pool, loops->read);
  speed.f32_flops = measure_loop(pool, loops->f32);
  speed.bf16_flops = measure_loop(pool, loops->bf16);
  speed.int8_ops = measure_loop(pool, loops->int8);
  speed.bf16_emulated = loops->bf16.operations == kOpsBf16Emulated;
  return speed;
}

}  // namespace quern::cpu
