#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/checkpoint.h"

namespace quern::models::testing {

/// A checkpoint whose hyper-parameters and tensors a test sets one by one. Tensors have the bytes they were given, or zeros.
class StubCheckpoint final : public Checkpoint {
 public:
  using Number = std::variant<std::int64_t, double, std::string>;

  std::string name = "llama";
  std::map<std::string, Number, std::less<>> keys;
  std::map<std::string, Tensor, std::less<>> tensors;

  /// A model of two layers that builds: width 64, 4 heads of 16 over 2, feed-forward width 96, 40 tokens.
  static StubCheckpoint small();

  void add(const std::string& tensor, std::vector<std::int64_t> shape, ir::DType dtype = ir::DType::f32);
  void add_floats(const std::string& tensor, const std::vector<float>& values);

  std::string architecture() const override { return name; }
  std::optional<std::int64_t> integer(std::string_view key) const override;
  std::optional<double> number(std::string_view key) const override;
  std::optional<std::string> text(std::string_view key) const override;
  std::optional<Tensor> tensor(std::string_view name) const override;
  const std::string& path() const override { return path_; }

 private:
  std::string path_ = "stub.gguf";
};

}  // namespace quern::models::testing
