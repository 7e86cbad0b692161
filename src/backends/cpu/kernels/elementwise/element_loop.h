#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph.h"

namespace quern::cpu {

/// A function of one or two f32 elements, made from an element-wise node.
struct ElementLoop {
  int operands;  // the first inputs of the node; what else it reads are constants, and in here
  int function;  // of those with so many operands: see arithmetic.cc
  float alpha = 0, beta = 0;
  double nanoseconds = 0.1;  // an element, roughly
};

/// Nothing where there is no such loop for the node.
std::optional<ElementLoop> element_loop(const ir::Node& node);
bool has_element_loop(const ir::Node& node);

/// y[i] = f(a[i * a_stride], b[i * b_stride]), i < n; strides are 0 or 1. Of a function of one operand b is not looked at. An element's
/// bits depend on its operands alone. y may be a or b.
void run_element_loop(const ElementLoop& loop, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* y,
                      std::int64_t n);

}  // namespace quern::cpu
