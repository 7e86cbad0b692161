#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/value.h"

namespace quern::templates {

/// An integer of any size, as Python's. Used where 64 bits do not do; up to 64 bits the interpreter computes with machine integers. Longer
/// than kMaxBits is Error(resource_exhausted).
class BigInteger {
 public:
  static constexpr std::size_t kMaxBits = 1 << 16;  // some 20,000 digits: far beyond what Python itself will print

  BigInteger() = default;
  explicit BigInteger(std::int64_t value);
  /// The whole part of a finite number.
  static BigInteger truncated(double value);
  /// A sign and digits of the base, already checked.
  static BigInteger parse(std::string_view digits, unsigned base);
  /// Of an integer of any kind or a boolean.
  static BigInteger of(const Value& v);

  bool negative() const { return negative_; }
  bool zero() const { return limbs_.empty(); }
  std::size_t bits() const;
  std::size_t ones() const;                      // bits that are set in the magnitude
  std::string digits(unsigned base = 10) const;  // of the magnitude
  /// Nearest double; infinite past the largest.
  double real() const;
  /// An integer in 64 bits where that does.
  Value value(Heap& heap) const;

  BigInteger negated() const;
  friend BigInteger operator+(const BigInteger& a, const BigInteger& b);
  friend BigInteger operator-(const BigInteger& a, const BigInteger& b) { return a + b.negated(); }
  friend BigInteger operator*(const BigInteger& a, const BigInteger& b);
  /// a = quotient · b + rest, the rest having the sign of b (b not 0).
  static void divide(const BigInteger& a, const BigInteger& b, BigInteger& quotient, BigInteger& rest);
  static BigInteger power(BigInteger base, std::uint64_t exponent);
  static int compare(const BigInteger& a, const BigInteger& b);

 private:
  using Limbs = std::vector<std::uint32_t>;  // the least significant first, no zero at the end
  static int compare(const Limbs& a, const Limbs& b);
  static Limbs add(const Limbs& a, const Limbs& b);
  static Limbs subtract(const Limbs& a, const Limbs& b);  // a >= b
  void trim();

  bool negative_ = false;
  Limbs limbs_;
};

}  // namespace quern::templates
