#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/interrupts.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "engine/text_model.h"
#include "runtime/language_model.h"
#include "sampling/parameters.h"

namespace quern::cli {

/// How answers are made unless the user says otherwise: what people who come from llama.cpp expect.
sampling::Parameters chat_sampling();

/// `quern run MODEL.gguf`: what it was asked for.
struct TextRunOptions {
  std::string model;
  std::optional<std::string> prompt;  // without one, and on a terminal: a chat
  std::string system;
  std::string chat_template;  // a file or a name, instead of the model's own
  bool raw = false;           // no chat template
  sampling::Parameters sampling = chat_sampling();
  std::int64_t max_tokens = -1;  // of an answer
  std::vector<std::string> stop;
  std::int64_t context = 0;  // 0: the model's own
  bool no_lookup = false;
  runtime::Precision precision = runtime::Precision::fast;
  std::optional<ir::DType> kv_dtype;
  LoadOptions load;
  DraftFlags draft;
  bool verbose = false;
  plan::Profile* profile = nullptr;
};

/// A number that shapes answers: an option of `quern run`, and of /set in a chat.
struct Setting {
  std::string_view name;   // of /set, "temp"
  std::string_view flags;  // of the command line, "--temp"
  std::string_view what;
  /// Errors: UsageError when the text is no number or outside its range.
  void (*set)(const Setting&, TextRunOptions&, std::string_view text);
  std::string (*get)(const TextRunOptions&);
};
std::span<const Setting> settings();

/// A loaded language model that answers on standard output.
class Answerer {
 public:
  /// Loads; says so on stderr while that takes long and it is a terminal.
  explicit Answerer(const TextRunOptions& options);

  const engine::TextModel& text() const { return text_; }
  /// As the file calls the model; its file name when it does not.
  std::string title() const;

  /// Streams the answer to a prompt, ended by a line end. With `interrupts`, Ctrl-C stops it; the text so far is then the answer.
  /// Errors: what submit() refuses; internal when the engine failed; OutputError.
  std::string answer(std::vector<std::int32_t> prompt, const TextRunOptions& options, Interrupts* interrupts = nullptr);

 private:
  std::shared_ptr<const runtime::LanguageModel> model_;
  engine::TextModel text_;
  std::unique_ptr<engine::Engine> engine_;
};

/// Answers options.prompt once.
void answer_once(const TextRunOptions& options);
/// Talks on the terminal until the user leaves.
void chat(TextRunOptions options);

}  // namespace quern::cli
