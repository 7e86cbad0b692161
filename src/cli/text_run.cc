#include "cli/text_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <random>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/chat_template.h"
#include "cli/output.h"

namespace quern::cli {
namespace {

/// A word on stderr that goes away again.
class Progress {
 public:
  explicit Progress(const std::string& text) : shown_(stderr_is_terminal()) {
    if (shown_) fmt::print(stderr, "{}", text);
  }
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  bool shown_;
};

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::string_view name(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::stop: return "stop";
    case engine::FinishReason::length: return "length";
    case engine::FinishReason::cancelled: return "cancelled";
    case engine::FinishReason::error: return "error";
    case engine::FinishReason::none: break;
  }
  return "none";
}

std::string time(std::int64_t tokens, double seconds, std::int64_t timed) {
  const bool known = timed > 0 && seconds > 0;
  return fmt::format("{} tokens in {:.2f} s{}", tokens, seconds, known ? fmt::format(" ({:.1f} tokens/s)", double(timed) / seconds) : "");
}

void print_statistics(const engine::Event& end, const sampling::Parameters& sampling) {
  // The first token comes with the prompt; the time after it is that of the others.
  const std::string guesses =
      end.guessed_tokens == 0 ? "" : fmt::format(", {} of {} guesses right", end.accepted_guesses, end.guessed_tokens);
  fmt::print(stderr, "prompt {}, answer {}{}, {}, {}\n", time(end.prompt_tokens, end.prompt_seconds, end.prompt_tokens),
             time(end.generated_tokens, end.generate_seconds, end.generated_tokens - 1), guesses,
             sampling.temperature == 0 ? "greedy" : fmt::format("seed {}", *sampling.seed), name(end.finish));
}

}  // namespace

Answerer::Answerer(const TextRunOptions& options) {
  const Progress progress("loading " + printable(std::filesystem::path(options.model).filename().string()) + " …");
  runtime::LanguageOptions load;
  load.precision = options.precision;
  load.kv_dtype = options.kv_dtype;
  options.load.apply(load);
  model_ = runtime::LanguageModel::load(options.model, load);
  text_ = engine::TextModel::from_gguf(model_->file());
  if (!options.chat_template.empty()) text_.use_template(read_template(options.chat_template));
  engine::EngineOptions limits;
  limits.context_length = options.context;
  limits.max_sequences = 1;
  limits.prompt_lookup = !options.no_lookup;
  limits.draft = options.draft.apply(options.precision, options.kv_dtype, options.load);
  limits.profile = options.profile;
  engine_ = std::make_unique<engine::Engine>(model_, text_.tokenizer, process_pool(), limits);
  if (options.verbose)
    for (const std::string& note : text_.tokenizer->notes()) fmt::print(stderr, "quern: note: {}\n", printable(note));
}

std::string Answerer::title() const {
  const gguf::Value* given = model_->file().find("general.name");
  if (given == nullptr || given->is_array() || given->element_type() != gguf::ValueType::string)
    return std::filesystem::path(model_->file().path()).filename().string();
  return given->get<std::string>();
}

std::string Answerer::answer(std::vector<std::int32_t> prompt, const TextRunOptions& options, Interrupts* interrupts) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  if (!request.sampling.seed) request.sampling.seed = random_seed();
  request.max_tokens = options.max_tokens;
  request.stop = options.stop;
  const sampling::Parameters sampling = request.sampling;
  const std::unique_ptr<engine::Stream> stream = engine_->submit(std::move(request));
  std::optional<OnInterrupt> stop;
  if (interrupts != nullptr) stop.emplace(*interrupts, [&stream] { stream->cancel(); });

  const bool terminal = stdout_is_terminal();
  std::string text;
  engine::Event end;
  while (std::optional<engine::Event> event = stream->next()) {
    if (!event->text.empty()) {
      print(terminal ? printable(event->text, true) : event->text);
      flush();
      text += event->text;
    }
    if (event->finish != engine::FinishReason::none) {
      end = std::move(*event);
      break;
    }
  }
  if (!text.ends_with('\n')) print("\n");
  flush();
  if (end.finish == engine::FinishReason::error) throw Error(Code::internal, end.error);
  if (options.verbose) print_statistics(end, sampling);
  if (end.finish == engine::FinishReason::length && (options.max_tokens < 0 || end.generated_tokens < options.max_tokens))
    fmt::print(stderr, "quern: note: the answer ends here because the context of {} tokens is full\n", engine_->context_length());
  return text;
}

void answer_once(const TextRunOptions& options) {
  Answerer model(options);
  std::vector<std::int32_t> prompt;
  if (options.raw || model.text().chat_template == nullptr) {
    if (!options.raw) fmt::print(stderr, "quern: note: the model has no chat template, so the text is continued as it is\n");
    if (!options.system.empty())
      throw Error(Code::unsupported, "--system needs a chat template")
          .hint("put the text before the prompt yourself, or name a template with --chat-template");
    prompt = model.text().encode_text(*options.prompt);
  } else {
    templates::ChatInput conversation;
    if (!options.system.empty()) conversation.messages.push_back({"system", options.system});
    conversation.messages.push_back({"user", *options.prompt});
    prompt = model.text().encode_chat(conversation);
  }
  model.answer(std::move(prompt), options);
}

}  // namespace quern::cli
