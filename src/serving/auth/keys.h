#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::auth {

/// API keys. Comparing takes a time that tells nothing of them but how many there are and how long what was presented is.
class Keys {
 public:
  /// Errors: invalid_argument (an empty key, or one with blanks or control characters, which no header can carry).
  void add(std::string key);
  /// One key a line; empty lines and those that begin with '#' are left out. Errors: not_found, those of add().
  void add_file(const std::string& path);
  bool empty() const { return keys_.empty(); }
  bool has(std::string_view key) const;
  /// The key in an Authorization header ("Bearer KEY"), or empty.
  static std::string_view bearer(std::string_view authorization);

 private:
  std::vector<std::string> keys_;
};

}  // namespace quern::auth
