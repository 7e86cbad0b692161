#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "ir/test_ops.h"
#include "ir/text.h"
#include "ir/verify.h"

// Any text gives an Error that is not our fault, or a graph whose text reads back as itself and that can be verified.

namespace {

using namespace quern;
using namespace quern::ir;

std::shared_ptr<const Constant> any_weight(std::string_view name, const Type& type) {
  const std::int64_t size = byte_size(type).constant().value_or(-1);
  if (size < 0 || size > 1 << 16) return nullptr;
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  return std::make_shared<Constant>(Constant{std::string(name), bytes->data(), bytes->size(), bytes});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::unique_ptr<Graph> graph;
  try {
    graph = parse_graph({reinterpret_cast<const char*>(data), size}, test::find, any_weight);
  } catch (const Error& e) {
    if (e.code() == Code::internal) std::abort();
    return 0;
  }
  const std::string text = to_text(*graph);
  if (to_text(*parse_graph(text, test::find, any_weight)) != text) std::abort();
  try {
    verify(*graph);
  } catch (const Error& e) {
    if (e.code() == Code::internal) std::abort();
  }
  return 0;
}
