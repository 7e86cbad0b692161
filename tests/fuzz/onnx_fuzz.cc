// Any bytes as an ONNX model: an Error, or a graph whose every value has a type. Kernels run too: those that fold small constants.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "formats/onnx/import.h"
#include "formats/onnx/summary.h"
#include "ir/op.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);  // of exactly this size, so that a read past the end is seen
  if (size > 0) std::memcpy(bytes->data(), data, size);
  try {
    quern::onnx::summarize_bytes(*bytes, "fuzz");
    const auto graph = quern::onnx::import_bytes(*bytes, bytes, "fuzz");
    for (const auto& node : graph->nodes())
      for (const auto* value : node->outputs)
        if (value->producer != node.get() || quern::ir::to_string(value->type).empty()) __builtin_trap();
  } catch (const quern::Error& e) {
    if (e.code() == quern::Code::internal) __builtin_trap();
  }
  return 0;
}
