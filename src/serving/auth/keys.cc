#include "serving/auth/keys.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/error.h"

namespace quern::auth {

void Keys::add(std::string key) {
  const bool plain = std::all_of(key.begin(), key.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (key.empty() || !plain) throw Error(Code::invalid_argument, "an API key must be of visible ASCII characters, without blanks");
  keys_.push_back(std::move(key));
}

void Keys::add_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(Code::not_found, "the file of API keys cannot be read").at(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line[0] != '#') add(line);
  }
}

bool Keys::has(std::string_view key) const {
  bool found = false;
  for (const std::string& known : keys_) {
    // Every byte of what was presented is looked at, whatever differs.
    unsigned char differs = known.size() != key.size();
    for (std::size_t i = 0; i < key.size(); ++i) differs |= static_cast<unsigned char>(key[i] ^ known[i % known.size()]);
    found |= differs == 0;
  }
  return found;
}

std::string_view Keys::bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if ((authorization[i] | 0x20) != kScheme[i]) return {};
  authorization.remove_prefix(kScheme.size());
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  return authorization;
}

}  // namespace quern::auth
