#pragma once

#include <cstdint>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {

/// One block of 16 rows x 32 columns in plain numbers: value = scale * q + minimum, both of the part that the column lies in.
struct UnpackedBlock {
  std::int16_t q[kBlockColumns][kTileRows];
  float scale[2][kTileRows], minimum[2][kTileRows];
};

/// What the bytes of a packed group mean, in plain C++: the loops of every instruction set must agree with it.
void unpack_block(const Format& format, const std::uint8_t* group, int block, UnpackedBlock& out);

}  // namespace quern::cpu
