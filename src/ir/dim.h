#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace quern::ir {

/// Values of symbols, by name.
using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

/// The size of one dimension: an integer expression of constants and symbols (sizes unknown until run time, always ≥ 0), kept in a
/// canonical form: a sum of terms, each an integer times a product of atoms, an atom being a symbol or a floor division, modulo, minimum or
/// maximum. Two dims that compare equal are equal for all values of their symbols; canonical forms are equal whenever the two are the same
/// polynomial over their atoms. Immutable and cheap to copy; a constant allocates nothing. Errors: resource_exhausted when a coefficient
/// overflows 64 bits, an expression grows past kMaxTerms or operations nest too deeply.
class Dim {
 public:
  static constexpr std::size_t kMaxTerms = 512;

  Dim(std::int64_t constant = 0) : constant_(constant) {}  // NOLINT(google-explicit-constructor): a number is a dim
  /// Names are [A-Za-z_][A-Za-z0-9_.]*; any other name is an invalid_argument.
  static Dim symbol(std::string_view name);
  /// Reads what to_string prints. Errors: invalid_argument with the column.
  static Dim parse(std::string_view text);

  /// The value, when it is the same for all symbols.
  std::optional<std::int64_t> constant() const { return poly_ ? std::nullopt : std::optional(constant_); }
  bool is_constant() const { return poly_ == nullptr; }

  friend bool operator==(const Dim& a, const Dim& b);
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  /// Rounds down; the divisor must not be the constant 0. a*b/b is a (b ≥ 1 is understood).
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim ceil_div(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);  // a - b*floor_div(a, b)
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);

  /// True only when every value of the symbols makes it a multiple of n.
  bool divisible_by(std::int64_t n) const;
  /// A bound that holds for all symbols ≥ 0, if one is known.
  std::optional<std::int64_t> lower_bound() const;
  std::optional<std::int64_t> upper_bound() const;

  /// Errors: invalid_argument when a symbol has no value or a divisor is 0; resource_exhausted on overflow.
  std::int64_t evaluate(const SymbolValues& values) const;
  /// The same expression with symbols replaced.
  Dim substitute(const std::map<std::string, Dim, std::less<>>& replacements) const;
  void collect_symbols(std::set<std::string>& into) const;

  std::string to_string() const;

 private:
  struct Atom;
  struct Term;
  struct Polynomial;
  friend struct DimImpl;

  std::int64_t constant_ = 0;               // the constant part
  std::shared_ptr<const Polynomial> poly_;  // the terms with symbols; null for a constant
};

using Shape = std::vector<Dim>;

/// Product of the dimensions; 1 for a scalar.
Dim element_count(const Shape& shape);
std::string to_string(const Shape& shape);

}  // namespace quern::ir
