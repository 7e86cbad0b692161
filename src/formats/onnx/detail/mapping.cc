#include "formats/onnx/detail/mapping.h"

#include <algorithm>
#include <map>

#include "ops/registry.h"

namespace quern::onnx {
namespace {

const Mapping kMappings[] = {
#define QUERN_ONNX(onnx, op, attributes) {onnx, op, attributes},
#include "formats/onnx/mappings.inc"
#undef QUERN_ONNX
};

}  // namespace

bool Mapping::has_extra(std::string_view attribute) const {
  for (std::string_view rest = extra_attributes; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == attribute) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return attribute == "consumed_inputs";  // operator sets before 6 carried it everywhere; it never meant anything to a result
}

const Mapping* find_mapping(std::string_view domain, std::string_view op_type) {
  static const auto rows = [] {
    std::unordered_map<std::string_view, const Mapping*> out;
    for (const Mapping& m : kMappings) out.emplace(m.onnx, &m);
    return out;
  }();
  const auto found = rows.find(op_type);
  return domain.empty() && found != rows.end() ? found->second : nullptr;
}

const ir::Op* find_op(const Mapping& mapping) { return mapping.op.empty() ? nullptr : ops::find(mapping.op); }

bool has_attribute(const ir::Op& op, std::string_view name) {
  return std::any_of(op.attributes.begin(), op.attributes.end(), [&](const ir::AttributeSpec& s) { return s.name == name; });
}

std::string full_name(const NodeProto& node) {
  return node.domain.empty() ? std::string(node.op_type) : std::string(node.domain) + "." + std::string(node.op_type);
}

std::string describe(const NodeProto& node) {
  const std::string_view name = !node.name.empty() ? node.name : !node.outputs.empty() ? node.outputs[0] : std::string_view("?");
  return "node '" + std::string(name) + "' (" + full_name(node) + ")";
}

std::vector<std::string> unsupported(const wire::Source& source, const GraphProto& graph) {
  struct Finding {
    std::size_t count = 0;
    const NodeProto* first = nullptr;
  };
  std::map<std::string, Finding> findings;
  const auto report = [&](std::string what, const NodeProto& node) {
    Finding& f = findings[std::move(what)];
    if (f.count++ == 0) f.first = &node;
  };
  for (const NodeProto& node : graph.nodes) {
    const Mapping* mapping = find_mapping(node.domain, node.op_type);
    const ir::Op* op = mapping ? find_op(*mapping) : nullptr;
    if (mapping == nullptr || (op == nullptr && !mapping->op.empty())) {
      report(full_name(node), node);
      continue;
    }
    for (const std::string_view body : node.attributes) {
      const AttributeProto attribute = parse_attribute(source, body);
      if ((op == nullptr || !has_attribute(*op, attribute.name)) && !mapping->has_extra(attribute.name))
        report(full_name(node) + " with attribute '" + std::string(attribute.name) + "'", node);
    }
  }
  std::vector<std::string> out;
  for (const auto& [what, f] : findings) out.push_back(what + " (" + std::to_string(f.count) + "×, first in " + describe(*f.first) + ")");
  return out;
}

}  // namespace quern::onnx
