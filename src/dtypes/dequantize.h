#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/dtype.h"

namespace quern::dtypes {

void dequantize(ir::DType type, const std::byte* src, float* dst, std::int64_t elements);

}  // namespace quern::dtypes
