#pragma once

// The arithmetic of attention, as attention.cc plans it. What must never change with the batch, the prompt's chunks or the workers is here:
//
// * A score is one chain of multiply-adds over the head's elements; keys are the lanes.
// * Keys are walked in chunks of kChunk at absolute positions, with an online softmax; an output element is one chain over the keys.
// * After each piece of kPiece keys, again at absolute positions, the softmax starts afresh, and pieces are merged one after the other.
//   So a piece can be computed apart, by another worker, without a change of bits.
// * A key that a row does not see leaves the row's numbers as they are, so rows share loads of keys and values and never a sum.
//
// Sources: FlashAttention-2, Dao 2023 (online softmax); Flash-Decoding, Dao et al. 2023 (pieces).
#include <cstddef>
#include <cstdint>

#include "ir/dtype.h"

namespace quern::cpu {

inline constexpr std::int64_t kChunk = 64;     // keys between two updates of the softmax: four vectors of 16 scores
inline constexpr std::int64_t kPiece = 256;    // keys that one worker takes of a long sequence: enough to hide what a piece costs besides
inline constexpr std::int64_t kTileRows = 48;  // rows (query heads times tokens) that share a conversion of keys and values to f32

/// Tokens of one sequence and the query heads that share one key-value head; a row is one query head of one token.
struct AttentionTile {
  const float* q;  // of token n and head g at q + n * token_stride + g * dim: [dim]
  float* y;        // as q
  std::int64_t token_stride;
  std::int64_t tokens, group;     // tokens * group ≤ kTileRows, unless there is but one token
  std::int64_t dim;               // a multiple of 16
  const std::int32_t* positions;  // [tokens], the last key of each
  const std::int32_t* blocks;     // the sequence's row of the block table
  const std::byte* keys;          // this kv head of block 0
  const std::byte* values;
  std::int64_t block;         // tokens a block: a multiple of 16 that divides kChunk
  std::int64_t key_stride;    // bytes from one block of keys to the next
  std::int64_t value_stride;  // and of values
  std::int64_t head_stride;   // bytes from one key-value head of a block to the next
  std::int64_t window;        // keys that a token sees, itself included
  double scale, softcap;      // softcap 0: none
  const float* sinks;         // [group], null: none
  // Which pieces to compute. Without `partials` these are all that any token sees, and y is written; with it, the unfinished result of
  // token n, head g and piece p goes to partials + n * partial_token_stride + p * partial_piece_stride + g * partial_floats(dim).
  std::int64_t first_piece, end_piece;
  // While a chunk is computed the next is fetched, since a key-value head's share of a block is too short for the processor to see what
  // comes. The `turns` key-value heads of a piece are computed one after the other; this is number `turn`. Keys from `fetch_end` on are
  // left to others.
  std::int64_t turn, turns, fetch_end;
  float* partials;
  std::int64_t partial_token_stride, partial_piece_stride;

  std::int64_t low(std::int64_t n) const { return positions[n] < window ? 0 : positions[n] - window + 1; }  // the first key of a token
};

/// The highest score, the sum of weights, and the weighted sum of values.
constexpr std::int64_t partial_floats(std::int64_t dim) { return dim + 2; }

/// What one worker needs for tiles of so many rows.
std::int64_t attention_scratch_floats(std::int64_t rows, std::int64_t dim);
/// Computes the pieces of a tile of a cache of any type that ops::KvLayout supports. Every place that the tile names was checked.
void attend(ir::DType dtype, const AttentionTile& tile, float* scratch);
/// Merges partials into y: pieces [first, end) of one token and one head. `scratch` as for one row.
void merge_partials(const AttentionTile& tile, std::int64_t token, std::int64_t head, float* scratch);

}  // namespace quern::cpu
