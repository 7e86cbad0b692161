#pragma once

#include "ir/op.h"

/// What many ops cost (ir::Op::operations, ir::Op::touched_bytes).
namespace quern::ops::detail {

/// `n` operations for each element of output 0.
template <int n>
double per_output(const ir::Call& call) {
  return n * double(call.out(0).elements());
}

/// `n` operations for each element of input 0.
template <int n>
double per_input(const ir::Call& call) {
  return n * double(call.in(0).elements());
}

/// Of input 0 only as much is read as output 0 has, such as some rows of a table; the rest whole.
inline double picked_bytes(const ir::Call& call, std::size_t i) {
  const std::size_t inputs = call.node->inputs.size();
  return double((i == 0 || i >= inputs ? call.out(i == 0 ? 0 : i - inputs) : call.in(i)).bytes());
}

}  // namespace quern::ops::detail
