#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "tokenizers/detail/regex.h"
#include "tokenizers/detail/scanners.h"

namespace quern::tokenizers::detail {

/// A pattern that a scanner does faster than Regex, and the same.
struct KnownPattern {
  std::string_view pattern;
  std::optional<RegexSyntax> syntax;  ///< By whose rules; nothing: by any.
  Scanner scanner;
};

/// All of them; a test holds each scanner against its pattern.
std::span<const KnownPattern> known_patterns();

/// Cuts text at both ends of every match of a pattern: by its scanner where there is one.
class Splitter {
 public:
  /// Errors: as Regex.
  explicit Splitter(std::string_view pattern, RegexSyntax syntax = RegexSyntax::oniguruma);
  explicit Splitter(Scanner scanner) : how_(scanner) {}

  /// As a scanner. Errors: resource_exhausted, as Regex.
  void split(std::string_view text, const Ends& in, Ends& out) const {
    if (const auto* scanner = std::get_if<Scanner>(&how_)) return (*scanner)(text, in, out);
    std::get<Regex>(how_).split(text, in, out);
  }
  bool is_scanner() const { return std::holds_alternative<Scanner>(how_); }

 private:
  std::variant<Scanner, Regex> how_;
};

}  // namespace quern::tokenizers::detail
