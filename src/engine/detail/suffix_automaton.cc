#include "engine/detail/suffix_automaton.h"

#include <random>

namespace quern::engine::detail {
namespace {

constexpr int kTold = 16;  // pieces that hear where they stood last, the longest first: all would take as long as the text repeats itself

/// Of this process, so that nobody can choose tokens that all meet in one place.
std::uint64_t seed() {
  static const std::uint64_t value = std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  return value;
}

}  // namespace

void SuffixAutomaton::clear() {
  states_.clear();
  edges_.clear();
  places_.clear();
  last_ = 0;
  size_ = 0;
}

std::int32_t SuffixAutomaton::add_state(std::int32_t length, std::int32_t link, std::int32_t latest) {
  states_.push_back({length, link, latest, -1});
  return static_cast<std::int32_t>(states_.size()) - 1;
}

std::size_t SuffixAutomaton::home(std::int32_t from, std::int32_t token) const {
  std::uint64_t x = (std::uint64_t{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(token)) ^ seed();
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  return static_cast<std::size_t>(x >> 32) & (places_.size() - 1);
}

/// The edge, -1: there is none.
std::int32_t SuffixAutomaton::find(std::int32_t from, std::int32_t token) const {
  for (std::size_t i = home(from, token); places_[i] != 0; i = (i + 1) & (places_.size() - 1)) {
    const Edge& edge = edges_[static_cast<std::size_t>(places_[i] - 1)];
    if (edge.from == from && edge.token == token) return places_[i] - 1;
  }
  return -1;
}

void SuffixAutomaton::add_edge(std::int32_t from, std::int32_t token, std::int32_t to) {
  const auto place = [&](const Edge& edge, std::size_t index) {
    std::size_t i = home(edge.from, edge.token);
    while (places_[i] != 0) i = (i + 1) & (places_.size() - 1);
    places_[i] = static_cast<std::int32_t>(index) + 1;
  };
  if (2 * edges_.size() >= places_.size()) {
    places_.assign(2 * places_.size(), 0);
    for (std::size_t i = 0; i < edges_.size(); ++i) place(edges_[i], i);
  }
  State& state = states_[static_cast<std::size_t>(from)];
  edges_.push_back({from, token, to, state.edges});
  state.edges = static_cast<std::int32_t>(edges_.size()) - 1;
  place(edges_.back(), edges_.size() - 1);
}

void SuffixAutomaton::append(std::int32_t token) {
  if (states_.empty()) {
    places_.assign(64, 0);
    add_state(0, -1, 0);
  }
  const auto state = [&](std::int32_t i) -> State& { return states_[static_cast<std::size_t>(i)]; };
  const auto edge = [&](std::int32_t i) -> Edge& { return edges_[static_cast<std::size_t>(i)]; };
  // Only now, so that end() found where they stood before.
  std::int32_t piece = state(last_).link;
  for (int told = 0; piece > 0 && told < kTold; ++told, piece = state(piece).link) state(piece).latest = static_cast<std::int32_t>(size_);

  ++size_;
  const std::int32_t whole = add_state(state(last_).length + 1, 0, static_cast<std::int32_t>(size_));
  std::int32_t end = last_, found = -1;
  for (; end >= 0 && (found = find(end, token)) < 0; end = state(end).link) add_edge(end, token, whole);
  last_ = whole;
  if (end < 0) return;
  const std::int32_t to = edge(found).to;
  if (state(to).length == state(end).length + 1) {
    state(whole).link = to;
    return;
  }
  // Shorter pieces of `to` now stand where its longer ones do not: they get a state of their own.
  const std::int32_t shorter = add_state(state(end).length + 1, state(to).link, state(to).latest);
  for (std::int32_t i = state(to).edges; i >= 0; i = edge(i).next) add_edge(shorter, edge(i).token, edge(i).to);
  for (; end >= 0 && (found = find(end, token)) >= 0 && edge(found).to == to; end = state(end).link) edge(found).to = shorter;
  state(to).link = state(whole).link = shorter;
}

/// Its state may have been split since.
SuffixAutomaton::Cursor SuffixAutomaton::settled(Cursor cursor) const {
  for (std::int32_t link; cursor.state != 0; cursor.state = link) {
    link = states_[static_cast<std::size_t>(cursor.state)].link;
    if (states_[static_cast<std::size_t>(link)].length < cursor.length) break;
  }
  return cursor;
}

SuffixAutomaton::Cursor SuffixAutomaton::next(Cursor cursor, std::int32_t token) const {
  if (states_.empty()) return {};
  for (cursor = settled(cursor);; cursor = shorter(cursor)) {
    if (const std::int32_t edge = find(cursor.state, token); edge >= 0)
      return {edges_[static_cast<std::size_t>(edge)].to, cursor.length + 1};
    if (cursor.state == 0) return {};
  }
}

SuffixAutomaton::Cursor SuffixAutomaton::end() const {
  return states_.empty() ? Cursor{} : shorter({last_, static_cast<std::int32_t>(size_)});
}

SuffixAutomaton::Cursor SuffixAutomaton::shorter(Cursor cursor) const {
  if (cursor.length == 0) return {};
  const std::int32_t link = states_[static_cast<std::size_t>(settled(cursor).state)].link;
  return link <= 0 ? Cursor{} : Cursor{link, states_[static_cast<std::size_t>(link)].length};
}

std::int64_t SuffixAutomaton::place(Cursor cursor) const {
  return cursor.length == 0 ? 0 : states_[static_cast<std::size_t>(settled(cursor).state)].latest;
}

}  // namespace quern::engine::detail
