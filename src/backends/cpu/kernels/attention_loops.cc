#include "backends/cpu/kernels/attention_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention_loops.cc"
#include <hwy/foreach_target.h>  // first of these: it includes this file once for each instruction set

#include <hwy/contrib/math/math-inl.h>

#include "backends/cpu/kernels/attention_exp-inl.h"

#ifndef QUERN_ATTENTION_LOOPS_ONCE
#define QUERN_ATTENTION_LOOPS_ONCE
namespace quern::cpu {
constexpr float kLowest = -std::numeric_limits<float>::infinity();
// Rows side by side: with 4 vectors of keys 24 chains of FMAs, which fill 32 registers with what they read.
constexpr std::int64_t kGroup = 6;
// Up to so many rows, reading a number twice costs less than a copy of it.
constexpr std::int64_t kFewRows = 2 * kGroup;

/// The keys of one chunk that a row sees: [begin, end), empty when begin == end.
struct Seen {
  std::int64_t begin, end;
};

/// The worker's memory, one part after the other.
struct AttentionScratch {
  float* q;        // [groups of kGroup rows, dim, rows of the group], scaled
  float* scores;   // [rows, kChunk], then the weights in their place
  float* out;      // [rows, dim] of the piece
  float* highest;  // [rows] of the piece, in units of log 2
  float* totals;   // [rows, 16] of the piece, one sum a lane
  float* merged;   // [rows, partial_floats(dim)] of the pieces before
  float* panel;    // keys of a chunk as [dim, kChunk], then its values as [kChunk, dim]
  float* piece;    // [partial_floats(dim)]
  // In integers: the keys that each row sees, in all, [lows, ends), and of the chunk; and what any row of a group sees of it.
  std::int64_t *lows, *ends;
  Seen *seen, *groups;

  AttentionScratch(float* memory, std::int64_t rows, std::int64_t dim) {
    float** const parts[] = {&q, &scores, &out, &highest, &totals, &merged, &panel};
    int part = 0;
    for (float** p : parts) {
      *p = memory;
      memory += floats(part++, rows, dim);
    }
    lows = reinterpret_cast<std::int64_t*>(memory);
    ends = lows + rows;
    seen = reinterpret_cast<Seen*>(ends + rows);
    groups = seen + rows;
  }
  static constexpr int kParts = 8;
  static constexpr std::int64_t floats(int part, std::int64_t rows, std::int64_t dim) {
    const std::int64_t sizes[kParts] = {rows * dim,   rows * kChunk,
                                        rows * dim,   rows,
                                        rows * 16,    rows * partial_floats(dim),
                                        kChunk * dim, 2 * (2 * rows + 2 * (rows + rows / kGroup + 1))};
    return (sizes[part] + 15) / 16 * 16;
  }
};
}  // namespace quern::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
// Vectors side by side: as many chains of FMAs as there are registers for, at least 8 to hide their latency.
constexpr int kRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 32 : 16;
constexpr int vectors_for(int rows) {
  const int fit = (kRegisters - 1) / (rows + 1);  // beside the chains: what is read, and one broadcast
  return fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

// How one kind of cache is read: 16 keys of a block, from token `at` on, to columns of a panel; a token's values to a row of it. A row of
// values is also checked: `odd` becomes NaN when one of them is not finite.
template <class T>
struct Plain {
  static constexpr bool kPlain = true;
  using Number = T;
  static HWY_INLINE Vector Load(const float* p) { return hn::LoadU(Floats(), p); }
  static HWY_INLINE Vector Load(const hwy::float16_t* p) {
    return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<hwy::float16_t, Floats>(), p));
  }
  static HWY_INLINE Vector Load(const hwy::bfloat16_t* p) {
    return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<hwy::bfloat16_t, Floats>(), p));
  }

  static HWY_INLINE void Keys(const std::byte* piece, std::int64_t at, std::int64_t block, std::int64_t dim, float* to) {
    const T* from = reinterpret_cast<const T*>(piece) + at;
    for (std::int64_t i = 0; i < dim; ++i) {
      for (std::int64_t v = 0; v < 16; v += kLanes) hn::StoreU(Load(from + i * block + v), Floats(), to + i * kChunk + v);
    }
  }
  static HWY_INLINE void Values(const std::byte* piece, std::int64_t at, std::int64_t, std::int64_t dim, float* to, Vector& odd) {
    const T* from = reinterpret_cast<const T*>(piece) + at * dim;
    for (std::int64_t i = 0; i < dim; i += 16) {
      for (std::int64_t v = 0; v < 16; v += kLanes) {
        const auto value = Load(from + i + v);
        odd = hn::MulAdd(value, hn::Zero(Floats()), odd);
        hn::StoreU(value, Floats(), to + i + v);
      }
    }
  }
};

/// Numbers with a scale, and in q4_1 a minimum, for every 32 elements of a token: ops/kv_layout.h says where they lie. What is made of them
/// is exact in q8_0 (11 bits times 8) and rounded once in q4_1.
template <bool kHasMinimum>
struct Quantised {
  static constexpr bool kPlain = false;
  static constexpr std::int64_t kElements = 32;
  static constexpr std::int64_t kHeader = kHasMinimum ? 4 : 2;  // bytes of scale and minimum

  static HWY_INLINE Vector Halves(const std::byte* p) {
    return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<hwy::float16_t, Floats>(), reinterpret_cast<const hwy::float16_t*>(p)));
  }
  static HWY_INLINE Vector Half(const std::byte* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, 2);
    const hn::Rebind<std::uint16_t, Floats> d16;
    return hn::PromoteTo(Floats(), hn::BitCast(hn::Rebind<hwy::float16_t, Floats>(), hn::Set(d16, bits)));
  }
  /// The numbers of one vector of bytes: one vector in q8_0, two in q4_1.
  static HWY_INLINE void Numbers(const std::byte* p, Vector scale, Vector minimum, Vector& a, Vector& b) {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    if constexpr (kHasMinimum) {
      const auto pairs = hn::PromoteTo(di, hn::LoadU(hn::Rebind<std::uint8_t, Floats>(), reinterpret_cast<const std::uint8_t*>(p)));
      a = hn::MulAdd(scale, hn::ConvertTo(d, hn::And(pairs, hn::Set(di, 15))), minimum);
      b = hn::MulAdd(scale, hn::ConvertTo(d, hn::ShiftRight<4>(pairs)), minimum);
    } else {
      const auto integers = hn::LoadU(hn::Rebind<std::int8_t, Floats>(), reinterpret_cast<const std::int8_t*>(p));
      a = hn::Mul(scale, hn::ConvertTo(d, hn::PromoteTo(di, integers)));
      b = a;
    }
  }

  static HWY_INLINE void Keys(const std::byte* piece, std::int64_t at, std::int64_t block, std::int64_t dim, float* to) {
    constexpr std::int64_t kRowsOfBytes = kHasMinimum ? 16 : 32;  // a group's
    const std::int64_t groups = dim / kElements, header = kHeader * groups * block;
    for (std::int64_t g = 0; g < groups; ++g, to += kElements * kChunk) {
      const std::byte* bytes = piece + header + g * kRowsOfBytes * block + at;
      for (std::int64_t v = 0; v < 16; v += kLanes) {
        const std::byte* scales = piece + 2 * (g * block + at + v);
        const Vector scale = Halves(scales), minimum = kHasMinimum ? Halves(scales + 2 * groups * block) : scale;
        for (std::int64_t i = 0; i < kRowsOfBytes; ++i) {
          Vector a, b;
          Numbers(bytes + i * block + v, scale, minimum, a, b);
          hn::StoreU(a, Floats(), to + i * kChunk + v);
          if (kHasMinimum) hn::StoreU(b, Floats(), to + (16 + i) * kChunk + v);
        }
      }
    }
  }
  static HWY_INLINE void Values(const std::byte* piece, std::int64_t at, std::int64_t block, std::int64_t dim, float* to, Vector& odd) {
    constexpr std::int64_t kBytes = kHasMinimum ? 16 : 32;  // a group's
    const std::int64_t groups = dim / kElements, header = kHeader * groups * block;
    for (std::int64_t g = 0; g < groups; ++g, to += kElements) {
      const std::byte* scales = piece + 2 * (at * groups + g);
      const Vector scale = Half(scales), minimum = kHasMinimum ? Half(scales + 2 * groups * block) : scale;
      odd = hn::MulAdd(scale, hn::Zero(Floats()), hn::MulAdd(minimum, hn::Zero(Floats()), odd));
      const std::int64_t begin = header + (at * groups + g) * kBytes;
      for (std::int64_t v = 0; v < kBytes; v += kLanes) {
        Vector a, b;
        Numbers(piece + begin + v, scale, minimum, a, b);
        hn::StoreU(a, Floats(), to + v);
        if (kHasMinimum) hn::StoreU(b, Floats(), to + 16 + v);
      }
    }
  }
};

/// scores[r, k … k + V vectors] = q of R rows · keys of the panel.
template <int R, int V>
HWY_INLINE void ScoreVectors(const float* HWY_RESTRICT q, const float* HWY_RESTRICT keys, std::int64_t dim, float* HWY_RESTRICT scores) {
  const Floats d;
  Vector sum[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d);
  for (std::int64_t i = 0; i < dim; ++i) {
    Vector key[V];
    for (int v = 0; v < V; ++v) key[v] = hn::LoadU(d, keys + i * kChunk + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const auto scale = hn::Set(d, q[i * R + r]);
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(scale, key[v], sum[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::StoreU(sum[r][v], d, scores + r * kChunk + v * kLanes);
}

/// The scores of keys [begin, end) of a chunk, rounded to whole vectors.
template <int R>
HWY_INLINE void Scores(const float* q, const float* keys, std::int64_t dim, std::int64_t begin, std::int64_t end, float* scores) {
  constexpr int V = std::min<int>(vectors_for(R), kChunk / kLanes);
  std::int64_t k = begin / kLanes * kLanes;
  for (; k + (V - 1) * kLanes < end && k + V * kLanes <= kChunk; k += V * kLanes) ScoreVectors<R, V>(q, keys + k, dim, scores + k);
  for (; k < end; k += kLanes) ScoreVectors<R, 1>(q, keys + k, dim, scores + k);
}

/// out[r, i … i + V vectors] += sum over keys [begin, end) of weights[r, j] * values[j, i …].
template <int R, int V>
HWY_INLINE void AddValueVectors(const float* HWY_RESTRICT weights, const float* HWY_RESTRICT values, std::int64_t dim, std::int64_t begin,
                                std::int64_t end, float* HWY_RESTRICT out) {
  const Floats d;
  Vector sum[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sum[r][v] = hn::LoadU(d, out + r * dim + v * kLanes);
  for (std::int64_t j = begin; j < end; ++j) {
    Vector value[V];
    for (int v = 0; v < V; ++v) value[v] = hn::LoadU(d, values + j * dim + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const auto weight = hn::Set(d, weights[r * kChunk + j]);
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(weight, value[v], sum[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::StoreU(sum[r][v], d, out + r * dim + v * kLanes);
}

template <int R>
HWY_INLINE void AddValues(const float* weights, const float* values, std::int64_t dim, std::int64_t begin, std::int64_t end, float* out) {
  constexpr int V = vectors_for(R);
  std::int64_t i = 0;
  for (; i + V * kLanes <= dim; i += V * kLanes) AddValueVectors<R, V>(weights, values + i, dim, begin, end, out + i);
  for (; i < dim; i += kLanes) AddValueVectors<R, 1>(weights, values + i, dim, begin, end, out + i);
}

// The same sums, read from a cache of plain numbers where it lies: what few rows use is not worth a copy.

/// The places of 64 keys or values: those of 16 tokens of a block each.
struct Places {
  const std::byte* at[kChunk / 16];
};

/// As Scores, of V vectors of keys from `begin` on.
template <class Cache, int R, int V>
HWY_INLINE void DirectScoreVectors(const float* HWY_RESTRICT q, const Places& keys, std::int64_t block, std::int64_t dim,
                                   std::int64_t begin, float* HWY_RESTRICT scores) {
  using T = typename Cache::Number;
  const Floats d;
  const T* from[V];
  for (int v = 0; v < V; ++v) {
    const std::int64_t k = begin + v * kLanes;
    from[v] = reinterpret_cast<const T*>(keys.at[k / 16]) + k % 16;
  }
  Vector sum[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d);
  for (std::int64_t i = 0; i < dim; ++i) {
    Vector key[V];
    for (int v = 0; v < V; ++v) key[v] = Cache::Load(from[v] + i * block);
    for (int r = 0; r < R; ++r) {
      const auto scale = hn::Set(d, q[i * R + r]);
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(scale, key[v], sum[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::StoreU(sum[r][v], d, scores + r * kChunk + begin + v * kLanes);
}

template <class Cache, int R>
HWY_INLINE void DirectScores(const float* q, const Places& keys, std::int64_t block, std::int64_t dim, Seen seen, float* scores) {
  constexpr int V = std::min<int>(vectors_for(R), kChunk / kLanes);
  std::int64_t k = seen.begin / kLanes * kLanes;
  for (; k + (V - 1) * kLanes < seen.end && k + V * kLanes <= kChunk; k += V * kLanes)
    DirectScoreVectors<Cache, R, V>(q, keys, block, dim, k, scores);
  for (; k < seen.end; k += kLanes) DirectScoreVectors<Cache, R, 1>(q, keys, block, dim, k, scores);
}

/// As AddValueVectors, of elements from `first` on.
template <class Cache, int R, int V>
HWY_INLINE void DirectAddValueVectors(const float* HWY_RESTRICT weights, const Places& values, std::int64_t dim, Seen seen,
                                      std::int64_t first, float* HWY_RESTRICT out) {
  using T = typename Cache::Number;
  const Floats d;
  Vector sum[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sum[r][v] = hn::LoadU(d, out + r * dim + first + v * kLanes);
  for (std::int64_t j = seen.begin; j < seen.end;) {
    const T* from = reinterpret_cast<const T*>(values.at[j / 16]) + j % 16 * dim + first;
    for (const std::int64_t end = std::min(seen.end, (j / 16 + 1) * 16); j < end; ++j, from += dim) {
      Vector value[V];
      for (int v = 0; v < V; ++v) value[v] = Cache::Load(from + v * kLanes);
      for (int r = 0; r < R; ++r) {
        const auto weight = hn::Set(d, weights[r * kChunk + j]);
        for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(weight, value[v], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::StoreU(sum[r][v], d, out + r * dim + first + v * kLanes);
}

template <class Cache, int R>
HWY_INLINE void DirectAddValues(const float* weights, const Places& values, std::int64_t dim, Seen seen, float* out) {
  constexpr int V = vectors_for(R);
  std::int64_t i = 0;
  for (; i + V * kLanes <= dim; i += V * kLanes) DirectAddValueVectors<Cache, R, V>(weights, values, dim, seen, i, out);
  for (; i < dim; i += kLanes) DirectAddValueVectors<Cache, R, 1>(weights, values, dim, seen, i, out);
}

/// Calls f.template operator()<R>() for R rows of at most kGroup.
template <class F>
HWY_INLINE void WithRows(std::int64_t rows, const F& f) {
  switch (rows) {
    case 1: f.template operator()<1>(); break;
    case 2: f.template operator()<2>(); break;
    case 3: f.template operator()<3>(); break;
    case 4: f.template operator()<4>(); break;
    case 5: f.template operator()<5>(); break;
    default: f.template operator()<6>(); break;
  }
}

HWY_INLINE void MultiplyRow(float* row, std::int64_t dim, float by) {
  const Floats d;
  for (std::int64_t i = 0; i < dim; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, by)), d, row + i);
}

/// Turns a row's scores of one chunk into weights 2^(score - highest), 0 for what the row does not see, and brings the row's highest score,
/// sum and output up to date. A NaN among what it sees makes all of the row NaN. kWhole: it sees the whole chunk, and there is no soft cap.
template <bool kWhole>
HWY_INLINE void SoftmaxChunk(float* HWY_RESTRICT scores, Seen seen, float softcap, float& highest, float* totals, float* out,
                             std::int64_t dim) {
  const Floats d;
  constexpr std::int64_t kVectors = kChunk / kLanes;
  const auto lowest = hn::Set(d, kLowest);
  Vector s[kVectors];
  for (std::int64_t v = 0; v < kVectors; ++v) {
    s[v] = hn::LoadU(d, scores + v * kLanes);
    if (kWhole) continue;
    if (softcap > 0) {  // NaN stays NaN, which Highway's Tanh does not promise
      const auto capped = hn::Mul(hn::Set(d, softcap), hn::Tanh(d, s[v]));
      s[v] = hn::IfThenElse(hn::IsNaN(s[v]), s[v], capped);
    }
    const std::int64_t begin = std::clamp<std::int64_t>(seen.begin - v * kLanes, 0, kLanes),
                       end = std::clamp<std::int64_t>(seen.end - v * kLanes, 0, kLanes);
    s[v] = hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(end)), s[v], lowest);
    s[v] = hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(begin)), lowest, s[v]);
  }
  auto high = s[0];
  for (std::int64_t v = 1; v < kVectors; ++v) high = hn::Max(high, s[v]);
  const float before = highest;
  highest = std::max(before, hn::GetLane(hn::MaxOfLanes(d, high)));
  auto total = hn::LoadU(d, totals);
  if (highest != before) {
    const float shrink = Exp2Of(before - highest);
    total = hn::Mul(total, hn::Set(d, shrink));
    if (before != kLowest) MultiplyRow(out, dim, shrink);
  }
  const auto top = hn::Set(d, highest);
  for (std::int64_t v = 0; v < kVectors; ++v) {
    const auto z = hn::Sub(s[v], top);
    const auto weight = hn::IfThenElse(hn::IsNaN(z), z, Exp2(z));
    hn::StoreU(weight, d, scores + v * kLanes);
    total = hn::Add(total, weight);
  }
  hn::StoreU(total, d, totals);
}

constexpr double kLog2E = 1.4426950408889634;

/// Queries scaled, so that scores are in units of log 2 or, where a soft cap follows, of the cap; groups of rows interleaved.
inline void PackQueries(const AttentionTile& t, std::int64_t rows, float* to) {
  const auto scale = static_cast<float>(t.softcap > 0 ? t.scale / t.softcap : t.scale * kLog2E);
  for (std::int64_t first = 0; first < rows; first += kGroup) {
    const std::int64_t count = std::min(kGroup, rows - first);
    for (std::int64_t r = 0; r < count; ++r) {
      const float* q = t.q + (first + r) / t.group * t.token_stride + (first + r) % t.group * t.dim;
      for (std::int64_t i = 0; i < t.dim; ++i) to[first * t.dim + i * count + r] = q[i] * scale;
    }
  }
}

/// Where 16 tokens each of a chunk lie: keys (a column of 16 in each row of a block) or values.
template <bool kValues>
HWY_INLINE Places PlacesOf(const AttentionTile& t, std::int64_t chunk, Seen any, std::int64_t token_bytes) {
  Places places;
  for (std::int64_t c = any.begin / 16 * 16; c < any.end; c += 16) {
    const std::int64_t block = t.blocks[(chunk + c) / t.block], in_block = (chunk + c) % t.block * token_bytes;
    places.at[c / 16] = (kValues ? t.values + block * t.value_stride : t.keys + block * t.key_stride) + in_block;
  }
  return places;
}

/// The scores of rows [first, first + count) to their weights, and their highest scores, sums and outputs brought up to date.
HWY_INLINE void SoftmaxRows(const AttentionTile& t, const AttentionScratch& s, std::int64_t first, std::int64_t count, float softcap) {
  for (std::int64_t r = first; r < first + count; ++r) {
    const Seen seen = s.seen[r];
    float *scores = s.scores + r * kChunk, *out = s.out + r * t.dim, *totals = s.totals + r * 16;
    if (seen.begin >= seen.end)
      std::memset(scores, 0, kChunk * sizeof(float));
    else if (seen.begin == 0 && seen.end == kChunk && softcap == 0)
      SoftmaxChunk<true>(scores, seen, softcap, s.highest[r], totals, out, t.dim);
    else
      SoftmaxChunk<false>(scores, seen, softcap, s.highest[r], totals, out, t.dim);
  }
}

/// Few rows that see the same keys of a chunk, as those of one token do.
template <class Cache>
HWY_INLINE void AttendFewRows(const AttentionTile& t, const AttentionScratch& s, std::int64_t rows, std::int64_t chunk, Seen any,
                              float softcap) {
  constexpr std::int64_t size = sizeof(typename Cache::Number);
  const Places keys = PlacesOf<false>(t, chunk, any, size), values = PlacesOf<true>(t, chunk, any, t.dim * size);
  for (std::int64_t first = 0; first < rows; first += kGroup)
    WithRows(std::min(kGroup, rows - first),
             [&]<int R>() HWY_ATTR { DirectScores<Cache, R>(s.q + first * t.dim, keys, t.block, t.dim, any, s.scores + first * kChunk); });
  SoftmaxRows(t, s, 0, rows, softcap);
  for (std::int64_t first = 0; first < rows; first += kGroup)
    WithRows(std::min(kGroup, rows - first),
             [&]<int R>() HWY_ATTR { DirectAddValues<Cache, R>(s.scores + first * kChunk, values, t.dim, any, s.out + first * t.dim); });
}

/// Any rows: the chunk's keys and values are made floats first.
template <class Cache>
HWY_INLINE void AttendManyRows(const AttentionTile& t, const AttentionScratch& s, std::int64_t rows, std::int64_t chunk, Seen any,
                               bool alike, float softcap) {
  const auto block_of = [&](std::int64_t c) { return t.blocks[(chunk + c) / t.block]; };
  for (std::int64_t c = any.begin / 16 * 16; c < any.end; c += 16)
    Cache::Keys(t.keys + block_of(c) * t.key_stride, (chunk + c) % t.block, t.block, t.dim, s.panel + c);
  for (std::int64_t first = 0; first < rows; first += kGroup) {
    const std::int64_t count = std::min(kGroup, rows - first);
    Seen group = {kChunk, 0};
    for (std::int64_t r = first; r < first + count; ++r)
      if (s.seen[r].begin < s.seen[r].end) group = {std::min(group.begin, s.seen[r].begin), std::max(group.end, s.seen[r].end)};
    s.groups[first / kGroup] = group;
    if (group.begin >= group.end) continue;
    WithRows(count,
             [&]<int R>() HWY_ATTR { Scores<R>(s.q + first * t.dim, s.panel, t.dim, group.begin, group.end, s.scores + first * kChunk); });
    SoftmaxRows(t, s, first, count, softcap);
  }

  auto odd = hn::Zero(Floats());
  for (std::int64_t c = any.begin; c < any.end;) {
    const std::int64_t end = std::min(any.end, (c / 16 + 1) * 16);
    const std::byte* piece = t.values + block_of(c) * t.value_stride;
    for (std::int64_t at = (chunk + c) % t.block; c < end; ++c, ++at) Cache::Values(piece, at, t.block, t.dim, s.panel + c * t.dim, odd);
  }
  // A weight of 0 hides a finite value and no other.
  const bool apart = !alike && !hn::AllFalse(Floats(), hn::IsNaN(odd));
  for (std::int64_t first = 0; first < rows; first += kGroup) {
    const std::int64_t count = std::min(kGroup, rows - first);
    const Seen group = s.groups[first / kGroup];
    if (apart)
      for (std::int64_t r = first; r < first + count; ++r)
        AddValues<1>(s.scores + r * kChunk, s.panel, t.dim, s.seen[r].begin, s.seen[r].end, s.out + r * t.dim);
    if (apart || group.begin >= group.end) continue;
    WithRows(count, [&]<int R>() HWY_ATTR {
      AddValues<R>(s.scores + first * kChunk, s.panel, t.dim, group.begin, group.end, s.out + first * t.dim);
    });
  }
}

/// One chunk for all rows: [begin, end) is what any of them sees.
template <class Cache>
HWY_INLINE void AttendChunk(const AttentionTile& t, const AttentionScratch& s, std::int64_t rows, std::int64_t chunk, Seen any) {
  bool alike = true;  // whether all rows see the same keys
  for (std::int64_t r = 0; r < rows; ++r) {
    const Seen seen = {std::clamp<std::int64_t>(s.lows[r] - chunk, 0, kChunk), std::clamp<std::int64_t>(s.ends[r] - chunk, 0, kChunk)};
    s.seen[r] = seen;
    alike = alike && seen.begin == any.begin && seen.end == any.end;
  }
  const auto softcap = static_cast<float>(t.softcap * kLog2E);
  if constexpr (Cache::kPlain)
    if (alike && rows <= kFewRows) return AttendFewRows<Cache>(t, s, rows, chunk, any, softcap);
  AttendManyRows<Cache>(t, s, rows, chunk, any, alike, softcap);
}

/// Fetches a chunk of one head, its first key being `key`.
inline void FetchChunk(const AttentionTile& t, std::int64_t key, std::int64_t head) {
  for (std::int64_t c = 0; c < kChunk && key + c < t.fetch_end; c += t.block) {
    const std::int64_t block = t.blocks[(key + c) / t.block], offset = (head - t.turn) * t.head_stride;
    const std::byte *keys = t.keys + block * t.key_stride + offset, *values = t.values + block * t.value_stride + offset;
    for (std::int64_t i = 0; i < t.head_stride; i += 64) __builtin_prefetch(keys + i, 0, 2), __builtin_prefetch(values + i, 0, 2);
  }
}

template <class Cache>
void Attend(const AttentionTile& t, float* scratch) {
  const std::int64_t rows = t.tokens * t.group;
  const AttentionScratch s(scratch, rows, t.dim);
  PackQueries(t, rows, s.q);
  for (std::int64_t n = 0, r = 0; n < t.tokens; ++n)
    for (std::int64_t g = 0; g < t.group; ++g, ++r) s.lows[r] = first_key(t, n), s.ends[r] = t.positions[n] + 1;
  const std::int64_t low = first_key(t, 0), high = t.positions[t.tokens - 1];
  for (std::int64_t piece = t.first_piece; piece < t.end_piece; ++piece) {
    std::fill_n(s.highest, rows, kLowest);
    std::fill_n(s.totals, rows * 16, 0.0f);
    std::fill_n(s.out, rows * t.dim, 0.0f);
    const std::int64_t begin = std::max(low, piece * kPiece), end = std::min(high + 1, (piece + 1) * kPiece);
    for (std::int64_t chunk = begin / kChunk * kChunk; chunk < end; chunk += kChunk) {
      // What comes after this chunk, in the order of the work: the head's next chunk, the next head's first, the next piece's first.
      if (chunk + kChunk < end)
        FetchChunk(t, chunk + kChunk, t.turn);
      else if (t.turn + 1 < t.turns)
        FetchChunk(t, begin / t.block * t.block, t.turn + 1);
      else
        FetchChunk(t, (piece + 1) * kPiece, 0);
      AttendChunk<Cache>(t, s, rows, chunk, {std::max<std::int64_t>(0, begin - chunk), std::min(kChunk, end - chunk)});
    }
    for (std::int64_t r = 0; r < rows; ++r) s.totals[r] = hn::GetLane(hn::SumOfLanes(Floats(), hn::LoadU(Floats(), s.totals + r * 16)));
    add_piece(t, piece, {s.highest, s.totals, s.out}, s.merged);
  }
  if (t.partials == nullptr) finish_rows(t, s.merged);
}

void AttendF32(const AttentionTile& t, float* scratch) { Attend<Plain<float>>(t, scratch); }
void AttendF16(const AttentionTile& t, float* scratch) { Attend<Plain<hwy::float16_t>>(t, scratch); }
void AttendBf16(const AttentionTile& t, float* scratch) { Attend<Plain<hwy::bfloat16_t>>(t, scratch); }
void AttendQ8(const AttentionTile& t, float* scratch) { Attend<Quantised<false>>(t, scratch); }
void AttendQ4(const AttentionTile& t, float* scratch) { Attend<Quantised<true>>(t, scratch); }

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(AttendF32);
HWY_EXPORT(AttendF16);
HWY_EXPORT(AttendBf16);
HWY_EXPORT(AttendQ8);
HWY_EXPORT(AttendQ4);

std::int64_t attention_scratch_floats(std::int64_t rows, std::int64_t dim) {
  std::int64_t sum = 0;
  for (int part = 0; part < AttentionScratch::kParts; ++part) sum += AttentionScratch::floats(part, rows, dim);
  return sum;
}

void attend(ir::DType dtype, const AttentionTile& tile, float* scratch) {
  switch (dtype) {
    case ir::DType::f32: return HWY_DYNAMIC_DISPATCH(AttendF32)(tile, scratch);
    case ir::DType::f16: return HWY_DYNAMIC_DISPATCH(AttendF16)(tile, scratch);
    case ir::DType::bf16: return HWY_DYNAMIC_DISPATCH(AttendBf16)(tile, scratch);
    case ir::DType::q8_0: return HWY_DYNAMIC_DISPATCH(AttendQ8)(tile, scratch);
    default: return HWY_DYNAMIC_DISPATCH(AttendQ4)(tile, scratch);
  }
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
