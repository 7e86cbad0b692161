#include "cli/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <filesystem>

#include "base/error.h"

namespace quern::cli {
namespace {

constexpr int kHistoryEntries = 1000;
// Terminals put these around what is pasted once they are told to, so that its line ends do not send it off line by line.
constexpr const char* kPasteOn = "\x1b[?2004h";
constexpr const char* kPasteOff = "\x1b[?2004l";
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr std::size_t kLongestPaste = std::size_t{16} << 20;

void write_out(const char* text) { static_cast<void>(!::write(STDOUT_FILENO, text, std::strlen(text))); }

/// Characters are UTF-8 whatever the environment says; libedit asks the locale.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(::nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::State {
  EditLine* edit = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  int interrupts = -1;
  bool interrupted = false;
  std::string prompt, history_path;

  ~State() {
    if (edit != nullptr) ::el_end(edit);
    if (history != nullptr) ::history_end(history);
  }

  static State* of(EditLine* edit) {
    void* data = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &data);
    return static_cast<State*>(data);
  }

  /// One byte of the terminal; nothing at its end and after Ctrl-C.
  bool read_byte(char& byte) {
    for (;;) {
      pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {interrupts, POLLIN, 0}};
      if (::poll(fds, 2, -1) < 0) {
        if (errno == EINTR) continue;  // the window's size changed, or the program was stopped and goes on
        return false;
      }
      if (fds[1].revents != 0) {
        interrupted = true;
        return false;
      }
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      return got == 1;
    }
  }

  static int read_character(EditLine* edit, wchar_t* out) {
    State& self = *of(edit);
    std::mbstate_t state = {};
    for (char byte; self.read_byte(byte);) {
      const std::size_t length = std::mbrtowc(out, &byte, 1, &state);
      if (length == static_cast<std::size_t>(-2)) continue;  // not all of it yet
      if (length == static_cast<std::size_t>(-1)) *out = L'\xfffd';
      return 1;
    }
    errno = EINTR;
    return self.interrupted ? -1 : 0;
  }

  static unsigned char paste(EditLine* edit, int) {
    State& self = *of(edit);
    std::string text;
    char byte;
    while (!text.ends_with(kPasteEnd) && text.size() < kLongestPaste && self.read_byte(byte)) {
      if (byte == '\0') continue;
      if (byte == '\n' && text.ends_with('\r')) text.pop_back();
      text += byte;
    }
    if (text.ends_with(kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
    for (char& c : text)
      if (c == '\r') c = '\n';
    while (text.ends_with('\n')) text.pop_back();
    return text.empty() || ::el_insertstr(edit, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  static char* show_prompt(EditLine* edit) { return of(edit)->prompt.data(); }
};

LineEditor::LineEditor(const char* program, int interrupts, std::string history_path) : state_(std::make_unique<State>()) {
  use_utf8();
  State& s = *state_;
  s.interrupts = interrupts;
  s.history_path = std::move(history_path);
  s.edit = ::el_init(program, stdin, stdout, stderr);
  s.history = ::history_init();
  if (s.edit == nullptr || s.history == nullptr)
    throw Error(Code::resource_exhausted, "the terminal cannot be set up").hint("give the text with -p");
  ::history(s.history, &s.event, H_SETSIZE, kHistoryEntries);
  ::history(s.history, &s.event, H_SETUNIQUE, 1);
  if (!s.history_path.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(s.history_path).parent_path(), ignored);
    ::history(s.history, &s.event, H_LOAD, s.history_path.c_str());
  }
  ::el_set(s.edit, EL_CLIENTDATA, &s);
  ::el_set(s.edit, EL_SIGNAL, 0);
  ::el_set(s.edit, EL_EDITOR, "emacs");
  ::el_set(s.edit, EL_PROMPT, State::show_prompt);
  ::el_set(s.edit, EL_HIST, ::history, s.history);
  ::el_wset(s.edit, EL_GETCFN, State::read_character);
  ::el_set(s.edit, EL_ADDFN, "quern-paste", "insert pasted text", State::paste);
  ::el_set(s.edit, EL_BIND, "\\e[200~", "quern-paste", nullptr);
  ::el_set(s.edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  ::el_source(s.edit, nullptr);  // what the user set in ~/.editrc
}

LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line) {
  State& s = *state_;
  s.prompt = prompt;
  s.interrupted = false;
  ::el_resize(s.edit);
  std::fflush(stdout);
  write_out(kPasteOn);
  int length = 0;
  const char* text = ::el_gets(s.edit, &length);
  write_out(kPasteOff);
  if (text == nullptr || length <= 0) {
    const LineInfo* typed = ::el_line(s.edit);
    line.assign(typed->buffer, typed->lastchar);
    if (s.interrupted) ::el_reset(s.edit);
    return s.interrupted ? Result::interrupted : Result::end;
  }
  line.assign(text, static_cast<std::size_t>(length));
  if (line.ends_with('\n')) line.pop_back();
  return Result::line;
}

void LineEditor::remember(const std::string& text) {
  State& s = *state_;
  ::history(s.history, &s.event, H_ENTER, text.c_str());
  if (!s.history_path.empty()) ::history(s.history, &s.event, H_SAVE, s.history_path.c_str());
}

}  // namespace quern::cli
