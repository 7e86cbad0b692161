#include "templates/big_integer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "templates/operators.h"

namespace quern::templates {
namespace {

[[noreturn]] void too_long() { throw Error(Code::resource_exhausted, "an integer of a template is too long"); }

unsigned digit_value(char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10); }

}  // namespace

BigInteger::BigInteger(std::int64_t value) : negative_(value < 0) {
  std::uint64_t magnitude = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) limbs_.push_back(static_cast<std::uint32_t>(magnitude));
}

BigInteger BigInteger::truncated(double value) {
  BigInteger result;
  result.negative_ = value < 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // value = fraction · 2^exponent, fraction in [0.5, 1)
  if (exponent <= 0) return {};
  std::uint64_t mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  int shift = exponent - 53;
  if (shift < 0) mantissa >>= -shift, shift = 0;
  result.limbs_.assign(static_cast<std::size_t>(shift / 32) + 3, 0);
  for (int bit = 0; bit < 53; ++bit)
    if (mantissa >> bit & 1) result.limbs_[static_cast<std::size_t>((shift + bit) / 32)] |= 1u << ((shift + bit) % 32);
  result.trim();
  return result;
}

BigInteger BigInteger::parse(std::string_view digits, unsigned base) {
  BigInteger result;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.size() * static_cast<std::size_t>(std::bit_width(base) - 1) > kMaxBits) too_long();
  count_work(digits.size() * digits.size() / 32);
  for (const char c : digits) {
    std::uint64_t carry = digit_value(c);
    for (std::uint32_t& limb : result.limbs_) {
      carry += std::uint64_t{limb} * base;
      limb = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) result.limbs_.push_back(static_cast<std::uint32_t>(carry));
  }
  result.negative_ = negative;
  result.trim();
  return result;
}

BigInteger BigInteger::of(const Value& v) { return v.is(Kind::big) ? parse(v.text(), 10) : BigInteger(as_index(v)); }

void BigInteger::trim() {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  if (limbs_.empty()) negative_ = false;
  if (limbs_.size() > kMaxBits / 32) too_long();
}

std::size_t BigInteger::bits() const {
  return limbs_.empty() ? 0 : limbs_.size() * 32 - static_cast<std::size_t>(std::countl_zero(limbs_.back()));
}

std::size_t BigInteger::ones() const {
  std::size_t count = 0;
  for (const std::uint32_t limb : limbs_) count += static_cast<std::size_t>(std::popcount(limb));
  return count;
}

std::string BigInteger::digits(unsigned base) const {
  if (limbs_.empty()) return "0";
  // As many digits at a time as fit into a limb.
  std::uint32_t unit = base;
  int each = 1;
  for (; std::uint64_t{unit} * base <= std::numeric_limits<std::uint32_t>::max(); ++each) unit *= base;
  count_work(limbs_.size() * limbs_.size());
  std::string out;
  for (Limbs left = limbs_; !left.empty();) {
    std::uint64_t rest = 0;
    for (std::size_t i = left.size(); i-- > 0;) {
      rest = rest << 32 | left[i];
      left[i] = static_cast<std::uint32_t>(rest / unit);
      rest %= unit;
    }
    while (!left.empty() && left.back() == 0) left.pop_back();
    for (int i = 0; i < each && (rest != 0 || !left.empty()); ++i, rest /= base) out += "0123456789abcdefghijklmnopqrstuvwxyz"[rest % base];
  }
  std::reverse(out.begin(), out.end());
  return out;
}

double BigInteger::real() const {
  const std::string text = digits();
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc::result_out_of_range) value = HUGE_VAL;
  return negative_ ? -value : value;
}

Value BigInteger::value(Heap& heap) const {
  if (limbs_.size() <= 2) {
    std::uint64_t magnitude = 0;
    for (std::size_t i = limbs_.size(); i-- > 0;) magnitude = magnitude << 32 | limbs_[i];
    if (magnitude <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) + negative_)
      return Value::of(static_cast<std::int64_t>(negative_ ? 0 - magnitude : magnitude));
  }
  Value big = make_string(heap, (negative_ ? "-" : "") + digits());
  big.kind = Kind::big;
  return big;
}

BigInteger BigInteger::negated() const {
  BigInteger result = *this;
  result.negative_ = !negative_ && !zero();
  return result;
}

int BigInteger::compare(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (std::size_t i = a.size(); i-- > 0;)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

int BigInteger::compare(const BigInteger& a, const BigInteger& b) {
  if (a.negative_ != b.negative_) return a.negative_ ? -1 : 1;
  return a.negative_ ? compare(b.limbs_, a.limbs_) : compare(a.limbs_, b.limbs_);
}

BigInteger::Limbs BigInteger::add(const Limbs& a, const Limbs& b) {
  Limbs sum;
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i, carry >>= 32) {
    carry += std::uint64_t{i < a.size() ? a[i] : 0} + (i < b.size() ? b[i] : 0);
    sum.push_back(static_cast<std::uint32_t>(carry));
  }
  return sum;
}

BigInteger::Limbs BigInteger::subtract(const Limbs& a, const Limbs& b) {
  Limbs rest = a;
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    borrow += std::int64_t{rest[i]} - (i < b.size() ? b[i] : 0);
    rest[i] = static_cast<std::uint32_t>(borrow);
    borrow >>= 32;
  }
  return rest;
}

BigInteger operator+(const BigInteger& a, const BigInteger& b) {
  BigInteger sum;
  if (a.negative_ == b.negative_) {
    sum.limbs_ = BigInteger::add(a.limbs_, b.limbs_);
    sum.negative_ = a.negative_;
  } else {
    const bool a_larger = BigInteger::compare(a.limbs_, b.limbs_) >= 0;
    sum.limbs_ = a_larger ? BigInteger::subtract(a.limbs_, b.limbs_) : BigInteger::subtract(b.limbs_, a.limbs_);
    sum.negative_ = a_larger ? a.negative_ : b.negative_;
  }
  sum.trim();
  return sum;
}

BigInteger operator*(const BigInteger& a, const BigInteger& b) {
  if (a.bits() + b.bits() > BigInteger::kMaxBits + 32) too_long();
  count_work(a.limbs_.size() * b.limbs_.size());
  BigInteger product;
  product.limbs_.assign(a.limbs_.size() + b.limbs_.size(), 0);
  for (std::size_t i = 0; i < a.limbs_.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t k = 0; k < b.limbs_.size() || carry != 0; ++k, carry >>= 32) {
      carry += product.limbs_[i + k] + std::uint64_t{a.limbs_[i]} * (k < b.limbs_.size() ? b.limbs_[k] : 0);
      product.limbs_[i + k] = static_cast<std::uint32_t>(carry);
    }
  }
  product.negative_ = a.negative_ != b.negative_;
  product.trim();
  return product;
}

void BigInteger::divide(const BigInteger& a, const BigInteger& b, BigInteger& quotient, BigInteger& rest) {
  // Bit by bit: numbers are short and rare here.
  Limbs left, result(a.limbs_.size(), 0);
  count_work(a.bits() * (b.limbs_.size() + 1));
  for (std::size_t bit = a.limbs_.size() * 32; bit-- > 0;) {
    std::uint32_t carry = a.limbs_[bit / 32] >> bit % 32 & 1;
    for (std::uint32_t& limb : left) {
      const std::uint32_t out = limb >> 31;
      limb = limb << 1 | carry;
      carry = out;
    }
    if (carry != 0) left.push_back(carry);
    if (compare(left, b.limbs_) < 0) continue;
    left = subtract(left, b.limbs_);
    while (!left.empty() && left.back() == 0) left.pop_back();
    result[bit / 32] |= 1u << bit % 32;
  }
  quotient = {};
  rest = {};
  quotient.limbs_ = std::move(result);
  quotient.negative_ = a.negative_ != b.negative_;
  quotient.trim();
  rest.limbs_ = std::move(left);
  rest.negative_ = a.negative_;
  rest.trim();
  if (!rest.zero() && rest.negative_ != b.negative_) {  // Python rounds down
    quotient = quotient - BigInteger(1);
    rest = rest + b;
  }
}

BigInteger BigInteger::power(BigInteger base, std::uint64_t exponent) {
  if (base.bits() > 1 && exponent > kMaxBits) too_long();
  BigInteger result(1);
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = result * base;
    if (exponent > 1) base = base * base;
  }
  return result;
}

}  // namespace quern::templates
