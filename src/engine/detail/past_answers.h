#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "engine/detail/suffix_automaton.h"

namespace quern::engine::detail {

/// The latest answers of an engine, so that others may go on as they did: a question that is asked again, a file that is written again
/// with a change. Requests of different cache partitions know nothing of each other. Bounded: of the few partitions that answered last,
/// some ten thousand tokens each.
class PastAnswers {
 public:
  /// Keeps an answer of `answer` tokens, the end of `text`, with some of what it answers before it. Without memory it is not kept.
  void add(std::uint64_t partition, std::span<const std::int32_t> text, std::int64_t answer) noexcept;

  /// How far a request has been followed. A new one begins at its prompt's end.
  struct Reader {
    std::array<std::uint64_t, 2> volumes = {};  // that the cursors are in, 0: none
    std::array<SuffixAutomaton::Cursor, 2> cursors = {};
    std::int64_t read = -1;  // tokens of the request; below 0: none yet
  };
  /// A place where the end of a text stood.
  struct Place {
    std::int64_t matched = 0;                      // tokens; 0: nowhere
    std::span<const std::int32_t> following = {};  // what came then, to the end of that answer at most; valid until the next add
  };
  /// Where the longest end of `text` stood last. `text` only grows from call to call of a reader.
  Place find(std::uint64_t partition, std::span<const std::int32_t> text, Reader& reader) const;

 private:
  struct Volume {
    std::uint64_t number = 0;  // no two are alike; 0: empty
    SuffixAutomaton pieces;
    std::vector<std::int32_t> text;  // answers, each with an end mark of its own behind it
  };
  struct Shelf {
    std::uint64_t partition = 0;
    std::array<Volume, 2> volumes;  // the one that is written, and the one before
  };

  const Shelf* of(std::uint64_t partition) const;

  std::list<Shelf> shelves_;  // the one that was added to last is the first
  std::uint64_t numbers_ = 0;
};

}  // namespace quern::engine::detail
