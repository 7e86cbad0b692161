// quern run: a language model answers or chats, a graph runs on arrays.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/chat_template.h"
#include "cli/command.h"
#include "cli/graph_run.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/profile_report.h"
#include "cli/text_run.h"

namespace quern::cli {
namespace {

struct Options {
  TextRunOptions text;
  GraphRunOptions graph;
  std::string profile;
};

/// What stands after the model and is no option, as one text.
std::optional<std::string> text_of(const CLI::App& command) {
  std::string joined;
  const std::vector<std::string> words = command.remaining();
  for (const std::string& word : words) {
    if (word.size() > 1 && word.starts_with('-'))
      throw UsageError("there is no option " + word + "; text that begins with - is given with -p");
    joined += (joined.empty() ? "" : " ") + word;
  }
  return words.empty() ? std::nullopt : std::optional(joined);
}

/// Options given that belong to the other kind of model.
void refuse_options_of(const CLI::App& command, const std::string& group, const std::string& why) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_group() == group && option->count() > 0) throw UsageError(option->get_name() + " " + why);
}

constexpr const char *kText = "Language models", *kSampling = "Language models: how answers are made", *kGraph = "Graphs (ONNX)";

void run_model(const CLI::App& command, Options& options) {
  TextRunOptions& text = options.text;
  const std::optional<std::string> words = text_of(command);
  if (words && text.prompt) throw UsageError("the text is given twice, with -p and without");
  if (file_kind(text.model) == FileKind::onnx) {
    if (words) throw UsageError("a text is for language models, and this is a graph");
    for (const char* group : {kText, kSampling}) refuse_options_of(command, group, "is for language models, and this is a graph");
    options.graph.model = text.model;
    options.graph.verbose = text.verbose;
    options.graph.profile = text.profile;
    return run_graph(options.graph);
  }
  refuse_options_of(command, kGraph, "is for graphs, and this is a language model");
  if (words) text.prompt = words;
  const bool input_is_terminal = ::isatty(STDIN_FILENO) == 1;
  if (!text.prompt && input_is_terminal && ::isatty(STDOUT_FILENO) == 1) {
    if (text.raw) throw UsageError("--raw continues a text: give it with -p TEXT");
    return chat(text);
  }
  if (!text.prompt) {
    text.prompt = std::string(std::istreambuf_iterator<char>(std::cin), {});
    if (!text.raw && text.prompt->ends_with('\n')) text.prompt->pop_back();  // that of the last line, as echo makes it
  }
  if (text.prompt->empty()) throw UsageError("there is no text: give it with -p TEXT, or on standard input");
  answer_once(text);
}

void run(const CLI::App& command, Options& options) {
  std::optional<ProfileFile> profile;
  if (!options.profile.empty()) options.text.profile = &profile.emplace(options.profile).profile();
  run_model(command, options);
  if (profile) {
    flush();  // the answer first
    profile->finish();
  }
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("run", "Answer or chat with a language model; run a graph on arrays. TEXT after the model is what to answer");
  auto options = std::make_shared<Options>();
  TextRunOptions& text = options->text;
  add_model(*command, text.model, "GGUF or ONNX file");
  command->allow_extras();  // TEXT: an option of CLI11 would take "[a, b]" for a list
  command->add_option("-p,--prompt", text.prompt, "What to answer; without it, or TEXT, standard input, or on a terminal a chat")
      ->type_name("TEXT")
      ->group(kText);
  command->add_option("--chat-template", text.chat_template, template_help())->type_name("FILE|NAME")->group(kText);
  command->add_option("--system", text.system, "System prompt")->type_name("TEXT")->group(kText);
  command->add_flag("--raw", text.raw, "Continue the text as it is, without the chat template")->group(kText);
  command->add_option("--stop", text.stop, "End the answer before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(kText);
  command->add_option("--ctx", text.context, "Tokens a conversation may have; by default what the model was trained for")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 27))
      ->type_name("N")
      ->group(kText);
  command->add_flag("--no-lookup", text.no_lookup, "Do not guess tokens from what the text says already: slower, and the same answer")
      ->group(kText);
  add_precision(*command, text.precision);
  command->get_option("--precision")->group(kText);
  add_load(*command, text.load, kText);
  add_draft(*command, text.draft, kText);
  add_kv_type(*command, text.kv_dtype);
  command->get_option("--kv-type")->group(kText);
  for (const Setting& setting : settings())
    command
        ->add_option_function<std::string>(
            std::string(setting.flags), [&setting, &text](const std::string& value) { setting.set(setting, text, value); },
            std::string(setting.what) + (setting.name == "seed" || setting.name == "max-tokens" ? "" : " [" + setting.get(text) + "]"))
        ->type_name("N")
        ->group(kSampling);
  GraphRunOptions& graph = options->graph;
  command->add_option("--input", graph.inputs, "An input's array")->type_name("NAME=F.npy")->allow_extra_args(false)->group(kGraph);
  command->add_option("--inputs", graph.input_folder, "Folder with a file NAME.npy for each input")->type_name("DIR")->group(kGraph);
  command
      ->add_option("--outputs", graph.output_folder,
                   "Write each output as NAME.npy to this folder (made if needed), instead of saying what it is")
      ->type_name("DIR")
      ->group(kGraph);
  add_json(*command, graph.json);
  command->get_option("--json")->group(kGraph);
  add_threads(*command);
  command->add_option("--profile", options->profile, "Write where the time goes, as a Chrome trace, and a table of it on stderr")
      ->type_name("F.json");
  add_verbose(*command, text.verbose, "Say on stderr how long it took: tokens, tokens/s, seed");
  add_examples(*command,
               "  quern run model.gguf                                   chat; /help lists what can be done there\n"
               "  quern run model.gguf -p 'What is a quern?' --temp 0    one answer, nothing else on standard output\n"
               "  cat question.txt | quern run model.gguf\n"
               "  quern run model.gguf --raw -n 20 Once upon a time       TEXT needs no quotes where the shell needs none\n"
               "  quern run model.onnx --input x=x.npy\n"
               "  quern run model.onnx --inputs in --outputs out\n"
               "In file names, characters of a NAME other than A-Z a-z 0-9 _ . - are replaced by _");
  command->callback([command, options] { run(*command, *options); });
}

}  // namespace quern::cli
