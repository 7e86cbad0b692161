#include "plan/program.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "ir/op.h"

namespace quern::plan {

/// Builds one program; lives for one call of compile().
class Compiler {
 public:
  Compiler(const ir::Graph& graph, std::span<Backend* const> backends)
      : graph_(graph), backends_(backends), program_(std::make_shared<Program>()) {}

  std::shared_ptr<const Program> compile() {
    program_->symbols_ = ir::input_symbols(graph_);
    find_needed();
    place_inputs();
    for (const ir::Node* node : needed_) place_node(*node);
    for (Backend* backend : backends_) backend->finish();
    place_outputs();
    assign_arena();
    find_hazards();
    return program_;
  }

 private:
  static constexpr int kNever = -1;

  int slot_of(const ir::Value* value) {
    if (value == nullptr) return -1;
    const auto found = slots_.find(value);
    if (found != slots_.end()) return found->second;
    QUERN_ASSERT(value->constant != nullptr);  // anything else was placed before its use
    program_->constants_.push_back(value->constant);
    return add_slot(value, add_storage({Storage::Kind::constant, value->constant->data, 0}));
  }

  int add_slot(const ir::Value* value, int storage) {
    const int slot = static_cast<int>(program_->slots_.size());
    program_->slots_.push_back({value->type, value->name, storage});
    slots_.emplace(value, slot);
    return slot;
  }

  int add_storage(Storage storage) {
    program_->storages_.push_back(storage);
    first_use_.push_back(kNever);
    last_use_.push_back(kNever);
    bytes_.emplace_back(0);
    return static_cast<int>(program_->storages_.size()) - 1;
  }

  void place_inputs() {
    for (const ir::Value* value : graph_.inputs()) {
      auto& list = value->type.state ? program_->states_ : program_->inputs_;
      const Storage::Kind kind = value->type.state ? Storage::Kind::state : Storage::Kind::input;
      list.push_back(add_slot(value, add_storage({kind, nullptr, static_cast<int>(list.size())})));
    }
  }

  /// What a node reads when it runs. A view reads nothing but its first input: what else it takes (a shape) was for inference.
  static std::span<ir::Value* const> read_by(const ir::Node& node) {
    return std::span(node.inputs).first(has(node.op->traits, ir::Trait::view) ? 1 : node.inputs.size());
  }

  /// The nodes that the outputs need, in order, and for each value the position of the last of them that reads it; the graph's outputs are
  /// read after the end. Nodes that only compute shapes are not needed: shapes are formulas by now.
  void find_needed() {
    std::unordered_set<const ir::Value*> wanted(graph_.outputs().begin(), graph_.outputs().end());
    for (auto it = graph_.nodes().rbegin(); it != graph_.nodes().rend(); ++it) {
      const ir::Node& node = **it;
      if (!node.regions.empty() && !has(node.op->traits, ir::Trait::elementwise))  // those are all inside one kernel
        throw Error(Code::unsupported, std::string(node.op->name) + " with a body is not supported yet").in("node '" + node.name + "'");
      const bool needed = !has(node.op->traits, ir::Trait::pure) ||
                          std::any_of(node.outputs.begin(), node.outputs.end(), [&](const ir::Value* v) { return wanted.contains(v); });
      if (!needed) continue;
      needed_.push_back(&node);
      for (const ir::Value* value : read_by(node)) wanted.insert(value);
    }
    std::reverse(needed_.begin(), needed_.end());
    for (std::size_t position = 0; position < needed_.size(); ++position)
      for (const ir::Value* value : read_by(*needed_[position])) last_reader_[value] = static_cast<int>(position);
    for (const ir::Value* value : graph_.outputs()) last_reader_[value] = static_cast<int>(needed_.size());
  }

  void touch(int slot, int step) {
    const int storage = program_->slots_[slot].storage;
    if (first_use_[storage] == kNever) first_use_[storage] = step;
    last_use_[storage] = std::max(last_use_[storage], step);
  }

  void place_node(const ir::Node& node) {
    const bool view = has(node.op->traits, ir::Trait::view), writes_state = has(node.op->traits, ir::Trait::writes_state);
    std::vector<int> inputs;
    for (const ir::Value* value : read_by(node)) inputs.push_back(slot_of(value));
    if (writes_state && std::max(alive(inputs[0]), reader(node.inputs[0])) > position_)
      throw Error(Code::invalid_argument,
                  std::string(node.op->name) + " overwrites the state '" + node.inputs[0]->name + "', which is read later")
          .in("node '" + node.name + "'");

    std::vector<int> outputs;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ir::Value* value = node.outputs[i];
      int storage;
      if (i == 0 && (view || writes_state || may_overwrite_input(node, inputs))) {
        storage = program_->slots_[inputs[0]].storage;
      } else {
        storage = add_storage({});
        bytes_[storage] = ir::byte_size(value->type);
      }
      outputs.push_back(add_slot(value, storage));
    }
    // Uses are extended to the last reader of every value, so a storage stays alive for all its views.
    for (std::size_t i = 0; i < outputs.size(); ++i)
      alive_until_[program_->slots_[outputs[i]].storage] = std::max(alive(outputs[i]), reader(node.outputs[i]));
    if (!view) add_steps(node, inputs, outputs);
    ++position_;
  }

  /// The step of a node, and the one of its kernel's second part.
  void add_steps(const ir::Node& node, const std::vector<int>& inputs, std::vector<int> outputs) {
    std::unique_ptr<Kernel> kernel = lower(node);
    if (const ir::Dim bytes = kernel->workspace_bytes(); !(bytes == 0)) {
      const int storage = add_storage({});
      bytes_[storage] = bytes;
      outputs.push_back(static_cast<int>(program_->slots_.size()));
      program_->slots_.push_back({{ir::DType::u8, {bytes}}, node.name + ".workspace", storage});
    }
    while (kernel != nullptr) {
      const int step = static_cast<int>(program_->steps_.size());
      for (const int slot : inputs)
        if (slot >= 0) touch(slot, step);
      for (const int slot : outputs) touch(slot, step);
      ProgramStep made;
      made.kernel = std::move(kernel);
      made.node = copy_for_kernel(node);
      made.inputs = inputs;
      made.outputs = outputs;
      kernel = made.kernel->second();
      program_->steps_.push_back(std::move(made));
    }
  }

  int reader(const ir::Value* value) const {
    const auto found = last_reader_.find(value);
    return found == last_reader_.end() ? kNever : found->second;
  }
  int alive(int slot) const {
    const auto found = alive_until_.find(program_->slots_[slot].storage);
    return found == alive_until_.end() ? kNever : found->second;
  }

  /// Whether output 0 may take the bytes of input 0: the op allows it, they lie in the arena, are as large, and nobody reads them later.
  bool may_overwrite_input(const ir::Node& node, const std::vector<int>& inputs) const {
    if (!has(node.op->traits, ir::Trait::in_place) || inputs.empty() || inputs[0] < 0) return false;
    const Slot& in = program_->slots_[inputs[0]];
    if (program_->storages_[in.storage].kind != Storage::Kind::arena || alive(inputs[0]) > position_) return false;
    // Another input in the same storage would be overwritten while it is read, except element by element (x + x), where it is the same
    // element.
    for (std::size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i] >= 0 && program_->slots_[inputs[i]].storage == in.storage &&
          (!has(node.op->traits, ir::Trait::elementwise) || program_->slots_[inputs[i]].type.shape != in.type.shape))
        return false;
    return ir::byte_size(in.type) == ir::byte_size(node.outputs[0]->type) && in.type.dtype == node.outputs[0]->type.dtype;
  }

  std::unique_ptr<Kernel> lower(const ir::Node& node) {
    for (Backend* backend : backends_)
      if (auto kernel = backend->lower(node)) return kernel;
    throw Error(Code::unsupported, "no backend can run " + std::string(node.op->name)).in("node '" + node.name + "'");
  }

  static std::unique_ptr<ir::Node> copy_for_kernel(const ir::Node& node) {
    auto copy = std::make_unique<ir::Node>();
    copy->op = node.op;
    copy->name = node.name;
    copy->attributes = node.attributes;
    copy->inputs.resize(node.inputs.size(), nullptr);
    copy->outputs.resize(node.outputs.size(), nullptr);
    return copy;
  }

  void place_outputs() {
    const int end = static_cast<int>(program_->steps_.size());
    for (const ir::Value* value : graph_.outputs()) {
      const int slot = slot_of(value);
      touch(slot, end);
      if (!value->type.state) program_->outputs_.push_back(slot);
    }
  }

  void assign_arena() {
    std::vector<Lifetime> lifetimes;
    std::vector<int> storages;
    for (int s = 0; s < static_cast<int>(program_->storages_.size()); ++s) {
      if (program_->storages_[s].kind != Storage::Kind::arena || first_use_[s] == kNever) continue;
      lifetimes.push_back({bytes_[s], first_use_[s], last_use_[s]});
      storages.push_back(s);
    }
    const std::vector<int> buffers = assign_buffers(lifetimes, program_->memory_);
    for (std::size_t i = 0; i < storages.size(); ++i) program_->storages_[storages[i]].index = buffers[i];
  }

  /// Which bytes a slot's hazards are about: buffers of the arena are shared by storages, everything else is a storage of its own.
  int hazard_key(int slot) const {
    const int storage = program_->slots_[slot].storage;
    const Storage& s = program_->storages_[storage];
    return s.kind == Storage::Kind::arena ? -1 - s.index : storage;
  }

  void find_hazards() {
    struct Uses {
      int written = -1;         // the last step that wrote these bytes
      std::vector<int> read{};  // the steps that have read them since
    };
    std::unordered_map<int, Uses> uses;
    for (int s = 0; s < static_cast<int>(program_->steps_.size()); ++s) {
      ProgramStep& step = program_->steps_[s];
      std::set<int> needs;
      for (const int slot : step.inputs)
        if (slot >= 0) needs.insert(uses[hazard_key(slot)].written);
      for (const int slot : step.outputs) {
        const Uses& before = uses[hazard_key(slot)];
        needs.insert(before.written);
        needs.insert(before.read.begin(), before.read.end());
      }
      needs.erase(-1);
      step.needs.assign(needs.begin(), needs.end());
      if (!needs.empty()) step.wait_for = step.needs.back();
      for (const int slot : step.inputs)
        if (slot >= 0) uses[hazard_key(slot)].read.push_back(s);
      for (const int slot : step.outputs) uses[hazard_key(slot)] = {s};
    }
  }

  const ir::Graph& graph_;
  std::span<Backend* const> backends_;
  std::shared_ptr<Program> program_;
  std::vector<const ir::Node*> needed_;
  std::unordered_map<const ir::Value*, int> slots_, last_reader_;
  std::unordered_map<int, int> alive_until_;  // storage → position of the last node that reads it through any value
  std::vector<int> first_use_, last_use_;     // of each storage, in steps
  std::vector<ir::Dim> bytes_;                // of each storage
  int position_ = 0;
};

std::shared_ptr<const Program> Program::compile(const ir::Graph& graph, std::span<Backend* const> backends) {
  return Compiler(graph, backends).compile();
}

}  // namespace quern::plan
