#include "ir/text.h"

#include <algorithm>

#include "base/error.h"
#include "ir/detail/text_values.h"

namespace quern::ir {
namespace {

constexpr std::size_t kMaxLineColumns = 140;

template <class Items, class Text>
std::string joined(const Items& items, Text text) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += ", ";
    out += text(item);
  }
  return out;
}

std::string name_text(std::string_view name) { return detail::is_plain_name(name) ? std::string(name) : detail::quoted(name); }
std::string reference(const Value* value) { return value == nullptr ? "_" : "%" + name_text(value->name); }

template <class Element, class Text>
std::string list_text(const std::vector<Element>& list, const char* empty, Text text) {
  return list.empty() ? empty : "[" + joined(list, text) + "]";
}

std::string attribute_text(const Attribute& attribute) {
  struct Visitor {
    std::string operator()(std::monostate) const { throw Error(Code::internal, "an attribute without a value has no text"); }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return detail::float_text(v); }
    std::string operator()(const std::string& v) const { return detail::quoted(v); }
    std::string operator()(DType v) const { return std::string(name(v)); }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      return list_text(v, "ints[]", [](std::int64_t x) { return std::to_string(x); });
    }
    std::string operator()(const std::vector<double>& v) const { return list_text(v, "floats[]", detail::float_text); }
    std::string operator()(const std::vector<std::string>& v) const { return list_text(v, "strings[]", detail::quoted); }
  };
  return std::visit(Visitor{}, attribute);
}

std::string hex_text(const Constant& constant) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "hex \"";
  for (std::size_t i = 0; i < constant.bytes; ++i) {
    const auto byte = static_cast<unsigned>(constant.data[i]);
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out + '"';
}

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void graph(const Graph& g, int depth) {
    const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
    const auto parameter = [](const Value* v) { return reference(v) + ": " + to_string(v->type); };
    std::string line = indent + "graph " + name_text(g.name()) + "(" + joined(g.inputs(), parameter) + ") {";
    if (line.size() > kMaxLineColumns) {
      line = indent + "graph " + name_text(g.name()) + "(";
      for (std::size_t i = 0; i < g.inputs().size(); ++i) line += (i ? ",\n" : "\n") + indent + "    " + parameter(g.inputs()[i]);
      line += ") {";
    }
    out_ += line + "\n";
    for (const Value* v : g.constants()) out_ += indent + "  " + constant_text(*v) + "\n";
    for (const auto& n : g.nodes()) node(*n, depth + 1);
    out_ += indent + "  return";
    if (!g.outputs().empty()) out_ += " " + joined(g.outputs(), reference);
    out_ += "\n" + indent + "}\n";
  }

 private:
  static std::string constant_text(const Value& v) {
    const Constant& constant = *v.constant;
    std::string out = reference(&v) + " = constant";
    const std::int64_t elements = element_count(v.type.shape).constant().value_or(0);
    const bool elements_written = constant.name.empty() || elements <= detail::kMaxInlineElements;
    if (!elements_written || constant.name != detail::implied_name(&v)) out += " " + detail::quoted(constant.name);
    out += ": " + to_string(v.type);
    if (!elements_written) return out;
    out += " = ";
    if (is_block(v.type.dtype)) return out + hex_text(constant);
    if (v.type.shape.empty()) return out + detail::element_text(v.type.dtype, constant.data);
    out += "[";
    for (std::int64_t i = 0; i < elements; ++i) {
      if (i != 0) out += ", ";
      out += detail::element_text(v.type.dtype, constant.data + i * block_bytes(v.type.dtype));
    }
    return out + "]";
  }

  static bool is_default(const Op& op, std::string_view key, const Attribute& value) {
    const auto spec = std::find_if(op.attributes.begin(), op.attributes.end(), [&](const AttributeSpec& s) { return s.name == key; });
    return spec != op.attributes.end() && detail::same_attribute(spec->default_value, value);
  }

  void node(const Node& n, int depth) {
    const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
    out_ += indent;
    if (!n.outputs.empty()) out_ += joined(n.outputs, reference) + " = ";
    out_ += n.op->name;
    if (n.name != detail::implied_name(n.outputs.empty() ? nullptr : n.outputs[0])) out_ += " @" + name_text(n.name);
    out_ += "(" + joined(n.inputs, reference) + ")";
    std::string attributes;
    for (const auto& [key, value] : n.attributes)
      if (!is_default(*n.op, key, value)) attributes += (attributes.empty() ? "" : ", ") + name_text(key) + " = " + attribute_text(value);
    if (!attributes.empty()) out_ += " {" + attributes + "}";
    if (!n.outputs.empty()) out_ += " : " + joined(n.outputs, [](const Value* v) { return to_string(v->type); });
    if (!n.regions.empty()) {
      out_ += " {\n";
      for (const auto& region : n.regions) graph(*region, depth + 1);
      out_ += indent + "}";
    }
    out_ += "\n";
  }

  std::string out_;
};

}  // namespace

std::string to_text(const Graph& graph) {
  Printer printer;
  printer.graph(graph, 0);
  return printer.take();
}

}  // namespace quern::ir
