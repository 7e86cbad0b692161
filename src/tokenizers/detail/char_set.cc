#include "tokenizers/detail/char_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tokenizers/detail/unicode.h"

namespace quern::tokenizers::detail {
namespace {

using Range = CharSet::Range;

constexpr std::uint32_t bit(Category c) { return 1u << static_cast<int>(c); }

struct CategoryName {
  std::string_view short_name, long_name;
  std::uint32_t members;
};

// Source: PropertyValueAliases.txt of the Unicode Character Database.
constexpr CategoryName kCategoryNames[] = {
    {"Lu", "Uppercase_Letter", bit(Category::Lu)},
    {"Ll", "Lowercase_Letter", bit(Category::Ll)},
    {"Lt", "Titlecase_Letter", bit(Category::Lt)},
    {"LC", "Cased_Letter", bit(Category::Lu) | bit(Category::Ll) | bit(Category::Lt)},
    {"Lm", "Modifier_Letter", bit(Category::Lm)},
    {"Lo", "Other_Letter", bit(Category::Lo)},
    {"L", "Letter", 0x1Fu},
    {"Mn", "Nonspacing_Mark", bit(Category::Mn)},
    {"Mc", "Spacing_Mark", bit(Category::Mc)},
    {"Me", "Enclosing_Mark", bit(Category::Me)},
    {"M", "Mark", bit(Category::Mn) | bit(Category::Mc) | bit(Category::Me)},
    {"M", "Combining_Mark", bit(Category::Mn) | bit(Category::Mc) | bit(Category::Me)},
    {"Nd", "Decimal_Number", bit(Category::Nd)},
    {"Nl", "Letter_Number", bit(Category::Nl)},
    {"No", "Other_Number", bit(Category::No)},
    {"N", "Number", bit(Category::Nd) | bit(Category::Nl) | bit(Category::No)},
    {"Pc", "Connector_Punctuation", bit(Category::Pc)},
    {"Pd", "Dash_Punctuation", bit(Category::Pd)},
    {"Ps", "Open_Punctuation", bit(Category::Ps)},
    {"Pe", "Close_Punctuation", bit(Category::Pe)},
    {"Pi", "Initial_Punctuation", bit(Category::Pi)},
    {"Pf", "Final_Punctuation", bit(Category::Pf)},
    {"Po", "Other_Punctuation", bit(Category::Po)},
    {"P", "Punctuation",
     bit(Category::Pc) | bit(Category::Pd) | bit(Category::Ps) | bit(Category::Pe) | bit(Category::Pi) | bit(Category::Pf) |
         bit(Category::Po)},
    {"Sm", "Math_Symbol", bit(Category::Sm)},
    {"Sc", "Currency_Symbol", bit(Category::Sc)},
    {"Sk", "Modifier_Symbol", bit(Category::Sk)},
    {"So", "Other_Symbol", bit(Category::So)},
    {"S", "Symbol", bit(Category::Sm) | bit(Category::Sc) | bit(Category::Sk) | bit(Category::So)},
    {"Zs", "Space_Separator", bit(Category::Zs)},
    {"Zl", "Line_Separator", bit(Category::Zl)},
    {"Zp", "Paragraph_Separator", bit(Category::Zp)},
    {"Z", "Separator", bit(Category::Zs) | bit(Category::Zl) | bit(Category::Zp)},
    {"Cc", "Control", bit(Category::Cc)},
    {"Cf", "Format", bit(Category::Cf)},
    {"Cs", "Surrogate", bit(Category::Cs)},
    {"Co", "Private_Use", bit(Category::Co)},
    {"Cn", "Unassigned", bit(Category::Cn)},
    {"C", "Other", bit(Category::Cc) | bit(Category::Cf) | bit(Category::Cs) | bit(Category::Co) | bit(Category::Cn)},
};

CharSet of_categories(std::uint32_t members) {
  std::vector<Range> ranges;
  for_each_category_run([&](std::uint32_t first, std::uint32_t last, std::uint8_t category) {
    if (members >> category & 1) ranges.push_back({first, last});
  });
  return CharSet(std::move(ranges));
}

CharSet white_space() {
  std::vector<Range> ranges;
  for (std::uint32_t code = 0; code <= 0x3000; ++code) {
    if (is_white_space(code)) ranges.push_back({code, code});
  }
  return CharSet(std::move(ranges));
}

CharSet letters() {  // Alphabetic without its marks
  CharSet set = of_categories(0x1Fu | bit(Category::Nl));
  for (const Range r : {Range{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}})
    set.add(CharSet::of(r.first, r.last));
  return set;
}

CharSet punctuation() {  // the POSIX class has ASCII's symbols too
  CharSet set = *find_property("P");
  for (const char c : {'$', '+', '<', '=', '>', '^', '`', '|', '~'})
    set.add(CharSet::of(static_cast<unsigned char>(c), static_cast<unsigned char>(c)));
  return set;
}

CharSet minus(CharSet set, CharSet other) {
  other.negate();
  set.intersect(other);
  return set;
}

std::optional<CharSet> find_class(std::string_view name) {
  const auto is = [&](std::string_view other) { return same_property_name(name, other); };
  if (is("Any")) return CharSet::all();
  if (is("ASCII")) return CharSet::of(0, 0x7F);
  if (is("Assigned")) return minus(CharSet::all(), of_categories(bit(Category::Cn)));
  if (is("White_Space") || is("Space")) return white_space();
  if (is("Alpha") || is("Alphabetic")) {  // of the marks, those that spell: near enough to Other_Alphabetic
    CharSet set = letters();
    set.add(of_categories(bit(Category::Mc)));
    return set;
  }
  if (is("Word")) return word_characters();
  if (is("Alnum")) {
    CharSet set = letters();
    set.add(of_categories(bit(Category::Mc) | bit(Category::Nd)));
    return set;
  }
  if (is("Digit")) return of_categories(bit(Category::Nd));
  if (is("XDigit")) return CharSet({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  if (is("Upper") || is("Uppercase")) return of_categories(bit(Category::Lu));
  if (is("Lower") || is("Lowercase")) return of_categories(bit(Category::Ll));
  if (is("Punct")) return punctuation();
  if (is("Cntrl")) return of_categories(bit(Category::Cc));
  if (is("Blank")) {
    CharSet set = of_categories(bit(Category::Zs));
    set.add(CharSet::of('\t', '\t'));
    return set;
  }
  constexpr std::uint32_t kInvisible = bit(Category::Cc) | bit(Category::Cs) | bit(Category::Cn);
  if (is("Graph")) return minus(minus(CharSet::all(), white_space()), of_categories(kInvisible));
  if (is("Print")) {
    CharSet set = minus(minus(CharSet::all(), white_space()), of_categories(kInvisible));
    set.add(of_categories(bit(Category::Zs)));
    return set;
  }
  return std::nullopt;
}

std::optional<CharSet> find_category(std::string_view name) {
  for (const CategoryName& c : kCategoryNames) {
    if (same_property_name(name, c.short_name) || same_property_name(name, c.long_name)) return of_categories(c.members);
  }
  return std::nullopt;
}

std::optional<CharSet> find_script_set(std::string_view name) {
  const auto script = find_script(name);
  if (!script) return std::nullopt;
  std::vector<Range> ranges;
  for_each_script_run(*script, [&](std::uint32_t first, std::uint32_t last) { ranges.push_back({first, last}); });
  return CharSet(std::move(ranges));
}

// Pairs of code points that differ only in case, each both ways round; ascending.
const std::vector<std::pair<std::uint32_t, std::uint32_t>>& case_pairs() {
  static const auto pairs = [] {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found, by_folded;
    constexpr std::uint32_t kCased = 0x1F;
    for_each_category_run([&](std::uint32_t first, std::uint32_t last, std::uint8_t category) {
      const bool circled = first <= 0x24E9 && last >= 0x24B6;
      if (!(kCased >> category & 1) && category != static_cast<int>(Category::Nl) && category != static_cast<int>(Category::Mn) && !circled)
        return;
      if (last - first > 2000) return;  // ideographs and syllables
      for (std::uint32_t c = first; c <= last; ++c) {
        const auto code = static_cast<utf8proc_int32_t>(c);
        const auto folded = static_cast<std::uint32_t>(utf8proc_tolower(utf8proc_toupper(code)));
        const auto upper = utf8proc_toupper(code), lower = utf8proc_tolower(code);
        if (folded != c || upper != code || lower != code) by_folded.emplace_back(folded, c);
      }
    });
    std::sort(by_folded.begin(), by_folded.end());
    for (auto low = by_folded.begin(); low != by_folded.end();) {
      const auto high = std::find_if(low, by_folded.end(), [&](const auto& p) { return p.first != low->first; });
      for (auto a = low; a != high; ++a) {
        for (auto b = low; b != high; ++b) {
          if (a != b) found.emplace_back(a->second, b->second);
        }
      }
      low = high;
    }
    std::sort(found.begin(), found.end());
    return found;
  }();
  return pairs;
}

}  // namespace

CharSet::CharSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const Range r : ranges_) {
    if (kept > 0 && r.first <= ranges_[kept - 1].last + 1) {
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, r.last);
    } else {
      ranges_[kept++] = r;
    }
  }
  ranges_.resize(kept);
}

CharSet CharSet::all() { return of(0, kCodePoints - 1); }

bool CharSet::contains(std::uint32_t code) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code, [](std::uint32_t c, const Range& r) { return c < r.first; });
  return after != ranges_.begin() && code <= std::prev(after)->last;
}

void CharSet::add(const CharSet& other) {
  std::vector<Range> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  *this = CharSet(std::move(both));
}

void CharSet::negate() {
  std::vector<Range> gaps;
  std::uint32_t from = 0;
  for (const Range r : ranges_) {
    if (r.first > from) gaps.push_back({from, r.first - 1});
    from = r.last + 1;
  }
  if (from < kCodePoints) gaps.push_back({from, kCodePoints - 1});
  ranges_ = std::move(gaps);
}

void CharSet::intersect(const CharSet& other) {
  std::vector<Range> common;
  for (auto a = ranges_.cbegin(), b = other.ranges_.cbegin(); a != ranges_.end() && b != other.ranges_.end();) {
    const Range both{std::max(a->first, b->first), std::min(a->last, b->last)};
    if (both.first <= both.last) common.push_back(both);
    a->last < b->last ? void(++a) : void(++b);
  }
  ranges_ = std::move(common);
}

void CharSet::add_cases() {
  std::vector<Range> more;
  auto range = ranges_.begin();
  for (const auto& [from, to] : case_pairs()) {
    while (range != ranges_.end() && range->last < from) ++range;
    if (range == ranges_.end()) break;
    if (range->first <= from) more.push_back({to, to});
  }
  more.insert(more.end(), ranges_.begin(), ranges_.end());
  *this = CharSet(std::move(more));
}

std::optional<CharSet> find_property(std::string_view name) {
  if (const std::size_t equals = name.find_first_of("=:"); equals != name.npos) {
    const std::string_view key = name.substr(0, equals), value = name.substr(equals + 1);
    if (same_property_name(key, "gc") || same_property_name(key, "General_Category")) return find_category(value);
    if (same_property_name(key, "sc") || same_property_name(key, "Script")) return find_script_set(value);
    return std::nullopt;
  }
  if (auto set = find_category(name)) return set;
  if (auto set = find_class(name)) return set;
  return find_script_set(name);
}

const CharSet& word_characters() {
  static const CharSet set = [] {
    CharSet all = letters();
    all.add(of_categories(bit(Category::Mn) | bit(Category::Mc) | bit(Category::Me) | bit(Category::Nd) | bit(Category::Pc)));
    return all;
  }();
  return set;
}

}  // namespace quern::tokenizers::detail
