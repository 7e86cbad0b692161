#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// A set of code points, as ascending ranges that do not touch.
class CharSet {
 public:
  struct Range {
    std::uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CharSet() = default;
  static CharSet of(std::uint32_t first, std::uint32_t last) { return CharSet(std::vector<Range>{{first, last}}); }
  static CharSet all();
  /// From ranges in any order.
  explicit CharSet(std::vector<Range> ranges);

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(std::uint32_t code) const;
  bool operator==(const CharSet&) const = default;

  void add(const CharSet& other);
  void intersect(const CharSet& other);
  void negate();
  /// Adds what differs from a member only in case (simple case mappings).
  void add_cases();

 private:
  std::vector<Range> ranges_;
};

/// The code points of a property as patterns name it: a general category ("L", "Lu", "Uppercase_Letter"), a script ("Han", "script=Han"),
/// "Any", "ASCII", "White_Space", "Alphabetic"-like POSIX names ("Alpha", "Digit", "Space", "Upper", "Lower", "Punct", "Alnum", "Word", …).
/// Nothing when there is none of that name.
std::optional<CharSet> find_property(std::string_view name);

/// \w: letters, marks, decimal and letter numbers, connectors, and the circled letters that count as alphabetic.
const CharSet& word_characters();

}  // namespace quern::tokenizers::detail
