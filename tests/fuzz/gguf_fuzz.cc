// Any bytes as a GGUF file: an Error, or a file that can be used to the end.
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "formats/gguf/exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);  // aligned as a mapped file is, and of exactly this size, so that a read past the end is seen
  if (size > 0) std::memcpy(bytes.data(), data, size);
  try {
    const auto file = quern::gguf::File::over(bytes, "fuzz");
    quern::gguf::testing::exercise(file);
  } catch (const quern::Error& e) {
    if (e.code() != quern::Code::data_corrupt && e.code() != quern::Code::unsupported) __builtin_trap();
  }
  return 0;
}
