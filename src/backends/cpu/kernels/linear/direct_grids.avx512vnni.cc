#include <immintrin.h>

#include "backends/cpu/kernels/linear/direct_loops.h"
#include "backends/cpu/kernels/linear/zmm.inc"

#include "backends/cpu/kernels/linear/direct.inc"

namespace quern::cpu {

void linear_direct_iq1_s(const LinearJob& job) { direct<Packing::iq1_s>(job); }
void linear_direct_iq1_m(const LinearJob& job) { direct<Packing::iq1_m>(job); }
void linear_direct_iq2_xxs(const LinearJob& job) { direct<Packing::iq2_xxs>(job); }
void linear_direct_iq2_xs(const LinearJob& job) { direct<Packing::iq2_xs>(job); }
void linear_direct_iq3_xxs(const LinearJob& job) { direct<Packing::iq3_xxs>(job); }
void linear_direct_iq3_s(const LinearJob& job) { direct<Packing::iq3_s>(job); }
void linear_direct_ternary(const LinearJob& job) { direct<Packing::ternary>(job); }

}  // namespace quern::cpu
