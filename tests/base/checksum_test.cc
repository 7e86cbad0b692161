#include "base/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace quern {
namespace {

TEST(Checksum, any_changed_bit_any_length_and_any_seed_gives_another_number) {
  std::set<std::uint64_t> seen;
  std::size_t tried = 0;
  for (std::size_t length = 0; length < 130; ++length) {
    std::vector<std::byte> bytes(length);
    seen.insert(checksum(bytes));
    seen.insert(checksum(bytes, 1));
    tried += 2;
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      seen.insert(checksum(bytes));
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      ++tried;
    }
  }
  EXPECT_EQ(seen.size(), tried);
}

TEST(Checksum, swapped_words_give_another_number) {
  std::vector<std::byte> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  std::vector<std::byte> swapped(bytes.begin() + 32, bytes.end());
  swapped.insert(swapped.end(), bytes.begin(), bytes.begin() + 32);
  EXPECT_NE(checksum(bytes), checksum(swapped));
}

}  // namespace
}  // namespace quern
