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
  /// Bytes of keys and values of one block, all layers but those with blocks of their own.
  std::int64_t kv_block_bytes() const;
  /// Where some layers see all tokens and others only the newest of them, the latter have blocks of their own, which a sequence can give
  /// back when it has passed them: how many tokens these layers see, 0: there are none; and the bytes of such a block.
  std::int64_t kv_window() const { return window_; }
  std::int64_t kv_window_block_bytes() const;
  /// All that the bytes of a block depend on, beside its tokens and those before them: the model, types and layout, this build of the
  /// program and the instruction set. Blocks of one fingerprint may be exchanged.
  std::string kv_fingerprint() const;
  const std::shared_ptr<const plan::Program>& program() const { return program_; }

 private:
  std::shared_ptr<const gguf::File> file_;
  std::shared_ptr<const plan::Program> program_;
  LanguageOptions options_;
  std::string architecture_;
  std::int64_t vocabulary_ = 0, width_ = 0, context_length_ = 0, window_ = 0;
};

/// How many blocks it takes for layers with a window beside `blocks` of the other layers: `sequences` may run, and a step may write
/// `step_tokens`, which always find room; and there is some for what was computed earlier, a quarter of the others' and never more than
/// those have. 0 without a window.
std::int64_t window_blocks_for(std::int64_t window, std::int64_t block_tokens, std::int64_t blocks, std::int64_t sequences,
                               std::int64_t step_tokens);

/// One step's work for a runner: `tokens` rows, of one or more sequences. Spans are read during run() only.
struct Batch {
  std::span<const std::int32_t> ids;               // [tokens]
  std::span<const std::int32_t> positions;         // [tokens], from 0 in each sequence
  std::span<const std::int32_t> sequence;          // [tokens], row of the block table
  std::span<const std::int32_t> slots;             // [tokens], where the token's keys and values go: block * block_tokens + offset
  std::span<const std::int32_t> block_table;       // [max_sequences, max_blocks_per_sequence], what is not used is any valid block
  std::span<const std::int32_t> rows;              // which tokens' logits are wanted
  std::span<const std::int32_t> hidden_rows = {};  // which tokens' final states are wanted
  // Where the tokens lie in the cache of layers with a window, as above; blocks that no token of the step can see may be any. Empty: there
  // as elsewhere.
  std::span<const std::int32_t> window_slots = {};
  std::span<const std::int32_t> window_block_table = {};
};

/// Runs a language model on batches over a cache of its own. Not for concurrent use.
class LanguageRunner {
 public:
  /// Takes `blocks` blocks of cache (memory is touched as it is used), and `window_blocks` of layers with a window; below 0: as many.
  /// Errors: resource_exhausted.
  LanguageRunner(std::shared_ptr<const LanguageModel> model, ThreadPool& pool, std::int64_t blocks, std::int64_t max_sequences,
                 std::int64_t max_blocks_per_sequence, std::int64_t window_blocks = -1);

  /// Logits [rows, vocabulary], valid until the next run. Allocates nothing for a batch of sizes seen before.
  std::span<const float> run(const Batch& batch, unsigned max_workers = ~0u);
  /// Final states [hidden_rows, width] of the latest run, behind the last norm; valid until the next.
  std::span<const float> hidden() const { return hidden_; }

  /// The keys and values of a block, in all its layers: LanguageModel::kv_block_bytes() of them, or kv_window_block_bytes().
  std::span<std::byte> block(std::int32_t index) { return cache_.block(index); }
  std::span<std::byte> window_block(std::int32_t index) { return window_cache_.block(index); }
  /// Copies the keys and values of block `from`, in all its layers, to block `to`.
  void copy_block(std::int32_t from, std::int32_t to) { cache_.copy(from, to); }
  void copy_window_block(std::int32_t from, std::int32_t to) { window_cache_.copy(from, to); }

  /// See plan::Session::set_profile.
  void set_profile(plan::Profile* profile) { session_.set_profile(profile); }

  const LanguageModel& model() const { return *model_; }
  std::int64_t blocks() const { return cache_.blocks; }
  std::int64_t window_blocks() const { return window_cache_.blocks; }
  /// Of both caches together.
  std::int64_t cache_bytes() const { return cache_.blocks * cache_.block_bytes + window_cache_.blocks * window_cache_.block_bytes; }
  std::int64_t max_sequences() const { return max_sequences_; }
  std::int64_t max_blocks_per_sequence() const { return max_blocks_per_sequence_; }

 private:
  /// A block of all its layers is one piece of memory, so that short sequences touch few pages, and a block can be kept or moved as one.
  struct Cache {
    Cache(std::int64_t blocks, std::int64_t block_bytes);
    std::span<std::byte> block(std::int32_t index);
    void copy(std::int32_t from, std::int32_t to);

    std::int64_t blocks, block_bytes;
    PageMemory memory;
  };

  std::shared_ptr<const LanguageModel> model_;
  std::int64_t max_sequences_, max_blocks_per_sequence_;
  plan::Session session_;
  Cache cache_, window_cache_;
  std::vector<std::int64_t> symbol_values_;
  std::span<const float> hidden_;
};

}  // namespace quern::runtime
