#pragma once

// What the loops of attention share with those of one instruction set: plain data only, so that no inline function compiled for a wide
// instruction set can end up in a program that runs on a narrow one.
#include <cstddef>
#include <cstdint>

namespace quern::cpu {

constexpr std::int64_t kPiece = 256;  // keys that one worker takes of a long sequence: enough to hide what a piece costs besides

/// Tokens of one sequence and the query heads that share one key-value head; a row is one query head of one token.
struct AttentionTile {
  const float* q;  // of token n and head g at q + n * token_stride + g * dim: [dim]
  float* y;        // as q
  std::int64_t token_stride;
  std::int64_t tokens, group;
  std::int64_t dim;               // a multiple of 16
  const std::int32_t* positions;  // [tokens], the last key of each: each one more than the one before
  const std::int32_t* blocks;     // the sequence's row of the block table
  const std::byte* keys;          // this kv head of block 0
  const std::byte* values;
  std::int64_t block;         // tokens a block: a multiple of 16 that divides 64
  std::int64_t key_stride;    // bytes from one block of keys to the next
  std::int64_t value_stride;  // and of values
  std::int64_t head_stride;   // bytes from one key-value head of a block to the next
  std::int64_t window;        // keys that a token sees, itself included
  double scale, softcap;      // softcap 0: none
  const float* sinks;         // [group], null: none
  // Which pieces to compute. Without `partials` these are all that any token sees, and y is written; with it, the unfinished result of
  // token n, head g and piece p goes to partials + n * partial_token_stride + p * partial_piece_stride + g * partial_floats(dim).
  std::int64_t first_piece, end_piece;
  // While keys and values are computed with, the next are fetched, since a key-value head's share of a block is too short for the processor
  // to see what comes. The `turns` key-value heads of a piece are computed one after the other; this is number `turn`. Keys from
  // `fetch_end` on are left to others.
  std::int64_t turn, turns, fetch_end;
  float* partials;
  std::int64_t partial_token_stride, partial_piece_stride;
};

/// What comes of one piece, for each row: the highest score in units of log 2, the sum of weights, and the weighted sum of values.
struct PieceRows {
  float *highest, *totals;  // [rows]
  float* values;            // [rows, dim]
};

// The tile unit's part (attention.amx.cc). All memory is at multiples of 64 bytes.

enum class TileCache : std::uint8_t { f16, bf16, q8_0 };

/// A worker's memory. Tiles are 1 KiB; steps = dim / 32, rounded up; row groups are 16 rows each.
struct TileScratch {
  std::byte* queries;      // [row groups][steps] tiles
  std::byte* keys;         // [kPiece / 16][steps] tiles
  std::byte* values;       // [kPiece / 32][dim / 16] tiles
  float* scores;           // [32, kScoreStride]
  std::uint16_t* weights;  // [32, kWeightStride], bf16
  PieceRows rows;
};
// Not powers of two: sixteen rows shall not fall on the same lines of the cache.
constexpr std::int64_t kScoreStride = kPiece + 16, kWeightStride = kPiece + 32;

/// Scaled queries, rounded to bf16, to s.queries.
void pack_queries_amx(const AttentionTile& t, const TileScratch& s);
/// Computes one piece of all rows to s.rows; the numbers of a row that sees nothing of it mean nothing. Returns false, and has computed
/// nothing, if a value that any row sees is not finite and there is more than one token: then the tokens must be computed apart.
bool attend_piece_amx(TileCache cache, const AttentionTile& t, std::int64_t piece, const TileScratch& s);

}  // namespace quern::cpu
