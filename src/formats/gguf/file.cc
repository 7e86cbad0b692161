#include "formats/gguf/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/gguf/detail/layout.h"
#include "formats/gguf/detail/parse.h"

namespace quern::gguf {
namespace {

using detail::quoted;

// Positions of `items` in the order of their names, for binary search.
template <class Item, class Name>
std::vector<std::uint32_t> sorted_by(const std::vector<Item>& items, Name name) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return name(items[a]) < name(items[b]); });
  return order;
}

template <class Item, class Name>
const Item* find_in(const std::vector<Item>& items, const std::vector<std::uint32_t>& order, std::string_view wanted, Name name) {
  const auto found = std::lower_bound(order.begin(), order.end(), wanted, [&](auto i, std::string_view w) { return name(items[i]) < w; });
  return found != order.end() && name(items[*found]) == wanted ? &items[*found] : nullptr;
}

constexpr auto kKeyOf = [](const Value& v) { return v.key(); };
constexpr auto kNameOf = [](const Tensor& t) { return t.name; };

// The name of one part of a split model: PREFIX-00001-of-00003.gguf.
struct PartName {
  std::string prefix;
  std::uint32_t part, count;  // part counts from 1

  static std::optional<PartName> parse(std::string_view path) {
    constexpr std::string_view kPattern = "-00000-of-00000.gguf";
    if (path.size() <= kPattern.size()) return std::nullopt;
    const std::string_view tail = path.substr(path.size() - kPattern.size());
    std::uint32_t numbers[2] = {0, 0};
    for (std::size_t i = 0; i < tail.size(); ++i) {
      if (kPattern[i] != '0') {
        if (tail[i] != kPattern[i]) return std::nullopt;
        continue;
      }
      if (tail[i] < '0' || tail[i] > '9') return std::nullopt;
      std::uint32_t& number = numbers[i < 7 ? 0 : 1];
      number = number * 10 + std::uint32_t(tail[i] - '0');
    }
    return PartName{std::string(path.substr(0, path.size() - tail.size())), numbers[0], numbers[1]};
  }

  std::string path(std::uint32_t i) const { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i, count); }
};

// One of the numbers by which a part says where it belongs.
std::optional<std::uint64_t> split_number(const detail::Parsed& parsed, std::string_view key, const std::string& path) {
  for (const Value& value : parsed.metadata) {
    if (value.key() != key) continue;
    try {
      return value.get<std::uint64_t>();
    } catch (Error& e) {
      e.at(path);
      throw;
    }
  }
  return std::nullopt;
}

void expect_split_number(const detail::Parsed& parsed, std::string_view key, std::uint64_t expected, const std::string& path) {
  const auto found = split_number(parsed, key, path);
  if (found != expected)
    throw Error(Code::data_corrupt,
                fmt::format("'{}' is {}, where {} is expected", key, found ? fmt::format("{}", *found) : "missing", expected))
        .at(path)
        .hint("the files of a split model do not belong together: fetch all of them again");
}

}  // namespace

struct File::State {
  std::string path;
  std::vector<MappedFile> maps;
  std::uint32_t version = 0;
  std::size_t parts = 1;
  std::uint64_t bytes = 0;
  std::vector<Value> metadata;
  std::vector<Tensor> tensors;
  std::vector<std::uint32_t> by_key, by_name;

  void index() {
    by_key = sorted_by(metadata, kKeyOf);
    for (std::size_t i = 1; i < by_key.size(); ++i)
      if (metadata[by_key[i]].key() == metadata[by_key[i - 1]].key()) twice("metadata key", metadata[by_key[i]].key());
    by_name = sorted_by(tensors, kNameOf);
    for (std::size_t i = 1; i < by_name.size(); ++i)
      if (tensors[by_name[i]].name == tensors[by_name[i - 1]].name) twice("tensor", tensors[by_name[i]].name);
  }

  [[noreturn]] void twice(std::string_view what, std::string_view name) const {
    throw Error(Code::data_corrupt, fmt::format("{} {} appears twice", what, quoted(name))).at(path);
  }

  void take(detail::Parsed&& parsed) {
    version = parsed.version;
    metadata = std::move(parsed.metadata);
    tensors = std::move(parsed.tensors);
  }
};

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::~File() = default;
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;

File File::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  MappedFile map(path);
  detail::Parsed parsed = detail::parse(map.bytes(), path);
  const std::uint64_t count = split_number(parsed, "split.count", path).value_or(1);
  if (count <= 1) {
    state->bytes = map.bytes().size();
    state->maps.push_back(std::move(map));
    state->take(std::move(parsed));
    state->index();
    return File(std::move(state));
  }

  const auto name = PartName::parse(path);
  if (!name || name->count != count)
    throw Error(Code::data_corrupt, fmt::format("is one of {} parts of a model, but is not named so", count))
        .at(path)
        .hint(fmt::format("the parts are found by their names, NAME-00001-of-{:05}.gguf and so on: rename them", count));
  const auto tensor_count = split_number(parsed, "split.tensors.count", path);
  for (std::uint32_t i = 1; i <= name->count; ++i) {
    const std::string part_path = name->path(i);  // the part that was given is read again: it costs less than telling it apart
    MappedFile part_map(part_path);
    detail::Parsed part = detail::parse(part_map.bytes(), part_path);
    expect_split_number(part, "split.no", i - 1, part_path);
    expect_split_number(part, "split.count", count, part_path);
    if (tensor_count) expect_split_number(part, "split.tensors.count", *tensor_count, part_path);
    state->bytes += part_map.bytes().size();
    state->maps.push_back(std::move(part_map));
    if (i == 1)
      state->take(std::move(part));
    else
      state->tensors.insert(state->tensors.end(), part.tensors.begin(), part.tensors.end());
    if (state->tensors.size() > detail::kMaxTensors)
      throw Error(Code::data_corrupt, fmt::format("the parts have more than {} tensors", detail::kMaxTensors)).at(part_path);
  }
  if (tensor_count && *tensor_count != state->tensors.size())
    throw Error(Code::data_corrupt,
                fmt::format("the {} parts have {} tensors, where {} are expected", count, state->tensors.size(), *tensor_count))
        .at(path)
        .hint("the files of a split model do not belong together: fetch all of them again");
  state->parts = name->count;
  state->index();
  return File(std::move(state));
}

File File::over(std::span<const std::byte> bytes, std::string name) {
  auto state = std::make_unique<State>();
  state->path = std::move(name);
  state->bytes = bytes.size();
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % detail::kMinAlignment != 0)
    throw Error(Code::invalid_argument, fmt::format("the bytes of a GGUF file in memory must be aligned to {}", detail::kMinAlignment));
  detail::Parsed parsed = detail::parse(bytes, state->path);
  if (split_number(parsed, "split.count", state->path).value_or(1) > 1)
    throw Error(Code::unsupported, "is one part of a split model, which can be opened by path only").at(state->path);
  state->take(std::move(parsed));
  state->index();
  return File(std::move(state));
}

const std::string& File::path() const { return state_->path; }
std::uint32_t File::version() const { return state_->version; }
std::size_t File::parts() const { return state_->parts; }

std::string File::identity() const {
  std::string all;
  for (const MappedFile& map : state_->maps) {
    if (map.identity().empty()) return "";
    all += map.identity();
  }
  return all;
}
std::string File::fingerprint() const {
  std::string all = identity();
  if (all.empty())
    for (const MappedFile& map : state_->maps) all += fmt::format("{:016x} ", checksum(map.bytes()));
  return all;
}
void File::release_pages() const {
  for (const MappedFile& map : state_->maps) quern::release_pages(map.bytes());
}
std::uint64_t File::bytes() const { return state_->bytes; }
std::span<const Value> File::metadata() const { return state_->metadata; }
std::span<const Tensor> File::tensors() const { return state_->tensors; }

const Value* File::find(std::string_view key) const { return find_in(state_->metadata, state_->by_key, key, kKeyOf); }
const Tensor* File::find_tensor(std::string_view name) const { return find_in(state_->tensors, state_->by_name, name, kNameOf); }

const Value& File::require(std::string_view key) const {
  if (const Value* value = find(key)) return *value;
  throw Error(Code::data_corrupt, fmt::format("has no metadata {}", quoted(key))).at(path());
}

const Tensor& File::tensor(std::string_view name) const {
  if (const Tensor* t = find_tensor(name)) return *t;
  throw Error(Code::data_corrupt, fmt::format("has no tensor {}", quoted(name))).at(path());
}

void File::rethrow_with_path() const {
  try {
    throw;
  } catch (Error& e) {
    e.at(path());
    throw;
  }
}

}  // namespace quern::gguf
