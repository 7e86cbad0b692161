// Guessed tokens in the batcher: their places in a step, in two rows of the block table where there are two guesses, and what came of them.
#include <algorithm>
#include <utility>

#include "engine/detail/batcher.h"

namespace quern::engine::detail {

/// A row of every request that waits for its next token, and guesses.
void Batcher::add_answers() {
  answers_.clear();
  for (const auto& sequence : running_) {
    if (sequence->pending() != 1) continue;
    ++work_.rows;
    work_.row_keys += sequence->size();
    if (has_window_places(*sequence, 1)) answers_.push_back(sequence.get());
  }
  const double begin = now();
  if (limits_.most_guesses > 0) speculation_.guess(answers_, work_, cost_, workspace_);
  guess_seconds_ = now() - begin;
  for (Sequence* sequence : answers_) {
    place_guesses(*sequence);
    const std::int64_t guesses = std::ssize(sequence->guesses) + std::ssize(sequence->other_guesses),
                       rows = guesses + (sequence->branch >= 0 ? 1 : 0);
    work_.rows += rows;
    work_.row_keys += sequence->size() * rows;
    sequence->guessed += guesses;
    done_.guessed_tokens += guesses;
    if (sequence->drafted) done_.drafted_tokens += guesses;
    add_rows(*sequence, 1);
  }
}

/// Places for its guesses, or it has none: a guess is not worth sending somebody back.
void Batcher::place_guesses(Sequence& sequence) {
  if (!sequence.other_guesses.empty() && !place_branch(sequence)) sequence.other_guesses.clear();
  const auto guesses = static_cast<std::int64_t>(sequence.guesses.size());
  if (guesses == 0) return;
  const std::int64_t needed = tables_[static_cast<std::size_t>(sequence.row)].blocks_needed(guesses);
  if (needed <= pool_.free_blocks() + pool_.idle_blocks() && has_window_places(sequence, 1 + guesses) && append(sequence.row, guesses))
    return;
  sequence.guesses.clear();
  if (window_) window_->truncate(sequence.row, sequence.size());
}

/// A row of the block table for the other guesses, which begins with a copy of what the last token's block has before it.
bool Batcher::place_branch(Sequence& sequence) {
  const std::int64_t before = sequence.size() - 1, tokens = 1 + std::ssize(sequence.other_guesses);
  // A block that the last token completes becomes known to others as it is in the sequence's own row.
  if (free_rows_.empty() || sequence.size() % limits_.block_tokens == 0) return false;
  const std::int32_t row = free_rows_.back();
  share(row, sequence.row);
  tables_[static_cast<std::size_t>(row)].truncate(before);
  if (window_) window_->truncate(row, before);
  const std::int64_t needed = tables_[static_cast<std::size_t>(row)].blocks_needed(tokens);
  if (needed > pool_.free_blocks() + pool_.idle_blocks() || (window_ && !window_->grow(row, before + tokens)) || !append(row, tokens)) {
    clear_row(row);
    return false;
  }
  free_rows_.pop_back();
  sequence.branch = row;
  return true;
}

/// The next tokens of a request, from its rows [1 + guesses + other guesses, vocabulary]: one, and one more for each guess that was right.
/// True when that ended it.
bool Batcher::draw(Sequence& sequence, std::span<const float> logits) {
  if (sequence.group() != nullptr) {
    sequence.offer(logits.first(static_cast<std::size_t>(limits_.tokens_known)), workspace_);
    return false;
  }
  for (std::size_t depth = 0, row = 0;; ++depth) {
    const bool ended = sequence.advance(
        logits.subspan(row * static_cast<std::size_t>(limits_.vocabulary), static_cast<std::size_t>(limits_.tokens_known)), workspace_);
    ++done_.generated_tokens;
    waiting_.charge(sequence.tenant(), waiting_.kAnswerToken);
    const std::int32_t id = sequence.tokens().back();
    speculation_.learn(sequence, depth, id);
    if (ended) return true;
    const auto came_true = [&](const std::vector<std::int32_t>& guesses) { return depth < guesses.size() && guesses[depth] == id; };
    if (depth == 0 && !came_true(sequence.guesses) && came_true(sequence.other_guesses)) {
      sequence.branched = true;
      row = sequence.guesses.size();
    }
    if (!came_true(sequence.branched ? sequence.other_guesses : sequence.guesses)) break;
    ++row;
    ++sequence.computed;
    ++sequence.guessed_right;
    ++done_.accepted_guesses;
    if (sequence.drafted) ++done_.accepted_drafts;
  }
  sequence.flush();
  return false;
}

/// Nothing is left of its guesses but the tokens that came true.
void Batcher::end_guesses(Sequence& sequence) {
  sequence.guesses.clear();
  sequence.other_guesses.clear();
  sequence.said = {-1, -1};
  if (sequence.branch < 0) return;
  if (sequence.branched) std::swap(sequence.row, sequence.branch);
  sequence.branched = false;
  clear_row(sequence.branch);
  free_rows_.push_back(std::exchange(sequence.branch, -1));
}

}  // namespace quern::engine::detail
