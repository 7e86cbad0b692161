#include <immintrin.h>

#include "backends/cpu/kernels/linear/direct_loops.h"
#include "backends/cpu/kernels/linear/zmm.inc"

#include "backends/cpu/kernels/linear/direct.inc"

namespace quern::cpu {

void linear_direct_q4_0(const LinearJob& job) { direct<Packing::q4_0>(job); }
void linear_direct_q4_1(const LinearJob& job) { direct<Packing::q4_1>(job); }
void linear_direct_q5_0(const LinearJob& job) { direct<Packing::q5_0>(job); }
void linear_direct_q5_1(const LinearJob& job) { direct<Packing::q5_1>(job); }
void linear_direct_q8_0(const LinearJob& job) { direct<Packing::q8_0>(job); }

}  // namespace quern::cpu
