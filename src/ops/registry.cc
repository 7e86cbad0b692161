#include "ops/registry.h"

namespace quern::ops {
namespace {
const ir::Op* const kOps[] = {
#define QUERN_OP(name) &name,
#include "ops/ops.inc"
#undef QUERN_OP
};
}  // namespace

const ir::Op* find(std::string_view name) {
  for (const ir::Op* op : kOps)
    if (op->name == name) return op;
  return nullptr;
}

std::span<const ir::Op* const> all() { return kOps; }

}  // namespace quern::ops
