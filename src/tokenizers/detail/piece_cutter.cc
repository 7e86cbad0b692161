#include "tokenizers/detail/piece_cutter.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tokenizers/detail/hugging_face.h"
#include "tokenizers/detail/normalizer.h"
#include "tokenizers/detail/unicode.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

using Piece = PieceCutter::Piece;

/// Takes the matches of one piece from left to right, and appends what the behaviour makes of them and the gaps between.
class Sink {
 public:
  Sink(Behaviour behaviour, bool invert, std::vector<Piece>& out) : behaviour_(behaviour), invert_(invert), out_(out) {}

  void begin(Piece piece) { piece_ = piece, done_ = piece.begin, first_ = out_.size(), previous_ = false; }
  void match(std::uint32_t begin, std::uint32_t end) {
    if (begin > done_) emit(done_, begin, invert_);
    emit(begin, end, !invert_);
    done_ = end;
  }
  void end() {
    if (done_ < piece_.end) emit(done_, piece_.end, invert_);
    // Empty matches count while neighbours are merged, but no piece is empty.
    out_.erase(std::remove_if(out_.begin() + static_cast<std::ptrdiff_t>(first_), out_.end(), [](Piece p) { return p.begin == p.end; }),
               out_.end());
  }

 private:
  void emit(std::uint32_t begin, std::uint32_t end, bool is_match) {
    const bool has_last = out_.size() > first_;
    const auto extend = [&] { out_.back().end = end; };
    switch (behaviour_) {
      case Behaviour::isolated: out_.push_back({begin, end}); break;
      case Behaviour::removed:
        if (!is_match) out_.push_back({begin, end});
        break;
      case Behaviour::contiguous: is_match == previous_&& has_last ? extend() : out_.push_back({begin, end}); break;
      case Behaviour::merged_with_previous: is_match && !previous_ && has_last ? extend() : out_.push_back({begin, end}); break;
      case Behaviour::merged_with_next:
        // The last of a row of matches takes what is no match after it.
        previous_ && !is_match && has_last ? extend() : out_.push_back({begin, end});
        break;
    }
    previous_ = is_match;
  }

  Behaviour behaviour_;
  bool invert_;
  std::vector<Piece>& out_;
  Piece piece_{0, 0};
  std::uint32_t done_ = 0;
  std::size_t first_ = 0;
  bool previous_ = false;
};

bool is_white(std::uint32_t code) { return char_table()[code] & kSpace; }

class Run {
 public:
  Run(PieceCutter::Pieces& state, bool at_start) : s_(state), at_start_(at_start) {}

  void operator()(const cutters::WhitespaceSplit&) { characters(Behaviour::removed, is_white); }
  void operator()(const cutters::Punctuation& p) {
    characters(p.behaviour, [](std::uint32_t c) { return hugging_face_class(c) & kPunctuationMark; });
  }
  void operator()(const cutters::Bert&) {
    characters(Behaviour::removed, is_white);
    characters(Behaviour::isolated, [](std::uint32_t c) { return hugging_face_class(c) & kPunctuationMark; });
  }
  void operator()(const cutters::Digits& d) {
    characters(d.individual ? Behaviour::isolated : Behaviour::contiguous,
               [](std::uint32_t c) { return hugging_face_class(c) & kNumeric; });
  }
  void operator()(const cutters::Delimiter& d) {
    const std::uint32_t delimiter = code_point(d.character.data());
    characters(Behaviour::removed, [=](std::uint32_t c) { return c == delimiter; });
  }
  void operator()(const cutters::Whitespace&) {
    runs([](std::uint32_t c) { return is_white(c) ? 0 : hugging_face_class(c) & kWordCharacter ? 1 : 2; }, 0);
  }

  void operator()(const cutters::UnicodeScripts&) {
    s_.other.clear();
    for (const Piece piece : s_.pieces) {
      // What goes with any script stays with what is before it. At the front of a piece it is lost, as in the library.
      int last = -1;
      std::uint32_t start = piece.end;
      for (std::uint32_t i = piece.begin; i < piece.end; i += character_length(s_.text[i])) {
        const int script = hugging_face_script(code_point(s_.text.data() + i));
        if (script != 0 && last != script) {
          if (start < i) s_.other.push_back({start, i});
          start = i;
        }
        if (script != 0) last = script;
      }
      if (start < piece.end) s_.other.push_back({start, piece.end});
    }
    s_.pieces.swap(s_.other);
  }

  void operator()(const cutters::FixedLength& fixed) {
    s_.other.clear();
    for (const Piece piece : s_.pieces) {
      std::uint32_t start = piece.begin;
      std::size_t count = 0;
      for (std::uint32_t i = piece.begin; i < piece.end;) {
        i += character_length(s_.text[i]);
        if (++count < fixed.length && i < piece.end) continue;
        s_.other.push_back({start, i});
        start = i, count = 0;
      }
    }
    s_.pieces.swap(s_.other);
  }

  void operator()(const cutters::Scan& scan) {
    // A scanner knows ends only: what stands between the pieces is scanned too and left out.
    s_.ends.clear();
    std::uint32_t done = 0;
    for (const Piece piece : s_.pieces) {
      if (piece.begin > done) s_.ends.push_back(piece.begin);
      s_.ends.push_back(piece.end);
      done = piece.end;
    }
    s_.more_ends.clear();
    if (!s_.ends.empty()) scan.scanner(s_.text.substr(0, done), s_.ends, s_.more_ends);
    s_.other.clear();
    std::uint32_t begin = 0;
    std::size_t in = 0;
    for (const std::uint32_t end : s_.more_ends) {
      while (in < s_.pieces.size() && s_.pieces[in].end <= begin) ++in;
      if (in < s_.pieces.size() && begin >= s_.pieces[in].begin) s_.other.push_back({begin, end});
      begin = end;
    }
    s_.pieces.swap(s_.other);
  }

  void operator()(const cutters::Split& split) {
    s_.other.clear();
    Sink sink(split.behaviour, split.invert, s_.other);
    for (const Piece piece : s_.pieces) {
      const std::string_view text = s_.text.substr(piece.begin, piece.end - piece.begin);
      sink.begin(piece);
      const auto found = [&](std::size_t begin, std::size_t end) {
        sink.match(piece.begin + static_cast<std::uint32_t>(begin), piece.begin + static_cast<std::uint32_t>(end));
      };
      if (const auto* plain = std::get_if<std::string>(&split.pattern)) {
        find_all(text, *plain, found);
      } else {
        Regex::Matches matches(std::get<Regex>(split.pattern), text);
        while (matches.next()) found(matches.begin(), matches.end());
      }
      sink.end();
    }
    s_.pieces.swap(s_.other);
  }

  void operator()(const cutters::ByteLevel& byte_level) {
    if (byte_level.add_prefix_space) {
      rewrite([](std::string_view piece, std::string& out, bool) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      });
    }
    if (byte_level.use_regex) (*this)(cutters::Scan{scan_gpt2});
    if (!byte_level.spells) return;
    rewrite([](std::string_view piece, std::string& out, bool) {
      for (const char c : piece) out += spelled_byte(static_cast<unsigned char>(c));
    });
  }

  void operator()(const cutters::Metaspace& m) {
    using Prepend = cutters::Metaspace::Prepend;
    rewrite([&](std::string_view piece, std::string& out, bool first) {
      const bool marked = piece.starts_with(' ') || piece.starts_with(m.mark);
      if (!marked && (m.prepend == Prepend::always || (m.prepend == Prepend::first && first && at_start_))) out += m.mark;
      for (const char c : piece) c == ' ' ? void(out += m.mark) : out.push_back(c);
    });
    if (!m.split) return;
    const std::uint32_t mark = code_point(m.mark.data());
    characters(Behaviour::merged_with_next, [=](std::uint32_t c) { return c == mark; });
  }

 private:
  template <class Is>
  void characters(Behaviour behaviour, Is is) {
    s_.other.clear();
    Sink sink(behaviour, false, s_.other);
    for (const Piece piece : s_.pieces) {
      sink.begin(piece);
      for (std::uint32_t i = piece.begin; i < piece.end;) {
        const std::uint32_t end = i + character_length(s_.text[i]);
        if (is(code_point(s_.text.data() + i))) sink.match(i, end);
        i = end;
      }
      sink.end();
    }
    s_.pieces.swap(s_.other);
  }

  /// Rows of characters of one class; those of class `dropped` are left out.
  template <class ClassOf>
  void runs(ClassOf class_of, int dropped) {
    s_.other.clear();
    for (const Piece piece : s_.pieces) {
      for (std::uint32_t i = piece.begin; i < piece.end;) {
        const std::uint32_t begin = i;
        const int kind = class_of(code_point(s_.text.data() + i));
        do i += character_length(s_.text[i]);
        while (i < piece.end && class_of(code_point(s_.text.data() + i)) == kind);
        if (kind != dropped) s_.other.push_back({begin, i});
      }
    }
    s_.pieces.swap(s_.other);
  }

  /// Gives every piece a new text. `first`: the piece begins where the text does.
  template <class Write>
  void rewrite(Write write) {
    std::string& to = s_.text.data() == s_.a.data() ? s_.b : s_.a;
    to.clear();
    bool first = !s_.pieces.empty() && s_.pieces[0].begin == 0;
    for (Piece& piece : s_.pieces) {
      const std::size_t begin = to.size();
      write(s_.text.substr(piece.begin, piece.end - piece.begin), to, first);
      if (to.size() > std::numeric_limits<std::uint32_t>::max())
        throw Error(Code::resource_exhausted, "the text grows past 4 GiB when it is cut");
      piece = {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(to.size())};
      first = false;
    }
    s_.text = to;
  }

  PieceCutter::Pieces& s_;
  bool at_start_;
};

}  // namespace

bool PieceCutter::ends_in_bytes() const {
  const auto is = [](const Step& step) { return std::holds_alternative<cutters::ByteLevel>(step); };
  return !steps_.empty() && is(steps_.back()) && std::count_if(steps_.begin(), steps_.end(), is) == 1;
}

void PieceCutter::cut(std::string_view text, bool at_start, Pieces& out) const {
  out.text = text;
  out.pieces.clear();
  if (text.empty()) return;
  out.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  Run run(out, at_start);
  for (const Step& step : steps_) std::visit(run, step);
}

}  // namespace quern::tokenizers::detail
