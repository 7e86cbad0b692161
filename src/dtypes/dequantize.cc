#include "dtypes/dequantize.h"

#include <fmt/format.h>

#include "base/error.h"
#include "dtypes/detail/blocks.h"

namespace quern::dtypes {
namespace {

struct Row {
  ir::DType type;
  void (*dequantize)(const std::uint8_t* src, float* dst, std::int64_t blocks);
};

constexpr Row kRows[] = {
#define X(name) {ir::DType::name, detail::dequantize_##name},
    QUERN_DEQUANTIZED_TYPES(X)
#undef X
};

}  // namespace

void dequantize(ir::DType type, const std::byte* src, float* dst, std::int64_t elements) {
  const std::int64_t block = ir::block_elements(type);
  if (elements < 0 || elements % block != 0)
    throw Error(Code::invalid_argument, fmt::format("{} elements of {} are not whole blocks of {}", elements, ir::name(type), block));
  for (const Row& row : kRows)
    if (row.type == type) return row.dequantize(reinterpret_cast<const std::uint8_t*>(src), dst, elements / block);
  throw Error(Code::unsupported, fmt::format("there is no dequantisation of {}", ir::name(type)));
}

}  // namespace quern::dtypes
