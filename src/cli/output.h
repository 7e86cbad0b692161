#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

/// Standard output takes no more: a closed pipe, a full disk.
struct OutputError {
  int number;  // errno
};

/// Writes to standard output. Errors: OutputError.
void print(std::string_view text);
/// Writes out what print() still holds. Errors: OutputError.
void flush();

bool stdout_is_terminal();
bool stderr_is_terminal();

/// The text with control characters as "\x1b", so that what stands in a file cannot drive the terminal. Valid UTF-8 stays as it is.
/// `keep_lines`: line ends and tabs stay too.
std::string printable(std::string_view text, bool keep_lines = false);

/// "97.7 MB", "512 bytes": decimal units.
std::string bytes_text(std::uint64_t bytes);
/// "134.5 M", "49152": as model sizes are spoken of.
std::string count_text(std::uint64_t count);

/// Rows in aligned columns, two spaces between them. `right`: columns of numbers, by index.
std::string table(std::span<const std::vector<std::string>> rows, std::span<const std::size_t> right = {});

}  // namespace quern::cli
