#pragma once

#include "base/thread_pool.h"

namespace quern::cpu {

/// What the machine gives, measured: the limits that kernels are compared with.
struct Speed {
  double memory_read_bytes_per_s = 0;
  double f32_flops = 0;        // a multiplication and an addition count as two
  double bf16_flops = 0;       // products of bf16 values summed in f32
  double int8_ops = 0;         // products of 8-bit integers summed in 32 bits
  bool bf16_emulated = false;  // no instruction for it: values are widened to f32, as the kernels do then
};

/// Each on all workers of the pool with the instructions of best_isa(), the best of several runs; about a second in all. Reads a buffer of
/// up to 512 MiB, so that the caches do not answer. Errors: resource_exhausted (no memory for the buffer).
Speed measure_speed(ThreadPool& pool);

}  // namespace quern::cpu
