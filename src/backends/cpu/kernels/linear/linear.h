#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/cpu/kernels/linear/job.h"
#include "base/cpu.h"
#include "ir/dtype.h"
#include "ir/tensor_view.h"

namespace quern::cpu {

/// Weights W [n, k] rearranged once for products y = x · Wᵀ: tiles of 16 rows side by side, value-exact. See job.h for the layout.
class PackedWeights {
 public:
  /// Whether this machine has products of x, by its type (a8, bf16 or f32), with weights of a type, k columns wide.
  static bool can_pack(ir::DType x, ir::DType type, std::int64_t k);
  /// Reserves memory for n rows; pack_tiles() fills it. Precondition: can_pack(x, type, k).
  /// Errors: resource_exhausted.
  static PackedWeights reserve(ir::DType x, ir::DType type, std::int64_t n, std::int64_t k);
  /// Keeps no bytes but packs each tile when it is used, out of the n rows at `src`, which must outlive it: slow, and no memory.
  static PackedWeights unpacked(ir::DType x, ir::DType type, std::int64_t n, std::int64_t k, const std::byte* src);

  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  std::int64_t tiles() const { return (n_ + kTileRows - 1) / kTileRows; }
  std::int64_t tile_bytes() const;
  std::int64_t bytes() const { return tiles() * tile_bytes(); }
  ir::DType type() const { return type_; }
  Packing packing() const { return packing_; }
  /// The type of x that these are for.
  ir::DType x_type() const { return x_type_; }
  /// Null of unpacked() ones.
  const std::uint8_t* data() const { return data_.get(); }
  /// The bytes of tiles [begin, end); none of unpacked() ones.
  std::span<const std::byte> tile_data(std::int64_t begin, std::int64_t end) const {
    if (data_ == nullptr) return {};
    return {reinterpret_cast<const std::byte*>(data_.get()) + begin * tile_bytes(), static_cast<std::size_t>((end - begin) * tile_bytes())};
  }
  /// All bytes, to be written by whoever fills them in place of pack_tiles().
  std::span<std::byte> writable() { return {reinterpret_cast<std::byte*>(data_.get()), static_cast<std::size_t>(bytes())}; }

  /// Packs tiles [begin, end) from the n rows at src (the type's own layout, any alignment). Different tiles may be packed at the same
  /// time. Rows past n are zeros.
  void pack_tiles(const std::byte* src, std::int64_t begin, std::int64_t end);
  /// One tile of unpacked() weights, to tile_bytes() bytes at dst.
  void pack_tile(std::int64_t tile, std::uint8_t* dst) const noexcept;
  /// The values of one row as floats [k], equal bit for bit to those of the type (for tests, and for lookups).
  void unpack_row(std::int64_t row, float* dst) const;

 private:
  PackedWeights(ir::DType x, ir::DType type, std::int64_t n, std::int64_t k);
  bool is_integer() const { return static_cast<int>(packing_) < kFormatCount; }
  void pack(const std::byte* src, std::int64_t tile, std::uint8_t* dst) const;
  void pack_float_tile(const std::uint8_t* src, int rows, std::uint8_t* dst) const;
  void pack_integer_tile(const std::uint8_t* src, int rows, std::uint8_t* dst) const;

  ir::DType x_type_, type_;
  Packing packing_;
  std::int64_t n_, k_;
  std::shared_ptr<std::uint8_t[]> data_;
  const std::byte* source_ = nullptr;  // of unpacked() ones
};

/// The loops chosen for one instruction set.
struct LinearLoops {
  Isa isa;
  const char* name;                    // of the instruction set
  LinearLoop integer, bf16, floating;  // bf16: null where there is no such product
  QuantizeLoop quantize_a8;
  float block_nanoseconds, row_nanoseconds;  // rough cost of a block of 16 x 32 weights: to fetch and unpack, and for each row of x
};

/// All sets of loops, narrowest first; an instruction set without loops of its own takes those of the widest before it that it includes.
std::span<const LinearLoops> all_linear_loops();
/// The loops of best_isa().
const LinearLoops& linear_loops();

/// The shortest type of x that loses less accuracy than the weights themselves have lost, and that there are products for: a8 for block
/// formats, bf16 for bf16, else f32.
ir::DType best_activations(ir::DType weights, std::int64_t k);

/// Writes `count` floats as elements [element, …) of y, which is a8 (whole blocks) or bf16: the bits of ops::quantize_activations.
void shorten(const float* x, const ir::TensorView& y, std::int64_t element, std::int64_t count);

/// How products of one x with one or more weights divide: into rows (so many that their activations stay in the second-level cache) and
/// tiles of 16 columns of y, those of all weights one after the other. Unit u computes tile u % tiles of the row block u / tiles.
struct LinearUnits {
  std::int64_t rows_per_block, row_blocks, tiles;
  std::int64_t count() const { return row_blocks * tiles; }
};
/// `weights`: at least one; all of one k, all of one x_type().
LinearUnits linear_units(std::span<const PackedWeights> weights, std::int64_t m);
/// Roughly what a unit of so many rows costs on one core.
double linear_unit_nanoseconds(const LinearLoops& loops, const PackedWeights& w, std::int64_t rows);
/// Bytes of scratch that one worker needs.
std::int64_t linear_scratch_bytes(const PackedWeights& w);

/// y [rows, columns of tiles begin to end] = x [rows, k] · (those rows of W)ᵀ; y_stride: floats from row to row.
void linear_tiles(const LinearLoops& loops, const PackedWeights& w, const std::byte* x, std::int64_t rows, std::int64_t tile_begin,
                  std::int64_t tile_end, float* y, std::int64_t y_stride, std::byte* scratch) noexcept;

/// Computes units [begin, end) of y[i] [m, n[i]] = x [m, k] · W[i]ᵀ. x: rows of x_type(), contiguous.
/// Each element has the same bits whatever m, the rows beside it, the other weights and the division into units.
void linear_run(const LinearLoops& loops, std::span<const PackedWeights> weights, const std::byte* x, std::int64_t m, float* const* y,
                std::int64_t begin, std::int64_t end, std::byte* scratch) noexcept;

}  // namespace quern::cpu
