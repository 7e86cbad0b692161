#include "base/page_memory.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.h"

namespace quern {
namespace {

TEST(PageMemory, begins_at_a_huge_page_and_is_zero_to_its_last_byte) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{5} << 20}) {
    const PageMemory memory(bytes, "a test", "");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % PageMemory::kHugePage, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory.data()[i], std::byte{0}) << i;
    memory.data()[bytes - 1] = std::byte{1};
  }
}

TEST(PageMemory, moves_with_what_is_in_it) {
  PageMemory a(100, "a test", ""), b;
  a.data()[99] = std::byte{7};
  const std::byte* const at = a.data();
  b = std::move(a);
  EXPECT_EQ(b.data(), at);
  EXPECT_EQ(b.data()[99], std::byte{7});
  b = PageMemory();
  EXPECT_EQ(b.data(), nullptr);
}

TEST(PageMemory, more_than_the_address_space_is_an_error_that_says_what_for) {
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 4}) {
    try {
      PageMemory(bytes, "the cache", "ask for less");
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::resource_exhausted);
      EXPECT_NE(std::string(e.what()).find("the cache"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace quern
