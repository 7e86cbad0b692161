#pragma once

#include "ir/dtype.h"

namespace quern::cpu {

/// In what paged_attention over a cache of this type is best computed here where precision allows it: bf16 (on the tile unit) or f32.
ir::DType best_attention_products(ir::DType cache);
/// The type of cache for which that is fastest among those of 16 bits.
ir::DType best_attention_cache();

}  // namespace quern::cpu
