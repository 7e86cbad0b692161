#include "ir/dtype.h"

namespace quern::ir {
namespace {
struct Row {
  std::string_view name;
  std::int64_t elements, bytes;
};
constexpr Row kRows[] = {
#define X(name, elements, bytes) {#name, elements, bytes},
    QUERN_DTYPES(X)
#undef X
};
const Row& row(DType t) { return kRows[static_cast<std::size_t>(t)]; }
}  // namespace

std::int64_t block_elements(DType t) { return row(t).elements; }
std::int64_t block_bytes(DType t) { return row(t).bytes; }
std::string_view name(DType t) { return row(t).name; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

bool is_float(DType t) { return t >= DType::f16 && t <= DType::f64; }
bool is_integer(DType t) { return t >= DType::i8 && t <= DType::u64; }

}  // namespace quern::ir
