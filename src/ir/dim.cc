#include "ir/dim.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"

namespace quern::ir {

/// A symbol, or an operation that no polynomial can hold. `key` is its canonical text, which is also its identity.
struct Dim::Atom {
  enum class Kind { symbol, floor_div, mod, min, max } kind;
  std::string key;
  Dim a, b;       // operands; unused by symbols
  int depth = 0;  // of nested operations
  // Kept, not recomputed: asking the operands on every question would double the work at each level.
  std::optional<std::int64_t> low, high;
};

/// coefficient * product of the atoms, which are sorted by key (a square has its atom twice).
struct Dim::Term {
  std::int64_t coefficient;
  std::vector<std::shared_ptr<const Atom>> atoms;
};

/// Terms sorted by their atoms' keys, no two with the same atoms, no coefficient 0.
struct Dim::Polynomial {
  std::vector<Term> terms;
};

namespace {
[[noreturn]] void overflow() { throw Error(Code::resource_exhausted, "a tensor size overflows 64 bits"); }

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}
std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}
std::int64_t floor_div_int(std::int64_t a, std::int64_t b) {
  if (b == 0) throw Error(Code::invalid_argument, "a tensor size is divided by zero");
  if (b == -1) return checked_mul(a, -1);
  const std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
/// a - b * floor(a / b), without the product that could overflow.
std::int64_t mod_int(std::int64_t a, std::int64_t b) {
  if (b == 0) throw Error(Code::invalid_argument, "a tensor size is divided by zero");
  if (b == -1) return 0;
  const std::int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
bool divides(std::int64_t divisor, std::int64_t n) { return divisor == -1 || (divisor != 0 && n % divisor == 0); }

constexpr std::size_t kMaxKeyBytes = 16384;  // of an atom's text: bounds the tree of operations below it
constexpr int kMaxDepth = 64;                // of nested operations: bounds recursion; the parser reads as deep
[[noreturn]] void too_large() { throw Error(Code::resource_exhausted, "the expression of a tensor size grows too large"); }
}  // namespace

struct DimImpl {
  using Atom = Dim::Atom;
  using AtomPtr = std::shared_ptr<const Dim::Atom>;
  using Term = Dim::Term;
  using Kind = Dim::Atom::Kind;

  static int compare_atoms(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (a[i] != b[i])
        if (const int c = a[i]->key.compare(b[i]->key); c != 0) return c;
    return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
  }

  static const std::vector<Term>& terms(const Dim& d) {
    static const std::vector<Term> none;
    return d.poly_ ? d.poly_->terms : none;
  }

  static Dim make(std::int64_t constant, std::vector<Term> terms) {
    std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare_atoms(a.atoms, b.atoms) < 0; });
    std::vector<Term> merged;
    for (Term& t : terms) {
      if (!merged.empty() && compare_atoms(merged.back().atoms, t.atoms) == 0)
        merged.back().coefficient = checked_add(merged.back().coefficient, t.coefficient);
      else
        merged.push_back(std::move(t));
    }
    std::erase_if(merged, [](const Term& t) { return t.coefficient == 0; });
    if (merged.size() > Dim::kMaxTerms) too_large();
    Dim d(constant);
    if (!merged.empty()) d.poly_ = std::make_shared<const Dim::Polynomial>(Dim::Polynomial{std::move(merged)});
    return d;
  }

  static int depth_of(const Dim& d) {
    int depth = 0;
    for (const Term& t : terms(d))
      for (const AtomPtr& atom : t.atoms) depth = std::max(depth, atom->depth);
    return depth;
  }

  static Dim from_atom(Kind kind, std::string key, Dim a, Dim b) {
    if (key.size() > kMaxKeyBytes) too_large();
    const int depth = kind == Kind::symbol ? 0 : 1 + std::max(depth_of(a), depth_of(b));
    if (depth > kMaxDepth) too_large();
    auto atom = std::make_shared<Atom>(Atom{kind, std::move(key), std::move(a), std::move(b), depth, {}, {}});
    atom->low = atom_bound(*atom, true);
    atom->high = atom_bound(*atom, false);
    return make(0, {Term{1, {std::move(atom)}}});
  }

  static Dim scale(const Dim& d, std::int64_t factor) {
    std::vector<Term> out = terms(d);
    for (Term& t : out) t.coefficient = checked_mul(t.coefficient, factor);
    return make(checked_mul(d.constant_, factor), std::move(out));
  }

  /// d / divisor when the single term `divisor` divides every term of d; nothing otherwise.
  static std::optional<Dim> divide_exactly(const Dim& d, const Term& divisor) {
    if (d.constant_ != 0) return std::nullopt;
    std::vector<Term> out;
    for (const Term& t : terms(d)) {
      if (!divides(divisor.coefficient, t.coefficient)) return std::nullopt;
      Term q{floor_div_int(t.coefficient, divisor.coefficient), t.atoms};
      for (const AtomPtr& atom : divisor.atoms) {
        const auto found = std::find_if(q.atoms.begin(), q.atoms.end(), [&](const AtomPtr& x) { return x->key == atom->key; });
        if (found == q.atoms.end()) return std::nullopt;
        q.atoms.erase(found);
      }
      out.push_back(std::move(q));
    }
    Dim result(0);
    for (Term& t : out) result = result + (t.atoms.empty() ? Dim(t.coefficient) : make(0, {t}));
    return result;
  }

  static std::int64_t evaluate(const Atom& atom, const SymbolValues& values) {
    if (atom.kind == Kind::symbol) {
      const auto found = values.find(atom.key);
      if (found == values.end()) throw Error(Code::invalid_argument, "the size '" + atom.key + "' has no value");
      return found->second;
    }
    const std::int64_t a = atom.a.evaluate(values), b = atom.b.evaluate(values);
    switch (atom.kind) {
      case Kind::floor_div: return floor_div_int(a, b);
      case Kind::mod: return mod_int(a, b);
      case Kind::min: return std::min(a, b);
      default: return std::max(a, b);
    }
  }

  /// Holds for all symbols ≥ 0; from the bounds of the operands.
  static std::optional<std::int64_t> atom_bound(const Atom& atom, bool lower) {
    const auto la = [&] { return atom.a.lower_bound(); };
    const auto lb = [&] { return atom.b.lower_bound(); };
    const auto ua = [&] { return atom.a.upper_bound(); };
    const auto ub = [&] { return atom.b.upper_bound(); };
    switch (atom.kind) {
      case Kind::symbol: return lower ? std::optional<std::int64_t>(0) : std::nullopt;
      case Kind::floor_div:
        if (!atom.b.is_constant() || *lb() <= 0)
          return lower && la() >= 0 && lb() >= 0 && la() && lb() ? std::optional<std::int64_t>(0) : std::nullopt;
        if (const auto bound = lower ? la() : ua()) return floor_div_int(*bound, *lb());
        return std::nullopt;
      case Kind::mod:
        if (!atom.b.is_constant() || *lb() <= 0) return std::nullopt;
        return lower ? 0 : *ub() - 1;
      case Kind::min: {
        const auto x = lower ? la() : ua(), y = lower ? lb() : ub();
        if (x && y) return std::min(*x, *y);
        return lower ? std::nullopt : (x ? x : y);
      }
      case Kind::max: {
        const auto x = lower ? la() : ua(), y = lower ? lb() : ub();
        if (x && y) return std::max(*x, *y);
        return lower ? (x ? x : y) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  static std::optional<std::int64_t> bound(const Dim& d, bool lower) {
    std::int64_t sum = d.constant_;
    for (const Term& t : terms(d)) {
      // Products are bounded only for atoms that cannot be negative: then smallest times smallest is the smallest.
      std::int64_t product = 1;
      bool known = true;
      for (const AtomPtr& atom : t.atoms) {
        if (!atom->low || *atom->low < 0) {
          known = false;
          break;
        }
        const auto& value = (t.coefficient > 0) == lower ? atom->low : atom->high;
        if (!value || __builtin_mul_overflow(product, *value, &product)) {
          known = false;
          break;
        }
      }
      std::int64_t term;
      if (!known || __builtin_mul_overflow(product, t.coefficient, &term) || __builtin_add_overflow(sum, term, &sum)) return std::nullopt;
    }
    return sum;
  }

  static Dim sum(const std::vector<Dim>& parts) {
    std::int64_t constant = 0;
    std::vector<Term> all;
    for (const Dim& d : parts) {
      constant = checked_add(constant, d.constant_);
      all.insert(all.end(), terms(d).begin(), terms(d).end());
    }
    return make(constant, std::move(all));
  }
  static std::size_t term_count(const Dim& d) { return 1 + terms(d).size(); }

  // Parentheses stand around operands of / and % and around sums in products; sums and products are flat.
  static std::string text(const Dim& d, std::size_t limit = std::string::npos) {
    std::string out;
    for (const Term& t : terms(d)) {
      if (out.size() > limit) too_large();
      std::int64_t c = t.coefficient;
      if (out.empty()) {
        if (c < 0) out += "-";
      } else {
        out += c < 0 ? " - " : " + ";
      }
      const std::string magnitude = c < 0 ? std::to_string(c).substr(1) : std::to_string(c);
      bool first = true;
      if (magnitude != "1") out += magnitude, first = false;
      for (const AtomPtr& atom : t.atoms) {
        if (!first) out += "*";
        out += atom->key;
        first = false;
      }
    }
    if (d.constant_ != 0 || out.empty()) {
      if (out.empty()) return std::to_string(d.constant_);
      out += d.constant_ < 0 ? " - " + std::to_string(d.constant_).substr(1) : " + " + std::to_string(d.constant_);
    }
    return out;
  }

  static std::string call_key(const char* name, const Dim& a, const Dim& b) {
    return std::string(name) + "(" + text(a, kMaxKeyBytes) + ", " + text(b, kMaxKeyBytes) + ")";
  }
};

Dim Dim::symbol(std::string_view name) {
  bool good = !name.empty() && name.size() <= 256 && !std::isdigit(static_cast<unsigned char>(name[0])) && name[0] != '.';
  for (const char c : name) good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.');
  if (!good) throw Error(Code::invalid_argument, "'" + std::string(name) + "' is no name for a size").hint("letters, digits, '_' and '.'");
  return DimImpl::from_atom(Atom::Kind::symbol, std::string(name), 0, 0);
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.constant_ != b.constant_) return false;
  if (a.poly_ == b.poly_) return true;
  const auto &x = DimImpl::terms(a), &y = DimImpl::terms(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Dim::Term& s, const Dim::Term& t) {
    return s.coefficient == t.coefficient && DimImpl::compare_atoms(s.atoms, t.atoms) == 0;
  });
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.constant_, b.constant_);
  std::vector<Dim::Term> terms = DimImpl::terms(a);
  const auto& more = DimImpl::terms(b);
  terms.insert(terms.end(), more.begin(), more.end());
  return DimImpl::make(checked_add(a.constant_, b.constant_), std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) { return a + DimImpl::scale(b, -1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant()) return DimImpl::scale(b, a.constant_);
  if (b.is_constant()) return DimImpl::scale(a, b.constant_);
  const auto &x = DimImpl::terms(a), &y = DimImpl::terms(b);
  if (x.size() * y.size() > Dim::kMaxTerms) too_large();
  std::vector<Dim::Term> terms;
  for (const auto& s : x)
    for (const auto& t : y) {
      Dim::Term product{checked_mul(s.coefficient, t.coefficient), s.atoms};
      product.atoms.insert(product.atoms.end(), t.atoms.begin(), t.atoms.end());
      if (product.atoms.size() > 64) too_large();
      std::sort(product.atoms.begin(), product.atoms.end(), [](const auto& p, const auto& q) { return p->key < q->key; });
      terms.push_back(std::move(product));
    }
  Dim product = DimImpl::make(0, std::move(terms));
  if (b.constant_ != 0) product = product + DimImpl::scale(DimImpl::make(0, x), b.constant_);
  return product + DimImpl::scale(b, a.constant_);
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (b.is_constant()) {
    const std::int64_t n = b.constant_;
    if (a.is_constant()) return floor_div_int(a.constant_, n);
    if (n == 0) throw Error(Code::invalid_argument, "a tensor size is divided by zero");
    if (n == 1) return a;
    if (n > 1) {
      // Terms that n divides leave the division whole: floor((n*q + r) / n) = q + floor(r / n).
      std::vector<Dim::Term> whole, rest;
      for (const auto& t : DimImpl::terms(a)) {
        if (divides(n, t.coefficient))
          whole.push_back({t.coefficient / n, t.atoms});
        else
          rest.push_back(t);
      }
      const std::int64_t q = floor_div_int(a.constant_, n), r = mod_int(a.constant_, n);
      if (rest.empty()) return DimImpl::make(q, std::move(whole));
      if (!whole.empty() || q != 0) return DimImpl::make(q, std::move(whole)) + floor_div(DimImpl::make(r, std::move(rest)), b);
      const auto low = a.lower_bound(), high = a.upper_bound();
      if (low && high && *low >= 0 && *high < n) return 0;
    }
  } else {
    if (a == b) return 1;
    if (a.is_constant() && a.constant_ == 0) return 0;
    const auto& terms = DimImpl::terms(b);
    if (b.constant_ == 0 && terms.size() == 1)
      if (auto exact = DimImpl::divide_exactly(a, terms[0])) return *exact;
  }
  return DimImpl::from_atom(Dim::Atom::Kind::floor_div, DimImpl::call_key("div", a, b), a, b);
}

Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - 1, b); }

Dim mod(const Dim& a, const Dim& b) {
  if (b.is_constant() && b.constant_ > 0) {
    const std::int64_t n = b.constant_;
    std::vector<Dim::Term> rest;
    for (const auto& t : DimImpl::terms(a))
      if (const std::int64_t c = mod_int(t.coefficient, n); c != 0) rest.push_back({c, t.atoms});
    const Dim reduced = DimImpl::make(mod_int(a.constant_, n), std::move(rest));
    const auto low = reduced.lower_bound(), high = reduced.upper_bound();
    if (low && high && *low >= 0 && *high < n) return reduced;
    return DimImpl::from_atom(Dim::Atom::Kind::mod, DimImpl::call_key("mod", reduced, b), reduced, b);
  }
  return a - b * floor_div(a, b);
}

namespace {
template <class Pick>
std::optional<Dim> decided(const Dim& a, const Dim& b, Pick pick_a_if_less) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return pick_a_if_less(*a.constant() < *b.constant()) ? a : b;
  const Dim difference = a - b;
  if (const auto low = difference.lower_bound(); low && *low >= 0) return pick_a_if_less(false) ? a : b;
  if (const auto high = difference.upper_bound(); high && *high <= 0) return pick_a_if_less(true) ? a : b;
  return std::nullopt;
}
}  // namespace

Dim min(const Dim& a, const Dim& b) {
  if (auto d = decided(a, b, [](bool a_is_less) { return a_is_less; })) return *d;
  const bool swap = DimImpl::text(b, kMaxKeyBytes) < DimImpl::text(a, kMaxKeyBytes);
  const Dim &x = swap ? b : a, &y = swap ? a : b;
  return DimImpl::from_atom(Dim::Atom::Kind::min, DimImpl::call_key("min", x, y), x, y);
}

Dim max(const Dim& a, const Dim& b) {
  if (auto d = decided(a, b, [](bool a_is_less) { return !a_is_less; })) return *d;
  const bool swap = DimImpl::text(b, kMaxKeyBytes) < DimImpl::text(a, kMaxKeyBytes);
  const Dim &x = swap ? b : a, &y = swap ? a : b;
  return DimImpl::from_atom(Dim::Atom::Kind::max, DimImpl::call_key("max", x, y), x, y);
}

bool Dim::divisible_by(std::int64_t n) const {
  if (n == 0 || !divides(n, constant_)) return false;
  const auto& all = DimImpl::terms(*this);
  return std::all_of(all.begin(), all.end(), [&](const Term& t) { return divides(n, t.coefficient); });
}

std::optional<std::int64_t> Dim::lower_bound() const { return DimImpl::bound(*this, true); }
std::optional<std::int64_t> Dim::upper_bound() const { return DimImpl::bound(*this, false); }

std::int64_t Dim::evaluate(const SymbolValues& values) const {
  std::int64_t sum = constant_;
  for (const Term& t : DimImpl::terms(*this)) {
    std::int64_t product = t.coefficient;
    for (const auto& atom : t.atoms) product = checked_mul(product, DimImpl::evaluate(*atom, values));
    sum = checked_add(sum, product);
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& replacements) const {
  Dim sum(constant_);
  for (const Term& t : DimImpl::terms(*this)) {
    Dim product(t.coefficient);
    for (const auto& atom : t.atoms) {
      const auto found = atom->kind == Atom::Kind::symbol ? replacements.find(atom->key) : replacements.end();
      Dim value;
      if (found != replacements.end()) {
        value = found->second;
      } else if (atom->kind == Atom::Kind::symbol) {
        value = DimImpl::make(0, {Term{1, {atom}}});
      } else {
        const Dim a = atom->a.substitute(replacements), b = atom->b.substitute(replacements);
        switch (atom->kind) {
          case Atom::Kind::floor_div: value = floor_div(a, b); break;
          case Atom::Kind::mod: value = mod(a, b); break;
          case Atom::Kind::min: value = min(a, b); break;
          default: value = max(a, b); break;
        }
      }
      product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

void Dim::collect_symbols(std::set<std::string>& into) const {
  for (const Term& t : DimImpl::terms(*this))
    for (const auto& atom : t.atoms) {
      if (atom->kind == Atom::Kind::symbol) {
        into.insert(atom->key);
      } else {
        atom->a.collect_symbols(into);
        atom->b.collect_symbols(into);
      }
    }
}

std::string Dim::to_string() const { return DimImpl::text(*this); }

namespace {
/// sum := ['-'] product {('+'|'-') product}; product := factor {'*' factor}; factor := integer | name | name '(' sum ',' sum ')' | '(' sum
/// ')'
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Dim whole() {
    Dim d = sum(0);
    skip();
    if (at_ < text_.size()) fail("unexpected text");
    return d;
  }

 private:
  Dim sum(int depth) {
    if (depth > kMaxDepth) fail("nested too deeply");
    std::vector<Dim> parts = {product(depth, take('-'))};
    for (;;) {
      if (take('+'))
        parts.push_back(product(depth, false));
      else if (take('-'))
        parts.push_back(product(depth, true));
      else
        return parts.size() == 1 ? parts[0] : DimImpl::sum(parts);
      charge(parts.back());
    }
  }
  // The sign belongs to the first factor: the smallest integer has no positive counterpart.
  Dim product(int depth, bool negative) {
    Dim d = factor(depth, negative);
    while (take('*')) {
      d = d * factor(depth, false);
      charge(d);
    }
    return d;
  }
  Dim factor(int depth, bool negative) {
    skip();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      std::int64_t n = 0;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
        const std::int64_t digit = text_[at_] - '0';
        n = checked_add(checked_mul(n, 10), negative ? -digit : digit);
      }
      return n;
    }
    const Dim d = named_or_nested(depth);
    return negative ? Dim(0) - d : d;
  }
  Dim named_or_nested(int depth) {
    if (take('(')) {
      Dim d = sum(depth + 1);
      expect(')');
      return d;
    }
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
    if (at_ == start) fail("a size was expected");
    const std::string_view name = text_.substr(start, at_ - start);
    if (!take('(')) return Dim::symbol(name);
    const Dim a = sum(depth + 1);
    expect(',');
    const Dim b = sum(depth + 1);
    expect(')');
    if (name == "div") return floor_div(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    fail("unknown function");
  }
  /// Large sums multiplied again and again would make a short text slow.
  void charge(const Dim& d) {
    constexpr std::size_t kMaxWork = std::size_t{1} << 17;  // the text of kMaxTerms terms of 64 atoms each takes half of it
    work_ += DimImpl::term_count(d);
    if (work_ > kMaxWork) too_large();
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "' was expected");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::invalid_argument, what + " in the size '" + std::string(text_) + "'").in("column " + std::to_string(at_ + 1));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t work_ = 0;
};
}  // namespace

Dim Dim::parse(std::string_view text) {
  constexpr std::size_t kMaxTextBytes = 1 << 16;
  if (text.size() > kMaxTextBytes) too_large();
  return DimParser(text).whole();
}

Dim element_count(const Shape& shape) {
  Dim n = 1;
  for (const Dim& d : shape) n = n * d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].to_string();
  return out + "]";
}

}  // namespace quern::ir
