// The pieces of attention become rows of y.
#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/attention_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention_merge.cc"
#include <hwy/foreach_target.h>  // first of these: it includes this file once for each instruction set

#include "backends/cpu/kernels/attention_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {

constexpr float kNoSink = -std::numeric_limits<float>::infinity();

/// One row of one piece.
struct Part {
  float highest, total;
  const float* values;
};

HWY_INLINE void Put(const Part& part, std::int64_t dim, float* merged) {
  merged[0] = part.highest;
  merged[1] = part.total;
  std::memcpy(merged + 2, part.values, static_cast<std::size_t>(dim) * sizeof(float));
}

/// Adds a piece to the pieces before it.
HWY_INLINE void Merge(float* merged, const Part& part, std::int64_t dim) {
  const Floats d;
  const float highest = std::max(merged[0], part.highest), a = Exp2Of(merged[0] - highest), b = Exp2Of(part.highest - highest);
  merged[0] = highest;
  merged[1] = merged[1] * a + part.total * b;
  float* values = merged + 2;
  for (std::int64_t i = 0; i < dim; i += kLanes)
    hn::StoreU(hn::MulAdd(hn::LoadU(d, part.values + i), hn::Set(d, b), hn::Mul(hn::LoadU(d, values + i), hn::Set(d, a))), d, values + i);
}

/// y = values / sum, the sink (in units of log 2) joining the sum.
HWY_INLINE void FinishRow(const float* merged, float sink, std::int64_t dim, float* y) {
  const Floats d;
  float total = merged[1], factor = 1;
  if (sink != kNoSink) {
    const float top = std::max(merged[0], sink);
    factor = Exp2Of(merged[0] - top);
    total = total * factor + Exp2Of(sink - top);
  }
  // Adding 0 makes one zero of two: keys that others see and this row does not may have turned a -0 into 0.
  for (std::int64_t i = 0; i < dim; i += kLanes) {
    const auto value = hn::Mul(hn::LoadU(d, merged + 2 + i), hn::Set(d, factor));
    hn::StoreU(hn::Add(hn::Div(value, hn::Set(d, total)), hn::Zero(d)), d, y + i);
  }
}

constexpr double kLog2E = 1.4426950408889634;

HWY_INLINE float SinkOf(const AttentionTile& t, std::int64_t g) {
  return t.sinks == nullptr ? kNoSink : static_cast<float>(t.sinks[g] * kLog2E);
}

HWY_INLINE float* RowOfY(const AttentionTile& t, std::int64_t n, std::int64_t g) { return t.y + n * t.token_stride + g * t.dim; }

void AddPiece(const AttentionTile& t, std::int64_t piece, const PieceRows& rows, float* merged) {
  for (std::int64_t n = 0, r = 0; n < t.tokens; ++n)
    for (std::int64_t g = 0; g < t.group; ++g, ++r, merged += partial_floats(t.dim)) {
      const std::int64_t first = first_key(t, n) / kPiece;
      if (piece < first || piece > t.positions[n] / kPiece) continue;
      const Part part = {rows.highest[r], rows.totals[r], rows.values + r * t.dim};
      if (t.partials != nullptr)
        Put(part, t.dim, t.partials + n * t.partial_token_stride + piece * t.partial_piece_stride + g * partial_floats(t.dim));
      else if (piece == first)
        Put(part, t.dim, merged);
      else
        Merge(merged, part, t.dim);
    }
}

void FinishRows(const AttentionTile& t, const float* merged) {
  for (std::int64_t n = 0; n < t.tokens; ++n)
    for (std::int64_t g = 0; g < t.group; ++g, merged += partial_floats(t.dim)) FinishRow(merged, SinkOf(t, g), t.dim, RowOfY(t, n, g));
}

void MergePartials(const AttentionTile& t, std::int64_t n, std::int64_t g, float* merged) {
  const float* partial = t.partials + n * t.partial_token_stride + g * partial_floats(t.dim);
  const std::int64_t first = first_key(t, n) / kPiece;
  for (std::int64_t piece = first; piece <= t.positions[n] / kPiece; ++piece) {
    const float* p = partial + piece * t.partial_piece_stride;
    const Part part = {p[0], p[1], p + 2};
    if (piece == first)
      Put(part, t.dim, merged);
    else
      Merge(merged, part, t.dim);
  }
  FinishRow(merged, SinkOf(t, g), t.dim, RowOfY(t, n, g));
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(AddPiece);
HWY_EXPORT(FinishRows);
HWY_EXPORT(MergePartials);

void add_piece(const AttentionTile& tile, std::int64_t piece, const PieceRows& rows, float* merged) {
  HWY_DYNAMIC_DISPATCH(AddPiece)(tile, piece, rows, merged);
}
void finish_rows(const AttentionTile& tile, const float* merged) { HWY_DYNAMIC_DISPATCH(FinishRows)(tile, merged); }
void merge_partials(const AttentionTile& tile, std::int64_t token, std::int64_t head, float* scratch) {
  HWY_DYNAMIC_DISPATCH(MergePartials)(tile, token, head, scratch);
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
