#pragma once

#include <cstdint>
#include <vector>

namespace quern::engine::detail {

/// Knows every piece of a text that grows at its end, and where each stood last: what a reader of another text, or of this one, has just
/// read is found in it at the cost of a token, however long it is.
/// Takes about 100 bytes a token. Source: Blumer et al., The smallest automaton recognizing the subwords of a text, 1985.
class SuffixAutomaton {
 public:
  /// Errors: std::bad_alloc; then it is of no use until clear().
  void append(std::int32_t token);
  /// Tokens.
  std::int64_t size() const { return size_; }
  void clear();

  /// The last `length` tokens that somebody read stand in the text, too, and no longer end of them does. Stays good while the text grows.
  struct Cursor {
    std::int32_t state = 0, length = 0;
  };
  /// After one more token.
  Cursor next(Cursor cursor, std::int32_t token) const;
  /// Of the text itself, read to its end: where else its end stood.
  Cursor end() const;
  /// The next shorter end of what was read that stood in places where the longer one did not; of length 0: none.
  Cursor shorter(Cursor cursor) const;
  /// The latest place where that stood (by and large, of short pieces): tokens of the text up to and with it. 0 when the length is 0.
  std::int64_t place(Cursor cursor) const;

 private:
  struct State {
    std::int32_t length, link, latest, edges;  // the longest piece; its longest end in another state; where it ends; first edge, -1: none
  };
  struct Edge {
    std::int32_t from, token, to, next;
  };

  std::int32_t add_state(std::int32_t length, std::int32_t link, std::int32_t latest);
  std::size_t home(std::int32_t from, std::int32_t token) const;
  std::int32_t find(std::int32_t from, std::int32_t token) const;
  void add_edge(std::int32_t from, std::int32_t token, std::int32_t to);
  Cursor settled(Cursor cursor) const;

  std::vector<State> states_;  // none before the first token
  std::vector<Edge> edges_;
  std::vector<std::int32_t> places_;  // open addressing by (from, token): 1 + edge, 0: free
  std::int32_t last_ = 0;             // the state of the whole text
  std::int64_t size_ = 0;
};

}  // namespace quern::engine::detail
