#include "tokenizers/detail/regex.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizers/detail/regex_program.h"
#include "tokenizers/detail/scratch_pool.h"

namespace quern::tokenizers::detail {
namespace {

using Instruction = RegexInstruction;
using Op = Instruction::Op;
using Kind = RegexNode::Kind;

// Matching tries one way after the other and goes back where one fails. That is quick for sane patterns, and exponential for others: so
// steps are counted, and where there are too many of them matching goes on with a memory of every (choice, place) that led nowhere. Where a
// match began does not matter to that, so the memory serves the whole text and the time is linear in it.
class Matcher {
 public:
  void begin(const RegexProgram& program, std::string_view text) {
    program_ = &program;
    text_ = text.data();
    end_ = text_ + text.size();
    careful_ = false;
    budget_ = kFirstSteps;
    registers_.assign(program.registers, 0);
    long_runs_.clear();
  }

  // The first match that begins at `from` or later.
  bool find(std::uint32_t from, std::uint32_t& begin, std::uint32_t& match_end) {
    const char* p = text_ + from;
    for (;; p += character_length(*p)) {
      while (p < end_ && !program_->first.allows(p, end_)) p += character_length(*p);
      if (p == end_ && !program_->first.end) return false;
      begin = static_cast<std::uint32_t>(p - text_);
      if (try_at(begin, match_end)) {
        budget_ += kStepsPerByte * (match_end - from);
        return true;
      }
      if (p == end_) return false;
    }
  }

  void trim() {
    constexpr std::size_t kKept = 1 << 16;
    if (stack_.capacity() > kKept) stack_ = {};
    dead_ = {}, alive_ = {};
  }

 private:
  static constexpr std::int64_t kFirstSteps = 1 << 14, kStepsPerByte = 24;
  static constexpr std::size_t kMaxStack = std::size_t{1} << 24;     // entries of 12 bytes
  static constexpr std::size_t kMaxMemory = std::size_t{1} << 31;    // bits of each of two maps
  static constexpr std::int64_t kMostSteps = std::int64_t{2} << 30;  // some ten seconds
  static constexpr std::uint32_t kLongRun = 64, kNoMemo = 0xFFFFFFFFu;
  static constexpr std::uint32_t kNoTarget = 0xFFFFFFFFu;

  enum class Result { failed, matched, gave_up };
  enum class What : std::uint32_t { alternative, run, dead, restore };
  struct Entry {
    std::uint32_t what : 2,
        number : 30;    // alternative: the instruction to go on at; run: its instruction; dead: the choice; restore: a register
    std::uint32_t at;   // alternative, dead: the place; run: where it reaches to; restore: the value
    std::uint32_t low;  // run: where it must reach to
  };
  struct LongRun {
    std::uint32_t pc, begin, end;
  };

  bool try_at(std::uint32_t begin, std::uint32_t& match_end) {
    for (;;) {
      stack_.clear();
      const Result result = run(0, begin, kNoTarget, false, match_end);
      if (result != Result::gave_up) return result == Result::matched;
      be_careful();
    }
  }

  void be_careful() {
    const std::size_t size = static_cast<std::size_t>(end_ - text_) + 1;
    // A loop that may match nothing has its own state, which a memory of places does not hold.
    const bool remembers = program_->registers == 0;
    const std::size_t bits = remembers ? size * program_->choices : 0;
    if (bits > kMaxMemory) too_much();
    dead_.assign((bits + 63) / 64, 0);
    alive_.assign(program_->asks_whether ? dead_.size() : 0, 0);
    remembers_ = remembers;
    careful_ = true;
    const auto most = static_cast<std::int64_t>(std::min<std::size_t>(size * (program_->code.size() + 16) * 4, kMostSteps));
    budget_ = most + (1 << 24);
  }

  [[noreturn]] static void too_much() {
    throw Error(Code::resource_exhausted, "this text takes the pre-tokenizer's pattern too many steps").hint("break its longest word up");
  }

  Result out_of_steps() const {
    if (careful_) too_much();
    return Result::gave_up;
  }

  std::size_t bit_of(std::uint32_t choice, std::uint32_t at) const { return std::size_t{at} * program_->choices + choice; }
  static bool test(const std::vector<std::uint64_t>& bits, std::size_t i) { return bits[i >> 6] >> (i & 63) & 1; }
  static void set(std::vector<std::uint64_t>& bits, std::size_t i) { bits[i >> 6] |= std::uint64_t{1} << (i & 63); }

  void push(What what, std::uint32_t number, std::uint32_t at, std::uint32_t low = 0) {
    if (stack_.size() >= kMaxStack) too_much();
    stack_.push_back({static_cast<std::uint32_t>(what), number & 0x3FFFFFFFu, at, low});
  }

  // Whether nothing is left to do at this choice: it is known to fail.
  bool known_dead(const Instruction& in, std::uint32_t at) {
    if (!remembers_ || in.memo == kNoMemo) return false;
    if (test(dead_, bit_of(in.memo, at))) return true;
    push(What::dead, in.memo, at);
    return false;
  }

  std::uint32_t previous(std::uint32_t at) const {
    do --at;
    while ((static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80);
    return at;
  }

  const char* run_end(const FastSet& set, const char* p, std::uint32_t most) const {
    for (; most > 0 && p < end_ && set.contains_at(p); --most) p += character_length(*p);
    return p;
  }
  const char* unbounded_run_end(const FastSet& set, std::uint32_t pc, const char* begin) {
    const auto at = static_cast<std::uint32_t>(begin - text_);
    for (const LongRun& known : long_runs_) {
      if (known.pc == pc && at >= known.begin && at <= known.end) return text_ + known.end;
    }
    const char* p = begin;
    while (p < end_ && set.contains_at(p)) p += character_length(*p);
    const auto length = static_cast<std::uint32_t>(p - begin);
    budget_ -= length / 8;
    if (length > kLongRun) {
      const LongRun found{pc, at, at + length};
      const auto known = std::find_if(long_runs_.begin(), long_runs_.end(), [&](const LongRun& r) { return r.pc == pc; });
      known == long_runs_.end() ? long_runs_.push_back(found) : void(*known = found);
    }
    return p;
  }

  bool is_word(const FastSet& words, std::uint32_t at) const { return text_ + at < end_ && words.contains_at(text_ + at); }

  bool holds(const Instruction& in, std::uint32_t at) const {
    const auto size = static_cast<std::uint32_t>(end_ - text_);
    switch (static_cast<Kind>(in.a)) {
      case Kind::text_begin: return at == 0;
      case Kind::text_end: return at == size;
      case Kind::text_end_or_line_feed: return at == size || (at + 1 == size && text_[at] == '\n');
      case Kind::line_begin: return at == 0 || (text_[at - 1] == '\n' && at < size);
      case Kind::line_end: return at == size || text_[at] == '\n';
      case Kind::word_boundary: {
        const FastSet& words = program_->sets[in.b];
        const bool before = at > 0 && is_word(words, previous(at));
        return (before != is_word(words, at)) != in.negated;
      }
      default: return false;
    }
  }

  // Runs the part behind a look-around or atomic instruction.
  Result look_behind(const Instruction& in, std::uint32_t pc, std::uint32_t at) {
    std::uint32_t from = at;
    for (std::uint32_t width = 0; width <= in.c; ++width) {
      if (width >= in.b) {
        std::uint32_t unused;
        const Result result = run(pc + 1, from, at, true, unused);
        if (result != Result::failed) return result;
      }
      if (from == 0) break;
      from = previous(from);
    }
    return Result::failed;
  }

  // `target`: where accept must be, for look-behind. `only_whether`: where the match ends does not matter.
  Result run(std::uint32_t pc, std::uint32_t at, std::uint32_t target, bool only_whether, std::uint32_t& match_end) {
    const std::size_t base = stack_.size();
    const bool ask = only_whether && target == kNoTarget && careful_ && remembers_;  // what led to a match is remembered too
    for (;;) {
      const Instruction& in = program_->code[pc];
      const char* p = text_ + at;
      switch (in.op) {
        case Op::set:
          if (p < end_ && program_->sets[in.a].contains_at(p)) {
            at += character_length(*p);
            ++pc;
            continue;
          }
          break;
        case Op::set_times: {
          const FastSet& set = program_->sets[in.a];
          std::uint32_t left = in.b;
          for (; left > 0 && p < end_ && set.contains_at(p); --left) p += character_length(*p);
          budget_ -= (in.b - left) / 8;
          if (left > 0) break;
          at = static_cast<std::uint32_t>(p - text_);
          ++pc;
          continue;
        }
        case Op::run: {
          const FastSet& set = program_->sets[in.a];
          if (careful_ && in.b == RegexNode::kUnbounded && remembers_ && in.memo != kNoMemo) {  // a step at a time, each remembered
            if (ask && test(alive_, bit_of(in.memo, at))) return all_alive(base);
            if (known_dead(in, at)) break;
            if (--budget_ < 0) return out_of_steps();
            if (p < end_ && set.contains_at(p)) {
              if (program_->firsts[in.other_first].allows(p, end_)) push(What::alternative, pc + 1, at);
              at += character_length(*p);
            } else {
              ++pc;
            }
            continue;
          }
          if (careful_ && known_dead(in, at)) break;
          const char* reach = in.b == RegexNode::kUnbounded ? unbounded_run_end(set, pc, p) : run_end(set, p, in.b);
          const auto to = static_cast<std::uint32_t>(reach - text_);
          if (to > at) push(What::run, pc, to, at);
          at = to;
          ++pc;
          continue;
        }
        case Op::run_possessive: {
          const FastSet& set = program_->sets[in.a];
          p = in.b == RegexNode::kUnbounded ? unbounded_run_end(set, pc, p) : run_end(set, p, in.b);
          at = static_cast<std::uint32_t>(p - text_);
          ++pc;
          continue;
        }
        case Op::split: {
          const bool first = program_->firsts[in.first].allows(p, end_), second = program_->firsts[in.other_first].allows(p, end_);
          if (!first && !second) break;
          if (--budget_ < 0) return out_of_steps();
          if (careful_ && remembers_ && in.memo != kNoMemo) {
            if (ask && test(alive_, bit_of(in.memo, at))) return all_alive(base);
            if (known_dead(in, at)) break;
          }
          if (first && second) push(What::alternative, in.b, at);
          pc = first ? in.a : in.b;
          continue;
        }
        case Op::jump: pc = in.a; continue;
        case Op::look_ahead:
        case Op::look_behind: {
          std::uint32_t unused;
          const Result result = in.op == Op::look_ahead ? run(pc + 1, at, kNoTarget, true, unused) : look_behind(in, pc, at);
          if (result == Result::gave_up) return result;
          if ((result == Result::matched) == in.negated) break;
          pc = in.a;
          continue;
        }
        case Op::atomic: {
          std::uint32_t to = 0;
          const Result result = run(pc + 1, at, kNoTarget, false, to);
          if (result == Result::gave_up) return result;
          if (result == Result::failed) break;
          at = to;
          pc = in.a;
          continue;
        }
        case Op::loop_begin:
          push(What::restore, in.a, registers_[in.a]);
          registers_[in.a] = at;
          ++pc;
          continue;
        case Op::loop_check: pc = registers_[in.a] == at ? in.b : pc + 1; continue;
        case Op::check:
          if (!holds(in, at)) break;
          ++pc;
          continue;
        case Op::accept:
          if (target != kNoTarget && at != target) break;
          match_end = at;
          if (ask) return all_alive(base);
          stack_.resize(base);
          return Result::matched;
      }
      if (--budget_ < 0) return out_of_steps();
      if (!go_back(base, pc, at)) return Result::failed;
    }
  }

  // A look-ahead matched: so it does from every choice on its way here.
  Result all_alive(std::size_t base) {
    for (std::size_t i = base; i < stack_.size(); ++i) {
      if (stack_[i].what == static_cast<std::uint32_t>(What::dead)) set(alive_, bit_of(stack_[i].number, stack_[i].at));
    }
    stack_.resize(base);
    return Result::matched;
  }

  // To the latest choice with a way left untried.
  bool go_back(std::size_t base, std::uint32_t& pc, std::uint32_t& at) {
    while (stack_.size() > base) {
      Entry& entry = stack_.back();
      switch (static_cast<What>(entry.what)) {
        case What::alternative:
          pc = entry.number, at = entry.at;
          stack_.pop_back();
          return true;
        case What::run: {
          const RegexFirst& follows = program_->firsts[program_->code[entry.number].other_first];
          std::uint32_t to = entry.at;
          do --budget_, to = previous(to);
          while (to > entry.low && !follows.allows(text_ + to, end_));
          pc = entry.number + 1, at = entry.at = to;
          if (to == entry.low) stack_.pop_back();
          if (!follows.allows(text_ + to, end_)) continue;
          return true;
        }
        case What::dead:
          set(dead_, bit_of(entry.number, entry.at));
          stack_.pop_back();
          continue;
        case What::restore:
          registers_[entry.number] = entry.at;
          stack_.pop_back();
          continue;
      }
    }
    return false;
  }

  const RegexProgram* program_ = nullptr;
  const char *text_ = nullptr, *end_ = nullptr;
  bool careful_ = false, remembers_ = false;
  std::int64_t budget_ = 0;
  std::vector<Entry> stack_;
  std::vector<std::uint32_t> registers_;
  std::vector<LongRun> long_runs_;           // the last long run of each instruction, so that none is walked twice
  std::vector<std::uint64_t> dead_, alive_;  // (place, choice): leads nowhere; in look-ahead, leads to a match
};

}  // namespace

struct Regex::Impl {
  RegexProgram program;
  mutable ScratchPool<Matcher> matchers;
};

Regex::Regex(std::string_view pattern, RegexSyntax syntax) : impl_(std::make_unique<Impl>()) {
  impl_->program = compile_regex(*parse_regex(pattern, syntax));
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

namespace {

// Walks the matches; an empty one right behind the one before does not count.
struct Walk {
  Matcher& matcher;
  std::string_view text;
  std::uint32_t from = 0, begin = 0, end = 0;
  bool any = false;  // `end` is that of a match

  bool next() {
    for (;;) {
      if (from > text.size()) return false;
      std::uint32_t b = 0, e = 0;
      if (!matcher.find(from, b, e)) return false;
      if (b == e && any && e == end) {
        from = e + (e < text.size() ? character_length(text[e]) : 1);
        continue;
      }
      from = e, begin = b, end = e, any = true;
      return true;
    }
  }
};

}  // namespace

struct Regex::Matches::State {
  explicit State(const Regex& regex, std::string_view text) : matcher(regex.impl_->matchers), walk{*matcher, text} {
    matcher->begin(regex.impl_->program, text);
  }
  ScratchPool<Matcher>::Lease matcher;
  Walk walk;
};

Regex::Matches::Matches(const Regex& regex, std::string_view text) : state_(std::make_unique<State>(regex, text)) {}
Regex::Matches::~Matches() = default;

bool Regex::Matches::next() {
  if (!state_->walk.next()) return false;
  begin_ = state_->walk.begin, end_ = state_->walk.end;
  return true;
}

void Regex::split(std::string_view text, const Ends& in, Ends& out) const {
  const ScratchPool<Matcher>::Lease matcher(impl_->matchers);
  std::uint32_t begin = 0;
  for (const std::uint32_t end : in) {
    const std::string_view piece = text.substr(begin, end - begin);
    matcher->begin(impl_->program, piece);
    Walk walk{*matcher, piece};
    std::uint32_t done = 0;
    while (walk.next()) {
      if (walk.begin > done) out.push_back(begin + walk.begin);
      if (walk.end > walk.begin) out.push_back(begin + walk.end);
      done = walk.end;
    }
    if (done < piece.size()) out.push_back(end);
    begin = end;
  }
}

}  // namespace quern::tokenizers::detail
