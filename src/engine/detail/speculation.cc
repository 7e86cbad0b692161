#include "engine/detail/speculation.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

namespace quern::engine::detail {
namespace {

constexpr double kRow = 0.1, kDraft = 0.2;  // shares of a step that a row adds, and a drafter's step takes: when times are not to count
constexpr double kLearn = 0.15, kLearnOfAll = 0.02;  // weight of the newest guess in how often they are right, of a sequence and of all
constexpr double kMargin = 1.4;                      // times what a look-up's guess costs it must promise: both are estimates
constexpr double kTrusted = 0.5;                     // a text that is right so often is not improved upon
constexpr std::int64_t kAtHand = 16;                 // tokens that a drafter reads without being asked whether it is worth it
constexpr double kAllowance = 0.015;                 // of all time, for guesses
constexpr double kReading = 0.01;                    // of all time, beside half of what was saved, for reading
constexpr double kStart = 3, kMostSaved = 64;        // steps, of the account
constexpr double kPays = 1.03;                       // times as many tokens a second, or it is noise
constexpr double kHope = 0.8;                        // how often the drafter may be right when it is tried again …
constexpr std::int64_t kFew = 2;                     // guesses then …
constexpr int kTry = 6;                              // … for so many steps
constexpr int kFailures = 3;                         // in a row, then it is switched off

}  // namespace

void Speculation::draft_with(std::unique_ptr<Drafter> drafter, std::function<void(std::string_view)> note) {
  drafter_ = std::move(drafter);
  note_ = std::move(note);
}

double Speculation::step_seconds(const StepWork& work, const StepCost& cost) const {
  return limits_.timed ? cost.predict(work) : 1 + kRow * double(work.rows - 1);
}

double Speculation::draft_seconds(const StepWork& work, const StepCost& cost) const {
  return limits_.timed ? drafter_->predict(work, cost) : kDraft * (1 + kRow * double(work.rows + work.prompt_tokens - 1));
}

/// As many guesses as pay: each must bring more tokens for its time than the step does without.
void Speculation::look_up(Sequence& sequence, const StepWork& work, const StepCost& cost) {
  StepWork more = work;
  ++more.rows;
  more.row_keys += sequence.size();
  const double alone = limits_.timed ? cost.predict(work) : 0, share = alone > 0 ? cost.predict(more) / alone - 1 : kRow;
  const double least = std::max(0.05, kMargin * double(work.rows) * share);  // the least chance that is worth a row
  if (least >= 1) return;
  const std::array<PromptLookup::Place, 2> found = sequence.look_up(limits_.past ? &past_ : nullptr);
  for (std::size_t i = 0; i < found.size() && found[i].matched > 0; ++i) {
    sequence.places[i] = {found[i].matched, found[i].past};
    sequence.said[i] = found[i].following.front();
  }
  if (sequence.said[0] < 0) return;
  const std::int64_t most = std::min(limits_.most_guesses, sequence.room() - 1);
  std::int64_t count = 0;
  for (double chance = 1; count < most; ++count) {
    chance *= sequence.lookup_trust.first(found[0], count);
    if (chance <= least) break;
  }
  found[0].copy(count, sequence.guesses);
  if (count == 0 || sequence.said[1] < 0) return;
  double chance = (1 - sequence.lookup_trust.first(found[0], 0)) * sequence.lookup_trust.other(found[1]), gain = 0;
  const std::int64_t first_row = count + 1;  // that of the last token, once more
  for (count = 0; first_row + count < most && chance > least; ++count) {
    gain += chance;
    chance *= sequence.lookup_trust.first(found[1], count + 1);
  }
  if (gain > double(count + 1) * least) found[1].copy(count, sequence.other_guesses);
}

void Speculation::guess(std::span<Sequence* const> waiting, const StepWork& work, const StepCost& cost, sampling::Workspace& workspace) {
  for (Sequence* sequence : waiting) {
    sequence->drafted = false;
    sequence->said = {-1, -1};
    if (sequence->draft_trust < 0) sequence->lookup_trust = lookup_trust_, sequence->draft_trust = trust_;
    if (sequence->room() < 2 || sequence->generated() == 0 || sequence->group() != nullptr) continue;
    if (limits_.lookup) look_up(*sequence, work, cost);
  }
  if (drafter_) draft(waiting, work, cost, workspace);
}

/// How many guesses of each of these, who need read no more for it, bring the most tokens a second. A guess that is right with a chance of
/// 0.6 is followed by one with 0.36, and so on.
Speculation::Plan Speculation::plan(std::span<const Drafter::Wish> wishes, const StepWork& work, const StepCost& cost,
                                    std::optional<double> trust) const {
  const double alone = step_seconds(work, cost), rate = double(work.rows) / alone;
  Plan best;
  if (!(alone > 0)) return best;
  double tokens = double(work.rows), small = 0;
  StepWork with = work;
  for (std::int64_t depth = 1; depth <= limits_.most_guesses; ++depth) {
    StepWork step;
    for (const Drafter::Wish& wish : wishes) {
      if (wish.most < depth) continue;
      ++step.rows;
      step.row_keys += wish.sequence->size();
      tokens += std::pow(trust.value_or(wish.sequence->draft_trust), double(depth));
    }
    if (step.rows == 0) break;
    small += draft_seconds(step, cost);
    with.rows += step.rows;
    with.row_keys += step.row_keys;
    const double seconds = small + step_seconds(with, cost),
                 gain = tokens / rate - seconds;  // against those tokens, one step after another
    if (tokens / seconds > kPays * rate && gain / seconds > best.gain / (alone + best.seconds)) best = {depth, gain, seconds - alone};
  }
  return best;
}

/// Whether it pays to have the drafter read what a sequence has that it does not know, when that saves `gain` seconds a step: an answer is
/// taken to go on for as long as it has gone, or 64 tokens.
bool Speculation::worth_reading(const Sequence& sequence, double gain, const StepWork& work, const StepCost& cost) {
  const std::int64_t lag = drafter_->lag(sequence);
  const StepWork reading{.prompt_tokens = lag, .prompt_keys = double(lag) * (double(sequence.size()) - 0.5 * double(lag))};
  const double price = draft_seconds(reading, cost), alone = step_seconds(work, cost);
  if (limits_.timed && invested_ + price > kReading * alone_ + 0.5 * saved_ + kStart * alone) return false;
  const double ahead = double(std::min(std::max<std::int64_t>(64, sequence.generated()), sequence.room()));
  const double of_a_step = 1 + gain * double(work.rows) / alone;  // tokens, about
  if (ahead / of_a_step * gain < price) return false;
  if (limits_.timed) invested_ += price;
  return true;
}

void Speculation::draft(std::span<Sequence* const> waiting, const StepWork& work, const StepCost& cost, sampling::Workspace& workspace) {
  const bool always = limits_.draft_tokens > 0;
  const double alone = step_seconds(work, cost);
  if (!always && !(alone > 0)) return;
  if (limits_.timed) {
    if (alone_ == 0) balance_ = kStart * alone;
    alone_ += alone;
    balance_ = std::min(balance_ + kAllowance * alone, kMostSaved * alone);
    token_ = alone / double(std::max<std::int64_t>(work.rows, 1));
  }
  const std::int64_t most = always ? std::min(limits_.draft_tokens, limits_.most_guesses) : limits_.most_guesses;
  ready_.clear();
  behind_.clear();
  wishes_.clear();
  for (Sequence* sequence : waiting) {
    if (sequence->generated() == 0 || sequence->group() != nullptr) continue;
    if (!sequence->guesses.empty() && sequence->lookup_trust.first(sequence->places[0], 0) >= kTrusted) continue;
    const Drafter::Wish wish{sequence, std::min({most, sequence->room() - 1, drafter_->context() - sequence->size()})};
    if (wish.most <= 0) continue;
    (always || drafter_->lag(*sequence) <= kAtHand ? ready_ : behind_).push_back(wish);
  }
  if (!behind_.empty() && balance_ >= 0) {
    // Small steps are shared, so what it saves to have one more that guesses is seen from all together.
    const std::size_t here = ready_.size();
    ready_.insert(ready_.end(), behind_.begin(), behind_.end());
    const double gain = plan(ready_, work, cost).gain / double(ready_.size());
    ready_.resize(here);
    for (const Drafter::Wish& wish : behind_)
      if (gain > 0 && worth_reading(*wish.sequence, gain, work, cost)) wishes_.push_back({wish.sequence, 0});
  }
  double price = 0;
  if (always) {
    wishes_ = ready_;
  } else if (!ready_.empty() && balance_ >= 0) {
    Plan plan = this->plan(ready_, work, cost);
    if (plan.most > 0) {
      trying_ = 0;
    } else if (trying_ > 0 || balance_ > kStart * alone) {
      // Texts change: now and then it is seen whether it would pay by now, if it can at all.
      plan = this->plan(ready_, work, cost, kHope);
      if (plan.most > kFew) plan = {kFew, plan.gain, plan.seconds * double(kFew) / double(plan.most)};
      trying_ = trying_ > 0 ? trying_ - 1 : kTry;
    }
    for (const Drafter::Wish& wish : ready_)
      if (plan.most > 0) wishes_.push_back({wish.sequence, std::min(wish.most, plan.most)});
    price = plan.seconds;
  }
  if (wishes_.empty()) return;
  if (limits_.timed) balance_ -= price;
  run(workspace);
}

void Speculation::run(sampling::Workspace& workspace) {
  try {
    drafter_->guess(wishes_, workspace);
    failed_ = 0;
  } catch (const std::exception& error) {
    if (++failed_ == kFailures) {
      drafter_.reset();
      if (note_) note_("the draft model is used no more: " + std::string(error.what()));
    }
  }
  for (const Drafter::Wish& wish : wishes_) {
    wish.sequence->drafted = !wish.sequence->guesses.empty();
    wish.sequence->other_guesses.clear();
  }
}

void Speculation::learn(Sequence& sequence, std::size_t depth, std::int32_t id) {
  const auto weigh = [&](auto learn) { learn(sequence.lookup_trust, kLearn), learn(lookup_trust_, kLearnOfAll); };
  const std::vector<std::int32_t>& guesses = sequence.branched ? sequence.other_guesses : sequence.guesses;
  const bool guessed = depth < guesses.size(), right = guessed && guesses[depth] == id;
  if (depth == 0 && sequence.said[0] >= 0) {
    const bool said = sequence.said[0] == id;
    weigh([&](LookupTrust& trust, double weight) { trust.learn_first(sequence.places[0], 0, said, weight); });
    if (!said && sequence.said[1] >= 0)
      weigh([&](LookupTrust& trust, double weight) { trust.learn_other(sequence.places[1], sequence.said[1] == id, weight); });
  } else if (guessed && !sequence.drafted) {
    const auto at = static_cast<std::int64_t>(depth);
    weigh([&](LookupTrust& trust, double weight) { trust.learn_first(sequence.places[sequence.branched ? 1 : 0], at, right, weight); });
  }
  if (!guessed || !sequence.drafted) return;
  sequence.draft_trust += kLearn * ((right ? 1 : 0) - sequence.draft_trust);
  trust_ += kLearnOfAll * ((right ? 1 : 0) - trust_);
  if (!right) return;
  saved_ += token_;
  if (limits_.timed) balance_ += token_;
}

void Speculation::ended(const Sequence& sequence) {
  if (limits_.lookup && limits_.past && limits_.most_guesses > 0) past_.add(sequence.partition(), sequence.tokens(), sequence.generated());
}

}  // namespace quern::engine::detail
