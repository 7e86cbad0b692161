#include "base/cpu.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/topology.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace quern {
namespace {

constexpr std::string_view kNames[] = {"baseline",   "avx2", "avxvnni", "avx512",  "avx512vnni",
                                       "avx512bf16", "amx",  "neon",    "neondot", "i8mm"};
static_assert(std::size(kNames) == std::size(kAllIsas));

struct Features {
  bool avx2 = false, avxvnni = false, avx512 = false, avx512vnni = false, avx512bf16 = false, amx = false;
  bool neon = false, neondot = false, i8mm = false;
};

#if defined(__x86_64__)
std::uint64_t enabled_state() {  // XCR0: which registers the operating system saves
  std::uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

bool amx_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Features detect() {
  Features f;
  std::uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const bool osxsave = c & (1u << 27), fma = c & (1u << 12), f16c = c & (1u << 29);
  if (!osxsave) return f;
  const std::uint64_t state = enabled_state();
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  const std::uint32_t b7 = b, c7 = c, d7 = d;
  f.avx2 = (state & 6) == 6 && fma && f16c && (b7 & (1u << 5)) && (b7 & (1u << 8));
  constexpr std::uint32_t kAvx512 = (1u << 16) | (1u << 17) | (1u << 28) | (1u << 30) | (1u << 31);  // F, DQ, CD, BW, VL
  f.avx512 = f.avx2 && (state & 0xe6) == 0xe6 && (b7 & kAvx512) == kAvx512;
  f.avx512vnni = f.avx512 && (c7 & (1u << 11));
  std::uint32_t a71 = 0, b71, c71, d71;
  if (!__get_cpuid_count(7, 1, &a71, &b71, &c71, &d71)) a71 = 0;
  f.avxvnni = f.avx2 && (a71 & (1u << 4));
  const bool bf16 = a71 & (1u << 5);
  constexpr std::uint32_t kAmx = (1u << 22) | (1u << 24) | (1u << 25);  // BF16, TILE, INT8
  f.avx512bf16 = f.avx512vnni && bf16;
  f.amx = f.avx512bf16 && (d7 & kAmx) == kAmx && (state & 0x60000) == 0x60000 && amx_granted();
  return f;
}
#elif defined(__aarch64__)
Features detect() {
  constexpr unsigned long kDotProd = 1ul << 20, kI8mm = 1ul << 13;  // HWCAP_ASIMDDP, HWCAP2_I8MM (Linux: arch/arm64, elf_hwcaps)
  Features f;
  f.neon = true;  // part of the architecture
  f.neondot = getauxval(AT_HWCAP) & kDotProd;
  f.i8mm = f.neondot && (getauxval(AT_HWCAP2) & kI8mm);
  return f;
}
#else
Features detect() { return {}; }
#endif

const Features& features() {
  static const Features f = detect();
  return f;
}

bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::baseline: return true;
    case Isa::avx2: return features().avx2;
    case Isa::avxvnni: return features().avxvnni;
    case Isa::avx512: return features().avx512;
    case Isa::avx512vnni: return features().avx512vnni;
    case Isa::avx512bf16: return features().avx512bf16;
    case Isa::amx: return features().amx;
    case Isa::neon: return features().neon;
    case Isa::neondot: return features().neondot;
    case Isa::i8mm: return features().i8mm;
  }
  return false;
}

Isa decide() {
  Isa best = Isa::baseline;
  for (const Isa isa : kAllIsas)
    if (machine_has(isa)) best = isa;
  const char* wish = std::getenv("QUERN_ISA");
  if (wish == nullptr || *wish == '\0') return best;
  const auto isa = isa_from_name(wish);
  if (!isa)
    throw Error(Code::invalid_argument, "QUERN_ISA=" + std::string(wish) + " names no instruction set")
        .hint("baseline, avx2, avxvnni, avx512, avx512vnni, avx512bf16 or amx; on ARM baseline, neon, neondot or i8mm");
  if (!machine_has(*isa))
    throw Error(Code::invalid_argument, "QUERN_ISA=" + std::string(wish) + ": this machine does not have it")
        .hint("its best is " + std::string(name(best)));
  return *isa;
}

/// Cores that the cgroup's CPU quota is worth, rounded up; nothing when there is no limit.
std::optional<int> quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");  // "max 100000" or "150000 100000"
  std::int64_t allowed = 0, period = 0;
  if (!(file >> allowed >> period) || allowed <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<std::int64_t>(allowed / period + (allowed % period != 0), 1, 1 << 20));
}

}  // namespace

std::string_view name(Isa isa) { return kNames[static_cast<int>(isa)]; }

std::optional<Isa> isa_from_name(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text) return static_cast<Isa>(i);
  return std::nullopt;
}

Isa best_isa() {
  static const Isa isa = decide();
  return isa;
}

bool has_isa(Isa isa) {
  const Isa best = best_isa();
  if (isa > best) return false;
  return machine_has(isa);
}

int usable_cores() {
  auto count = static_cast<int>(read_topology("/sys/devices/system", allowed_cpus()).cores.size());
  if (count < 1) count = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  if (const auto limit = quota()) count = std::min(count, *limit);
  return count;
}

std::string_view cpu_model() {
  static const std::string model = [] {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
      if (line.rfind("model name", 0) == 0)
        if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return std::string();
  }();
  return model;
}

}  // namespace quern
