// Attention on the tile unit: products of bf16 summed in f32, 16 or 32 rows at a time. Scores are Q K, outputs P V; a row of a tile of
// sums is a query's row, so one row and many go the same way and have the same bits.
//
// Both right-hand sides have pairs of what is summed over side by side: elements for keys, which are cached as [element, token], tokens for
// values, cached as [token, element]. So either is two neighbouring rows of 16 numbers in turn.
//
// A piece is computed as a whole: its scores, then their softmax, then its output, which never leaves the tile registers in between.
#include <immintrin.h>

#include "backends/cpu/kernels/attention_tile.h"

#include "backends/cpu/kernels/tile_unit.inc"

namespace quern::cpu {
namespace {

constexpr std::int64_t kTileBytes = 1024, kGroupRows = 16;
constexpr float kLog2E = 1.44269504088896341f;

inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t most(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

/// Keys [begin, end) of a piece.
struct Range {
  std::int64_t begin, end;
};

/// What tokens [first, last] see of a piece.
inline Range seen_by(const AttentionTile& t, std::int64_t first, std::int64_t last, std::int64_t piece) {
  const std::int64_t low = most(0, t.positions[first] - t.window + 1), end = t.positions[last] + std::int64_t{1}, start = piece * kPiece;
  return {least(kPiece, most(0, low - start)), least(kPiece, most(0, end - start))};
}

// How 16 numbers of a cache are read. Keys: pair(i) has elements i and i + 1 of tokens at … at + 15; values: pair(j, i) has tokens at + j
// and at + j + 1 in elements i … i + 15. Pairs are bf16, one after the other.

inline __m512i to_bf16(__m512 a, __m512 b) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a)); }

struct Bf16 {
  static __m512i pair(const std::byte* a, const std::byte* b) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a))),
                              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)), 1);
  }
};
struct F16 {
  static __m512 load(const std::byte* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static __m512i pair(const std::byte* a, const std::byte* b) { return to_bf16(load(a), load(b)); }
};

template <class Number>
struct Plain {
  struct Keys {
    const std::byte* from;
    std::int64_t stride;
    Keys(const std::byte* head, std::int64_t at, std::int64_t block, std::int64_t) : from(head + 2 * at), stride(2 * block) {}
    __m512i pair(std::int64_t i) const { return Number::pair(from + i * stride, from + i * stride + stride); }
  };
  struct Values {
    const std::byte* from;
    std::int64_t stride;
    Values(const std::byte* head, std::int64_t at, std::int64_t, std::int64_t dim) : from(head + 2 * at * dim), stride(2 * dim) {}
    __m512i pair(std::int64_t j, std::int64_t i) const {
      const std::byte* p = from + j * stride + 2 * i;
      return Number::pair(p, p + stride);
    }
  };
};

/// Bytes with a scale for every 32 elements of a token: ops/kv_layout.h says where they lie.
struct Q8 {
  static __m512 scaled(const std::byte* bytes, __m512 scale) {
    const __m128i integers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
    return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(integers)));
  }
  struct Keys {
    const std::byte *scales, *bytes;
    std::int64_t block;
    Keys(const std::byte* head, std::int64_t at, std::int64_t block_tokens, std::int64_t dim)
        : scales(head + 2 * at), bytes(head + dim / 16 * block_tokens + at), block(block_tokens) {}
    __m512i pair(std::int64_t i) const {
      const __m512 scale = F16::load(scales + i / 32 * 2 * block);
      return to_bf16(scaled(bytes + i * block, scale), scaled(bytes + (i + 1) * block, scale));
    }
  };
  struct Values {
    const std::byte *scales, *bytes;
    std::int64_t dim;
    Values(const std::byte* head, std::int64_t at, std::int64_t block_tokens, std::int64_t dim_)
        : scales(head + at * (dim_ / 16)), bytes(head + dim_ / 16 * block_tokens + at * dim_), dim(dim_) {}
    __m512 row(std::int64_t j, std::int64_t i) const {
      std::uint16_t scale;
      __builtin_memcpy(&scale, scales + j * (dim / 16) + i / 32 * 2, 2);
      return scaled(bytes + j * dim + i, _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(scale))));
    }
    __m512i pair(std::int64_t j, std::int64_t i) const { return to_bf16(row(j, i), row(j + 1, i)); }
  };
};

/// Two times 16 numbers in turn.
inline __m512i interleave(__m512i pair) {
  const __m512i first = _mm512_set_epi32(0x001f000f, 0x001e000e, 0x001d000d, 0x001c000c, 0x001b000b, 0x001a000a, 0x00190009, 0x00180008,
                                         0x00170007, 0x00160006, 0x00150005, 0x00140004, 0x00130003, 0x00120002, 0x00110001, 0x00100000);
  return _mm512_permutexvar_epi16(first, pair);
}

// Memory is fetched a few lines at a time between the rearranging of others: keys bring their values, values the keys that come after
// this head's piece.
inline void fetch(const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(from) + i, _MM_HINT_T1);
}

/// Keys [range.begin, range.end), rounded to sixteens, as tiles.
template <class Cache>
inline void gather_keys(const AttentionTile& t, std::int64_t start, Range range, std::byte* to) {
  const std::int64_t dim = t.dim, padded = (dim + 31) / 32 * 32, token_bytes = t.head_stride / t.block, share = 256 * token_bytes / dim;
  for (std::int64_t first = range.begin / 16 * 16; first < range.end; first += 16, to += padded * 32) {
    const std::int64_t key = start + first, at = key % t.block, block = t.blocks[key / t.block];
    const std::byte* values = t.values + block * t.value_stride + at * token_bytes;
    const typename Cache::Keys keys(t.keys + block * t.key_stride, at, t.block, dim);
    for (std::int64_t i = 0; i < dim; i += 16, values += share) {
      fetch(values, share);
      __m512i pairs[8];  // all before the first store, so that the compiler reads scales once
#pragma GCC unroll 8
      for (int p = 0; p < 8; ++p) pairs[p] = interleave(keys.pair(i + 2 * p));
#pragma GCC unroll 8
      for (int p = 0; p < 8; ++p) _mm512_store_si512(to + (i + 2 * p) * 32, pairs[p]);
    }
    for (std::int64_t i = dim; i < padded; i += 2) _mm512_store_si512(to + i * 32, _mm512_setzero_si512());
  }
}

/// Keys that will be wanted after this head's piece, `key` being one of it: the next head's, or the next piece's. Null: others have them.
inline const std::byte* next_keys(const AttentionTile& t, std::int64_t key) {
  const bool other_head = t.turn + 1 < t.turns;
  const std::int64_t wanted = other_head ? key : key + kPiece;
  if (wanted >= t.fetch_end) return nullptr;
  return t.keys + t.blocks[wanted / t.block] * t.key_stride + (other_head ? 1 : -t.turn) * t.head_stride;
}

/// Values [range.begin, range.end) of 16 * kColumns elements from `element` on, as tiles of 32 tokens, with zeros in place of tokens
/// outside the range; tiles of one step lie side by side, `stride` bytes after those of the step before. `high` is the largest number seen,
/// without its sign.
template <class Cache, int kColumns>
inline void gather_values(const AttentionTile& t, std::int64_t start, Range range, std::int64_t element, std::int64_t stride, std::byte* to,
                          __m512i& high) {
  const std::int64_t token_bytes = t.head_stride / t.block, share = 32 * kColumns * token_bytes / t.dim;
  __m512i most_of_all = high;
  for (std::int64_t first = range.begin / 32 * 32; first < (range.end + 31) / 32 * 32; first += 16) {
    std::byte* tiles = to + (first / 32 - range.begin / 32) * stride + first % 32 * 32;
    if (first + 16 <= range.begin || first >= range.end) {
      for (std::int64_t j = 0; j < 16; j += 2)
        for (int c = 0; c < kColumns; ++c) _mm512_store_si512(tiles + c * kTileBytes + j * 32, _mm512_setzero_si512());
      continue;
    }
    const std::int64_t key = start + first, at = key % t.block;
    const typename Cache::Values values(t.values + t.blocks[key / t.block] * t.value_stride, at, t.block, t.dim);
    const std::byte* next = next_keys(t, key);
    if (next != nullptr) next += at * token_bytes + element * 16 * token_bytes / t.dim;
    const bool whole = first >= range.begin && first + 16 <= range.end;
    for (std::int64_t j = 0; j < 16; j += 2) {
      if (next != nullptr) fetch(next + j / 2 * share, share);
      __mmask32 seen = 0xffffffff;
      if (!whole) {
        const bool a = first + j >= range.begin && first + j < range.end, b = first + j + 1 >= range.begin && first + j + 1 < range.end;
        seen = static_cast<__mmask32>((a ? 0x55555555u : 0) | (b ? 0xaaaaaaaau : 0));
      }
      __m512i pairs[kColumns];
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) pairs[c] = _mm512_maskz_mov_epi16(seen, interleave(values.pair(j, element + c * 16)));
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        most_of_all = _mm512_max_epu16(most_of_all, _mm512_add_epi16(pairs[c], pairs[c]));
        _mm512_store_si512(tiles + c * kTileBytes + j * 32, pairs[c]);
      }
    }
  }
  high = most_of_all;
}
inline bool is_finite(__m512i high) { return _mm512_cmpge_epu16_mask(high, _mm512_set1_epi16(static_cast<short>(0xff00))) == 0; }

/// A product of up to 32 rows: where its operands' tiles lie, in bytes.
struct Product {
  const std::byte* a;
  std::int64_t a_row, a_step, a_group;
  const std::byte* b;
  std::int64_t b_step, b_column;
  std::int64_t steps;
  float* y;
  std::int64_t y_row, y_group;  // y_group in floats
};

// Tiles 0-3 have sums: two columns of two groups of rows, or four columns of one group. Tiles 4 (and 5, where there are two groups): a.
// Tiles 5 (or 6) to 7: b.
void configure(std::int64_t rows) {
  TileConfig config = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  const auto count = static_cast<std::uint8_t>(rows > kGroupRows ? rows - kGroupRows : rows);
  if (rows > kGroupRows)
    config.rows[1] = config.rows[3] = config.rows[5] = count;
  else
    for (int tile = 0; tile < 5; ++tile) config.rows[tile] = count;
  memory_barrier();
  _tile_loadconfig(&config);
}

template <int kTiles>
inline void clear() {
  _tile_zero(0);
  if constexpr (kTiles > 1) _tile_zero(1);
  if constexpr (kTiles > 2) _tile_zero(2);
  if constexpr (kTiles > 3) _tile_zero(3);
}

/// Adds columns [column, column + kColumns) of two groups.
template <int kColumns>
inline void add_two_groups(const Product& p, std::int64_t column) {
  const std::byte *a = p.a, *b = p.b + column * p.b_column;
  for (std::int64_t step = 0; step < p.steps; ++step, a += p.a_step, b += p.b_step) {
    _tile_loadd(4, a, p.a_row);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, a + p.a_group, p.a_row);
    _tile_dpbf16ps(1, 5, 6);
    if constexpr (kColumns > 1) {
      _tile_loadd(7, b + p.b_column, 64);
      _tile_dpbf16ps(2, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
}
template <int kColumns>
inline void store_two_groups(const Product& p, std::int64_t column) {
  float* y = p.y + column * 16;
  _tile_stored(0, y, p.y_row);
  _tile_stored(1, y + p.y_group, p.y_row);
  if constexpr (kColumns > 1) _tile_stored(2, y + 16, p.y_row);
  if constexpr (kColumns > 1) _tile_stored(3, y + p.y_group + 16, p.y_row);
}

/// Adds columns [column, column + kColumns) of one group.
template <int kColumns>
inline void add_one_group(const Product& p, std::int64_t column) {
  const std::byte *a = p.a, *b = p.b + column * p.b_column;
  for (std::int64_t step = 0; step < p.steps; ++step, a += p.a_step, b += p.b_step) {
    _tile_loadd(4, a, p.a_row);
    _tile_loadd(5, b, 64);
    _tile_dpbf16ps(0, 4, 5);
    if constexpr (kColumns > 1) {
      _tile_loadd(6, b + p.b_column, 64);
      _tile_dpbf16ps(1, 4, 6);
    }
    if constexpr (kColumns > 2) {
      _tile_loadd(7, b + 2 * p.b_column, 64);
      _tile_dpbf16ps(2, 4, 7);
    }
    if constexpr (kColumns > 3) {
      _tile_loadd(5, b + 3 * p.b_column, 64);
      _tile_dpbf16ps(3, 4, 5);
    }
  }
}
template <int kColumns>
inline void store_one_group(const Product& p, std::int64_t column) {
  float* y = p.y + column * 16;
  _tile_stored(0, y, p.y_row);
  if constexpr (kColumns > 1) _tile_stored(1, y + 16, p.y_row);
  if constexpr (kColumns > 2) _tile_stored(2, y + 32, p.y_row);
  if constexpr (kColumns > 3) _tile_stored(3, y + 48, p.y_row);
}

template <int kColumns>
inline void two_groups(const Product& p, std::int64_t column) {
  clear<2 * kColumns>();
  add_two_groups<kColumns>(p, column);
  store_two_groups<kColumns>(p, column);
}
template <int kColumns>
inline void one_group(const Product& p, std::int64_t column) {
  clear<kColumns>();
  add_one_group<kColumns>(p, column);
  store_one_group<kColumns>(p, column);
}

void multiply(const Product& p, std::int64_t groups, std::int64_t begin, std::int64_t end) {
  memory_barrier();
  std::int64_t column = begin;
  if (groups == 2) {
    for (; column + 2 <= end; column += 2) two_groups<2>(p, column);
    if (column < end) two_groups<1>(p, column);
  } else {
    for (; column + 4 <= end; column += 4) one_group<4>(p, column);
    if (column + 2 <= end) {
      one_group<2>(p, column);
      column += 2;
    }
    if (column < end) one_group<1>(p, column);
  }
  memory_barrier();
}

/// 2^z for z ≤ 0, within 7e-6 of it; 0 from -127 down. NaN stays NaN: max_ps gives its second operand then, and the lowest bits of a NaN
/// that comes from bf16 numbers are 0, so that adding them to the exponent changes nothing.
inline __m512 exp2(__m512 z) {
  z = _mm512_max_ps(_mm512_set1_ps(-127.0f), z);
  // Beside 1.5 * 2^23 a float has no bits for fractions: what is added is rounded, and lies in the lowest bits.
  const __m512 magic = _mm512_set1_ps(12582912.0f), whole = _mm512_add_ps(z, magic), f = _mm512_sub_ps(z, _mm512_sub_ps(whole, magic));
  // (2^f - 1) / f by Chebyshev interpolation on [-1/2, 1/2].
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0.009656710550189018f), f, _mm512_set1_ps(0.05583828315138817f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.24022530019283295f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6931367516517639f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(whole), 23)));
}

/// cap * tanh(z) of 16 scores in units of the cap, in units of log 2.
inline __m512 capped(__m512 z, __m512 cap) {
  const __m512 one = _mm512_set1_ps(1.0f), two = _mm512_set1_ps(2.0f);
  const __m512 size = _mm512_abs_ps(z), e = exp2(_mm512_mul_ps(size, _mm512_set1_ps(-2.0f * kLog2E)));  // tanh = (1 - e) / (1 + e)
  const __m512 t = _mm512_sub_ps(_mm512_div_ps(two, _mm512_add_ps(one, e)), one);
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(z), _mm512_set1_epi32(static_cast<int>(0x80000000u)));
  return _mm512_mul_ps(cap, _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(t), sign)));
}

// One order for every row: halves are added until one number is left.
inline float sum_of(__m512 v) {
  v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
  v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
  v = _mm512_add_ps(v, _mm512_shuffle_ps(v, v, 0x4e));
  v = _mm512_add_ps(v, _mm512_shuffle_ps(v, v, 0xb1));
  return _mm512_cvtss_f32(v);
}
/// The highest, in every lane.
inline __m512 highest_of(__m512 v) {
  v = _mm512_max_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
  v = _mm512_max_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
  v = _mm512_max_ps(v, _mm512_shuffle_ps(v, v, 0x4e));
  return _mm512_max_ps(v, _mm512_shuffle_ps(v, v, 0xb1));
}

/// Lanes of the 16 keys from `first` on that lie in a range.
inline __mmask16 lanes_of(Range seen, std::int64_t first) {
  const std::int64_t begin = least(16, most(0, seen.begin - first)), end = least(16, most(0, seen.end - first));
  return static_cast<__mmask16>((1u << end) - (1u << begin));
}

/// A row's scores to weights 2^(score - highest), 0 for what it does not see, over `group`, a range of whole steps that has what it sees.
/// kWhole: it sees all of it.
template <bool kWhole>
inline void softmax_row(const float* scores, Range seen, Range group, std::uint16_t* weights, float& highest, float& total) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  __m512 high[2] = {lowest, lowest};
  for (std::int64_t k = group.begin; k < group.end; k += 32)
    for (int v = 0; v < 2; ++v) {
      const __m512 s = _mm512_load_ps(scores + k + 16 * v);
      high[v] = kWhole ? _mm512_max_ps(high[v], s) : _mm512_mask_max_ps(high[v], lanes_of(seen, k + 16 * v), high[v], s);
    }
  const __m512 top = highest_of(_mm512_max_ps(high[0], high[1]));
  __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (std::int64_t k = group.begin; k < group.end; k += 32) {
    __m512 w[2];
    for (int v = 0; v < 2; ++v) {
      w[v] = exp2(_mm512_sub_ps(_mm512_load_ps(scores + k + 16 * v), top));
      if (!kWhole) w[v] = _mm512_maskz_mov_ps(lanes_of(seen, k + 16 * v), w[v]);
      sums[v] = _mm512_add_ps(sums[v], w[v]);
    }
    _mm512_store_si512(weights + k, to_bf16(w[0], w[1]));
  }
  highest = _mm512_cvtss_f32(top);
  total = sum_of(_mm512_add_ps(sums[0], sums[1]));
}

/// The scores of rows [first, first + count) in s.scores to weights in s.weights, over `whole`, which is `any`, what any of them sees,
/// rounded to whole steps.
void softmax_rows(const AttentionTile& t, std::int64_t piece, const TileScratch& s, std::int64_t first, std::int64_t count, Range any,
                  Range whole) {
  const auto cap = static_cast<float>(t.softcap) * kLog2E;
  for (std::int64_t r = 0; r < count; ++r) {
    const Range seen = seen_by(t, (first + r) / t.group, (first + r) / t.group, piece);
    float* scores = s.scores + r * kScoreStride;
    std::uint16_t* weights = s.weights + r * kWeightStride;
    if (cap > 0)
      for (std::int64_t k = any.begin / 16 * 16; k < any.end; k += 16)
        _mm512_store_ps(scores + k, capped(_mm512_load_ps(scores + k), _mm512_set1_ps(cap)));
    if (seen.begin == whole.begin && seen.end == whole.end)
      softmax_row<true>(scores, seen, whole, weights, s.rows.highest[first + r], s.rows.totals[first + r]);
    else
      softmax_row<false>(scores, seen, whole, weights, s.rows.highest[first + r], s.rows.totals[first + r]);
  }
}

/// Rows [first, first + count), at most 32 of them.
void attend_rows(const AttentionTile& t, std::int64_t piece, const TileScratch& s, std::int64_t first, std::int64_t count) {
  const std::int64_t steps = (t.dim + 31) / 32, groups = count > kGroupRows ? 2 : 1;
  const Range any = seen_by(t, first / t.group, (first + count - 1) / t.group, piece);
  if (any.begin >= any.end) return;
  const Range whole = {any.begin / 32 * 32, (any.end + 31) / 32 * 32};
  multiply({s.queries + first / kGroupRows * steps * kTileBytes, 64, kTileBytes, steps * kTileBytes, s.keys, kTileBytes, steps * kTileBytes,
            steps, s.scores, kScoreStride * 4, kGroupRows * kScoreStride},
           groups, any.begin / 16, (any.end + 15) / 16);
  softmax_rows(t, piece, s, first, count, any, whole);
  const std::int64_t columns = t.dim / 16, from = whole.begin / 32;
  multiply({reinterpret_cast<const std::byte*>(s.weights) + from * 64, kWeightStride * 2, 64, kGroupRows * kWeightStride * 2,
            s.values + from * columns * kTileBytes, columns * kTileBytes, kTileBytes, (whole.end - whole.begin) / 32,
            s.rows.values + first * t.dim, t.dim * 4, kGroupRows * t.dim},
           groups, 0, columns);
}

/// At most 16 rows, which use every number once: keys and values are rearranged little by little in a small part of the first cache, since
/// stores that must wait for lines of it wait behind all that is fetched. What was rearranged is multiplied one turn later, when it has
/// left the store buffer.
template <class Cache>
bool attend_few_rows(const AttentionTile& t, std::int64_t piece, const TileScratch& s, Range any) {
  const std::int64_t rows = t.tokens * t.group, steps = (t.dim + 31) / 32, start = piece * kPiece;
  const Range whole = {any.begin / 32 * 32, (any.end + 31) / 32 * 32};
  configure(rows);

  const auto tiles_of_keys = [&](std::int64_t k) { return s.keys + k / 16 % 2 * (steps * kTileBytes); };
  const auto multiply_keys = [&](std::int64_t k) {
    memory_barrier();
    one_group<1>({s.queries, 64, kTileBytes, 0, tiles_of_keys(k), kTileBytes, 0, steps, s.scores + k, kScoreStride * 4, 0}, 0);
  };
  const std::int64_t first_key = any.begin / 16 * 16;
  for (std::int64_t k = first_key; k < any.end; k += 16) {
    gather_keys<Cache>(t, start, {k, least(k + 16, any.end)}, tiles_of_keys(k));
    if (k > first_key) multiply_keys(k - 16);
  }
  multiply_keys((any.end - 1) / 16 * 16);
  memory_barrier();
  softmax_rows(t, piece, s, 0, rows, any, whole);

  __m512i high = _mm512_setzero_si512();
  const auto add_columns = [&]<int kColumns>(std::int64_t column) {
    const auto tiles_of_values = [&](std::int64_t k) { return s.keys + k / 32 % 2 * (kColumns * kTileBytes); };
    const auto multiply_values = [&](std::int64_t k) {
      memory_barrier();
      const auto* weights = reinterpret_cast<const std::byte*>(s.weights + k);
      add_one_group<kColumns>({weights, kWeightStride * 2, 0, 0, tiles_of_values(k), 0, kTileBytes, 1, nullptr, 0, 0}, 0);
    };
    clear<kColumns>();
    for (std::int64_t k = whole.begin; k < whole.end; k += 32) {
      const Range range = {most(k, any.begin), least(k + 32, any.end)};
      gather_values<Cache, kColumns>(t, start, range, column * 16, kColumns * kTileBytes, tiles_of_values(k), high);
      if (k > whole.begin) multiply_values(k - 32);
    }
    multiply_values(whole.end - 32);
    store_one_group<kColumns>({nullptr, 0, 0, 0, nullptr, 0, 0, 0, s.rows.values, t.dim * 4, 0}, column);
    memory_barrier();
  };
  std::int64_t column = 0;
  for (; column + 4 <= t.dim / 16; column += 4) add_columns.template operator()<4>(column);
  for (; column < t.dim / 16; ++column) add_columns.template operator()<1>(column);
  _tile_release();
  return is_finite(high);
}

template <class Cache>
bool attend_piece(const AttentionTile& t, std::int64_t piece, const TileScratch& s) {
  const Range any = seen_by(t, 0, t.tokens - 1, piece);
  if (any.begin >= any.end) return true;
  const std::int64_t rows = t.tokens * t.group, columns = t.dim / 16;
  if (rows <= kGroupRows) return attend_few_rows<Cache>(t, piece, s, any) || t.tokens == 1;
  gather_keys<Cache>(t, piece * kPiece, any, s.keys + any.begin / 16 * ((t.dim + 31) / 32) * kTileBytes);
  __m512i high = _mm512_setzero_si512();
  std::byte* values = s.values + any.begin / 32 * columns * kTileBytes;
  std::int64_t column = 0;
  for (; column + 4 <= columns; column += 4)
    gather_values<Cache, 4>(t, piece * kPiece, any, column * 16, columns * kTileBytes, values + column * kTileBytes, high);
  for (; column < columns; ++column)
    gather_values<Cache, 1>(t, piece * kPiece, any, column * 16, columns * kTileBytes, values + column * kTileBytes, high);
  if (!is_finite(high) && t.tokens > 1) return false;
  std::int64_t configured = 0;
  for (std::int64_t first = 0; first < rows; first += 2 * kGroupRows) {
    const std::int64_t count = least(rows - first, 2 * kGroupRows);
    if (count != configured) configure(count);
    configured = count;
    attend_rows(t, piece, s, first, count);
  }
  _tile_release();
  return true;
}

}  // namespace

void pack_queries_amx(const AttentionTile& t, const TileScratch& s) {
  const __m512 scale = _mm512_set1_ps(static_cast<float>(t.softcap > 0 ? t.scale / t.softcap : t.scale * double{kLog2E}));
  const std::int64_t steps = (t.dim + 31) / 32;
  for (std::int64_t r = 0; r < t.tokens * t.group; ++r) {
    const float* q = t.q + r / t.group * t.token_stride + r % t.group * t.dim;
    std::byte* to = s.queries + r / kGroupRows * steps * kTileBytes + r % kGroupRows * 64;
    for (std::int64_t i = 0; i < t.dim; i += 32, to += kTileBytes) {
      const __m512 a = _mm512_loadu_ps(q + i), b = i + 16 < t.dim ? _mm512_loadu_ps(q + i + 16) : _mm512_setzero_ps();
      _mm512_store_si512(to, to_bf16(_mm512_mul_ps(a, scale), _mm512_mul_ps(b, scale)));
    }
  }
}

bool attend_piece_amx(TileCache cache, const AttentionTile& t, std::int64_t piece, const TileScratch& s) {
  switch (cache) {
    case TileCache::f16: return attend_piece<Plain<F16>>(t, piece, s);
    case TileCache::bf16: return attend_piece<Plain<Bf16>>(t, piece, s);
    default: return attend_piece<Q8>(t, piece, s);
  }
}

}  // namespace quern::cpu
