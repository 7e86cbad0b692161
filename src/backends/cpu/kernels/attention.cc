// Causal attention over a paged cache (op paged_attention): how a batch is cut into work. attention_loops.h says what the arithmetic is.
//
// A batch is cut into tiles: neighbouring rows of one sequence, for all query heads of one key-value head, so that these share each load
// of keys and values. A tile of few tokens, as decoding makes them, is cut again, into pieces of keys, whose results go to the workspace
// and are merged by a second kernel. (The last worker to finish a row could merge it within the step; that would need counters that
// outlive the step and are zero at its start, to save one wait of a microsecond.) Since pieces lie at absolute positions and are merged in
// their order whoever computed them, none of this changes a bit.
//
// How much there is to do depends on the positions, which are not known before the run. So the units of a step are not tiles but shares:
// each unit adds up the costs of all the work, which takes nanoseconds a row, and does what begins in its part of the sum.
#include "backends/cpu/kernels/attention.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/attention_loops.h"
#include "backends/cpu/kernels/attention_tiles.h"
#include "ir/op.h"
#include "ops/kv_layout.h"
#include "plan/kernel.h"

namespace quern::cpu {
namespace {

constexpr std::int64_t kShares = 256;     // more than any pool makes tasks of, so that tasks can be even
constexpr std::int64_t kSplitTokens = 4;  // tiles of at most so many tokens are cut into pieces
constexpr std::int64_t kSlots = 16;       // room in the workspace beside a piece for every 256 keys of the cache: sequences may share keys
constexpr std::int64_t kConversion = 8;   // what reading a key and value costs beside the rows that use it, in rows

/// The numbers of one call.
struct Sizes {
  std::int64_t tokens, heads, dim, kv_heads, group, block, blocks, window, table_rows, table_columns, tile_tokens;

  Sizes(const ir::Call& call, bool tile_unit)
      : tokens(call.in(0).dims[0]),
        heads(call.in(0).dims[1]),
        dim(call.in(0).dims[2]),
        kv_heads(call.in(1).dims[1]),
        group(heads / kv_heads),
        block(call.in(2).dims[2]),
        blocks(call.in(1).dims[0]),
        window(call.node->integer("window")),
        table_rows(call.in(3).dims[0]),
        table_columns(call.in(3).dims[1]),
        tile_tokens(std::max<std::int64_t>(1, (tile_unit ? kTileUnitRows : kTileRows) / group)) {
    if (window == 0) window = std::numeric_limits<std::int64_t>::max();
  }
  /// Pieces of one token that the workspace has room for.
  std::int64_t slots() const { return (blocks * block + kPiece - 1) / kPiece + kSlots; }
};

/// A tile for every key-value head: tokens [first, first + count) of the batch, which see no keys outside [low, end).
struct Tile {
  std::int64_t first, count, low, end;
  std::int64_t slot;  // where its pieces begin in the workspace; -1: it is not cut

  std::int64_t first_piece() const { return low / kPiece; }
  std::int64_t end_piece() const { return (end - 1) / kPiece + 1; }
  std::int64_t pieces() const { return end_piece() - first_piece(); }
  /// Of the keys of pieces [from, to), in rows times keys.
  std::int64_t cost(const Sizes& z, std::int64_t from, std::int64_t to) const {
    return (std::min(end, to * kPiece) - std::max(low, from * kPiece)) * (count * z.group + kConversion);
  }
};

/// Calls f(tile) in order. Returns what is wrong with the batch, before any call; null when nothing is. Both kernels cut alike.
template <class F>
const char* for_each_tile(const ir::Call& call, const Sizes& z, F f) {
  const auto* sequence = call.in(4).as<std::int32_t>();
  const auto* position = call.in(5).as<std::int32_t>();
  for (std::int64_t t = 0; t < z.tokens; ++t) {
    if (sequence[t] < 0 || sequence[t] >= z.table_rows) return "a sequence is outside the block table";
    if (position[t] < 0 || position[t] / z.block >= z.table_columns) return "a position is outside the block table";
  }
  std::int64_t slots = z.slots();
  for (std::int64_t t = 0; t < z.tokens;) {
    Tile tile{t, 1, 0, 0, -1};
    while (tile.count < z.tile_tokens && t + tile.count < z.tokens && sequence[t + tile.count] == sequence[t] &&
           position[t + tile.count] == position[t] + tile.count)
      ++tile.count;
    tile.low = position[t] < z.window ? 0 : position[t] - z.window + 1;
    tile.end = position[t] + tile.count;
    if (tile.count <= kSplitTokens && tile.pieces() > 1 && tile.count * tile.pieces() <= slots) {
      tile.slot = z.slots() - slots;
      slots -= tile.count * tile.pieces();
    }
    f(tile);
    t += tile.count;
  }
  return nullptr;
}

/// Whether the blocks of keys [begin, end) are all in the cache.
bool blocks_are_good(const Sizes& z, const std::int32_t* blocks, std::int64_t begin, std::int64_t end) {
  for (std::int64_t b = begin / z.block; b * z.block < end; ++b)
    if (blocks[b] < 0 || blocks[b] >= z.blocks) return false;
  return true;
}

/// The loops' view of a tile, for one key-value head.
AttentionTile view(const ir::Call& call, const Sizes& z, const Tile& tile, std::int64_t kv_head) {
  const auto &q = call.in(0), &keys = call.in(1), &table = call.in(3);
  const std::int64_t piece_bytes = ops::kv_layout(keys, true).bytes();
  const std::int64_t row = (tile.first * z.heads + kv_head * z.group) * z.dim;
  AttentionTile t{};
  t.q = q.as<float>() + row;
  t.y = call.out(0).as<float>() + row;
  t.token_stride = z.heads * z.dim;
  t.tokens = tile.count;
  t.group = z.group;
  t.dim = z.dim;
  t.positions = call.in(5).as<std::int32_t>() + tile.first;
  t.blocks = table.as<std::int32_t>() + call.in(4).as<std::int32_t>()[tile.first] * z.table_columns;
  t.keys = keys.data + kv_head * piece_bytes;
  t.values = call.in(2).data + kv_head * piece_bytes;
  t.block = z.block;
  t.key_stride = keys.outer_stride();
  t.value_stride = call.in(2).outer_stride();
  t.head_stride = piece_bytes;
  t.window = z.window;
  t.scale = call.node->number("scale");
  t.softcap = call.node->number("softcap");
  t.sinks = call.has(6) ? call.in(6).as<float>() + kv_head * z.group : nullptr;
  t.first_piece = tile.first_piece();
  t.end_piece = tile.end_piece();
  t.turns = 1;
  t.fetch_end = tile.end;
  if (tile.slot >= 0) {
    t.partial_piece_stride = z.heads * partial_floats(z.dim);
    t.partial_token_stride = tile.pieces() * t.partial_piece_stride;
    t.partials = call.out(1).as<float>() + (tile.slot - t.first_piece) * t.partial_piece_stride + kv_head * z.group * partial_floats(z.dim);
  }
  return t;
}

/// Merges the pieces of the tiles that were cut. A unit is one head of one token.
class AttentionMerge final : public plan::Kernel {
 public:
  explicit AttentionMerge(bool tile_unit) : tile_unit_(tile_unit) {}

  plan::Split split(const ir::Call& call) const override {
    const Sizes z(call, tile_unit_);
    const double pieces = double(std::min(z.slots(), z.tokens * (z.table_columns * z.block / kPiece + 1)));
    const std::int64_t units = z.tokens * z.heads;
    return {units, 5 + 0.1 * pieces * double(z.heads * z.dim) / double(std::max<std::int64_t>(1, units))};
  }
  std::int64_t scratch_bytes(const ir::Call& call) const override {
    return partial_floats(call.in(0).dims[2]) * std::int64_t{sizeof(float)};
  }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    const Sizes z(call, tile_unit_);
    for_each_tile(call, z, [&](const Tile& tile) {
      if (tile.slot < 0) return;
      for (std::int64_t unit = std::max(begin, tile.first * z.heads); unit < std::min(end, (tile.first + tile.count) * z.heads); ++unit) {
        const std::int64_t head = unit % z.heads;
        merge_partials(view(call, z, tile, head / z.group), unit / z.heads - tile.first, head % z.group, reinterpret_cast<float*>(scratch));
      }
    });
  }
  const char* name() const override { return "attention merge"; }

 private:
  bool tile_unit_;
};

class Attention final : public plan::Kernel {
 public:
  Attention(ir::Dim workspace, bool tile_unit) : workspace_(std::move(workspace)), tile_unit_(tile_unit) {}

  plan::Split split(const ir::Call& call) const override {
    // How long the sequences are is not known yet. Half of what the block table has room for is a guess that only sets the number of tasks.
    const Sizes z(call, tile_unit_);
    const double keys = double(std::min(z.window, (z.table_columns * z.block + 1) / 2));
    const std::int64_t tiles = (z.tokens + z.tile_tokens - 1) / z.tile_tokens;
    const double cost = keys * double(z.dim * z.kv_heads) * double(z.tokens * z.group + tiles * kConversion) * 0.03;
    return {z.tokens == 0 ? 0 : kShares, 20 + cost / double(kShares)};
  }
  std::int64_t scratch_bytes(const ir::Call& call) const override {
    const Sizes z(call, tile_unit_);
    const std::int64_t rows = std::min(z.tokens, z.tile_tokens) * z.group;
    if (tile_unit_) return tile_unit_scratch_bytes(rows, z.dim);
    return attention_scratch_floats(rows, z.dim) * std::int64_t{sizeof(float)};
  }
  ir::Dim workspace_bytes() const override { return workspace_; }
  std::unique_ptr<plan::Kernel> second() const override { return std::make_unique<AttentionMerge>(tile_unit_); }

  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    const Sizes z(call, tile_unit_);
    const ir::DType dtype = call.in(1).dtype;
    std::int64_t total = 0, before = 0;
    const char* wrong =
        for_each_tile(call, z, [&](const Tile& tile) { total += z.kv_heads * tile.cost(z, tile.first_piece(), tile.end_piece()); });
    if (wrong != nullptr) return call.fail(wrong);
    // In parts of kShares and what remains, for the product of a cost and a share may be large.
    const auto share_begin = [&](std::int64_t share) { return total / kShares * share + total % kShares * share / kShares; };
    const std::int64_t from = share_begin(begin), to = share_begin(end);
    for_each_tile(call, z, [&](const Tile& tile) {
      const std::int64_t step = tile.slot >= 0 ? 1 : tile.pieces(), cost = tile.cost(z, tile.first_piece(), tile.end_piece());
      if (before + z.kv_heads * cost <= from || before >= to) {
        before += z.kv_heads * cost;
        return;
      }
      for (std::int64_t piece = tile.first_piece(); piece < tile.end_piece(); piece += step) {
        const std::int64_t cost_of_head = tile.cost(z, piece, piece + step), next = before + z.kv_heads * cost_of_head;
        for (std::int64_t kv_head = 0; kv_head < z.kv_heads; ++kv_head) {
          const std::int64_t begins = before;
          before += cost_of_head;
          if (begins < from || begins >= to) continue;
          AttentionTile t = view(call, z, tile, kv_head);
          if (tile.slot >= 0) {
            t.turn = kv_head;
            t.turns = z.kv_heads;
            if (next >= to) t.fetch_end = 0;
          }
          // A piece more than it works on: that is fetched ahead.
          if (!blocks_are_good(z, t.blocks, std::max(tile.low, piece * kPiece), std::min(tile.end, (piece + step + 1) * kPiece)))
            return call.fail("a block is outside the cache");
          t.first_piece = piece;
          t.end_piece = piece + step;
          if (tile_unit_)
            attend_on_tile_unit(dtype, t, scratch);
          else
            attend(dtype, t, reinterpret_cast<float*>(scratch));
        }
      }
    });
  }
  const char* name() const override { return tile_unit_ ? "attention amx" : "attention"; }

 private:
  ir::Dim workspace_;
  bool tile_unit_;
};

bool on_tile_unit(const ir::Node& node) { return node.dtype("products") == ir::DType::bf16 && tile_unit_takes(node.inputs[1]->type.dtype); }

}  // namespace

ir::DType best_attention_products(ir::DType cache) { return tile_unit_takes(cache) ? ir::DType::bf16 : ir::DType::f32; }

ir::DType best_attention_cache() { return tile_unit_takes(ir::DType::bf16) ? ir::DType::bf16 : ir::DType::f16; }

/// Heads of a multiple of 16 elements and blocks that divide a chunk; anything else is the reference's.
std::unique_ptr<plan::Kernel> lower_attention(const ir::Node& node) {
  const ir::Type &q = node.inputs[0]->type, &values = node.inputs[2]->type;
  const auto heads = q.shape[1].constant(), dim = q.shape[2].constant(), block = values.shape[2].constant();
  if (!heads || !dim || !block || *dim % 16 != 0 || *block % 16 != 0 || kChunk % *block != 0) return nullptr;
  const ir::Dim slots = ceil_div(values.shape[0] * *block, kPiece) + kSlots;  // as Sizes::slots
  return std::make_unique<Attention>(slots * (*heads * partial_floats(*dim) * std::int64_t{sizeof(float)}), on_tile_unit(node));
}

}  // namespace quern::cpu
