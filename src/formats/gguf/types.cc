#include "formats/gguf/types.h"

namespace quern::gguf {
namespace {

struct Row {
  std::uint32_t number;
  ir::DType type;
};

constexpr Row kRows[] = {
#define X(number, name) {number, ir::DType::name},
    QUERN_GGUF_TYPES(X)
#undef X
};

}  // namespace

std::optional<std::uint32_t> gguf_type(ir::DType type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.number;
  return std::nullopt;
}

std::optional<ir::DType> dtype_from_gguf(std::uint32_t number) {
  for (const Row& row : kRows)
    if (row.number == number) return row.type;
  return std::nullopt;
}

}  // namespace quern::gguf
