#include "backends/cpu/weight_store.h"

#include <algorithm>
#include <span>

#include "base/mapped_file.h"

namespace quern::cpu {
namespace {

// Of packed weights, packed by one worker at a time: some 0.5 ms of work, and as much of the file is in memory beside it.
constexpr std::int64_t kTaskBytes = 1 << 20;

struct Task {
  std::size_t entry;
  std::int64_t begin, end;  // tiles
};

}  // namespace

WeightStore::WeightStore(WeightOptions options) : options_(std::move(options)), cache_(options_.cache) {}

std::vector<PackedWeights> WeightStore::packed(std::span<ir::Value* const> constants, ir::DType x) {
  std::vector<PackedWeights> result;
  bool continues = false;
  for (const ir::Value* constant : constants) {
    const std::int64_t n = constant->type.shape[0].constant().value(), k = constant->type.shape[1].constant().value();
    const ir::DType type = constant->type.dtype;
    if (!options_.pack) {
      result.push_back(PackedWeights::unpacked(x, type, n, k, constant->constant->data));
      continue;
    }
    const auto [at, is_new] = index_.try_emplace({constant->constant->data, type, n, k, x}, entries_.size());
    if (is_new) entries_.push_back({constant->constant, PackedWeights::reserve(x, type, n, k), continues});
    continues = is_new;
    result.push_back(entries_[at->second].weights);
  }
  return result;
}

WeightStore::Lookup WeightStore::lookup(const ir::Value& constant) {
  lookups_.push_back({constant.constant->data, std::make_shared<std::optional<PackedWeights>>()});
  return lookups_.back().table;
}

void WeightStore::fill() {
  for (const Asked& asked : lookups_)
    for (const Entry& entry : entries_)
      if (entry.constant->data == asked.data && !*asked.table) *asked.table = entry.weights;

  place();
  const bool keep = !options_.file_identity.empty() && std::all_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return options_.mapped_owner != nullptr && entry.constant->owner == options_.mapped_owner;
  });
  if (!keep) {
    pack_all();
  } else {
    const std::string key = cache_key();
    std::vector<std::span<std::byte>> pieces;
    for (Entry& entry : entries_) pieces.push_back(entry.weights.writable());
    if (!cache_.read(key, pieces, options_.pool)) {
      pack_all();
      cache_.write(key, pieces, options_.pool);
    }
  }
  entries_.clear();
  index_.clear();
  lookups_.clear();
}

/// Touches the pages of all packed weights, each by a worker of the node whose workers will read it.
void WeightStore::place() {
  if (options_.pool == nullptr || options_.pool->nodes() < 2) return;
  constexpr std::int64_t kPieceBytes = 256 << 10, kPage = 4096;
  struct Group {
    std::size_t first, end;  // entries
    std::int64_t tiles;
  };
  std::vector<Group> groups;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    if (!entries_[e].continues) groups.push_back({e, e, 0});
    groups.back().end = e + 1;
    groups.back().tiles += entries_[e].weights.tiles();
  }
  std::vector<ThreadPool::Step> steps;
  for (const Group& group : groups) {
    std::int64_t bytes = 0;
    for (std::size_t e = group.first; e < group.end; ++e) bytes += entries_[e].weights.bytes();
    steps.push_back({static_cast<std::uint32_t>(std::clamp<std::int64_t>(bytes / kPieceBytes, 1, group.tiles)), -1});
  }
  struct Context {
    std::span<Entry> entries;
    std::span<const Group> groups;
    std::span<const ThreadPool::Step> steps;
  } context{entries_, groups, steps};
  options_.pool->walk(
      steps,
      [](void* c, std::uint32_t step, std::uint32_t task, unsigned) noexcept {
        const auto& [entries, groups, steps] = *static_cast<Context*>(c);
        const Group& group = groups[step];
        std::int64_t begin = group.tiles * task / steps[step].tasks, end = group.tiles * (task + 1) / steps[step].tasks;
        for (Entry& entry : entries.subspan(group.first, group.end - group.first)) {
          const std::int64_t tile_bytes = entry.weights.tile_bytes(), tiles = entry.weights.tiles();
          volatile std::byte* bytes = entry.weights.writable().data();
          for (std::int64_t at = std::max<std::int64_t>(begin, 0) * tile_bytes; at < std::min(end, tiles) * tile_bytes; at += kPage)
            bytes[at] = std::byte{0};
          begin -= tiles;
          end -= tiles;
        }
      },
      &context);
}

void WeightStore::pack_all() {
  std::vector<Task> tasks;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const PackedWeights& w = entries_[e].weights;
    const std::int64_t step = std::max<std::int64_t>(1, kTaskBytes / std::max<std::int64_t>(w.tile_bytes(), 1));
    for (std::int64_t tile = 0; tile < w.tiles(); tile += step) tasks.push_back({e, tile, std::min(tile + step, w.tiles())});
  }
  const auto pack = [&](const Task& task) {
    Entry& entry = entries_[task.entry];
    entry.weights.pack_tiles(entry.constant->data, task.begin, task.end);
    if (options_.mapped_owner == nullptr || entry.constant->owner != options_.mapped_owner) return;
    const std::span<const std::byte> source(entry.constant->data, entry.constant->bytes);
    const std::size_t tile = source.size() / static_cast<std::size_t>(entry.weights.n()) * kTileRows;
    const auto begin = static_cast<std::size_t>(task.begin) * tile,
               end = std::min(source.size(), static_cast<std::size_t>(task.end) * tile);
    release_pages(source.subspan(begin, end - begin));
  };
  const auto run = [&](std::size_t task) { pack(tasks[task]); };
  for_each_task(options_.pool, tasks.size(), run);
}

/// All that the packed bytes depend on: file, layout, and which tensors are packed how, in order.
std::string WeightStore::cache_key() const {
  std::string key = "layout " + std::to_string(kLayoutVersion) + " file " + options_.file_identity;
  for (const Entry& entry : entries_)
    key += "\n" + entry.constant->name + " " + std::string(ir::name(entry.weights.type())) + " " +
           std::string(ir::name(entry.weights.x_type())) + " " + std::to_string(entry.weights.n()) + " " +
           std::to_string(entry.weights.k());
  return key;
}

}  // namespace quern::cpu
