#include "tokenizers/detail/normal_forms.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

// Three tables of mappings (canonical, compatible where that differs, lower case): their count, then for each the code point << 8 | length
// and what it becomes. Then the compositions: their count, and (first, second, composed). Then the combining classes: the count of runs,
// and the first code point of each << 8 | class.
constexpr std::uint32_t kData[] = {
#include "tokenizers/detail/normal_forms.inc"
};

constexpr std::uint32_t kCodePoints = 0x110000;
constexpr std::uint32_t kHangul = 0xAC00, kHangulEnd = 0xD7A4, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr std::uint32_t kVowels = 21, kTrails = 28, kLeads = 19;

/// Facts of a code point, by two levels: its block of 128, its place there.
struct Facts {
  std::uint16_t canonical = 0, compatible = 0, lower = 0;  // index into mappings, 0: none
  std::uint8_t combining = 0;
  bool joins = false;  // a composition may take it as its second, so that it is no safe place to begin
};

struct Mapping {
  std::uint32_t begin, length;  // in kData
};

class Tables {
 public:
  Tables() {
    index_.fill(0);
    blocks_.resize(kBlock);
    mappings_.push_back({0, 0});
    std::size_t at = 0;
    for (auto field : {&Facts::canonical, &Facts::compatible, &Facts::lower}) {
      for (std::uint32_t count = kData[at++]; count > 0; --count) {
        const std::uint32_t code = kData[at] >> 8, length = kData[at] & 255;
        facts(code).*field = static_cast<std::uint16_t>(mappings_.size());
        mappings_.push_back({static_cast<std::uint32_t>(at + 1), length});
        at += 1 + length;
      }
    }
    std::vector<bool> made(kCodePoints);
    for (std::uint32_t count = kData[at++]; count > 0; --count, at += 3) {
      compositions_[std::uint64_t{kData[at]} << 32 | kData[at + 1]] = kData[at + 2];
      facts(kData[at + 1]).joins = true;
      made[kData[at + 2]] = true;
    }
    for (std::uint32_t c = kVowel; c < kVowel + kVowels; ++c) facts(c).joins = true;
    for (std::uint32_t c = kTrail + 1; c < kTrail + kTrails; ++c) facts(c).joins = true;
    const std::uint32_t runs = kData[at++];
    for (std::uint32_t r = 0; r < runs; ++r) {
      const std::uint32_t next = r + 1 < runs ? kData[at + r + 1] >> 8 : kCodePoints;
      if (const auto combining = static_cast<std::uint8_t>(kData[at + r]))
        for (std::uint32_t c = kData[at + r] >> 8; c < next; ++c) facts(c).combining = combining;
    }
    for (std::uint32_t c = 0; c < kCodePoints; ++c) {  // what composing does not give back is not composed
      if ((*this)[c].canonical != 0 && !made[c]) facts(c).joins = true;
    }
  }

  const Facts& operator[](std::uint32_t code) const { return blocks_[std::size_t{index_[code / kBlock]} * kBlock + code % kBlock]; }
  const Mapping& mapping(std::uint16_t index) const { return mappings_[index]; }
  /// 0: they do not compose.
  std::uint32_t composed(std::uint32_t a, std::uint32_t b) const {
    if (a >= kLead && a < kLead + kLeads && b >= kVowel && b < kVowel + kVowels)
      return kHangul + ((a - kLead) * kVowels + (b - kVowel)) * kTrails;
    if (a >= kHangul && a < kHangulEnd && (a - kHangul) % kTrails == 0 && b > kTrail && b < kTrail + kTrails) return a + (b - kTrail);
    const auto it = compositions_.find(std::uint64_t{a} << 32 | b);
    return it == compositions_.end() ? 0 : it->second;
  }

 private:
  static constexpr std::size_t kBlock = 128;

  Facts& facts(std::uint32_t code) {
    std::uint16_t& block = index_[code / kBlock];
    if (block == 0) {
      block = static_cast<std::uint16_t>(blocks_.size() / kBlock);
      blocks_.resize(blocks_.size() + kBlock);
    }
    return blocks_[std::size_t{block} * kBlock + code % kBlock];
  }

  std::array<std::uint16_t, kCodePoints / kBlock> index_;
  std::vector<Facts> blocks_;
  std::vector<Mapping> mappings_;
  std::unordered_map<std::uint64_t, std::uint32_t> compositions_;
};

const Tables& tables() {
  static const Tables made;
  return made;
}

bool is_hangul(std::uint32_t code) { return code >= kHangul && code < kHangulEnd; }

struct Normalizing {
  const Tables& tables;
  bool compatible, compose;
  std::vector<std::uint32_t> codes;

  /// Whether the character may stay as it is whatever stands before it, and whether nothing after it can change it but a `joins`.
  bool inert(std::uint32_t code) const {
    const Facts& f = tables[code];
    if (f.combining != 0 || (compatible && f.compatible != 0)) return false;
    return compose ? !f.joins : f.canonical == 0 && !is_hangul(code);
  }

  void decompose(std::uint32_t code) {
    if (is_hangul(code)) {
      const std::uint32_t s = code - kHangul;
      codes.push_back(kLead + s / (kVowels * kTrails));
      codes.push_back(kVowel + s % (kVowels * kTrails) / kTrails);
      if (s % kTrails) codes.push_back(kTrail + s % kTrails);
      return;
    }
    const Facts& f = tables[code];
    const std::uint16_t index = compatible && f.compatible ? f.compatible : f.canonical;
    if (index == 0) return codes.push_back(code);
    const Mapping& m = tables.mapping(index);
    codes.insert(codes.end(), kData + m.begin, kData + m.begin + m.length);
  }

  void reorder() {
    for (std::size_t begin = 0; begin < codes.size();) {
      if (tables[codes[begin]].combining == 0) {
        ++begin;
        continue;
      }
      std::size_t end = begin + 1;
      while (end < codes.size() && tables[codes[end]].combining != 0) ++end;
      const auto by_class = [&](std::uint32_t a, std::uint32_t b) { return tables[a].combining < tables[b].combining; };
      const auto first = codes.begin() + static_cast<std::ptrdiff_t>(begin), last = codes.begin() + static_cast<std::ptrdiff_t>(end);
      if (end - begin > 64) {  // a hostile row of marks: one of many
        std::vector<std::pair<std::uint64_t, std::uint32_t>> row;
        row.reserve(end - begin);
        for (std::size_t i = begin; i < end; ++i) row.emplace_back(std::uint64_t{tables[codes[i]].combining} << 32 | (i - begin), codes[i]);
        std::sort(row.begin(), row.end());
        for (std::size_t i = 0; i < row.size(); ++i) first[static_cast<std::ptrdiff_t>(i)] = row[i].second;
      } else {
        for (auto it = first; it != last; ++it) std::rotate(std::upper_bound(first, it, *it, by_class), it, it + 1);
      }
      begin = end;
    }
  }

  void recompose() {
    std::size_t out = 0, starter = codes.size();
    int last = -1;  // combining class of what was kept since the starter
    for (const std::uint32_t code : codes) {
      const int combining = tables[code].combining;
      if (starter < out && (last < combining || last == -1)) {
        if (const std::uint32_t made = tables.composed(codes[starter], code)) {
          codes[starter] = made;
          continue;
        }
      }
      codes[out] = code;
      if (combining == 0) {
        starter = out;
        last = -1;
      } else {
        last = combining;
      }
      ++out;
    }
    codes.resize(out);
  }

  void append(std::string& out) {
    reorder();
    if (compose) recompose();
    for (const std::uint32_t code : codes) append_code_point(code, out);
    codes.clear();
  }
};

}  // namespace

bool normalize(NormalForm form, std::string_view text, std::string& out) {
  Normalizing n{tables(), form == NormalForm::nfkc || form == NormalForm::nfkd, form == NormalForm::nfc || form == NormalForm::nfkc, {}};
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const char* copied = begin;  // up to here the text is in `out`
  bool changed = false;
  const char* safe = begin;  // the last character that nothing before it touches
  for (const char* p = begin; p < end;) {
    if (static_cast<unsigned char>(*p) < 0x80) {
      safe = p++;
      continue;
    }
    const std::uint32_t code = code_point(p);
    if (n.inert(code)) {
      safe = p;
      p += character_length(*p);
      continue;
    }
    // From the last safe character to before the next one.
    if (!changed) out.clear(), changed = true;
    out.append(copied, safe);
    const char* stop = safe;
    do {
      n.decompose(code_point(stop));
      stop += character_length(*stop);
    } while (stop <= p || (stop < end && !n.inert(code_point(stop))));
    n.append(out);
    copied = safe = p = stop;
  }
  if (!changed) return false;
  out.append(copied, end);
  return true;
}

bool to_lower(std::string_view text, std::string& out) {
  const Tables& t = tables();
  bool changed = false;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t code = code_point(text.data() + i);
    const std::uint32_t length = character_length(text[i]);
    const std::uint16_t index = code < 0x80 ? (code >= 'A' && code <= 'Z') : t[code].lower;
    if (index != 0) {
      if (!changed) out.clear(), changed = true;
      out += text.substr(copied, i - copied);
      if (code < 0x80) {
        out += static_cast<char>(code + 32);
      } else {
        const Mapping& m = t.mapping(index);
        for (std::uint32_t k = 0; k < m.length; ++k) append_code_point(kData[m.begin + k], out);
      }
      copied = i + length;
    }
    i += length;
  }
  if (changed) out += text.substr(copied);
  return changed;
}

}  // namespace quern::tokenizers::detail
