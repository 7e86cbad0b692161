#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/command.h"
#include "cli/line_editor.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/text_run.h"

namespace quern::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t\n") + 1 - first);
}

/// The first word, and what comes after it.
std::pair<std::string_view, std::string_view> split(std::string_view text) {
  const auto end = text.find_first_of(" \t\n");
  return end == std::string_view::npos ? std::pair{text, std::string_view()} : std::pair{text.substr(0, end), trimmed(text.substr(end))};
}

class Chat {
 public:
  explicit Chat(TextRunOptions options)
      : options_(std::move(options)), model_(options_), editor_("quern", interrupts_.fd(), cache_path("history")) {
    if (model_.text().chat_template == nullptr)
      throw Error(Code::unsupported, "the model has no chat template, so it cannot chat")
          .at(options_.model)
          .hint("--chat-template names one, and -p TEXT continues a text");
  }

  void run() {
    fmt::print(stderr, "{}. /help lists commands, Ctrl-D leaves.\n", printable(model_.title()));
    std::string text;
    while (read_message(text)) {
      const std::string_view said = trimmed(text);
      if (said.empty()) continue;
      editor_.remember(std::string(said));
      try {
        if (!said.starts_with('/'))
          say(text);
        else if (!obey(said.substr(1)))
          return;
      } catch (const Error& e) {
        fmt::print(stderr, "quern: error: {}\n", printable(e.what()));
      } catch (const UsageError& e) {
        fmt::print(stderr, "quern: error: {}\n", printable(e.what()));
      }
    }
  }

 private:
  /// One message of one or more lines; false when the user leaves.
  bool read_message(std::string& text) {
    constexpr std::string_view kQuotes = "\"\"\"";
    text.clear();
    bool block = false, interrupted_before = false;
    std::string line;
    for (;;) {
      switch (editor_.read(text.empty() && !block ? ">>> " : "... ", line)) {
        case LineEditor::Result::end:
          print("\n");
          flush();
          return false;
        case LineEditor::Result::interrupted:
          interrupts_.take();
          print("\n");
          if (line.empty() && text.empty() && !block) {
            if (interrupted_before) return false;
            interrupted_before = true;
            fmt::print(stderr, "Ctrl-C once more or Ctrl-D leaves.\n");
          }
          text.clear();
          block = false;
          continue;
        case LineEditor::Result::line: break;
      }
      interrupted_before = false;
      if (text.empty() && !block && line.starts_with(kQuotes)) {
        block = true;
        line.erase(0, kQuotes.size());
        if (line.empty()) continue;
      }
      if (block && line.ends_with(kQuotes)) {
        text += line.substr(0, line.size() - kQuotes.size());
        if (text.ends_with('\n')) text.pop_back();
        return true;
      }
      if (block) {
        text += line + "\n";
      } else if (line.ends_with('\\')) {
        line.back() = '\n';
        text += line;
      } else {
        text += line;
        return true;
      }
    }
  }

  void say(const std::string& text) {
    templates::ChatInput conversation;
    if (!options_.system.empty()) conversation.messages.push_back({"system", options_.system});
    conversation.messages.insert(conversation.messages.end(), messages_.begin(), messages_.end());
    conversation.messages.push_back({"user", text});
    std::string answer;
    try {
      answer = model_.answer(model_.text().encode_chat(conversation), options_, &interrupts_);
    } catch (const Error& e) {
      if (e.code() != Code::invalid_argument || messages_.empty()) throw;
      throw Error(e.code(), e.message()).hint("/clear starts a new conversation");
    }
    interrupts_.take();  // one that came after the last word stops nothing
    messages_.push_back({"user", text});
    messages_.push_back({"assistant", std::move(answer)});
  }

  /// A command without its '/'; false when it was to leave.
  bool obey(std::string_view command) {
    const auto [verb, rest] = split(command);
    if (verb == "exit" || verb == "quit" || verb == "bye") return false;
    if (verb == "help" || verb == "?") {
      help();
    } else if (verb == "clear") {
      messages_.clear();
      fmt::print(stderr, "A new conversation.\n");
    } else if (verb == "system") {
      options_.system = rest;
      messages_.clear();
      fmt::print(stderr, "{}; a new conversation.\n", rest.empty() ? "No system prompt" : "System prompt set");
    } else if (verb == "set") {
      set(rest);
    } else {
      throw UsageError(fmt::format("no command /{}; /help lists them", verb));
    }
    return true;
  }

  void set(std::string_view words) {
    if (words.empty()) {
      std::vector<std::vector<std::string>> rows;
      for (const Setting& s : settings()) rows.push_back({std::string(s.name), s.get(options_), std::string(s.what)});
      fmt::print(stderr, "{}", table(rows));
      return;
    }
    const auto [name, value] = split(words);
    for (const Setting& s : settings()) {
      if (s.name != name) continue;
      s.set(s, options_, value);
      fmt::print(stderr, "{} is {}\n", s.name, s.get(options_));
      return;
    }
    throw UsageError(fmt::format("nothing is called '{}'; /set alone lists what can be set", name));
  }

  static void help() {
    fmt::print(stderr,
               "/clear            forget the conversation\n"
               "/system [TEXT]    set the system prompt (none without TEXT) and start anew\n"
               "/set [NAME VALUE] set how answers are made (alone: list what can be set), e.g. /set temp 0.7\n"
               "/exit             leave; so does Ctrl-D\n"
               "\n"
               "End a line with \\ to go on in the next one, or put \"\"\" before and after several lines; pasted text may\n"
               "have any number of lines. Ctrl-C stops an answer. Arrow keys go through what was said before, Ctrl-R\n"
               "searches it.\n");
  }

  TextRunOptions options_;
  Interrupts interrupts_;
  Answerer model_;
  LineEditor editor_;
  std::vector<templates::Message> messages_;
};

}  // namespace

void chat(TextRunOptions options) { Chat(std::move(options)).run(); }

}  // namespace quern::cli
