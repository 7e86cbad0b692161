// Sums of products by index notation. Canonical meaning: ONNX Einsum-12.
#include <algorithm>
#include <cctype>
#include <span>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

constexpr std::size_t kMaxOperands = 8;

/// An equation in fixed arrays: which label each axis of each operand and of the output has. Letters are their own labels; the axes that an
/// ellipsis covers have the labels 1, 2, … counted from the last.
struct Equation {
  struct Labels {
    std::size_t count = 0;
    unsigned char label[ir::kMaxRank] = {};
    bool has(unsigned char l) const { return std::find(label, label + count, l) != label + count; }
    bool add(unsigned char l) {
      if (count == ir::kMaxRank) return false;
      label[count++] = l;
      return true;
    }
  };
  Labels operands[kMaxOperands], output, summed;

  /// Returns what is wrong, or null.
  const char* parse(std::string_view text, std::span<const std::int64_t> ranks);

 private:
  const char* read(std::string_view term, std::int64_t rank, std::size_t ellipsis, Labels& into, bool& dots);
};

const char* Equation::read(std::string_view term, std::int64_t rank, std::size_t ellipsis, Labels& into, bool& dots) {
  std::size_t letters = 0;
  for (const char c : term) letters += std::isalpha(static_cast<unsigned char>(c)) != 0;
  const bool has_dots = term.find("...") != std::string_view::npos;
  if (rank >= 0) {  // an operand: the ellipsis takes what the letters leave
    if (static_cast<std::int64_t>(letters) > rank || (!has_dots && static_cast<std::int64_t>(letters) != rank))
      return "the labels do not match the rank";
    ellipsis = static_cast<std::size_t>(rank) - letters;
  }
  for (std::size_t i = 0; i < term.size(); ++i) {
    const auto c = static_cast<unsigned char>(term[i]);
    if (c == ' ') continue;
    bool room = true;
    if (std::isalpha(c)) {
      room = into.add(c);
    } else if (has_dots && !dots && term.substr(i, 3) == "...") {
      for (std::size_t k = ellipsis; k > 0 && room; --k) room = into.add(static_cast<unsigned char>(k));
      dots = true;
      i += 2;
    } else {
      return "the equation has a character that means nothing there";
    }
    if (!room) return "more than 8 axes are not supported";
  }
  return nullptr;
}

const char* Equation::parse(std::string_view text, std::span<const std::int64_t> ranks) {
  if (ranks.size() > kMaxOperands) return "more than 8 operands are not supported";
  const std::size_t arrow = text.find("->");
  std::string_view left = text.substr(0, arrow);
  std::size_t ellipsis = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t comma = left.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == ranks.size())) return "the equation has not one term for each input";
    bool dots = false;
    if (const char* problem = read(left.substr(0, comma), ranks[i], 0, operands[i], dots)) return problem;
    for (std::size_t k = 0; k < operands[i].count; ++k)
      if (operands[i].label[k] <= ir::kMaxRank) ellipsis = std::max<std::size_t>(ellipsis, operands[i].label[k]);
    if (comma != std::string_view::npos) left.remove_prefix(comma + 1);
  }
  const auto uses = [&](unsigned char l) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      n += static_cast<std::size_t>(std::count(operands[i].label, operands[i].label + operands[i].count, l));
    return n;
  };
  if (arrow != std::string_view::npos) {
    bool dots = false;
    if (const char* problem = read(text.substr(arrow + 2), -1, ellipsis, output, dots)) return problem;
    for (std::size_t i = 0; i < output.count; ++i)
      if (uses(output.label[i]) == 0 || std::count(output.label, output.label + output.count, output.label[i]) > 1)
        return "the output has a label that is not in the inputs, or twice";
  } else {  // the ellipsis, then the labels that occur once, in the order of the alphabet
    for (std::size_t k = ellipsis; k > 0; --k)
      if (!output.add(static_cast<unsigned char>(k))) return "more than 8 axes are not supported";
    for (int l = 'A'; l <= 'z'; ++l)
      if (uses(static_cast<unsigned char>(l)) == 1 && !output.add(static_cast<unsigned char>(l)))
        return "more than 8 axes are not supported";
  }
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (std::size_t k = 0; k < operands[i].count; ++k)
      if (const auto l = operands[i].label[k]; !output.has(l) && !summed.has(l) && !summed.add(l))
        return "more than 8 summed axes are not supported";
  return nullptr;
}

using ProductTypes = decltype(Floats{} + Types<std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>{});

void infer_einsum(InferContext& c) {
  check_dtype<ProductTypes>(c, 0);
  Ints ranks;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    check_same_dtype(c, {0, i});
    ranks.push_back(c.rank(i));
  }
  Equation e;
  if (const char* problem = e.parse(c.node().text("equation"), ranks)) c.fail("'" + c.node().text("equation") + "': " + problem);
  std::optional<Dim> sizes[256];
  for (std::size_t i = 0; i < c.inputs(); ++i)
    for (std::size_t k = 0; k < e.operands[i].count; ++k) {
      auto& size = sizes[e.operands[i].label[k]];
      const Dim& mine = c.shape(i)[k];
      size = size ? broadcast(c, *size, mine) : mine;
    }
  Shape shape;
  for (std::size_t i = 0; i < e.output.count; ++i) shape.push_back(*sizes[e.output.label[i]]);
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

void einsum_reference(const Call& call) {
  const TensorView& y = call.out(0);
  const std::size_t operands = call.node->inputs.size();
  std::int64_t ranks[kMaxOperands] = {};
  for (std::size_t i = 0; i < operands; ++i) ranks[i] = call.in(i).rank;
  Equation e;
  if (e.parse(call.node->text("equation"), {ranks, operands}) != nullptr) return;  // inference has refused it
  Box summed;
  for (std::size_t k = 0; k < e.summed.count; ++k) {
    std::int64_t size = 0;
    for (std::size_t i = 0; i < operands; ++i)
      for (std::size_t a = 0; a < e.operands[i].count; ++a)
        if (e.operands[i].label[a] == e.summed.label[k] && (size == 0 || call.in(i).dims[a] != 1)) size = call.in(i).dims[a];
    summed.add(size);
  }
  // Strides of each operand along the axes of the output and along the summed axes; a size of 1 is broadcast.
  const auto strides = [&](std::size_t i, const Equation::Labels& labels) {
    const Axes dense = strides_of(call.in(i));
    Axes out{};
    for (std::size_t k = 0; k < labels.count; ++k)
      for (std::size_t a = 0; a < e.operands[i].count; ++a)
        if (e.operands[i].label[a] == labels.label[k] && call.in(i).dims[a] != 1) out[k] += dense[a];
    return out;
  };
  std::array<Axes, kMaxOperands> outer{}, inner{};
  for (std::size_t i = 0; i < operands; ++i) {
    outer[i] = strides(i, e.output);
    inner[i] = strides(i, e.summed);
  }
  dispatch(ProductTypes{}, y.dtype, [&]<class T>() {
    using S = std::conditional_t<std::is_integral_v<Compute<T>>, std::uint64_t, double>;
    walk(Box(y), outer, [&](std::int64_t index, auto... bases) {
      const std::array<std::int64_t, kMaxOperands> base{bases...};
      S sum = 0;
      walk(summed, inner, [&](std::int64_t, auto... offsets) {
        const std::array<std::int64_t, kMaxOperands> offset{offsets...};
        S product = 1;
        for (std::size_t i = 0; i < operands; ++i) product *= static_cast<S>(load<T>(call.in(i).data, base[i] + offset[i]));
        sum += product;
      });
      store<T>(y.data, index, sum);
    });
  });
}

}  // namespace

const Op einsum{
    .name = "einsum", .max_inputs = Op::kVariadic, .attributes = {{"equation", {}}}, .infer = infer_einsum, .reference = einsum_reference};

}  // namespace quern::ops
