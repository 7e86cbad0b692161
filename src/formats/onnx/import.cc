#include "formats/onnx/import.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "base/mapped_file.h"
#include "formats/onnx/detail/builder.h"
#include "formats/onnx/detail/fold.h"
#include "formats/onnx/detail/mapping.h"
#include "formats/onnx/detail/upgrade.h"
#include "ir/op.h"

namespace quern::onnx {
namespace {

constexpr std::int64_t kNewestOpset = 25;  // up to here newer sets only add element types, or attributes, which are checked one by one
constexpr std::size_t kMaxListed = 30;     // unsupported operators in one message

class Importer {
 public:
  Importer(const wire::Source& source, std::shared_ptr<const void> owner, const std::string& folder)
      : source_(source),
        model_(parse_model(source)),
        tensors_(source, std::move(owner), folder),
        graph_(std::make_unique<ir::Graph>()),
        builder_(*graph_, tensors_) {}

  std::unique_ptr<ir::Graph> run() {
    check_model();
    reserve_names();
    add_initializers();
    for (const ValueProto& input : model_.graph.inputs) add_input(input);
    for (const NodeProto& node : model_.graph.nodes) {
      try {
        add_node(node);
      } catch (Error& error) {
        error.in(describe(node));
        error.at(source_.path, source_.offset(node.position));
        throw;
      }
    }
    set_outputs();
    if (folded_) graph_->remove_unused();  // the nodes that constants have replaced
    return std::move(graph_);
  }

 private:
  void check_model() {
    const std::int64_t opset = model_.opset();
    if (opset < 1 && !model_.graph.nodes.empty())
      throw Error(Code::data_corrupt, "names no version of ONNX's operator set").at(source_.path);
    if (opset > kNewestOpset)
      throw Error(Code::unsupported,
                  "uses ONNX's operator set " + std::to_string(opset) + "; the newest that is known is " + std::to_string(kNewestOpset))
          .at(source_.path);
    if (model_.graph.has_sparse_initializers) throw Error(Code::unsupported, "has sparse initializers").at(source_.path);
    if (const auto unknown = unsupported(source_, model_.graph); !unknown.empty()) {
      std::string list;
      for (std::size_t i = 0; i < std::min(unknown.size(), kMaxListed); ++i) list += (i > 0 ? ", " : "") + unknown[i];
      if (unknown.size() > kMaxListed) list += " and " + std::to_string(unknown.size() - kMaxListed) + " more";
      throw Error(Code::unsupported, "uses operators that are not supported: " + list).at(source_.path);
    }
  }

  void reserve_names() {
    for (const ValueProto& v : model_.graph.inputs) builder_.reserved.insert(v.name);
    for (const NodeProto& n : model_.graph.nodes) builder_.reserved.insert(n.outputs.begin(), n.outputs.end());
  }

  void bind(std::string_view name, ir::Value* value, const char* position) {
    if (!values_.emplace(name, value).second) source_.corrupt("the name '" + std::string(name) + "' is given to two values", position);
  }

  void add_initializers() {
    for (const std::string_view body : model_.graph.initializers) {
      const TensorProto tensor = parse_tensor(source_, body);
      if (tensor.name.empty()) source_.corrupt("an initializer has no name", body.data());
      auto loaded = tensors_.load(tensor, tensor.name);
      bind(tensor.name, graph_->add_constant(std::move(loaded.type), std::move(loaded.constant)), body.data());
    }
  }

  /// A symbol that no other name has: characters that a symbol cannot have become '_', and a number is added where that makes two names
  /// one.
  ir::Dim new_symbol(std::string_view name) {
    std::string clean;
    for (const char c : name.substr(0, 100)) clean += is_letter(c) || (c >= '0' && c <= '9') || c == '.' ? c : '_';
    if (clean.empty() || !is_letter(clean[0])) clean.insert(clean.begin(), '_');
    std::string candidate = clean;
    for (int& last = last_number_[clean]; !used_symbols_.insert(candidate).second;) candidate = clean + "_" + std::to_string(++last);
    return ir::Dim::symbol(candidate);
  }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  ir::Dim size_of(const DimProto& dim, const ValueProto& input, std::size_t axis) {
    if (dim.value) return *dim.value;
    if (dim.param.empty()) return new_symbol(std::string(input.name) + "_" + std::to_string(axis));
    const auto found = symbols_.find(dim.param);
    return found != symbols_.end() ? found->second : symbols_.emplace(dim.param, new_symbol(dim.param)).first->second;
  }

  void add_input(const ValueProto& input) {
    if (values_.contains(input.name)) {
      const auto* value = values_.at(input.name);
      if (value->constant == nullptr) source_.corrupt("the name '" + std::string(input.name) + "' is given to two inputs", input.position);
      return;  // an initializer is the input's default, and nobody overrides it
    }
    if (input.name.empty()) source_.corrupt("an input has no name", input.position);
    const std::string who = "input '" + std::string(input.name) + "'";
    if (!input.is_tensor) source_.fail(Code::unsupported, who + " is not a tensor", input.position);
    const auto dtype = dtype_of(input.data_type);
    if (!dtype)
      source_.fail(Code::unsupported, who + " has elements of type " + std::string(data_type_name(input.data_type)), input.position);
    if (!input.has_shape) source_.fail(Code::unsupported, who + " has no shape, so that even its rank is open", input.position);
    ir::Type type{*dtype, {}};
    for (std::size_t i = 0; i < input.dims.size(); ++i) type.shape.push_back(size_of(input.dims[i], input, i));
    bind(input.name, graph_->add_input(input.name, std::move(type)), input.position);
  }

  ir::Value* look_up(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) {
      if (builder_.reserved.contains(name))
        throw Error(Code::data_corrupt, "uses '" + std::string(name) + "', which a later node makes")
            .hint("nodes must be in an order in which values are made before they are used, without a cycle");
      throw Error(Code::data_corrupt, "uses '" + std::string(name) + "', which nothing makes");
    }
    if (found->second == nullptr)
      throw Error(Code::unsupported, "uses '" + std::string(name) + "', an optional output that Quern does not compute");
    return found->second;
  }

  Draft read_node(const NodeProto& node, const Mapping& mapping, const ir::Op* op) {
    Draft draft;
    draft.op = node.op_type;
    for (const std::string_view name : node.inputs) draft.inputs.push_back(name.empty() ? nullptr : look_up(name));
    draft.outputs = node.outputs.size();
    for (const std::string_view body : node.attributes) {
      AttributeProto a = parse_attribute(source_, body);
      std::string name(a.name);
      if (a.refers_to_function) throw Error(Code::unsupported, "attribute '" + name + "' refers to a function's attribute");
      if (draft.attributes.contains(name) || draft.tensors.contains(name))
        throw Error(Code::data_corrupt, "attribute '" + name + "' is given twice");
      switch (a.kind) {
        case Kind::integer: draft.attributes.emplace(std::move(name), a.integer); break;
        case Kind::number: draft.attributes.emplace(std::move(name), static_cast<double>(a.number)); break;
        case Kind::text: draft.attributes.emplace(std::move(name), std::string(a.text)); break;
        case Kind::integers: draft.attributes.emplace(std::move(name), std::move(a.integers)); break;
        case Kind::numbers: draft.attributes.emplace(std::move(name), std::vector<double>(a.numbers.begin(), a.numbers.end())); break;
        case Kind::texts: draft.attributes.emplace(std::move(name), std::vector<std::string>(a.texts.begin(), a.texts.end())); break;
        case Kind::tensor: draft.tensors.emplace(std::move(name), parse_tensor(source_, a.tensor)); break;
        case Kind::undefined:
          // An empty list leaves no trace of its kind in the oldest files.
          if (!mapping.has_extra(a.name) && !(op && has_attribute(*op, a.name)))
            throw Error(Code::data_corrupt, "attribute '" + name + "' has no value");
          break;
        default:
          throw Error(Code::unsupported,
                      "attribute '" + name + "' is of a kind that is not supported (" + std::to_string(static_cast<int>(a.kind)) + ")");
      }
    }
    return draft;
  }

  /// Element types are attributes of their own kind in the IR; ONNX writes them as numbers.
  static void convert_types(Draft& draft, const ir::Op& op) {
    for (const ir::AttributeSpec& spec : op.attributes) {
      const auto found = draft.attributes.find(spec.name);
      if (found == draft.attributes.end() || (spec.name != "to" && !std::holds_alternative<ir::DType>(spec.default_value))) continue;
      const auto* number = std::get_if<std::int64_t>(&found->second);
      if (number == nullptr) throw Error(Code::data_corrupt, "attribute '" + found->first + "' is not an element type");
      const auto type = dtype_of(*number);
      if (!type)
        throw Error(Code::unsupported, "element type " + std::string(data_type_name(*number)) + " (" + std::to_string(*number) + ")");
      found->second = *type;
    }
  }

  void add_node(const NodeProto& node) {
    const Mapping& mapping = *find_mapping(node.domain, node.op_type);  // check_model has seen that there is one
    const ir::Op* op = find_op(mapping);
    Draft draft = read_node(node, mapping, op);
    builder_.prefix = std::string(!node.name.empty() ? node.name : !node.outputs.empty() ? node.outputs[0] : std::string_view("node"));
    upgrade(builder_, draft, model_.opset());
    bool is_new = false;  // whether the results are this node's own, to be named after its outputs
    if (draft.results.empty()) {
      convert_types(draft, *op);
      if (op->outputs == ir::Op::kVariadic && has_attribute(*op, "outputs"))
        draft.attributes["outputs"] = static_cast<std::int64_t>(node.outputs.size());
      std::erase_if(draft.attributes, [&](const auto& a) { return !has_attribute(*op, a.first) && mapping.has_extra(a.first); });
      ir::Node* made = graph_->append(*op, std::move(draft.inputs), std::move(draft.attributes));
      made->name = node.name;
      draft.results = fold(*graph_, *made);
      if (draft.results.empty())
        draft.results = made->outputs;
      else
        folded_ = true;
      is_new = true;
    }
    for (std::size_t i = 0; i < std::max(node.outputs.size(), draft.results.size()); ++i) {
      ir::Value* value = i < draft.results.size() ? draft.results[i] : nullptr;
      const std::string_view name = i < node.outputs.size() ? node.outputs[i] : std::string_view{};
      if (!name.empty()) bind(name, value, node.position);
      if (value != nullptr && is_new) graph_->rename(value, name.empty() ? builder_.fresh_name("unused") : std::string(name));
    }
  }

  void set_outputs() {
    if (model_.graph.outputs.empty()) throw Error(Code::data_corrupt, "the graph has no outputs").at(source_.path);
    std::vector<ir::Value*> outputs;
    std::unordered_set<const ir::Value*> taken;
    for (const ValueProto& output : model_.graph.outputs) {
      try {
        ir::Value* value = look_up(output.name);
        const auto dtype = dtype_of(output.data_type);
        if (output.is_tensor && output.data_type != 0 && dtype != value->type.dtype)
          throw Error(Code::data_corrupt, "is declared as " + std::string(data_type_name(output.data_type)) + " but computed as " +
                                              std::string(ir::name(value->type.dtype)));
        // A value that passes through under another name gets this one, or a node of its own when it must keep the other.
        if (value->name != output.name || taken.contains(value)) {
          builder_.prefix = output.name;
          if (value->producer == nullptr || taken.contains(value)) value = builder_.emit("identity", {value});
          graph_->rename(value, output.name);
        }
        taken.insert(value);
        outputs.push_back(value);
      } catch (Error& error) {
        error.in("output '" + std::string(output.name) + "'");
        error.at(source_.path, source_.offset(output.position));
        throw;
      }
    }
    graph_->set_outputs(std::move(outputs));
  }

  const wire::Source& source_;
  ModelProto model_;
  TensorReader tensors_;
  std::unique_ptr<ir::Graph> graph_;
  Builder builder_;
  bool folded_ = false;
  std::unordered_map<std::string_view, ir::Value*> values_;  // by ONNX name; null: an optional output that is not computed
  std::unordered_map<std::string_view, ir::Dim> symbols_;    // by dim_param
  std::unordered_set<std::string> used_symbols_;
  std::unordered_map<std::string, int> last_number_;  // that new_symbol gave to a name
};

}  // namespace

std::unique_ptr<ir::Graph> import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name,
                                        const std::string& folder) {
  const wire::Source source{{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name};
  return Importer(source, std::move(owner), folder).run();
}

std::unique_ptr<ir::Graph> import_file(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto bytes = file->bytes();
  return import_bytes(bytes, std::move(file), path, folder.empty() ? "." : folder.string());
}

}  // namespace quern::onnx
