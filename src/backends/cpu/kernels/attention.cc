// Causal attention over a paged cache (op paged_attention), for one row (decode) and for many (prefill) with the same bits.
//
// A unit is up to kRows consecutive rows of the batch and one head. Keys are walked in chunks of kChunk, at absolute positions, with an
// online softmax: the running maximum, sum and output of a row change once a chunk, in order, and depend on that row alone. Inside a chunk
// every score is one chain of FMAs over the head's elements and every output element one chain over the chunk's keys; rows share the loads
// of keys and values, never a sum. Rows that end in different chunks are computed apart, so no row ever sees a chunk that it does not need.
// Source: FlashAttention-2, Dao 2023 (online softmax); PagedAttention, Kwon et al. 2023.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/function_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention.cc"
#include <hwy/foreach_target.h>  // first of these: it includes this file once for each instruction set

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#ifndef QUERN_ATTENTION_ONCE
#define QUERN_ATTENTION_ONCE
namespace quern::cpu {
constexpr std::int64_t kRows = 8;    // rows that share a load of keys: 8 chains hide the latency of an FMA (4 cycles, 2 pipes)
constexpr std::int64_t kChunk = 64;  // keys between two updates of the softmax: 64 x 64 keys in f16 are 8 KiB, a quarter of the L1 cache

/// The part of a batch that one call works on: rows of one sequence whose last keys lie in the same chunk, and one head.
struct AttentionTile {
  const float* q;  // row r at q + r * row_stride: [head_dim]
  float* y;        // as q
  std::int64_t row_stride;
  std::int64_t rows;              // 1 … kRows
  std::int64_t dim;               // head_dim
  const std::int32_t* positions;  // [rows], the last key of each row
  const std::int32_t* blocks;     // the sequence's row of the block table
  const void* keys;               // this kv head of block 0: [head_dim, block]
  const void* values;             // this kv head of block 0: [block, head_dim]
  std::int64_t block;             // tokens a block, divides kChunk
  std::int64_t block_stride;      // elements from one block of the cache to the next
  float scale;
  float softcap;        // 0: none
  float sink;           // -infinity: none
  std::int64_t window;  // keys that a row sees, itself included
  float* scratch;       // see scratch_floats
};

/// q scaled [kRows, dim], scores [kRows, kChunk], output [kRows, dim].
constexpr std::int64_t scratch_floats(std::int64_t dim) { return 2 * kRows * dim + kRows * kChunk; }
}  // namespace quern::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most 16 floats: a block of the cache holds a multiple of that.
using Floats = hn::CappedTag<float, 16>;

HWY_INLINE hn::Vec<Floats> LoadElements(Floats d, const float* p) { return hn::LoadU(d, p); }
HWY_INLINE hn::Vec<Floats> LoadElements(Floats d, const hwy::float16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, Floats>(), p));
}
HWY_INLINE hn::Vec<Floats> LoadElements(Floats d, const hwy::bfloat16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, Floats>(), p));
}

/// Vectors computed side by side for R rows: R * kVectors<R> chains of FMAs hide each other's latency.
template <int R>
constexpr int kVectors = R >= 8   ? 1
                         : R >= 4 ? 2
                                  : 4;

/// scores[r, v, lane] = sum_i q[r, i] * keys[v][i, lane]: V vectors of keys from `k` of a chunk on.
template <int R, int V, class T>
HWY_INLINE void ScoreVectors(const AttentionTile& t, std::int64_t first, std::int64_t k, const float* q, float* scores) {
  const Floats d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* keys[V];
  hn::Vec<Floats> sum[V][R];
  for (int v = 0; v < V; ++v) {
    const std::int64_t j = first + k + v * lanes;
    keys[v] = static_cast<const T*>(t.keys) + t.blocks[j / t.block] * t.block_stride + j % t.block;
    for (int r = 0; r < R; ++r) sum[v][r] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < t.dim; ++i)
    for (int v = 0; v < V; ++v) {
      const auto key = LoadElements(d, keys[v] + i * t.block);
      for (int r = 0; r < R; ++r) sum[v][r] = hn::MulAdd(hn::Set(d, q[r * t.dim + i]), key, sum[v][r]);
    }
  for (int v = 0; v < V; ++v)
    for (int r = 0; r < R; ++r) hn::StoreU(sum[v][r], d, scores + r * kChunk + k + v * lanes);
}

/// The scores of keys [begin, count) of a chunk, rounded to whole vectors.
template <int R, class T>
HWY_INLINE void ScoreChunk(const AttentionTile& t, std::int64_t first, std::int64_t begin, std::int64_t count, const float* q,
                           float* scores) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  std::int64_t k = begin / lanes * lanes;
  for (; k + (kVectors<R> - 1) * lanes < count; k += kVectors<R> * lanes) ScoreVectors<R, kVectors<R>, T>(t, first, k, q, scores);
  for (; k < count; k += lanes) ScoreVectors<R, 1, T>(t, first, k, q, scores);
}

/// The keys of one chunk that each row sees: [begins[r], ends[r]); nothing where these are equal.
template <int R>
struct Seen {
  std::int64_t begins[R], ends[R];
};

/// out[r, i …] += sum_j weights[r, j] * values[j, i …] for V vectors of elements and the keys of a chunk that row r sees. Keys that not all
/// see are added one row at a time: a value that a row must not see may be infinite or NaN, and a weight of 0 would not hide it.
template <int R, int V, class T>
HWY_INLINE void AddValueVectors(const AttentionTile& t, std::int64_t first, const Seen<R>& seen, const float* weights, float* out,
                                std::int64_t i) {
  const std::int64_t least = *std::min_element(seen.begins, seen.begins + R), most = *std::max_element(seen.ends, seen.ends + R);
  const std::int64_t shared = *std::min_element(seen.ends, seen.ends + R),
                     from = std::min(*std::max_element(seen.begins, seen.begins + R), shared);
  const Floats d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<Floats> sum[V][R];
  for (int v = 0; v < V; ++v)
    for (int r = 0; r < R; ++r) sum[v][r] = hn::LoadU(d, out + r * t.dim + i + v * lanes);
  const auto at = [&](std::int64_t j) {
    return static_cast<const T*>(t.values) + t.blocks[(first + j) / t.block] * t.block_stride + j % t.block * t.dim + i;
  };
  const auto add_apart = [&](std::int64_t j) {
    for (int v = 0; v < V; ++v) {
      const auto value = LoadElements(d, at(j) + v * lanes);
      for (int r = 0; r < R; ++r)
        if (j >= seen.begins[r] && j < seen.ends[r]) sum[v][r] = hn::MulAdd(hn::Set(d, weights[r * kChunk + j]), value, sum[v][r]);
    }
  };
  for (std::int64_t j = least; j < from; ++j) add_apart(j);
  for (std::int64_t j = std::max(least, from); j < shared;) {
    const T* values = at(j);
    const std::int64_t end = std::min(shared, j - j % t.block + t.block);
    for (; j < end; ++j, values += t.dim)
      for (int v = 0; v < V; ++v) {
        const auto value = LoadElements(d, values + v * lanes);
        for (int r = 0; r < R; ++r) sum[v][r] = hn::MulAdd(hn::Set(d, weights[r * kChunk + j]), value, sum[v][r]);
      }
  }
  for (std::int64_t j = std::max(least, shared); j < most; ++j) add_apart(j);
  for (int v = 0; v < V; ++v)
    for (int r = 0; r < R; ++r) hn::StoreU(sum[v][r], d, out + r * t.dim + i + v * lanes);
}

template <int R, class T>
HWY_INLINE void AddValues(const AttentionTile& t, std::int64_t first, const Seen<R>& seen, const float* weights, float* out) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  std::int64_t i = 0;
  for (; i + kVectors<R> * lanes <= t.dim; i += kVectors<R> * lanes) AddValueVectors<R, kVectors<R>, T>(t, first, seen, weights, out, i);
  for (; i < t.dim; i += lanes) AddValueVectors<R, 1, T>(t, first, seen, weights, out, i);
}

/// Turns a row's scores of one chunk into weights exp(score - maximum), updating the row's maximum and sum; returns by how much what was
/// summed before shrinks. Keys outside [begin, end) get the weight 0; a NaN among the others makes all of the row NaN.
HWY_INLINE float SoftmaxChunk(float* scores, std::int64_t begin, std::int64_t end, float softcap, float& maximum, float& total) {
  const Floats d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto high = lowest;
  const std::int64_t start = begin / lanes * lanes;
  for (std::int64_t k = start; k < end; k += lanes) {
    auto valid = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, end - k)));
    if (k < begin) valid = hn::AndNot(hn::FirstN(d, static_cast<std::size_t>(begin - k)), valid);
    auto s = hn::LoadU(d, scores + k);
    if (softcap > 0) {  // NaN stays NaN, which Highway's Tanh does not promise
      const auto capped = hn::Mul(hn::Set(d, softcap), hn::Tanh(d, hn::Div(s, hn::Set(d, softcap))));
      s = hn::IfThenElse(hn::IsNaN(s), s, capped);
    }
    s = hn::IfThenElse(valid, s, lowest);
    hn::StoreU(s, d, scores + k);
    high = hn::Max(high, s);
  }
  const float before = maximum;
  maximum = std::max(before, hn::GetLane(hn::MaxOfLanes(d, high)));
  const auto top = hn::Set(d, maximum);
  auto sum = hn::Zero(d);
  for (std::int64_t k = 0; k < kChunk; k += lanes) {
    if (k < start || k >= end) {
      hn::StoreU(hn::Zero(d), d, scores + k);
      continue;
    }
    const auto s = hn::LoadU(d, scores + k);
    // Highway's Exp(NaN) is 0.
    const auto weight = hn::IfThenElse(hn::IsNaN(s), s, hn::IfThenZeroElse(hn::Eq(s, lowest), hn::Exp(d, hn::Sub(s, top))));
    hn::StoreU(weight, d, scores + k);
    sum = hn::Add(sum, weight);
  }
  const float shrink = before == -std::numeric_limits<float>::infinity() ? 0.0f : hn::GetLane(hn::Exp(d, hn::Set(d, before - maximum)));
  total = total * shrink + hn::GetLane(hn::SumOfLanes(d, sum));
  return shrink;
}

template <int R, class T>
void AttendRows(const AttentionTile& t) {
  const Floats d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  float* q = t.scratch;
  float* out = q + kRows * t.dim;
  float* scores = out + kRows * t.dim;
  float maximum[R], total[R];
  for (int r = 0; r < R; ++r) {
    maximum[r] = -std::numeric_limits<float>::infinity();
    total[r] = 0;
    for (std::int64_t i = 0; i < t.dim; ++i) q[r * t.dim + i] = t.q[r * t.row_stride + i] * t.scale, out[r * t.dim + i] = 0;
  }
  std::int64_t lows[R];  // the first key that each row sees
  for (int r = 0; r < R; ++r) lows[r] = std::max<std::int64_t>(0, t.positions[r] - t.window + 1);
  const std::int64_t lowest = *std::min_element(lows, lows + R), keys = *std::max_element(t.positions, t.positions + R) + 1;
  for (std::int64_t first = lowest / kChunk * kChunk; first < keys; first += kChunk) {
    const std::int64_t count = std::min(kChunk, keys - first);
    ScoreChunk<R, T>(t, first, std::max<std::int64_t>(0, lowest - first), count, q, scores);
    Seen<R> seen;
    for (int r = 0; r < R; ++r) {
      seen.ends[r] = std::min(count, t.positions[r] + 1 - first);
      seen.begins[r] = std::min(seen.ends[r], std::max<std::int64_t>(0, lows[r] - first));
      const float shrink = SoftmaxChunk(scores + r * kChunk, seen.begins[r], seen.ends[r], t.softcap, maximum[r], total[r]);
      if (first <= lows[r]) continue;  // nothing is summed yet
      for (std::int64_t i = 0; i < t.dim; i += lanes)
        hn::StoreU(hn::Mul(hn::LoadU(d, out + r * t.dim + i), hn::Set(d, shrink)), d, out + r * t.dim + i);
    }
    AddValues<R, T>(t, first, seen, scores, out);
  }
  for (int r = 0; r < R; ++r) {
    float factor = 1;
    if (t.sink != -std::numeric_limits<float>::infinity()) {
      const float top = std::max(maximum[r], t.sink);
      factor = std::exp(maximum[r] - top);
      total[r] = total[r] * factor + std::exp(t.sink - top);
    }
    for (std::int64_t i = 0; i < t.dim; ++i) t.y[r * t.row_stride + i] = out[r * t.dim + i] * factor / total[r];
  }
}

template <class T>
void AttendTile(const AttentionTile& t) {
  AttentionTile part = t;
  // Row counts for which there is code: the largest that fits, again and again.
  for (std::int64_t left = t.rows; left > 0;) {
    const std::int64_t rows = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    switch (rows) {
      case 8: AttendRows<8, T>(part); break;
      case 4: AttendRows<4, T>(part); break;
      case 2: AttendRows<2, T>(part); break;
      default: AttendRows<1, T>(part); break;
    }
    part.q += rows * t.row_stride;
    part.y += rows * t.row_stride;
    part.positions += rows;
    left -= rows;
  }
}

void AttendF32(const AttentionTile& t) { AttendTile<float>(t); }
void AttendF16(const AttentionTile& t) { AttendTile<hwy::float16_t>(t); }
void AttendBf16(const AttentionTile& t) { AttendTile<hwy::bfloat16_t>(t); }

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(AttendF32);
HWY_EXPORT(AttendF16);
HWY_EXPORT(AttendBf16);

namespace {

std::int64_t tiles(const ir::Call& call) { return (call.in(0).dims[0] + kRows - 1) / kRows; }

/// The keys that a row sees, itself included.
std::int64_t window(const ir::Call& call) {
  const std::int64_t window = call.node->integer("window");
  return window > 0 ? window : std::numeric_limits<std::int64_t>::max();
}

/// What is wrong with the places that row t names; null when nothing is.
const char* bad_place(const ir::Call& call, std::int64_t t) {
  const auto &keys = call.in(1), &table = call.in(3);
  const std::int64_t sequence = call.in(4).as<std::int32_t>()[t], position = call.in(5).as<std::int32_t>()[t];
  if (sequence < 0 || sequence >= table.dims[0]) return "a sequence is outside the block table";
  if (position < 0 || position / keys.dims[3] >= table.dims[1]) return "a position is outside the block table";
  const std::int32_t* blocks = table.as<std::int32_t>() + sequence * table.dims[1];
  for (std::int64_t b = std::max<std::int64_t>(0, position - window(call) + 1) / keys.dims[3]; b <= position / keys.dims[3]; ++b)
    if (blocks[b] < 0 || blocks[b] >= keys.dims[0]) return "a block is outside the cache";
  return nullptr;
}

constexpr KernelFunctions kAttention{
    "attention",
    [](const ir::Call& call) {
      // How long a row's keys are is not known yet; half of what the block table has room for is a guess that only sets the number of
      // tasks.
      const auto &q = call.in(0), &keys = call.in(1);
      const double keys_a_row = 0.5 * double(call.in(3).dims[1] * keys.dims[3]), rows = double(std::min(q.dims[0], kRows));
      return plan::Split{tiles(call) * q.dims[1], 100 + 0.05 * rows * keys_a_row * double(q.dims[2])};
    },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) noexcept {
      const auto &q = call.in(0), &keys = call.in(1), &table = call.in(3);
      const std::int32_t* sequence = call.in(4).as<std::int32_t>();
      const std::int32_t* positions = call.in(5).as<std::int32_t>();
      const std::int64_t heads = q.dims[1], dim = q.dims[2], kv_heads = keys.dims[1], block = keys.dims[3];
      const auto attend = keys.dtype == ir::DType::f32   ? HWY_DYNAMIC_DISPATCH(AttendF32)
                          : keys.dtype == ir::DType::f16 ? HWY_DYNAMIC_DISPATCH(AttendF16)
                                                         : HWY_DYNAMIC_DISPATCH(AttendBf16);
      AttentionTile tile{};
      tile.row_stride = heads * dim;
      tile.dim = dim;
      tile.block = block;
      tile.block_stride = kv_heads * block * dim;
      tile.scale = static_cast<float>(call.node->number("scale"));
      tile.softcap = static_cast<float>(call.node->number("softcap"));
      tile.window = window(call);
      tile.scratch = reinterpret_cast<float*>(scratch);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t head = unit % heads, first = unit / heads * kRows, last = std::min(first + kRows, q.dims[0]);
        const std::int64_t offset = head / (heads / kv_heads) * block * dim * ir::block_bytes(keys.dtype);
        tile.keys = keys.data + offset;
        tile.values = call.in(2).data + offset;
        tile.sink = call.has(6) ? call.in(6).as<float>()[head] : -std::numeric_limits<float>::infinity();
        for (std::int64_t t = first; t < last; ++t)
          if (const char* wrong = bad_place(call, t)) return call.fail(wrong);
        for (std::int64_t t = first; t < last; t += tile.rows) {
          tile.rows = 1;
          while (t + tile.rows < last && sequence[t + tile.rows] == sequence[t] &&
                 positions[t + tile.rows] / kChunk == positions[t] / kChunk)
            ++tile.rows;
          tile.q = q.as<float>() + (t * heads + head) * dim;
          tile.y = call.out(0).as<float>() + (t * heads + head) * dim;
          tile.positions = positions + t;
          tile.blocks = table.as<std::int32_t>() + sequence[t] * table.dims[1];
          attend(tile);
        }
      }
    },
    [](const ir::Call& call) { return scratch_floats(call.in(0).dims[2]) * std::int64_t{sizeof(float)}; }};

}  // namespace

/// Heads of a multiple of 16 elements and blocks that divide a chunk; anything else is the reference's.
std::unique_ptr<plan::Kernel> lower_attention(const ir::Node& node) {
  const auto dim = node.inputs[0]->type.shape[2].constant(), block = node.inputs[1]->type.shape[3].constant();
  return dim && block && *dim % 16 == 0 && *block % 16 == 0 && kChunk % *block == 0 ? make_kernel(kAttention) : nullptr;
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
