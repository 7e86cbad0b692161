#include <immintrin.h>

#include "backends/cpu/kernels/linear/direct_loops.h"
#include "backends/cpu/kernels/linear/zmm.inc"

#include "backends/cpu/kernels/linear/direct.inc"

namespace quern::cpu {

void linear_direct_iq4_nl(const LinearJob& job) { direct<Packing::iq4_nl>(job); }
void linear_direct_iq4_xs(const LinearJob& job) { direct<Packing::iq4_xs>(job); }
void linear_direct_mxfp4(const LinearJob& job) { direct<Packing::mxfp4>(job); }
void linear_direct_nvfp4(const LinearJob& job) { direct<Packing::nvfp4>(job); }

}  // namespace quern::cpu
