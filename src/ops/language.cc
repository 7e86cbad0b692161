// What language models are made of beside products (linear.cc). Every reference kernel is plain scalar code with sums in f64.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/detail/cost.h"
#include "ops/detail/float_rows.h"
#include "ops/kv_layout.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {

using namespace ir;      // NOLINT(google-build-using-namespace): this file speaks of nothing else
using namespace detail;  // NOLINT(google-build-using-namespace)

const Dim& head_dim(const Type& cache, bool transposed) { return cache.shape[transposed && !is_block(cache.dtype) ? 2 : 3]; }

/// Checks a cache of keys (transposed) or values.
void expect_cache(const InferContext& c, std::size_t i, bool transposed) {
  if (!KvLayout::supports(c.dtype(i))) c.fail("a cache of " + std::string(name(c.dtype(i))) + " is not supported");
  const auto dim = head_dim(c.type(i), transposed).constant();
  if (is_block(c.dtype(i)) && (!dim || *dim % block_elements(c.dtype(i)) != 0))
    c.fail("a cache of " + std::string(name(c.dtype(i))) + " takes heads of a multiple of " + std::to_string(block_elements(c.dtype(i))));
}

/// The keys [first, end) that each token sees, inside what its blocks hold: f(sequence, first, end).
template <class F>
void for_each_attention(const Call& c, F f) {
  const std::int64_t most = c.in(1).dims[3] * c.in(3).dims[1], window = c.node->integer("window");
  for (std::int64_t t = 0; t < c.in(0).dims[0]; ++t) {
    const std::int64_t end = std::clamp<std::int64_t>(std::int64_t{c.in(5).as<std::int32_t>()[t]} + 1, 0, most);
    f(c.in(4).as<std::int32_t>()[t], window > 0 ? std::max<std::int64_t>(0, end - window) : 0, end);
  }
}

/// A score and a sum of values for every head and key that a token sees.
double attention_operations(const Call& c) {
  double pairs = 0;
  for_each_attention(c, [&](std::int32_t, std::int64_t first, std::int64_t end) { pairs += double(end - first); });
  return 4.0 * pairs * double(c.in(0).dims[1] * c.in(0).dims[2]);
}

/// Of keys and values, what any token of a sequence sees, once (tokens of a sequence stand together).
double attention_bytes(const Call& c, std::size_t i) {
  if (i != 1 && i != 2) return double((i < c.node->inputs.size() ? c.in(i) : c.out(0)).bytes());
  double total = 0;
  std::int64_t first_seen = 0, last_seen = 0;
  std::int32_t current = -1;
  for_each_attention(c, [&](std::int32_t sequence, std::int64_t first, std::int64_t end) {
    if (sequence != current) {
      total += double(last_seen - first_seen);
      first_seen = first, last_seen = end;
    }
    current = sequence;
    first_seen = std::min(first_seen, first), last_seen = std::max(last_seen, end);
  });
  total += double(last_seen - first_seen);
  return total * double(c.in(1).dims[1] * row_bytes(c.in(i).dtype, c.in(0).dims[2]));
}

/// Of the cache, only the new tokens' places.
double kv_write_bytes(const Call& c, std::size_t i) {
  if (i == 0) return 0;
  return i == 3 ? double(row_bytes(c.out(0).dtype, c.in(1).elements())) : double(c.in(i).bytes());
}

double embedding_bytes(const Call& c, std::size_t i) {
  if (i == 0) return double(c.in(1).elements() * row_bytes(c.in(0).dtype, c.in(0).dims[1]));
  return double((i == 2 ? c.out(0) : c.in(i)).bytes());
}

}  // namespace

/// y[t] = table[ids[t]] as f32. Shapes: table [vocabulary, width] of any type; ids [tokens] i32 in [0, vocabulary); y [tokens, width].
const Op embedding{
    .name = "embedding",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer =
        [](InferContext& c) {
          expect_rank(c, 0, 2);
          expect_rank(c, 1, 1);
          expect_dtype(c, 1, DType::i32);
          c.set_output(0, {DType::f32, {c.shape(1)[0], c.shape(0)[1]}});
        },
    .reference =
        [](const Call& c) {
          const auto &table = c.in(0), &ids = c.in(1), &y = c.out(0);
          for (std::int64_t t = 0; t < ids.dims[0]; ++t)
            for_each_in_row(table.data + ids.as<std::int32_t>()[t] * row_bytes(table.dtype, table.dims[1]), table.dtype, table.dims[1],
                            [&](std::int64_t i, float v) { y.as<float>()[t * table.dims[1] + i] = v; });
        },
    .touched_bytes = embedding_bytes,
};

/// y = s / sqrt(mean(s²) + epsilon) * weight over the last dimension, where s = x, or x + residual where there is a residual; s is then the
/// second output. Shapes: x, residual, s, y [..., width] f32; weight [width] f32. y is a8 or bf16 where `dtype` says so: as
/// quantize_activations.
const Op rms_norm{
    .name = "rms_norm",
    .min_inputs = 2,
    .max_inputs = 3,
    .outputs = Op::kVariadic,
    .attributes = {{"epsilon", 1e-5}, {"dtype", DType::f32}, {"outputs", 1}},
    .infer =
        [](InferContext& c) {
          expect_dtype(c, 0, DType::f32);
          expect_dtype(c, 1, DType::f32);
          expect_rank(c, 1, 1);
          if (c.rank(0) < 1) c.fail("input 0 must have a last dimension");
          expect_equal(c, c.shape(0).back(), c.shape(1)[0], "the widths of input and weight");
          c.set_output(0, quantized_or_plain(c, c.shape(0)));
          expect_outputs(c, c.node().has_input(2) ? 2 : 1);
          if (!c.node().has_input(2)) return;
          if (c.type(0) != c.type(2)) c.fail("input and residual differ: " + to_string(c.type(0)) + " and " + to_string(c.type(2)));
          c.set_output(1, c.type(0));
        },
    .reference =
        [](const Call& c) {
          const auto &x = c.in(0), &w = c.in(1);
          const std::int64_t n = x.columns();
          std::vector<float> s(static_cast<std::size_t>(n)), y(s);
          for (std::int64_t r = 0; r < x.rows(); ++r) {
            double sum = 0;
            for (std::int64_t i = 0; i < n; ++i) {
              float& value = s[static_cast<std::size_t>(i)];
              value = x.as<float>()[r * n + i];
              if (c.has(2)) c.out(1).as<float>()[r * n + i] = value += c.in(2).as<float>()[r * n + i];
              sum += double(value) * value;
            }
            const double scale = 1.0 / std::sqrt(sum / double(n) + c.node->number("epsilon"));
            for (std::int64_t i = 0; i < n; ++i)
              y[static_cast<std::size_t>(i)] = float(s[static_cast<std::size_t>(i)] * scale * w.as<float>()[i]);
            store_floats(c.out(0), r * n, y);
          }
        },
    .traits = Trait::pure | Trait::in_place,
    .operations = detail::per_output<4>,
};

/// The rotation of every position: y[t, 0, i] = magnitude * cos(positions[t] * frequencies[i]), y[t, 1, i] the same with sin.
/// Shapes: positions [tokens] i32; frequencies [pairs] f32; y [tokens, 2, pairs] f32.
const Op rope_table{
    .name = "rope_table",
    .min_inputs = 2,
    .max_inputs = 2,
    .attributes = {{"magnitude", 1.0}},
    .infer =
        [](InferContext& c) {
          expect_rank(c, 0, 1);
          expect_rank(c, 1, 1);
          expect_dtype(c, 0, DType::i32);
          expect_dtype(c, 1, DType::f32);
          c.set_output(0, {DType::f32, {c.shape(0)[0], 2, c.shape(1)[0]}});
        },
    .reference =
        [](const Call& c) {
          const auto &positions = c.in(0), &frequencies = c.in(1), &y = c.out(0);
          const std::int64_t pairs = frequencies.dims[0];
          const double magnitude = c.node->number("magnitude");
          for (std::int64_t t = 0; t < positions.dims[0]; ++t)
            for (std::int64_t i = 0; i < pairs; ++i) {
              const double angle = double(positions.as<std::int32_t>()[t]) * frequencies.as<float>()[i];
              y.as<float>()[(t * 2 + 0) * pairs + i] = float(magnitude * std::cos(angle));
              y.as<float>()[(t * 2 + 1) * pairs + i] = float(magnitude * std::sin(angle));
            }
        },
};

/// Rotates pairs of the first 2 * pairs elements of each head; the rest passes through. Pairs are (2i, 2i+1) when `interleaved` is 1
/// (Llama as GGUF stores it), else (i, i + pairs). Shapes: x, y [tokens, heads, head_dim] f32; table [tokens, 2, pairs] of rope_table.
/// Source: RoFormer, Su et al. 2021.
const Op rope{
    .name = "rope",
    .min_inputs = 2,
    .max_inputs = 2,
    .attributes = {{"interleaved", std::int64_t{0}}},
    .infer =
        [](InferContext& c) {
          expect_rank(c, 0, 3);
          expect_rank(c, 1, 3);
          expect_dtype(c, 0, DType::f32);
          expect_dtype(c, 1, DType::f32);
          expect_equal(c, c.shape(0)[0], c.shape(1)[0], "the tokens of input and table");
          const auto pairs = c.shape(1)[2].constant(), head = c.shape(0)[2].constant();
          if (!pairs || !head || 2 * *pairs > *head)
            c.fail("rotates " + c.shape(1)[2].to_string() + " pairs of a head of " + c.shape(0)[2].to_string());
          c.set_output(0, c.type(0));
        },
    .reference =
        [](const Call& c) {
          const auto &x = c.in(0), &table = c.in(1), &y = c.out(0);
          const std::int64_t heads = x.dims[1], dim = x.dims[2], pairs = table.dims[2];
          const bool interleaved = c.node->integer("interleaved") != 0;
          for (std::int64_t t = 0; t < x.dims[0]; ++t)
            for (std::int64_t h = 0; h < heads; ++h) {
              const float* in = x.as<float>() + (t * heads + h) * dim;
              float* out = y.as<float>() + (t * heads + h) * dim;
              const float* cosine = table.as<float>() + t * 2 * pairs;
              const float* sine = cosine + pairs;
              for (std::int64_t i = 2 * pairs; i < dim; ++i) out[i] = in[i];
              for (std::int64_t i = 0; i < pairs; ++i) {
                const std::int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + pairs;
                const double p = in[a], q = in[b];
                out[a] = float(p * cosine[i] - q * sine[i]);
                out[b] = float(p * sine[i] + q * cosine[i]);
              }
            }
        },
    .traits = Trait::pure | Trait::in_place,
    .operations = detail::per_output<3>,
};

/// Writes the keys (or values) of new tokens into their places of a paged cache.
/// Shapes: cache state of a type that KvLayout supports, values [blocks, heads, block_tokens, head_dim]; keys, told by `transposed` = 1,
/// [blocks, heads, head_dim, block_tokens] in plain types and as values in block types (see KvLayout for what lies where); x [tokens,
/// heads, head_dim] f32; slots [tokens] i32, each block * block_tokens + offset, distinct, or -1 to write nothing. Returns the state.
const Op kv_write{
    .name = "kv_write",
    .min_inputs = 3,
    .max_inputs = 3,
    .attributes = {{"transposed", std::int64_t{0}}},
    .infer =
        [](InferContext& c) {
          expect_rank(c, 0, 4);
          expect_rank(c, 1, 3);
          expect_rank(c, 2, 1);
          expect_dtype(c, 1, DType::f32);
          expect_dtype(c, 2, DType::i32);
          if (!c.type(0).state) c.fail("input 0 must be a state");
          expect_cache(c, 0, c.node().integer("transposed") != 0);
          expect_equal(c, c.shape(0)[1], c.shape(1)[1], "the heads of cache and input");
          expect_equal(c, head_dim(c.type(0), c.node().integer("transposed") != 0), c.shape(1)[2], "the head sizes of cache and input");
          expect_equal(c, c.shape(1)[0], c.shape(2)[0], "the tokens of input and slots");
          c.set_output(0, c.type(0));
        },
    .reference =
        [](const Call& c) {
          const auto &cache = c.out(0), &x = c.in(1), &slots = c.in(2);
          const std::int64_t heads = x.dims[1];
          const KvLayout layout = kv_layout(cache, c.node->integer("transposed") != 0);
          for (std::int64_t t = 0; t < x.dims[0]; ++t) {
            const std::int64_t slot = slots.as<std::int32_t>()[t];
            if (slot < 0) continue;
            for (std::int64_t h = 0; h < heads; ++h)
              layout.store(cache.data + slot / layout.tokens * cache.outer_stride() + h * layout.bytes(), slot % layout.tokens,
                           x.as<float>() + (t * heads + h) * layout.dim);
          }
        },
    .traits = Trait::writes_state | Trait::pure,
    .touched_bytes = kv_write_bytes,
};

/// Causal attention over a paged cache, heads grouped over fewer key-value heads:
///   y[t, h] = softmax_j(cap(scale * q[t, h] · k[j])) · v[j], j = the keys that token t sees in its sequence.
/// A token at position p sees keys 0 … p, or, with a `window` above 0, the last `window` of these: p - window + 1 … p. The table entries of
/// blocks that lie outside the windows of all tokens are not read. cap(s) = softcap * tanh(s / softcap) where `softcap` is above 0, else s.
/// Sinks, where given, are one logit a head that takes part in the softmax and adds no value: exp(sink) joins the sum below the line.
/// `products` bf16 allows queries, keys, values and weights to be rounded to bf16 before they are multiplied; sums are f32 always.
/// Shapes: q, y [tokens, heads, head_dim] f32; keys and values states as kv_write has them, of one type, heads a multiple of kv_heads;
/// block_table [sequences, max_blocks] i32 (block of tokens n*block_tokens … of a sequence); sequence [tokens] i32: row of the block table;
/// positions [tokens] i32; sinks [heads] f32, optional.
/// Sources: FlashAttention, Dao 2022; PagedAttention, Kwon et al. 2023; windows: Mistral 7B 2023; soft cap: Gemma 2 2024; sinks:
/// Xiao et al. 2023, as learned by gpt-oss 2025.
const Op paged_attention{
    .name = "paged_attention",
    .min_inputs = 6,
    .max_inputs = 7,
    .attributes = {{"scale", 1.0}, {"window", std::int64_t{0}}, {"softcap", 0.0}, {"products", DType::f32}},
    .infer =
        [](InferContext& c) {
          expect_rank(c, 0, 3);
          expect_rank(c, 1, 4);
          expect_rank(c, 2, 4);
          expect_rank(c, 3, 2);
          expect_rank(c, 4, 1);
          expect_rank(c, 5, 1);
          expect_dtype(c, 0, DType::f32);
          for (const std::size_t i : {3, 4, 5}) expect_dtype(c, i, DType::i32);
          const Shape &k = c.shape(1), &v = c.shape(2);
          expect_cache(c, 1, true);
          if (c.dtype(1) != c.dtype(2) ||
              !(k[0] == v[0] && k[1] == v[1] && head_dim(c.type(1), true) == v[3] && element_count(k) == element_count(v)))
            c.fail("keys and values differ in type: " + to_string(c.type(1)) + " and " + to_string(c.type(2)));
          const auto heads = c.shape(0)[1].constant(), kv_heads = c.shape(1)[1].constant();
          if (!heads || !kv_heads || *kv_heads < 1 || *heads % *kv_heads != 0)
            c.fail(c.shape(0)[1].to_string() + " heads cannot share " + c.shape(1)[1].to_string() + " key-value heads");
          expect_equal(c, c.shape(0)[2], v[3], "the head sizes of queries and keys");
          expect_equal(c, c.shape(0)[0], c.shape(4)[0], "the tokens of queries and sequences");
          expect_equal(c, c.shape(0)[0], c.shape(5)[0], "the tokens of queries and positions");
          if (c.node().integer("window") < 0) c.fail("a window of " + std::to_string(c.node().integer("window")) + " keys");
          const double softcap = c.node().number("softcap");
          if (!(softcap >= 0 && std::isfinite(softcap))) c.fail("a soft cap of " + std::to_string(softcap));
          if (const DType products = c.node().dtype("products"); products != DType::f32 && products != DType::bf16)
            c.fail("products are " + std::string(name(products)) + " where f32 or bf16 is wanted");
          if (c.has(6)) {
            expect_rank(c, 6, 1);
            expect_dtype(c, 6, DType::f32);
            expect_equal(c, c.shape(0)[1], c.shape(6)[0], "the heads of queries and sinks");
          }
          c.set_output(0, c.type(0));
        },
    .reference =
        [](const Call& c) {
          const auto &q = c.in(0), &keys = c.in(1), &values = c.in(2), &table = c.in(3), &y = c.out(0);
          const KvLayout of_keys = kv_layout(keys, true), of_values = kv_layout(values, false);
          const std::int64_t heads = q.dims[1], dim = q.dims[2], kv_heads = keys.dims[1], block = of_values.tokens,
                             window = c.node->integer("window");
          const double scale = c.node->number("scale"), softcap = c.node->number("softcap");
          for (std::int64_t t = 0; t < q.dims[0]; ++t) {
            const std::int32_t* blocks = table.as<std::int32_t>() + c.in(4).as<std::int32_t>()[t] * table.dims[1];
            const std::int64_t last = c.in(5).as<std::int32_t>()[t], first = window > 0 ? std::max<std::int64_t>(0, last - window + 1) : 0;
            for (std::int64_t h = 0; h < heads; ++h) {
              const float* query = q.as<float>() + (t * heads + h) * dim;
              float* out = y.as<float>() + (t * heads + h) * dim;
              const auto load = [&](const ir::TensorView& cache, const KvLayout& layout, std::int64_t j, std::int64_t i) {
                const std::byte* of_block = cache.data + blocks[j / block] * cache.outer_stride();
                return double(layout.load(of_block + h / (heads / kv_heads) * layout.bytes(), j % block, i));
              };
              const auto key = [&](std::int64_t j, std::int64_t i) { return load(keys, of_keys, j, i); };
              const auto value = [&](std::int64_t j, std::int64_t i) { return load(values, of_values, j, i); };
              const auto score = [&](std::int64_t j) {
                double sum = 0;
                for (std::int64_t i = 0; i < dim; ++i) sum += query[i] * key(j, i);
                return softcap > 0 ? softcap * std::tanh(scale * sum / softcap) : scale * sum;
              };
              const double sink = c.has(6) ? c.in(6).as<float>()[h] : -HUGE_VAL;
              double highest = sink;
              for (std::int64_t j = first; j <= last; ++j) highest = std::max(highest, score(j));
              double total = std::exp(sink - highest);
              for (std::int64_t j = first; j <= last; ++j) total += std::exp(score(j) - highest);
              for (std::int64_t begin = 0; begin < dim; begin += kMaxBlock) {
                const std::int64_t end = std::min(dim, begin + kMaxBlock);
                double sums[kMaxBlock] = {};
                for (std::int64_t j = first; j <= last; ++j) {
                  const double weight = std::exp(score(j) - highest) / total;
                  for (std::int64_t i = begin; i < end; ++i) sums[i - begin] += weight * value(j, i);
                }
                for (std::int64_t i = begin; i < end; ++i) out[i] = float(sums[i - begin]);
              }
            }
          }
        },
    .operations = attention_operations,
    .touched_bytes = attention_bytes,
};

/// y[r] = x[rows[r]]. Shapes: x [n, width] of a plain type; rows [r] i32 in [0, n); y [r, width].
const Op take_rows{
    .name = "take_rows",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer =
        [](InferContext& c) {
          expect_rank(c, 0, 2);
          expect_rank(c, 1, 1);
          expect_dtype(c, 1, DType::i32);
          c.set_output(0, {c.dtype(0), {c.shape(1)[0], c.shape(0)[1]}});
        },
    .reference =
        [](const Call& c) {
          const std::int64_t size = row_bytes(c.in(0).dtype, c.in(0).dims[1]);
          for (std::int64_t r = 0; r < c.in(1).dims[0]; ++r)
            std::memcpy(c.out(0).data + r * size, c.in(0).data + c.in(1).as<std::int32_t>()[r] * size, static_cast<std::size_t>(size));
        },
    .touched_bytes = detail::picked_bytes,
};

}  // namespace quern::ops
