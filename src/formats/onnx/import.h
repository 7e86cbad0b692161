#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ir/graph.h"

/// ONNX models, operator sets 1 to 25, brought into the graph IR.
///
/// Every node becomes an op of ops/registry.h in its newest form; older forms are rewritten (detail/upgrade.cc). Named dimensions
/// (`dim_param`) become symbols of that name, with characters that a symbol cannot have replaced by '_'; unnamed ones become symbols
/// "<input>_<axis>". Initializers and Constant nodes become constants that refer to the file's bytes, external data files included. Graph
/// inputs with an initializer are constants. Nodes over small constants are computed at once. Inputs and outputs keep their ONNX names and
/// order.
namespace quern::onnx {

/// The graph keeps the mapped file alive as long as it needs it.
/// Errors: not_found; data_corrupt (malformed file, nodes out of order, a name made twice, data that does not fit a shape: with the
/// offset); unsupported (all operators, attributes and element types that Quern lacks, in one message); invalid_argument (a node's inputs
/// do not fit its op; external data outside the model's folder); resource_exhausted (more than 250,000 nodes).
std::unique_ptr<ir::Graph> import_file(const std::string& path);

/// The same from memory that `owner` keeps alive. `name` is for messages. External data is looked up in `folder`, and refused when it is
/// empty.
std::unique_ptr<ir::Graph> import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name,
                                        const std::string& folder = {});

}  // namespace quern::onnx
