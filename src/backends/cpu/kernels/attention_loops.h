#pragma once

// The arithmetic of attention, as attention.cc plans it. What must never change with the batch, the prompt's chunks or the workers is here:
//
// * After each piece of kPiece keys, at absolute positions, the softmax starts afresh, and pieces are merged one after the other. So a
//   piece can be computed apart, by another worker, without a change of bits.
// * A key that a row does not see leaves the row's numbers as they are, so rows share loads of keys and values and never a sum.
//
// Within a piece there are two ways. In f32, on any machine: a score is one chain of multiply-adds over the head's elements, keys being the
// lanes; keys are walked in chunks of kChunk with an online softmax; an output element is one chain over the keys. On the tile unit, where
// the graph allows products of bf16: see attention.amx.cc.
//
// Sources: FlashAttention-2, Dao 2023 (online softmax); Flash-Decoding, Dao et al. 2023 (pieces).
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/attention_tile.h"
#include "ir/dtype.h"

namespace quern::cpu {

inline constexpr std::int64_t kChunk = 64;     // keys between two updates of the softmax: four vectors of 16 scores
inline constexpr std::int64_t kTileRows = 48;  // rows (query heads times tokens) that share a conversion of keys and values to f32

/// The first key that token n of a tile sees.
inline std::int64_t first_key(const AttentionTile& t, std::int64_t n) {
  return t.positions[n] < t.window ? 0 : t.positions[n] - t.window + 1;
}

/// The highest score, the sum of weights, and the weighted sum of values.
constexpr std::int64_t partial_floats(std::int64_t dim) { return dim + 2; }

/// What one worker needs for tiles of so many rows.
std::int64_t attention_scratch_floats(std::int64_t rows, std::int64_t dim);
/// Computes the pieces of a tile in f32, of a cache of any type that ops::KvLayout supports. Every place that the tile names was checked.
void attend(ir::DType dtype, const AttentionTile& tile, float* scratch);

// attention_merge.cc

/// Adds a piece of all rows of a tile to the pieces before it, merged[rows, partial_floats(dim)], or puts it among the tile's partials.
void add_piece(const AttentionTile& tile, std::int64_t piece, const PieceRows& rows, float* merged);
/// y of all rows.
void finish_rows(const AttentionTile& tile, const float* merged);
/// Merges partials into y: all pieces of one token and one head. `scratch`: [partial_floats(dim)].
void merge_partials(const AttentionTile& tile, std::int64_t token, std::int64_t head, float* scratch);

}  // namespace quern::cpu
