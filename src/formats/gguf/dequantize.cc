#include "formats/gguf/dequantize.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/gguf/detail/blocks.h"

namespace quern::gguf {
namespace {

struct Row {
  std::uint32_t number;
  ir::DType type;
  void (*dequantize)(const std::uint8_t* src, float* dst, std::int64_t blocks);
};

constexpr Row kRows[] = {
#define X(number, name) {number, ir::DType::name, detail::dequantize_##name},
    QUERN_GGUF_TYPES(X)
#undef X
};

const Row* find(ir::DType type) {
  for (const Row& row : kRows)
    if (row.type == type) return &row;
  return nullptr;
}

}  // namespace

void dequantize(ir::DType type, const std::byte* src, float* dst, std::int64_t elements) {
  const Row* row = find(type);
  if (row == nullptr) throw Error(Code::unsupported, fmt::format("there is no dequantisation of {}", ir::name(type)));
  const std::int64_t block = ir::block_elements(type);
  if (elements < 0 || elements % block != 0)
    throw Error(Code::invalid_argument, fmt::format("{} elements of {} are not whole blocks of {}", elements, ir::name(type), block));
  row->dequantize(reinterpret_cast<const std::uint8_t*>(src), dst, elements / block);
}

std::optional<std::uint32_t> gguf_type(ir::DType type) {
  const Row* row = find(type);
  return row ? std::optional(row->number) : std::nullopt;
}

std::optional<ir::DType> dtype_from_gguf(std::uint32_t number) {
  for (const Row& row : kRows)
    if (row.number == number) return row.type;
  return std::nullopt;
}

}  // namespace quern::gguf
