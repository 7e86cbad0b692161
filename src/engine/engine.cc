#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/faults.h"
#include "engine/detail/batcher.h"
#include "engine/detail/model_drafter.h"
#include "engine/draft.h"
#include "engine/text_model.h"
#include "kvcache/disk_store.h"
#include "sampling/random.h"

namespace quern::engine {
namespace {

class ChannelStream final : public Stream {
 public:
  explicit ChannelStream(std::shared_ptr<detail::Channel> channel) : channel_(std::move(channel)) {}
  ~ChannelStream() override {
    channel_->notify({});
    channel_->cancel();
  }
  std::optional<Event> next() override { return channel_->take(); }
  std::optional<Event> poll() override { return channel_->poll(); }
  void notify(std::function<void()> ready) override { channel_->notify(std::move(ready)); }
  void cancel() override { channel_->cancel(); }

 private:
  std::shared_ptr<detail::Channel> channel_;
};

void require_positive(std::string_view name, std::int64_t value) {
  if (value <= 0) throw Error(Code::invalid_argument, fmt::format("{} is {}; it must be above 0", name, value));
}

std::int64_t blocks_for(std::int64_t tokens, std::int64_t block) { return (tokens + block - 1) / block; }

constexpr std::int64_t kMostGuesses = 8;

std::int64_t most_guesses_of(const EngineOptions& options) { return options.prompt_lookup || options.draft.model ? kMostGuesses : 0; }

std::int64_t cache_tokens_of(const runtime::LanguageModel& model, const EngineOptions& options) {
  const std::int64_t context = options.context_length != 0 ? options.context_length : model.context_length();
  return options.cache_tokens != 0 ? options.cache_tokens : context;
}

/// Of layers that see a window only.
std::int64_t window_blocks_of(const runtime::LanguageModel& model, const EngineOptions& options) {
  const std::int64_t rows = options.max_sequences * (1 + most_guesses_of(options));
  return runtime::window_blocks_for(model.kv_window(), model.kv_block_tokens(),
                                    blocks_for(cache_tokens_of(model, options), model.kv_block_tokens()), options.max_sequences,
                                    options.step_tokens + rows);
}

/// How many sequences of how many tokens, in how many blocks.
detail::Batcher::Limits limits_of(const runtime::LanguageModel& model, const tokenizers::Tokenizer& tokenizer,
                                  const EngineOptions& options) {
  faults::set_from_environment();
  const std::int64_t context = options.context_length != 0 ? options.context_length : model.context_length();
  const std::int64_t cache = cache_tokens_of(model, options);
  require_positive("context_length", context);
  require_positive("cache_tokens", cache);
  require_positive("max_sequences", options.max_sequences);
  require_positive("step_tokens", options.step_tokens);
  if (!(options.max_itl_ms >= 0))
    throw Error(Code::invalid_argument, fmt::format("max_itl_ms is {}; it must be 0 (chosen by the engine) or more", options.max_itl_ms));
  constexpr std::int64_t kMost = 1 << 30;  // positions, slots and rows are i32
  if (std::max({context, cache, options.max_sequences, options.step_tokens}) > kMost)
    throw Error(Code::invalid_argument, fmt::format("the engine's limits must be at most {}", kMost));
  constexpr std::int64_t kScoredLogits = 8 << 20;  // 32 MiB of a step's rows
  const std::int64_t block = model.kv_block_tokens(), blocks = blocks_for(cache, block);
  if (options.draft.tokens < 0 || options.draft.tokens > kMostGuesses)
    throw Error(Code::invalid_argument, fmt::format("draft.tokens is {}; it must be between 0 and {}", options.draft.tokens, kMostGuesses));
  return {.max_sequences = options.max_sequences,
          .step_tokens = options.step_tokens,
          .vocabulary = model.vocabulary(),
          .tokens_known = std::min(model.vocabulary(), static_cast<std::int64_t>(tokenizer.size())),
          .blocks = blocks,
          .block_tokens = block,
          .max_blocks_per_sequence = std::min(blocks, blocks_for(context, block)),
          .window = model.kv_window(),
          .window_blocks = window_blocks_of(model, options),
          .prefix_cache = options.prefix_cache,
          .most_guesses = most_guesses_of(options),
          .lookup = options.prompt_lookup,
          .draft_tokens = options.draft.tokens,
          .most_scored = std::clamp(kScoredLogits / std::max<std::int64_t>(model.vocabulary(), 1), std::int64_t{16}, std::int64_t{256}),
          .step_seconds = options.max_itl_ms / 1000};
}

}  // namespace

std::int64_t cache_bytes(const runtime::LanguageModel& model, const EngineOptions& options) {
  const std::int64_t tokens = cache_tokens_of(model, options);
  std::int64_t bytes = blocks_for(tokens, model.kv_block_tokens()) * model.kv_block_bytes() +
                       window_blocks_of(model, options) * model.kv_window_block_bytes();
  if (const runtime::LanguageModel* draft = options.draft.model.get(); draft != nullptr)
    bytes += blocks_for(tokens, draft->kv_block_tokens()) * (draft->kv_block_bytes() + draft->kv_window_block_bytes());
  return bytes;
}

/// The thread, and what other threads may ask of it.
class Engine::Scheduler {
 public:
  Scheduler(std::shared_ptr<const runtime::LanguageModel> model, std::shared_ptr<const tokenizers::Tokenizer> tokenizer, ThreadPool& pool,
            const EngineOptions& options)
      : tokenizer_(std::move(tokenizer)),
        limits_(limits_of(*model, *tokenizer_, options)),
        context_length_(std::min(options.context_length != 0 ? options.context_length : model->context_length(),
                                 limits_.blocks * limits_.block_tokens)),
        runner_(std::move(model), pool, limits_.blocks, limits_.max_sequences, limits_.max_blocks_per_sequence, limits_.window_blocks),
        disk_(open_disk(options.disk_cache)),
        partition_seed_(disk_ ? disk_->secret() : sampling::fresh_seed()),
        batcher_(
            limits_,
            [this, workers = options.max_workers](const runtime::Batch& batch) {
              const Beat beat(*this, batch.ids.size());
              const std::span<const float> logits = runner_.run(batch, workers);
              return detail::Batcher::Results(logits, runner_.hidden());
            },
            [this](std::int32_t from, std::int32_t to) { runner_.copy_block(from, to); },
            [this](std::int32_t from, std::int32_t to) { runner_.copy_window_block(from, to); }),
        draft_(open_draft(options, pool)),
        statistics_(batcher_.statistics()),
        thread_([this, profile = options.profile] {
          runner_.set_profile(profile);
          if (disk_)
            batcher_.keep_on_disk(
                *disk_, [this](std::int32_t block) { return runner_.block(block); },
                [this](std::int32_t block) { return runner_.window_block(block); });
          run();
        }) {}

  ~Scheduler() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  std::unique_ptr<Stream> submit(Request request) {
    const auto prompt = static_cast<std::int64_t>(request.prompt.size());
    if (prompt == 0) throw Error(Code::invalid_argument, "the prompt is empty");
    for (const std::int32_t id : request.prompt)
      if (id < 0 || id >= limits_.vocabulary)
        throw Error(Code::invalid_argument,
                    fmt::format("the prompt has the token {}; the model knows 0 to {}", id, limits_.vocabulary - 1));
    const bool answers = request.pooling == Pooling::none && request.max_tokens != 0;
    if (!answers && prompt > context_length_)
      throw Error(Code::invalid_argument, fmt::format("the prompt has {} tokens; the context has {}", prompt, context_length_));
    if (answers && prompt >= context_length_)
      throw Error(Code::invalid_argument, fmt::format("the prompt has {} tokens, which leaves no room for an answer in the context of {}",
                                                      prompt, context_length_));
    if (request.beam_width > 0) check_beams(request);
    auto sequence = std::make_unique<detail::Sequence>(std::move(request), context_length_, limits_.tokens_known, *tokenizer_);
    auto stream = std::make_unique<ChannelStream>(sequence->channel());
    {
      const std::lock_guard lock(mutex_);
      sequence->arrival = arrivals_++;
      submitted_.push_back(std::move(sequence));
    }
    wake_.notify_one();
    return stream;
  }

  Statistics statistics() const {
    const std::lock_guard lock(mutex_);
    Statistics now = statistics_;
    now.waiting += static_cast<std::int64_t>(submitted_.size());
    return now;
  }

  Heartbeat heartbeat() const {
    Heartbeat now{.steps = steps_begun_.load(std::memory_order_relaxed)};
    const std::int64_t begun = step_began_.load(std::memory_order_acquire);
    if (begun == 0) return now;
    now.step_seconds = std::chrono::duration<double>(Clock::now().time_since_epoch() - Clock::duration(begun)).count();
    now.tokens = step_tokens_.load(std::memory_order_relaxed);
    return now;
  }
  std::int64_t context_length() const { return context_length_; }
  std::uint64_t partition_seed() const { return partition_seed_; }
  std::int64_t embedding_width() const { return runner_.model().width(); }

 private:
  /// All beams must have their places together.
  void check_beams(const Request& request) const {
    if (request.beam_width > limits_.max_sequences)
      throw Error(Code::invalid_argument,
                  fmt::format("{} beams are asked for; at most {} sequences run together", request.beam_width, limits_.max_sequences));
    const auto prompt = static_cast<std::int64_t>(request.prompt.size());
    const std::int64_t answer = request.max_tokens < 0 ? context_length_ - prompt : std::min(request.max_tokens, context_length_ - prompt);
    const std::int64_t shared = prompt / limits_.block_tokens, all = blocks_for(prompt + answer, limits_.block_tokens);
    if (shared + request.beam_width * (all - shared) > limits_.blocks)
      throw Error(Code::invalid_argument, fmt::format("{} beams of {} + {} tokens take more than the cache of {} tokens",
                                                      request.beam_width, prompt, answer, limits_.blocks * limits_.block_tokens))
          .hint("ask for fewer beams or a shorter answer");
  }

  void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        statistics_ = batcher_.statistics();
        const auto awake = [&] { return stop_ || !submitted_.empty() || disk_ready_; };
        if (!batcher_.busy()) {
          wake_.wait(lock, awake);
        } else if (batcher_.stalled()) {
          constexpr std::chrono::milliseconds kCancelled{20};  // who cancels does not wake us
          wake_.wait_for(lock, kCancelled, awake);
        }
        if (stop_) break;
        disk_ready_ = false;
        std::swap(submitted_, arriving_);
      }
      for (auto& sequence : arriving_) batcher_.add(std::move(sequence));
      arriving_.clear();
      batcher_.step();
      batcher_.exchange_with_disk();  // nobody may come for a while
    }
    for (auto& sequence : submitted_) batcher_.add(std::move(sequence));  // nobody submits while the engine is destroyed
    submitted_.clear();
    batcher_.cancel_all();
  }

  std::unique_ptr<kvcache::DiskStore> open_disk(const DiskCacheOptions& options) {
    if (options.folder.empty()) return nullptr;
    const auto ready = [this] {
      {
        const std::lock_guard lock(mutex_);
        disk_ready_ = true;
      }
      wake_.notify_one();
    };
    return std::make_unique<kvcache::DiskStore>(
        kvcache::DiskStoreOptions{.folder = options.folder,
                                  .max_bytes = options.max_bytes,
                                  .model = runner_.model().kv_fingerprint(),
                                  .block_bytes = runner_.model().kv_block_bytes() + runner_.model().kv_window_block_bytes(),
                                  .note = options.note,
                                  .ready = ready});
  }

  /// The draft model's cache has as many tokens as the model's, in memory that is taken as it is used.
  std::unique_ptr<runtime::LanguageRunner> open_draft(const EngineOptions& options, ThreadPool& pool) {
    const std::shared_ptr<const runtime::LanguageModel>& model = options.draft.model;
    if (!model) return nullptr;
    const std::int64_t common = common_vocabulary(*tokenizer_, *TextModel::from_gguf(model->file()).tokenizer),
                       block = model->kv_block_tokens(), blocks = blocks_for(limits_.blocks * limits_.block_tokens, block),
                       each = blocks_for(limits_.max_blocks_per_sequence * limits_.block_tokens, block);
    auto runner = std::make_unique<runtime::LanguageRunner>(model, pool, blocks, limits_.max_sequences, each);
    const auto bytes = [](const runtime::LanguageModel& of) { return double(std::max<std::uint64_t>(of.file().bytes(), 1)); };
    const detail::ModelDrafter::Limits limits{.rows = limits_.max_sequences,
                                              .blocks = blocks,
                                              .block_tokens = block,
                                              .max_blocks_per_sequence = each,
                                              .vocabulary = model->vocabulary(),
                                              .tokens_known = std::min({common, model->vocabulary(), limits_.tokens_known}),
                                              .context = model->context_length(),
                                              .relative_cost = bytes(*model) / bytes(runner_.model())};
    batcher_.draft_with(
        std::make_unique<detail::ModelDrafter>(limits,
                                               [this, runner = runner.get(), workers = options.max_workers](const runtime::Batch& batch) {
                                                 const Beat beat(*this, batch.ids.size());
                                                 return runner->run(batch, workers);
                                               }),
        options.draft.note);
    return runner;
  }

  using Clock = std::chrono::steady_clock;
  /// A step is being computed as long as this lives.
  class Beat {
   public:
    Beat(Scheduler& scheduler, std::size_t tokens) : scheduler_(scheduler) {
      scheduler.step_tokens_.store(static_cast<std::int64_t>(tokens), std::memory_order_relaxed);
      scheduler.steps_begun_.fetch_add(1, std::memory_order_relaxed);
      scheduler.step_began_.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
    }
    ~Beat() { scheduler_.step_began_.store(0, std::memory_order_release); }

   private:
    Scheduler& scheduler_;
  };

  std::atomic<std::int64_t> steps_begun_{0}, step_began_{0}, step_tokens_{0};  // step_began_: of Clock; 0 between steps
  const std::shared_ptr<const tokenizers::Tokenizer> tokenizer_;
  const detail::Batcher::Limits limits_;
  const std::int64_t context_length_;
  runtime::LanguageRunner runner_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false, disk_ready_ = false;
  std::unique_ptr<kvcache::DiskStore> disk_;  // reads into the runner's cache
  const std::uint64_t partition_seed_;
  detail::Batcher batcher_;                               // the thread's alone
  const std::unique_ptr<runtime::LanguageRunner> draft_;  // null: none
  std::uint64_t arrivals_ = 0;
  std::vector<std::unique_ptr<detail::Sequence>> submitted_, arriving_;
  Statistics statistics_;
  std::thread thread_;
};

Engine::Engine(std::shared_ptr<const runtime::LanguageModel> model, std::shared_ptr<const tokenizers::Tokenizer> tokenizer,
               ThreadPool& pool, const EngineOptions& options)
    : scheduler_(std::make_unique<Scheduler>(std::move(model), std::move(tokenizer), pool, options)) {}

Engine::~Engine() = default;

std::unique_ptr<Stream> Engine::submit(Request request) { return scheduler_->submit(std::move(request)); }
Engine::Statistics Engine::statistics() const { return scheduler_->statistics(); }
std::uint64_t Engine::partition_seed() const { return scheduler_->partition_seed(); }
Engine::Heartbeat Engine::heartbeat() const { return scheduler_->heartbeat(); }
std::int64_t Engine::embedding_width() const { return scheduler_->embedding_width(); }
std::int64_t Engine::context_length() const { return scheduler_->context_length(); }

}  // namespace quern::engine
