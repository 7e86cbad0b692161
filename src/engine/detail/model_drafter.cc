#include "engine/detail/model_drafter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/faults.h"

namespace quern::engine::detail {
namespace {

constexpr std::int64_t kNearlyThere = 16;  // tokens that are read at once, whatever others read

}  // namespace

ModelDrafter::ModelDrafter(const Limits& limits, Compute compute)
    : limits_(limits), compute_(std::move(compute)), pool_(limits.blocks), rows_(static_cast<std::size_t>(limits.rows)) {
  const auto rows = static_cast<std::size_t>(limits.rows);
  tables_.reserve(rows);
  for (std::size_t row = 0; row < rows; ++row) tables_.emplace_back(pool_, limits.block_tokens, limits.max_blocks_per_sequence);
  block_table_.resize(rows * static_cast<std::size_t>(limits.max_blocks_per_sequence), 0);
  const std::size_t tokens = rows * static_cast<std::size_t>(kNearlyThere) + static_cast<std::size_t>(limits.piece);
  for (auto* list : {&ids_, &positions_, &sequence_, &slots_}) list->reserve(tokens);
  wanted_.reserve(rows);
  drafting_.reserve(rows);
}

/// Leading tokens of the sequence, all but the last, that its row has.
std::int64_t ModelDrafter::agreed(const Sequence& sequence) const {
  const Row& row = rows_[static_cast<std::size_t>(sequence.row)];
  const std::span<const std::int32_t> tokens = sequence.tokens();
  const std::size_t most = std::min(row.tokens.size(), tokens.size() - 1);
  // A sequence only ever grows.
  std::size_t same = row.arrival == sequence.arrival ? std::min(static_cast<std::size_t>(row.agreed), most) : 0;
  while (same < most && row.tokens[same] == tokens[same]) ++same;
  return static_cast<std::int64_t>(same);
}

double ModelDrafter::predict(const StepWork& work, const StepCost& model) const {
  const double learned = cost_.predict(work);
  return learned > 0 ? learned : limits_.relative_cost * model.predict(work);
}

void ModelDrafter::forget(std::int32_t row) {
  tables_[static_cast<std::size_t>(row)].clear();
  rows_[static_cast<std::size_t>(row)].tokens.clear();
}

/// The row keeps `known` tokens and gets places for `count` more; false when there is no room.
bool ModelDrafter::make_places(std::int32_t row, std::int64_t known, std::int64_t count) {
  kvcache::BlockTable& table = tables_[static_cast<std::size_t>(row)];
  table.truncate(known);
  rows_[static_cast<std::size_t>(row)].tokens.resize(static_cast<std::size_t>(known));
  while (table.blocks_needed(count) > pool_.free_blocks()) {
    std::int32_t oldest = -1;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(rows_.size()); ++i) {
      const Row& other = rows_[static_cast<std::size_t>(i)];
      if (other.used == calls_ || tables_[static_cast<std::size_t>(i)].blocks().empty()) continue;
      if (oldest < 0 || other.used < rows_[static_cast<std::size_t>(oldest)].used) oldest = i;
    }
    if (oldest < 0) return false;
    forget(oldest);
  }
  std::optional<kvcache::BlockCopy> copy;  // no blocks are shared
  if (!table.append(count, copy)) return false;
  std::ranges::copy(table.blocks(), block_table_.begin() + row * limits_.max_blocks_per_sequence);
  return true;
}

/// The row's next token joins the step.
void ModelDrafter::add(std::int32_t row, std::int32_t id) {
  std::vector<std::int32_t>& tokens = rows_[static_cast<std::size_t>(row)].tokens;
  const auto position = static_cast<std::int32_t>(tokens.size());
  ids_.push_back(id);
  positions_.push_back(position);
  sequence_.push_back(row);
  slots_.push_back(tables_[static_cast<std::size_t>(row)].slot(position));
  tokens.push_back(id);
}

/// The first small step: all that these sequences have that their rows do not.
void ModelDrafter::start(std::span<const Wish> wishes) {
  std::int64_t left = limits_.piece;
  for (const Wish& wish : wishes) {
    const Sequence& sequence = *wish.sequence;
    const std::int64_t known = agreed(sequence), lag = sequence.size() - known, now = lag <= kNearlyThere ? lag : std::min(lag, left);
    const bool draws = now == lag && wish.most > 0;
    if (now == 0 || !make_places(sequence.row, known, now + (draws ? wish.most - 1 : 0))) continue;
    Row& row = rows_[static_cast<std::size_t>(sequence.row)];
    row.tokens.reserve(static_cast<std::size_t>(limits_.max_blocks_per_sequence * limits_.block_tokens));
    row.arrival = sequence.arrival;
    row.agreed = known + now;
    for (std::int64_t i = known; i < known + now; ++i) add(sequence.row, sequence.tokens()[static_cast<std::size_t>(i)]);
    if (lag > kNearlyThere) {
      left -= now;
      work_.prompt_tokens += now;
      work_.prompt_keys += double(now) * (double(known) + 0.5 * double(now));
    } else {
      work_.rows += now;
      work_.row_keys += now * sequence.size();
    }
    if (!draws) continue;
    wanted_.push_back(static_cast<std::int32_t>(ids_.size()) - 1);
    drafting_.push_back(wish);
  }
}

/// One small step, and the next guess of each that is drafting. Those that want no more are drafting no longer.
void ModelDrafter::compute(sampling::Workspace& workspace) {
  const auto begin = limits_.now();
  if (faults::due(faults::Point::draft)) throw Error(Code::internal, "QUERN_FAULTS asks for the draft to fail");
  const std::span<const float> logits = compute_({ids_, positions_, sequence_, slots_, block_table_, wanted_});
  QUERN_ASSERT(logits.size() == wanted_.size() * static_cast<std::size_t>(limits_.vocabulary));
  for (std::size_t i = 0; i < drafting_.size(); ++i) {
    const std::span<const float> row = logits.subspan(i * static_cast<std::size_t>(limits_.vocabulary));
    const bool ends = drafting_[i].sequence->guess_next(row.first(static_cast<std::size_t>(limits_.tokens_known)), workspace);
    if (ends) drafting_[i].most = 0;
  }
  cost_.observe(work_, std::chrono::duration<double>(limits_.now() - begin).count());
  std::erase_if(drafting_, [](const Wish& wish) { return std::ssize(wish.sequence->guesses) >= wish.most; });
}

void ModelDrafter::guess(std::span<const Wish> wishes, sampling::Workspace& workspace) {
  ++calls_;
  const auto begin_step = [&] {
    for (auto* list : {&ids_, &positions_, &sequence_, &slots_, &wanted_}) list->clear();
    work_ = {};
  };
  begin_step();
  drafting_.clear();
  for (const Wish& wish : wishes) {
    wish.sequence->guesses.clear();
    rows_[static_cast<std::size_t>(wish.sequence->row)].used = calls_;
  }
  try {
    start(wishes);
    if (ids_.empty()) return;
    compute(workspace);
    while (!drafting_.empty()) {
      begin_step();
      for (const Wish& wish : drafting_) {
        const Sequence& sequence = *wish.sequence;
        add(sequence.row, sequence.guesses.back());
        wanted_.push_back(static_cast<std::int32_t>(ids_.size()) - 1);
        ++work_.rows;
        work_.row_keys += sequence.size() + std::ssize(sequence.guesses);
      }
      compute(workspace);
    }
  } catch (...) {
    for (const Wish& wish : wishes) {
      wish.sequence->guesses.clear();
      forget(wish.sequence->row);
    }
    throw;
  }
}

}  // namespace quern::engine::detail
