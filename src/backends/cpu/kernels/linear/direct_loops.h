#pragma once

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {

/// Products with few rows of x (any number is right, 16 at most are fast), for instruction sets with AVX-512 VNNI: one loop a format, in
/// four files so that each compiles fast.
void linear_direct_q4_0(const LinearJob&);
void linear_direct_q4_1(const LinearJob&);
void linear_direct_q5_0(const LinearJob&);
void linear_direct_q5_1(const LinearJob&);
void linear_direct_q8_0(const LinearJob&);
void linear_direct_q2_k(const LinearJob&);
void linear_direct_q3_k(const LinearJob&);
void linear_direct_q4_k(const LinearJob&);
void linear_direct_q5_k(const LinearJob&);
void linear_direct_q6_k(const LinearJob&);
void linear_direct_iq4_nl(const LinearJob&);
void linear_direct_iq4_xs(const LinearJob&);
void linear_direct_mxfp4(const LinearJob&);
void linear_direct_nvfp4(const LinearJob&);
void linear_direct_iq1_s(const LinearJob&);
void linear_direct_iq1_m(const LinearJob&);
void linear_direct_iq2_xxs(const LinearJob&);
void linear_direct_iq2_xs(const LinearJob&);
void linear_direct_iq3_xxs(const LinearJob&);
void linear_direct_iq3_s(const LinearJob&);
void linear_direct_ternary(const LinearJob&);

/// In the order of Packing.
constexpr LinearLoop kDirectLoops[] = {
    linear_direct_q4_0,    linear_direct_q4_1,  linear_direct_q5_0,   linear_direct_q5_1,  linear_direct_q8_0,    linear_direct_q2_k,
    linear_direct_q3_k,    linear_direct_q4_k,  linear_direct_q5_k,   linear_direct_q6_k,  linear_direct_iq4_nl,  linear_direct_iq4_xs,
    linear_direct_mxfp4,   linear_direct_nvfp4, linear_direct_iq1_s,  linear_direct_iq1_m, linear_direct_iq2_xxs, linear_direct_iq2_xs,
    linear_direct_iq3_xxs, linear_direct_iq3_s, linear_direct_ternary};

}  // namespace quern::cpu
