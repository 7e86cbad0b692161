#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace quern {

/// What kind of failure an Error is. `internal` is a bug of ours and must be unreachable by input; all others are told to the user.
enum class Code { invalid_argument, not_found, unsupported, resource_exhausted, data_corrupt, cancelled, internal };

/// The code's name as written in logs and JSON, e.g. "data_corrupt".
std::string_view name(Code code);

/// The one exception type of the library: what was wrong, where, and what to do about it. Texts of more than 2,000 bytes lose their middle.
///   throw Error(Code::data_corrupt, "tensor 'x' ends past the file").at(path, offset).hint("download it again");
class Error : public std::exception {
 public:
  Error(Code code, std::string message);

  /// Where in a file: path, and the byte offset when known.
  Error& at(std::string_view path, std::optional<std::uint64_t> offset = std::nullopt);
  /// Where in something that is not a file: a node, a tensor, a line, a JSON pointer.
  Error& in(std::string_view place);
  /// What the user can do.
  Error& hint(std::string_view text);

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// "message (in place; at path, offset N). Hint."
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void compose();

  Code code_;
  std::string message_, where_, hint_, what_;
};

namespace detail {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}

/// An invariant that only a bug can break; stays on in release builds. Throws Error(internal) where exceptions may pass, so that a bug
/// fails one request and not the process; never use it inside kernels.
#define QUERN_ASSERT(expression) ((expression) ? void(0) : ::quern::detail::assertion_failed(#expression, __FILE__, __LINE__))

}  // namespace quern
