#pragma once

#include <span>
#include <string_view>

#include "ir/op.h"

namespace quern::ops {

// Every operation of the project, as listed in ops.inc: `ops::add`, `ops::linear` …
#define QUERN_OP(name) extern const ir::Op name;
#include "ops/ops.inc"
#undef QUERN_OP

/// The op of that name, or null. Has the signature of ir::OpLookup.
const ir::Op* find(std::string_view name);
/// All ops in the order of the list.
std::span<const ir::Op* const> all();

}  // namespace quern::ops
