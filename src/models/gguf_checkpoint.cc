#include "base/error.h"
#include "formats/gguf/file.h"
#include "models/checkpoint.h"

namespace quern::models {
namespace {

class GgufCheckpoint final : public Checkpoint {
 public:
  explicit GgufCheckpoint(std::shared_ptr<const gguf::File> file)
      : file_(std::move(file)), architecture_(file_->get<std::string_view>("general.architecture")) {}

  std::string architecture() const override { return architecture_; }
  std::optional<std::int64_t> integer(std::string_view key) const override { return read<std::int64_t>(key); }
  std::optional<double> number(std::string_view key) const override { return read<double>(key); }
  std::optional<std::string> text(std::string_view key) const override {
    const auto view = read<std::string_view>(key);
    return view ? std::optional(std::string(*view)) : std::nullopt;
  }

  std::optional<Tensor> tensor(std::string_view name) const override {
    const gguf::Tensor* found = file_->find_tensor(name);
    if (found == nullptr) return std::nullopt;
    auto constant = std::make_shared<ir::Constant>();
    constant->name = name;
    constant->data = found->data.data();
    constant->bytes = found->data.size();
    constant->owner = file_;
    return Tensor{found->type, found->shape(), std::move(constant)};
  }

  const std::string& path() const override { return file_->path(); }

 private:
  template <class T>
  std::optional<T> read(std::string_view key) const {
    const std::string whole = architecture_ + "." + std::string(key);
    return file_->find(whole) == nullptr ? std::nullopt : std::optional<T>(file_->get<T>(whole));
  }

  std::shared_ptr<const gguf::File> file_;
  std::string architecture_;
};

}  // namespace

std::unique_ptr<Checkpoint> gguf_checkpoint(std::shared_ptr<const gguf::File> file) {
  return std::make_unique<GgufCheckpoint>(std::move(file));
}

}  // namespace quern::models
