#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/page_memory.h"
#include "base/thread_pool.h"
#include "formats/gguf/file.h"
#include "ir/dtype.h"
#include "plan/session.h"

namespace quern::runtime {

/// fast: integer products on block-quantised weights, keys and values in 16 bits. exact: float32 on dequantised weights, f32 cache.
enum class Precision { fast, exact };

struct LanguageOptions {
  Precision precision = Precision::fast;
  std::optional<ir::DType> kv_dtype = std::nullopt;  // of keys and values: f32, f16, bf16, q8_0 or q4_1; by default the precision's
  std::int64_t kv_block_tokens = 16;
  ThreadPool* pool = nullptr;                       // where weights are packed; null: on the calling thread
  bool pack = true;                                 // false: products read the file's own layout; slower, no memory beside the file's pages
  std::string cache_folder = {};                    // where packed weights are kept from one start to the next; empty: nowhere
  std::function<void(std::string_view)> note = {};  // hears in a sentence why a file of the cache was ignored
};

/// A language model loaded from a file: checked, compiled, weights packed. Immutable; runners share it.
class LanguageModel {
 public:
  /// Errors: those of the file's format; unsupported; resource_exhausted.
  static std::shared_ptr<const LanguageModel> load(const std::string& path, const LanguageOptions& options = {});

  const gguf::File& file() const { return *file_; }
  const std::string& architecture() const { return architecture_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  /// Numbers in a token's state.
  std::int64_t width() const { return width_; }
  /// The longest sequence the model was trained for, in tokens.
  std::int64_t context_length() const { return context_length_; }
  std::int64_t kv_block_tokens() const { return options_.kv_block_tokens; }
  /// Bytes of keys and values of one block, all layers.
  std::int64_t kv_block_bytes() const;
  /// All that the bytes of a block depend on, beside its tokens and those before them: the model, types and layout, this build of the
  /// program and the instruction set. Blocks of one fingerprint may be exchanged.
  std::string kv_fingerprint() const;
  const std::shared_ptr<const plan::Program>& program() const { return program_; }

 private:
  std::shared_ptr<const gguf::File> file_;
  std::shared_ptr<const plan::Program> program_;
  LanguageOptions options_;
  std::string architecture_;
  std::int64_t vocabulary_ = 0, width_ = 0, context_length_ = 0;
};

/// One step's work for a runner: `tokens` rows, of one or more sequences. Spans are read during run() only.
struct Batch {
  std::span<const std::int32_t> ids;               // [tokens]
  std::span<const std::int32_t> positions;         // [tokens], from 0 in each sequence
  std::span<const std::int32_t> sequence;          // [tokens], row of the block table
  std::span<const std::int32_t> slots;             // [tokens], where the token's keys and values go: block * block_tokens + offset
  std::span<const std::int32_t> block_table;       // [max_sequences, max_blocks_per_sequence], what is not used is any valid block
  std::span<const std::int32_t> rows;              // which tokens' logits are wanted
  std::span<const std::int32_t> hidden_rows = {};  // which tokens' final states are wanted
};

/// Runs a language model on batches over a cache of its own. Not for concurrent use.
class LanguageRunner {
 public:
  /// Takes `blocks` blocks of cache (memory is touched as it is used). Errors: resource_exhausted.
  LanguageRunner(std::shared_ptr<const LanguageModel> model, ThreadPool& pool, std::int64_t blocks, std::int64_t max_sequences,
                 std::int64_t max_blocks_per_sequence);

  /// Logits [rows, vocabulary], valid until the next run. Allocates nothing for a batch of sizes seen before.
  std::span<const float> run(const Batch& batch, unsigned max_workers = ~0u);
  /// Final states [hidden_rows, width] of the latest run, behind the last norm; valid until the next.
  std::span<const float> hidden() const { return hidden_; }

  /// The keys and values of a block, in all layers: LanguageModel::kv_block_bytes() of them.
  std::span<std::byte> block(std::int32_t index);
  /// Copies the keys and values of block `from`, in all layers, to block `to`.
  void copy_block(std::int32_t from, std::int32_t to);

  /// See plan::Session::set_profile.
  void set_profile(plan::Profile* profile) { session_.set_profile(profile); }

  const LanguageModel& model() const { return *model_; }
  std::int64_t blocks() const { return blocks_; }
  std::int64_t max_sequences() const { return max_sequences_; }
  std::int64_t max_blocks_per_sequence() const { return max_blocks_per_sequence_; }

 private:
  std::shared_ptr<const LanguageModel> model_;
  std::int64_t blocks_, max_sequences_, max_blocks_per_sequence_;
  plan::Session session_;
  PageMemory cache_;
  std::vector<std::int64_t> symbol_values_;
  std::span<const float> hidden_;
};

}  // namespace quern::runtime
