#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace quern::gguf {
class File;
}

namespace quern::models {

/// Where a model's numbers come from, in the terms of GGUF, whatever the file: hyper-parameters by key (without the architecture's prefix)
/// and tensors by name. Nothing read from it is trusted: the blocks check every shape against what the graph needs.
class Checkpoint {
 public:
  struct Tensor {
    ir::DType dtype;
    std::vector<std::int64_t> shape;  // row-major: a weight of `out` rows of `in` is [out, in]
    std::shared_ptr<const ir::Constant> bytes;
  };

  virtual ~Checkpoint() = default;
  /// "llama", "qwen2" …
  virtual std::string architecture() const = 0;
  /// A hyper-parameter, e.g. "attention.head_count". Nothing when absent. Errors: data_corrupt when it is of another kind.
  virtual std::optional<std::int64_t> integer(std::string_view key) const = 0;
  virtual std::optional<double> number(std::string_view key) const = 0;
  virtual std::optional<std::string> text(std::string_view key) const = 0;
  virtual std::optional<Tensor> tensor(std::string_view name) const = 0;
  /// For messages.
  virtual const std::string& path() const = 0;
};

/// A checkpoint over a GGUF file; constants keep the file mapped.
std::unique_ptr<Checkpoint> gguf_checkpoint(std::shared_ptr<const gguf::File> file);

}  // namespace quern::models
