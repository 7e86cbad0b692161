#include "base/sha256.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace quern {
namespace {

std::string hex(Sha256 hash) {
  std::string text;
  for (const std::uint8_t byte : hash.digest()) text += fmt::format("{:02x}", byte);
  return text;
}
std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// Expected values: FIPS 180-4's examples (the published ones of NIST), and those of sha256sum.
TEST(Sha256, gives_the_published_digests) {
  EXPECT_EQ(hex(Sha256()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(Sha256().add(bytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(Sha256().add(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(Sha256().add(bytes(std::string(1000000, 'a')))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, pieces_give_what_the_whole_gives) {
  const std::string text(200, 'q');
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(hex(Sha256().add(bytes(text.substr(0, cut))).add(bytes(text.substr(cut)))), hex(Sha256().add(bytes(text))));
}

}  // namespace
}  // namespace quern
