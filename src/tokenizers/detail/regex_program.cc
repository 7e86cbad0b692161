#include "tokenizers/detail/regex_program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizers/detail/unicode.h"

namespace quern::tokenizers::detail {
namespace {

using Node = RegexNode;
using Kind = Node::Kind;
using Instruction = RegexInstruction;
using Op = Instruction::Op;

constexpr std::size_t kMaxInstructions = 20'000;
constexpr std::size_t kMaxSets = 1'000;

bool is_nullable(const Node& node) {
  switch (node.kind) {
    case Kind::set: return false;
    case Kind::concat: return std::all_of(node.children.begin(), node.children.end(), [](const auto& c) { return is_nullable(*c); });
    case Kind::alternate: return std::any_of(node.children.begin(), node.children.end(), [](const auto& c) { return is_nullable(*c); });
    case Kind::repeat: return node.min == 0 || is_nullable(*node.children[0]);
    case Kind::atomic: return is_nullable(*node.children[0]);
    default: return true;
  }
}

// In characters; kUnbounded where there is no bound.
struct Width {
  std::uint64_t min = 0, max = 0;
};
Width width_of(const Node& node) {
  constexpr std::uint64_t kNoBound = Node::kUnbounded;
  switch (node.kind) {
    case Kind::set: return {1, 1};
    case Kind::atomic: return width_of(*node.children[0]);
    case Kind::concat: {
      Width sum;
      for (const auto& child : node.children) {
        const Width w = width_of(*child);
        sum = {std::min(sum.min + w.min, kNoBound), std::min(sum.max + w.max, kNoBound)};
      }
      return sum;
    }
    case Kind::alternate: {
      Width both = width_of(*node.children[0]);
      for (const auto& child : node.children) {
        const Width w = width_of(*child);
        both = {std::min(both.min, w.min), std::max(both.max, w.max)};
      }
      return both;
    }
    case Kind::repeat: {
      const Width w = width_of(*node.children[0]);
      const bool unbounded = w.max > 0 && (node.max == Node::kUnbounded || w.max == kNoBound);
      return {std::min(w.min * node.min, kNoBound), unbounded ? kNoBound : std::min(w.max * node.max, kNoBound)};
    }
    default: return {0, 0};
  }
}

class Compiler {
 public:
  RegexProgram compile(const Node& tree) {
    emit(tree);
    add({.op = Op::accept});
    find_firsts();
    return std::move(program_);
  }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(program_.code.size()); }
  std::uint32_t add(Instruction instruction) {
    if (program_.code.size() >= kMaxInstructions)
      throw Error(Code::resource_exhausted, "a pattern is too large once its repeats are written out");
    program_.code.push_back(instruction);
    return here() - 1;
  }
  Instruction& at(std::uint32_t pc) { return program_.code[pc]; }
  std::uint32_t choice() { return in_look_behind_ ? 0xFFFFFFFFu : program_.choices++; }

  std::uint32_t set_number(const CharSet& set) {
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      if (*sets_[i] == set) return static_cast<std::uint32_t>(i);
    }
    if (sets_.size() >= kMaxSets) throw Error(Code::resource_exhausted, "a pattern has more than 1,000 different classes");
    sets_.push_back(&set);
    program_.sets.emplace_back(set);
    return static_cast<std::uint32_t>(sets_.size() - 1);
  }

  void emit(const Node& node) {
    switch (node.kind) {
      case Kind::empty: return;
      case Kind::set: add({.op = Op::set, .a = set_number(node.set)}); return;
      case Kind::concat:
        for (const auto& child : node.children) emit(*child);
        return;
      case Kind::alternate: return emit_alternatives(node);
      case Kind::repeat: return emit_repeat(node, false);
      case Kind::atomic: {
        const Node& child = *node.children[0];
        if (child.kind == Kind::repeat && !child.lazy && child.children[0]->kind == Kind::set) return emit_repeat(child, true);
        return emit_part(node, {.op = Op::atomic});
      }
      case Kind::look_ahead: program_.asks_whether = true; return emit_part(node, {.op = Op::look_ahead, .negated = node.negated});
      case Kind::look_behind: {
        const Width width = width_of(*node.children[0]);
        if (width.max > 255) throw Error(Code::unsupported, "a look-behind of more than 255 characters");
        const bool outer = std::exchange(in_look_behind_, true);
        emit_part(node, {.op = Op::look_behind,
                         .negated = node.negated,
                         .b = static_cast<std::uint32_t>(width.min),
                         .c = static_cast<std::uint32_t>(width.max)});
        in_look_behind_ = outer;
        return;
      }
      default:
        add({.op = Op::check, .negated = node.negated, .a = static_cast<std::uint32_t>(node.kind), .b = boundary_set(node.kind)});
        return;
    }
  }

  std::uint32_t boundary_set(Kind kind) { return kind == Kind::word_boundary ? set_number(word_characters()) : 0; }

  void emit_part(const Node& node, Instruction instruction) {
    const std::uint32_t pc = add(instruction);
    emit(*node.children[0]);
    add({.op = Op::accept});
    at(pc).a = here();
  }

  void emit_alternatives(const Node& node) {
    std::vector<std::uint32_t> jumps;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (i + 1 == node.children.size()) {
        emit(*node.children[i]);
        break;
      }
      const std::uint32_t split = add({.op = Op::split, .a = here() + 1, .memo = choice()});
      emit(*node.children[i]);
      jumps.push_back(add({.op = Op::jump}));
      at(split).b = here();
    }
    for (const std::uint32_t jump : jumps) at(jump).a = here();
  }

  // Goes into what follows, or past it (lazy: the other way round); where to go past to is filled in later.
  std::uint32_t emit_choice(bool lazy) {
    const std::uint32_t pc = add({.op = Op::split, .memo = choice()});
    (lazy ? at(pc).b : at(pc).a) = here();
    return pc;
  }
  void past(std::uint32_t split, bool lazy) { (lazy ? at(split).a : at(split).b) = here(); }

  void emit_repeat(const Node& node, bool possessive) {
    const Node& body = *node.children[0];
    if (node.max == 0) return;
    const bool unbounded = node.max == Node::kUnbounded;
    if (body.kind == Kind::set && !node.lazy) {
      const std::uint32_t set = set_number(body.set);
      if (node.min == 1) add({.op = Op::set, .a = set});
      if (node.min > 1) add({.op = Op::set_times, .a = set, .b = node.min});
      if (!unbounded && node.max == node.min) return;
      add({.op = possessive ? Op::run_possessive : Op::run,
           .a = set,
           .b = unbounded ? Node::kUnbounded : node.max - node.min,
           .memo = possessive ? 0xFFFFFFFFu : choice()});
      return;
    }
    const bool nullable = is_nullable(body);
    const bool as_plus = unbounded && node.min > 0 && !nullable;
    const std::uint32_t begin = here();
    for (std::uint32_t i = 0; i + (as_plus ? 1 : 0) < node.min; ++i) {
      emit(body);
      if (here() == begin) return;  // there is nothing to repeat
    }
    if (as_plus) {
      const std::uint32_t loop = here();
      emit(body);
      const std::uint32_t split = add({.op = Op::split, .memo = choice()});
      (node.lazy ? at(split).b : at(split).a) = loop;
      past(split, node.lazy);
    } else if (unbounded) {
      const std::uint32_t split = emit_choice(node.lazy);
      const std::uint32_t reg = nullable ? program_.registers++ : 0;
      if (nullable) add({.op = Op::loop_begin, .a = reg});
      emit(body);
      const std::uint32_t check = nullable ? add({.op = Op::loop_check, .a = reg}) : 0;
      add({.op = Op::jump, .a = split});
      past(split, node.lazy);
      if (nullable) at(check).b = here();
    } else {
      std::vector<std::uint32_t> splits;
      for (std::uint32_t i = node.min; i < node.max; ++i) {
        splits.push_back(emit_choice(node.lazy));
        emit(body);
      }
      for (const std::uint32_t split : splits) past(split, node.lazy);
    }
  }

  // What may come first at each instruction: a fixed point, since loops lead back.
  void find_firsts() {
    auto& code = program_.code;
    std::vector<RegexFirst> firsts(code.size());
    const auto of_set = [this](std::uint32_t set) { return RegexFirst{program_.sets[set].ascii(), true, false}; };
    constexpr RegexFirst kAny{{~0ull, ~0ull}, true, true};
    // Where accept ends a part, what follows the part is anybody's guess.
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t pc = code.size(); pc-- > 0;) {
        const Instruction& in = code[pc];
        RegexFirst first;
        switch (in.op) {
          case Op::set:
          case Op::set_times: first = of_set(in.a); break;
          case Op::run:
          case Op::run_possessive:
            first = of_set(in.a);
            first.add(firsts[pc + 1]);
            break;
          case Op::split:
            first = firsts[in.a];
            first.add(firsts[in.b]);
            break;
          case Op::jump:
          case Op::look_ahead:
          case Op::look_behind: first = firsts[in.a]; break;
          case Op::atomic: first = firsts[pc + 1]; break;
          case Op::loop_check:
            first = firsts[pc + 1];
            first.add(firsts[in.b]);
            break;
          case Op::loop_begin:
          case Op::check: first = firsts[pc + 1]; break;
          case Op::accept: first = kAny; break;
        }
        if (first.ascii != firsts[pc].ascii || first.other != firsts[pc].other || first.end != firsts[pc].end) {
          firsts[pc] = first;
          changed = true;
        }
      }
    }
    for (std::size_t pc = 0; pc < code.size(); ++pc) {
      Instruction& in = code[pc];
      const auto keep = [&](const RegexFirst& first) {
        program_.firsts.push_back(first);
        return static_cast<std::uint32_t>(program_.firsts.size() - 1);
      };
      if (in.op == Op::split) in.first = keep(firsts[in.a]), in.other_first = keep(firsts[in.b]);
      if (in.op == Op::run) in.other_first = keep(firsts[pc + 1]);
    }
    program_.first = firsts[0];
  }

  RegexProgram program_;
  std::vector<const CharSet*> sets_;  // as program_.sets
  bool in_look_behind_ = false;
};

}  // namespace

FastSet::FastSet(const CharSet& set) {
  const auto& ranges = set.ranges();
  tail_ = !ranges.empty() && ranges.back().last == kCodePoints - 1;
  // Behind this code point all are in, or all are out.
  const std::uint32_t tail = ranges.empty() ? 0 : tail_ ? ranges.back().first : ranges.back().last + 1;
  std::array<std::uint64_t, 4> block{};
  std::size_t range = 0;
  for (std::uint32_t base = 0; base < tail || base == 0; base += 256) {
    block.fill(0);
    for (; range < ranges.size() && ranges[range].first < base + 256; ++range) {
      const std::uint32_t first = std::max(ranges[range].first, base), last = std::min(ranges[range].last, base + 255);
      for (std::uint32_t c = first; c <= last; ++c) block[c >> 6 & 3] |= std::uint64_t{1} << (c & 63);
      if (ranges[range].last > base + 255) break;
    }
    std::size_t number = blocks_.size();
    if (!blocks_.empty() && blocks_.back() == block) {
      --number;
    } else {
      blocks_.push_back(block);
    }
    pages_.push_back(static_cast<std::uint16_t>(number));
  }
  ascii_ = {blocks_[0][0], blocks_[0][1]};
}

RegexProgram compile_regex(const RegexNode& tree) { return Compiler().compile(tree); }

}  // namespace quern::tokenizers::detail
