#include "backends/cpu/kernels/attention_tiles.h"

#include "backends/cpu/kernels/attention_loops.h"
#include "base/cpu.h"

namespace quern::cpu {
namespace {

constexpr std::int64_t kTileBytes = 1024;

/// The worker's memory, one part after the other.
struct Layout {
  TileScratch parts{};
  float* merged = nullptr;  // [rows, partial_floats(dim)]
  std::int64_t bytes = 0;

  Layout(std::byte* memory, std::int64_t rows, std::int64_t dim) {
    const std::int64_t steps = (dim + 31) / 32, groups = (rows + 15) / 16;
    const auto take = [&](std::int64_t size) {
      std::byte* at = memory == nullptr ? nullptr : memory + bytes;
      bytes += (size + 63) / 64 * 64;
      return at;
    };
    parts.queries = take(groups * steps * kTileBytes);
    parts.keys = take(kPiece / 16 * steps * kTileBytes);
    parts.values = take(kPiece / 32 * (dim / 16) * kTileBytes);
    parts.scores = reinterpret_cast<float*>(take(32 * kScoreStride * std::int64_t{sizeof(float)}));
    parts.weights = reinterpret_cast<std::uint16_t*>(take(32 * kWeightStride * 2));
    parts.rows.highest = reinterpret_cast<float*>(take(rows * std::int64_t{sizeof(float)}));
    parts.rows.totals = reinterpret_cast<float*>(take(rows * std::int64_t{sizeof(float)}));
    parts.rows.values = reinterpret_cast<float*>(take(rows * dim * std::int64_t{sizeof(float)}));
    merged = reinterpret_cast<float*>(take(rows * partial_floats(dim) * std::int64_t{sizeof(float)}));
  }
};

TileCache tile_cache(ir::DType cache) {
  switch (cache) {
    case ir::DType::f16: return TileCache::f16;
    case ir::DType::bf16: return TileCache::bf16;
    default: return TileCache::q8_0;
  }
}

/// A piece of which a token sees a value that is not finite: a weight of 0 hides any other value, but not this. So each token alone, with
/// zeros in place of the values that it does not see. Leaves no queries in the scratch.
void attend_apart(TileCache cache, const AttentionTile& tile, std::int64_t piece, const TileScratch& s) {
  for (std::int64_t n = 0; n < tile.tokens; ++n) {
    AttentionTile token = tile;
    token.q += n * tile.token_stride;
    token.positions += n;
    token.tokens = 1;
    TileScratch part = s;
    part.rows.highest += n * tile.group;
    part.rows.totals += n * tile.group;
    part.rows.values += n * tile.group * tile.dim;
    pack_queries_amx(token, part);
    attend_piece_amx(cache, token, piece, part);
  }
}

}  // namespace

bool tile_unit_takes(ir::DType cache) {
  // Not q4_1: making bf16 of it takes one row longer than to compute with it in f32.
  return (cache == ir::DType::f16 || cache == ir::DType::bf16 || cache == ir::DType::q8_0) && has_isa(Isa::amx);
}

std::int64_t tile_unit_scratch_bytes(std::int64_t rows, std::int64_t dim) { return Layout(nullptr, rows, dim).bytes; }

void attend_on_tile_unit(ir::DType cache, const AttentionTile& tile, std::byte* scratch) {
  const Layout layout(scratch, tile.tokens * tile.group, tile.dim);
  const TileCache type = tile_cache(cache);
  pack_queries_amx(tile, layout.parts);
  for (std::int64_t piece = tile.first_piece; piece < tile.end_piece; ++piece) {
    if (!attend_piece_amx(type, tile, piece, layout.parts)) {
      attend_apart(type, tile, piece, layout.parts);
      pack_queries_amx(tile, layout.parts);
    }
    add_piece(tile, piece, layout.parts.rows, layout.merged);
  }
  if (tile.partials == nullptr) finish_rows(tile, layout.merged);
}

#if !defined(__x86_64__)  // no tile unit, as tile_unit_takes() says
void pack_queries_amx(const AttentionTile&, const TileScratch&) {}
bool attend_piece_amx(TileCache, const AttentionTile&, std::int64_t, const TileScratch&) { return true; }
#endif

}  // namespace quern::cpu
