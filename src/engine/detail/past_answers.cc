#include "engine/detail/past_answers.h"

#include <algorithm>
#include <new>
#include <utility>

namespace quern::engine::detail {
namespace {

constexpr std::int64_t kVolume = 16384;  // tokens
constexpr std::size_t kShelves = 4;
constexpr std::int64_t kAsked = 32;  // tokens of the question that are kept: who asks it again finds the answer by them
constexpr std::int64_t kShort = 4;   // an answer that is not worth it

}  // namespace

const PastAnswers::Shelf* PastAnswers::of(std::uint64_t partition) const {
  const auto it = std::ranges::find(shelves_, partition, &Shelf::partition);
  return it == shelves_.end() ? nullptr : &*it;
}

void PastAnswers::add(std::uint64_t partition, std::span<const std::int32_t> text, std::int64_t answer) noexcept {
  if (answer < kShort) return;
  const auto count = static_cast<std::size_t>(std::min({answer + kAsked, std::ssize(text), kVolume / 2}));
  try {
    const auto it = std::ranges::find(shelves_, partition, &Shelf::partition);
    if (it != shelves_.end()) {
      shelves_.splice(shelves_.begin(), shelves_, it);
    } else {
      shelves_.emplace_front().partition = partition;
      if (shelves_.size() > kShelves) shelves_.pop_back();
    }
    std::array<Volume, 2>& volumes = shelves_.front().volumes;
    if (volumes[0].number == 0 || std::ssize(volumes[0].text) + static_cast<std::int64_t>(count) >= kVolume) {
      std::swap(volumes[0], volumes[1]);
      volumes[0].number = ++numbers_;
      volumes[0].pieces.clear();
      volumes[0].text.clear();
    }
    Volume& volume = volumes[0];
    const auto append = [&](std::int32_t token) {
      volume.text.push_back(token);
      volume.pieces.append(token);
    };
    std::ranges::for_each(text.last(count), append);
    append(-1 - static_cast<std::int32_t>(volume.text.size()));
  } catch (const std::bad_alloc&) {
    shelves_.clear();
  }
}

PastAnswers::Place PastAnswers::find(std::uint64_t partition, std::span<const std::int32_t> text, Reader& reader) const {
  const Shelf* const shelf = of(partition);
  if (shelf == nullptr) return {};
  if (reader.read < 0) reader.read = std::max<std::int64_t>(std::ssize(text) - kAsked, 0);
  std::array<SuffixAutomaton::Cursor, 2> cursors = {};
  for (std::size_t i = 0; i < 2; ++i) {
    const Volume& volume = shelf->volumes[i];
    if (volume.number == 0) continue;
    const auto known = std::ranges::find(reader.volumes, volume.number);
    if (known != reader.volumes.end()) cursors[i] = reader.cursors[static_cast<std::size_t>(known - reader.volumes.begin())];
    for (const std::int32_t token : text.subspan(static_cast<std::size_t>(reader.read))) cursors[i] = volume.pieces.next(cursors[i], token);
  }
  reader = {{shelf->volumes[0].number, shelf->volumes[1].number}, cursors, std::ssize(text)};
  const std::size_t best = cursors[1].length > cursors[0].length ? 1 : 0;
  if (cursors[best].length == 0) return {};
  const Volume& volume = shelf->volumes[best];
  const std::span rest = std::span(volume.text).subspan(static_cast<std::size_t>(volume.pieces.place(cursors[best])));
  return {cursors[best].length, {rest.begin(), std::ranges::find_if(rest, [](std::int32_t token) { return token < 0; })}};
}

}  // namespace quern::engine::detail
