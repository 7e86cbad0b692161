#pragma once

#include <optional>
#include <string_view>

namespace quern {

/// Instruction sets for which there are kernels of their own. `baseline` is x86-64-v2, or any other machine; then those of x86-64 (AVX to
/// AMX) and of 64-bit ARM (NEON, with DotProd, with I8MM), each including the ones before it on its kind of machine.
enum class Isa { baseline, avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx, neon, neondot, i8mm };
inline constexpr Isa kAllIsas[] = {Isa::baseline,   Isa::avx2, Isa::avxvnni, Isa::avx512,  Isa::avx512vnni,
                                   Isa::avx512bf16, Isa::amx,  Isa::neon,    Isa::neondot, Isa::i8mm};

std::string_view name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view text);

/// The best that this processor and this operating system can run (AMX included only when the kernel grants its state), lowered by the
/// environment variable QUERN_ISA=<name>. Decided once.
/// Errors: invalid_argument when QUERN_ISA names none, or one that the machine does not have.
Isa best_isa();
/// Whether kernels for `isa` may run here: avxvnni is a branch beside avx512, so this is not a comparison.
bool has_isa(Isa isa);

/// Physical cores this process may use: its affinity mask and its cgroup's quota are respected; hardware threads of one core count once.
int usable_cores();
/// As the processor names itself, e.g. "AMD Ryzen 9 7950X"; empty when unknown.
std::string_view cpu_model();

}  // namespace quern
