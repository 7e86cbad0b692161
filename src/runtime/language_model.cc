#include "runtime/language_model.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/build_id.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "runtime/detail/language_graph.h"

namespace quern::runtime {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t round_up(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

const ir::Type& state_type(const plan::Program& program, std::size_t i) { return program.slots()[program.states()[i]].type; }

bool has_window(const plan::Program& program, std::size_t i) {
  return state_type(program, i).shape[0] == ir::Dim::symbol(models::kWindowBlocks);
}

/// Bytes that a block of the cache takes in one state.
std::int64_t state_bytes(const plan::Program& program, std::size_t i) {
  return round_up(byte_size(state_type(program, i)).evaluate({{"blocks", 1}, {models::kWindowBlocks, 1}}));
}

std::int64_t block_bytes(const plan::Program& program, bool windowed) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < program.states().size(); ++i)
    if (has_window(program, i) == windowed) sum += state_bytes(program, i);
  return sum;
}

/// Norms and biases lie scattered among the weights, and each would keep megabytes of the file around it in memory: the system maps
/// what it has cached near a page, too. So they are copied. Matrices are not: packing copies them.
void copy_small_constants(const ir::Graph& graph, const std::shared_ptr<const gguf::File>& file) {
  constexpr std::size_t kSmall = 256 << 10;
  for (ir::Value* value : graph.constants()) {
    const ir::Constant& mapped = *value->constant;
    if (mapped.owner != file || mapped.bytes > kSmall || value->type.shape.size() > 1) continue;
    auto bytes = std::make_shared<std::vector<std::byte>>(mapped.data, mapped.data + mapped.bytes);
    auto copy = std::make_shared<ir::Constant>();
    copy->name = mapped.name;
    copy->data = bytes->data();
    copy->bytes = bytes->size();
    copy->owner = std::move(bytes);
    value->constant = std::move(copy);
    file->release_pages();
  }
}

}  // namespace

std::shared_ptr<const LanguageModel> LanguageModel::load(const std::string& path, const LanguageOptions& options) {
  auto model = std::make_shared<LanguageModel>();
  model->options_ = options;
  model->file_ = std::make_shared<const gguf::File>(gguf::File::open(path));
  models::LanguageModel built = language_graph(model->file_, options);
  copy_small_constants(*built.graph, model->file_);
  cpu::WeightOptions weights;
  weights.pool = options.pool;
  weights.mapped_owner = model->file_;
  weights.pack = options.pack;
  weights.cache.folder = options.cache_folder;
  weights.cache.note = options.note;
  weights.file_identity = model->file_->identity();
  cpu::CpuBackend backend(weights);
  plan::Backend* const backends[] = {&backend};
  model->program_ = plan::Program::compile(*built.graph, backends);
  model->file_->release_pages();  // what is needed later is read again
  model->architecture_ = std::move(built.architecture);
  model->vocabulary_ = built.vocabulary;
  model->width_ = built.width;
  model->context_length_ = built.context_length;
  model->window_ = built.window;
  return model;
}

std::int64_t LanguageModel::kv_block_bytes() const { return block_bytes(*program_, false); }
std::int64_t LanguageModel::kv_window_block_bytes() const { return block_bytes(*program_, true); }

std::string LanguageModel::kv_fingerprint() const {
  std::string text = file_->fingerprint() + "| " + build_id() + " " + std::string(name(best_isa()));
  for (const auto number : {static_cast<std::int64_t>(options_.precision), static_cast<std::int64_t>(options_.pack),
                            options_.kv_dtype ? static_cast<std::int64_t>(*options_.kv_dtype) : -1, options_.kv_block_tokens})
    text += " " + std::to_string(number);
  return text;
}

std::int64_t window_blocks_for(std::int64_t window, std::int64_t block_tokens, std::int64_t blocks, std::int64_t sequences,
                               std::int64_t step_tokens) {
  if (window == 0) return 0;
  // Of each sequence, what the next token sees, a block that has begun and one that begins.
  const std::int64_t each = (std::min(window, blocks * block_tokens) + block_tokens - 1) / block_tokens + 2;
  return std::min(blocks, std::max(blocks / 4, sequences * each + step_tokens / block_tokens + 1));
}

LanguageRunner::Cache::Cache(std::int64_t count, std::int64_t each) : blocks(count), block_bytes(each) {
  std::int64_t bytes;
  if (__builtin_mul_overflow(each, count, &bytes))
    throw Error(Code::resource_exhausted, "a cache of " + std::to_string(count) + " blocks overflows 64 bits");
  if (bytes > 0) memory = PageMemory(static_cast<std::size_t>(bytes), "cache for keys and values", "ask for a shorter context");
}

std::span<std::byte> LanguageRunner::Cache::block(std::int32_t index) {
  QUERN_ASSERT(index >= 0 && index < blocks);
  return {memory.data() + index * block_bytes, static_cast<std::size_t>(block_bytes)};
}

void LanguageRunner::Cache::copy(std::int32_t from, std::int32_t to) { std::ranges::copy(block(from), block(to).begin()); }

LanguageRunner::LanguageRunner(std::shared_ptr<const LanguageModel> model, ThreadPool& pool, std::int64_t blocks,
                               std::int64_t max_sequences, std::int64_t max_blocks_per_sequence, std::int64_t window_blocks)
    : model_(std::move(model)),
      max_sequences_(max_sequences),
      max_blocks_per_sequence_(max_blocks_per_sequence),
      session_(model_->program(), pool),
      cache_(blocks, model_->kv_block_bytes()),
      window_cache_(model_->kv_window() == 0 ? 0
                    : window_blocks < 0      ? blocks
                                             : window_blocks,
                    model_->kv_window_block_bytes()) {
  const plan::Program& program = *model_->program();
  std::array<std::byte*, 2> next = {cache_.memory.data(), window_cache_.memory.data()};
  for (std::size_t i = 0; i < program.states().size(); ++i) {
    const bool windowed = has_window(program, i);
    session_.set_state(i, next[windowed ? 1 : 0], (windowed ? window_cache_ : cache_).block_bytes);
    next[windowed ? 1 : 0] += state_bytes(program, i);
  }
  symbol_values_.resize(program.symbols().size());
}

std::span<const float> LanguageRunner::run(const Batch& batch, unsigned max_workers) {
  QUERN_ASSERT(batch.positions.size() == batch.ids.size() && batch.sequence.size() == batch.ids.size() &&
               batch.slots.size() == batch.ids.size());
  QUERN_ASSERT(static_cast<std::int64_t>(batch.block_table.size()) == max_sequences_ * max_blocks_per_sequence_);
  const bool as_elsewhere = batch.window_block_table.empty();
  const std::span<const std::int32_t> window_slots = as_elsewhere ? batch.slots : batch.window_slots,
                                      window_table = as_elsewhere ? batch.block_table : batch.window_block_table;
  QUERN_ASSERT(window_slots.size() == batch.ids.size() && window_table.size() == batch.block_table.size());
  QUERN_ASSERT(!as_elsewhere || model_->kv_window() == 0 || window_cache_.blocks == cache_.blocks);
  const std::span<const std::string> symbols = model_->program()->symbols();
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbol_values_[i] = symbols[i] == "tokens"                ? static_cast<std::int64_t>(batch.ids.size())
                        : symbols[i] == "rows"                ? static_cast<std::int64_t>(batch.rows.size())
                        : symbols[i] == "hidden_rows"         ? static_cast<std::int64_t>(batch.hidden_rows.size())
                        : symbols[i] == "sequences"           ? max_sequences_
                        : symbols[i] == "blocks_per_sequence" ? max_blocks_per_sequence_
                        : symbols[i] == models::kWindowBlocks ? window_cache_.blocks
                                                              : cache_.blocks;
  }
  plan::Binding& binding = session_.bind(symbol_values_);
  const auto bytes = [](std::span<const std::int32_t> s) { return reinterpret_cast<const std::byte*>(s.data()); };
  const std::array<const std::byte*, 9> inputs = {bytes(batch.ids),         bytes(batch.positions),   bytes(batch.sequence),
                                                  bytes(batch.slots),       bytes(batch.block_table), bytes(batch.rows),
                                                  bytes(batch.hidden_rows), bytes(window_slots),      bytes(window_table)};
  session_.run(binding, std::span(inputs).first(model_->kv_window() > 0 ? 9 : 7), max_workers);
  const ir::TensorView &logits = binding.output(0), &hidden = binding.output(1);
  hidden_ = {hidden.as<float>(), static_cast<std::size_t>(hidden.elements())};
  return {logits.as<float>(), static_cast<std::size_t>(logits.elements())};
}

}  // namespace quern::runtime
