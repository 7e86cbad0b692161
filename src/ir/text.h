#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ir/op.h"

namespace quern::ir {

/// The text form of a graph, which parse_graph reads back as the same graph:
///
///   graph main(%ids: i32[T], %cache: state f16[blocks, 3, 16, 64]) {
///     %w = constant "blk.0.attn_q.weight": q4_1[576, 576]       // found by name when the text is read
///     %c = constant: i64[3] = [1, 2, 3]                         // elements in row-major order
///     %x = embedding(%table, %ids) : f32[T, 576]
///     %y = linear(%x, %w) {precision = "fast"} : f32[T, 576]    // attributes at their defaults are left out
///     %k = clip(%y, _, %high) : f32[T, 576]                     // an absent optional input
///     %a, %b = split @"my split"(%k) {axis = 1} : f32[T, 288], f32[T, 288]
///     %z = if(%cond) : f32[T, 288] {
///       graph then() {
///         return %a
///       }
///       graph else() { … }
///     }
///     return %z, %cache
///   }
///
/// Names   after % or @: letters, digits, '_' and '.' stand as they are, all others in quotes. A node is called like its first output and
///         a constant like its value (or "" where that is just "v12"); else its name is written: @name after the op, "name" after
///         `constant`.
/// Values  42 is an integer, 42.0 a float (the shortest text that reads back to the same bits; also inf, -inf, nan, and nan(0x7fc00001) for
///         other NaNs), "text", f32 an element type, [1, 2] a list; empty lists are ints[], floats[], strings[].
/// Constants of up to 64 elements, and nameless ones, carry their elements (block formats: hex "00ff…"); others only their name.
std::string to_text(const Graph& graph);

/// Finds the bytes of a constant that a text only names; null when there is none.
using ConstantLookup = std::function<std::shared_ptr<const Constant>(std::string_view name, const Type& type)>;

/// Reads a graph; types and contents come from inference. Types after ':' may be left out (but not of inputs and constants); where they are
/// written they must be what inference gives. Comments run from // to the end of the line.
/// Errors: invalid_argument (not_found for ops and constants, resource_exhausted for absurd sizes), each with line and column.
std::unique_ptr<Graph> parse_graph(std::string_view text, OpLookup ops, const ConstantLookup& constants = {});

}  // namespace quern::ir
