#include <immintrin.h>

#include "backends/cpu/kernels/linear/direct_loops.h"
#include "backends/cpu/kernels/linear/zmm.inc"

#include "backends/cpu/kernels/linear/direct.inc"

namespace quern::cpu {

void linear_direct_q2_k(const LinearJob& job) { direct<Packing::q2_k>(job); }
void linear_direct_q3_k(const LinearJob& job) { direct<Packing::q3_k>(job); }
void linear_direct_q4_k(const LinearJob& job) { direct<Packing::q4_k>(job); }
void linear_direct_q5_k(const LinearJob& job) { direct<Packing::q5_k>(job); }
void linear_direct_q6_k(const LinearJob& job) { direct<Packing::q6_k>(job); }

}  // namespace quern::cpu
