#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quern::ir {

/// Element types. The block formats count as element types of their own, so a quantised weight is an ordinary tensor.
/// The list is data: X(name, elements a block, bytes a block).
// clang-format off
#define QUERN_DTYPES(X) \
  X(boolean, 1, 1) X(i8, 1, 1) X(i16, 1, 2) X(i32, 1, 4) X(i64, 1, 8) X(u8, 1, 1) X(u16, 1, 2) X(u32, 1, 4) X(u64, 1, 8) \
  X(f16, 1, 2) X(bf16, 1, 2) X(f32, 1, 4) X(f64, 1, 8) X(q4_0, 32, 18) X(q4_1, 32, 20) X(q5_0, 32, 22) X(q5_1, 32, 24) \
  X(q8_0, 32, 34) X(q8_1, 32, 36) X(q2_K, 256, 84) X(q3_K, 256, 110) X(q4_K, 256, 144) X(q5_K, 256, 176) X(q6_K, 256, 210) \
  X(q8_K, 256, 292) X(iq2_xxs, 256, 66) X(iq2_xs, 256, 74) X(iq2_s, 256, 82) X(iq3_xxs, 256, 98) X(iq3_s, 256, 110) \
  X(iq1_s, 256, 50) X(iq1_m, 256, 56) X(iq4_nl, 32, 18) X(iq4_xs, 256, 136) X(tq1_0, 256, 54) X(tq2_0, 256, 66) \
  X(mxfp4, 32, 17) X(nvfp4, 64, 36) X(q1_0, 128, 18) X(q2_0, 64, 18) X(a8, 32, 48) /* activations for integer products: dtypes/a8.h */
// clang-format on

enum class DType : std::uint8_t {
#define X(name, elements, bytes) name,
  QUERN_DTYPES(X)
#undef X
};

/// Elements in one block: 1 for plain types. A row of a block type holds a whole number of blocks.
std::int64_t block_elements(DType t);
/// Bytes of one block (of one element for plain types).
std::int64_t block_bytes(DType t);
/// "f32", "q4_K" …
std::string_view name(DType t);
std::optional<DType> dtype_from_name(std::string_view text);

inline bool is_block(DType t) { return block_elements(t) > 1; }
bool is_float(DType t);    // f16 bf16 f32 f64
bool is_integer(DType t);  // i8 … u64, not boolean

}  // namespace quern::ir
