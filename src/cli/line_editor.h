#pragma once

#include <memory>
#include <string>

namespace quern::cli {

/// Reads lines from a terminal, with editing and a history that is kept in a file. Pasted text arrives as one line, line ends and all.
class LineEditor {
 public:
  enum class Result { line, interrupted, end };

  /// `interrupts`: an Interrupts::fd(). The history's folder is made when it is not there; a history that cannot be kept is none.
  LineEditor(const char* program, int interrupts, std::string history_path);
  ~LineEditor();

  /// `line` is what was typed, without the line end; also, on Result::interrupted, what had been typed so far.
  Result read(const std::string& prompt, std::string& line);
  /// Adds to the history.
  void remember(const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quern::cli
