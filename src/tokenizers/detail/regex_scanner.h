#pragma once

#include <memory>
#include <string_view>

#include "tokenizers/detail/scanners.h"

namespace quern::tokenizers::detail {

/// A pattern run by PCRE2, for those without a scanner of their own. Matches and the gaps between them become pieces.
/// \s means Unicode's White_Space, as elsewhere here. A pattern with \p{…} would depend on the Unicode version of the system's PCRE2: our
/// own rows have none.
class RegexScanner {
 public:
  /// Errors: internal when the pattern does not compile (patterns are ours).
  explicit RegexScanner(std::string_view pattern);
  ~RegexScanner();
  RegexScanner(RegexScanner&&) noexcept;
  RegexScanner& operator=(RegexScanner&&) noexcept;

  /// Errors: resource_exhausted when a text needs more steps than a sane one can.
  void scan(std::string_view text, const Ends& in, Ends& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::tokenizers::detail
