#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace quern::ir::detail {

/// Constants with at most this many elements are written out in a graph's text.
constexpr std::int64_t kMaxInlineElements = 64;

/// What stands unquoted after % and @: letters, digits, '_' and '.'.
bool is_plain_name(std::string_view name);
/// In double quotes; quotes, backslashes, control characters and bytes that are no UTF-8 are escaped.
std::string quoted(std::string_view text);
/// The name that a node or a constant has unless its text says otherwise: its value's, or none where that is a made-up "v12".
std::string_view implied_name(const Value* value);

/// The shortest text that reads back to the same bits; marked as a float by a point, an exponent, inf or nan.
std::string float_text(double value);
/// Reads what float_text writes (and any other decimal); nothing when it is none, or is outside the range of a double.
std::optional<double> float_from_text(std::string_view text);

/// The element at `data` as text, and back. Plain types only.
std::string element_text(DType dtype, const std::byte* data);
/// False when the text is no such element or does not fit.
bool element_from_text(DType dtype, std::string_view text, std::byte* data);

/// Equal type and bits: NaN equals itself, 0.0 is not -0.0.
bool same_attribute(const Attribute& a, const Attribute& b);

}  // namespace quern::ir::detail
