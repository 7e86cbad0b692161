#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "templates/value.h"

namespace quern::templates {

/// What one render may use. Templates come with model files and are as hostile as they: past any of these the render is
/// Error(resource_exhausted).
struct Budget {
  std::size_t steps = 1'000'000;  // nodes evaluated
  std::size_t output_bytes = 64 << 20;
  std::size_t value_bytes = 128 << 20;  // of all values ever made, and of text being built
  std::size_t recursion = 200;          // calls of macros and recursive loops inside each other
  std::size_t range_items = 100'000;    // of one range()
  std::chrono::milliseconds time{10'000};
  std::optional<std::int64_t> now;  // seconds since 1970 for strftime_now; the clock if absent
};

/// A run of the rendered text from one origin. Special tokens may be looked for in trusted text only; the text between two special tokens
/// is to be tokenized as a whole, whatever pieces it consists of.
struct Piece {
  std::string text;
  bool untrusted = false;  // holds text of the context that was marked so
};

struct Program;

/// A chat template in the Jinja language, as the `transformers` library sets it up: trim_blocks, lstrip_blocks, loop controls,
/// `generation`, its own `tojson`, raise_exception, strftime_now. Compiled once; rendering is const and may run on many threads at once.
class Template {
 public:
  /// Errors: invalid_argument (syntax, unknown filter or test), unsupported (include, extends …), resource_exhausted; each with
  /// "NAME, line 3, column 7".
  explicit Template(std::string source, std::string name = "chat template");
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// `context`: a dict with the names the template sees; it is only read. Lists of the context that the template changes are an error, its
  /// own lists may change. Errors: invalid_argument where jinja2 raises (raise_exception(text) gives exactly that text as the message),
  /// resource_exhausted past the budget.
  std::string render(const Value& context, const Budget& budget = {}) const;
  /// The same text, cut where its origin changes; no piece is empty.
  std::vector<Piece> render_pieces(const Value& context, const Budget& budget = {}) const;

  const std::string& name() const;
  const std::string& source() const;

 private:
  std::unique_ptr<Program> program_;
};

}  // namespace quern::templates
