#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ir/tensor_view.h"
#include "plan/session.h"

namespace quern::runtime {

/// A graph model (ONNX) loaded from a file and compiled. Immutable; sessions share it.
class GraphModel {
 public:
  struct Port {
    std::string name;
    ir::Type type;  // dimensions may be symbols
  };

  /// Errors: those of the file's format; unsupported; resource_exhausted.
  static std::shared_ptr<const GraphModel> load(const std::string& path);

  std::span<const Port> inputs() const { return inputs_; }
  std::span<const Port> outputs() const { return outputs_; }
  const std::shared_ptr<const plan::Program>& program() const { return program_; }
  const ir::Graph& graph() const { return *graph_; }

 private:
  std::unique_ptr<const ir::Graph> graph_;  // as compiled, to check new sizes against
  std::shared_ptr<const plan::Program> program_;
  std::vector<Port> inputs_, outputs_;
};

/// Runs a graph model on inputs of any sizes that fit its shapes. Not for concurrent use.
class GraphSession {
 public:
  GraphSession(std::shared_ptr<const GraphModel> model, ThreadPool& pool);

  /// `inputs` in the order of the model's. The outputs' bytes are valid until the next run.
  /// Errors: invalid_argument (a wrong type, rank or size: names the input; data that an op cannot use: names the node),
  /// resource_exhausted.
  std::vector<ir::TensorView> run(std::span<const ir::TensorView> inputs);
  /// See plan::Session::set_profile.
  void set_profile(plan::Profile* profile) { session_.set_profile(profile); }

 private:
  ir::SymbolValues solve_symbols(std::span<const ir::TensorView> inputs) const;

  std::shared_ptr<const GraphModel> model_;
  plan::Session session_;
};

}  // namespace quern::runtime
