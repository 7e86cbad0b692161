#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "formats/onnx/detail/model.h"
#include "ir/graph.h"

namespace quern::onnx {

/// Turns the tensors of a model into constants. Raw and external data stay where they are in their files; numbers that are stored as fields
/// are decoded into memory that the constant owns.
class TensorReader {
 public:
  /// `owner` keeps source.bytes alive. `folder` holds the external data; empty: there is none.
  TensorReader(const wire::Source& source, std::shared_ptr<const void> owner, std::string folder)
      : source_(source), owner_(std::move(owner)), folder_(std::move(folder)) {}

  struct Loaded {
    ir::Type type;
    std::shared_ptr<const ir::Constant> constant;
  };
  /// Errors: data_corrupt (the data does not fit the shape), unsupported (element type), not_found and invalid_argument (external files).
  Loaded load(const TensorProto& tensor, std::string_view name);

 private:
  std::shared_ptr<const MappedFile> external_file(std::string_view location, const char* position);

  const wire::Source& source_;
  std::shared_ptr<const void> owner_;
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;  // by location
};

}  // namespace quern::onnx
