#pragma once

// Attention on the tile unit: what attention.amx.cc computes piece by piece, for a whole tile.
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/attention_tile.h"
#include "ir/dtype.h"

namespace quern::cpu {

/// Rows that share a rearrangement of keys and values. A rearrangement takes as long as some ten rows; more rows make fewer, larger tiles
/// for the workers.
inline constexpr std::int64_t kTileUnitRows = 96;

/// Whether the tile unit takes a cache of this type, here and now.
bool tile_unit_takes(ir::DType cache);
/// What one worker needs for tiles of so many rows.
std::int64_t tile_unit_scratch_bytes(std::int64_t rows, std::int64_t dim);
/// As attend() of attention_loops.h. `scratch`: at a multiple of 64 bytes.
void attend_on_tile_unit(ir::DType cache, const AttentionTile& tile, std::byte* scratch);

}  // namespace quern::cpu
