#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Writes Protocol Buffers by hand, so that a test can also write what no library would.
namespace quern::onnx::test {

inline std::string varint(std::uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  return out + static_cast<char>(v);
}
inline std::string tag(std::uint32_t field, std::uint32_t wire_type) { return varint(std::uint64_t{field} << 3 | wire_type); }
inline std::string number(std::uint32_t field, std::int64_t value) { return tag(field, 0) + varint(static_cast<std::uint64_t>(value)); }
inline std::string text(std::uint32_t field, std::string_view bytes) { return tag(field, 2) + varint(bytes.size()) + std::string(bytes); }

// The messages of onnx.proto, with the fields that tests vary.
inline std::string dim(std::int64_t size) { return text(1, number(1, size)); }
inline std::string dim(std::string_view symbol) { return text(1, text(2, symbol)); }
inline std::string value_info(std::string_view name, const std::string& dims, int type = 1) {
  return text(1, name) + text(2, text(1, number(1, type) + text(2, dims)));
}
inline std::string input(std::string_view name, const std::string& dims, int type = 1) { return text(11, value_info(name, dims, type)); }
inline std::string output(std::string_view name, const std::string& dims = dim(2), int type = 1) {
  return text(12, value_info(name, dims, type));
}
inline std::string node(std::string_view op, std::string_view in, std::string_view out, const std::string& more = {}) {
  return text(1, text(1, in) + text(2, out) + text(4, op) + more);
}
inline std::string initializer(std::string_view name, const std::string& body) { return text(5, body + text(8, name)); }
inline std::string model(const std::string& graph, std::int64_t opset = 17) {
  return number(1, 8) + text(7, graph) + text(8, number(2, opset));
}

}  // namespace quern::onnx::test
