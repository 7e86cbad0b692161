// Beam searches in the batcher: each live beam is a sequence with a row of the block table, and beams share the blocks of what they have in
// common. The block in which they part is copied by the first to write into it.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "engine/detail/batcher.h"

namespace quern::engine::detail {

void Batcher::advance_searches() {
  std::vector<Sequence*> leaders;  // stays empty, and takes no memory, without searches
  for (const auto& sequence : running_) {
    const BeamGroup* group = sequence->group();
    if (group == nullptr || sequence->is_extra_beam() || group->ended || group->offered == 0) continue;
    if (group->offered == group->live.size()) leaders.push_back(sequence.get());
  }
  for (Sequence* leader : leaders) {
    try {
      advance(*leader);
    } catch (const std::bad_alloc&) {
      leader->fail(Code::resource_exhausted, "no memory for the beams of the request");
    }
  }
}

/// A sequence for each beam of the next step. Of those that go on from one beam, the first stays in its place.
void Batcher::advance(Sequence& leader) {
  BeamGroup& group = *leader.group();
  const auto tokens = static_cast<std::int64_t>(std::exchange(group.offered, 0));
  done_.generated_tokens += tokens;
  waiting_.charge(leader.tenant(), waiting_.kAnswerToken * static_cast<double>(tokens));
  const auto steps = group.search.advance(std::span(group.offers).first(group.live.size()));
  if (steps.empty()) {
    leader.finish_search();
    return;
  }
  std::vector<Sequence*> next(steps.size(), nullptr), idle;
  for (std::size_t parent = 0; parent < group.live.size(); ++parent) {
    const auto first = std::find_if(steps.begin(), steps.end(), [&](const BeamSearch::Step& s) { return s.parent == parent; });
    if (first != steps.end()) {
      next[static_cast<std::size_t>(first - steps.begin())] = group.live[parent];
    } else {
      idle.push_back(group.live[parent]);
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (next[i] != nullptr) continue;
    if (idle.empty()) {
      next[i] = another_beam(leader);
    } else {
      next[i] = idle.back();
      idle.pop_back();
    }
    become(*next[i], *group.live[steps[i].parent]);
  }
  if (const auto it = std::find(idle.begin(), idle.end(), &leader); it != idle.end()) {  // the leader lasts as long as the search
    become(leader, *next.front());
    std::swap(*it, next.front());
  }
  for (Sequence* beam : idle) leave_search(*beam);
  for (std::size_t i = 0; i < steps.size(); ++i) next[i]->extend(steps[i].id);
  group.live = std::move(next);
}

Sequence* Batcher::another_beam(const Sequence& leader) {
  auto beam = std::make_unique<Sequence>(leader);
  beam->row = leader.group()->rows.back();
  leader.group()->rows.pop_back();
  Sequence* const added = beam.get();
  // Behind those of its group; the list has room for a sequence a row.
  const auto after = std::upper_bound(running_.begin(), running_.end(), beam, stands_before);
  running_.insert(after, std::move(beam));
  return added;
}

void Batcher::become(Sequence& beam, const Sequence& parent) {
  clear_row(beam.row);
  share(beam.row, parent.row);
  beam.follow(parent);
  beam.computed = parent.computed;
  beam.known_blocks = parent.known_blocks;
  beam.known = parent.known;
}

/// The search goes on with fewer beams; the row is kept for others.
void Batcher::leave_search(Sequence& beam) {
  give_back(beam);
  beam.group()->rows.push_back(free_rows_.back());
  free_rows_.pop_back();
}

}  // namespace quern::engine::detail
