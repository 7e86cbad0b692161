#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace quern::cli {
namespace {

/// Characters of valid UTF-8; good enough for columns.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string scaled(double value, const char* const* units, double step) {
  int unit = 0;
  while (value >= 999.95 && units[unit + 1] != nullptr) value /= step, ++unit;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace

void print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw OutputError{errno};
}

void flush() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw OutputError{errno != 0 ? errno : EIO};
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::string printable(std::string_view text, bool keep_lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // C1 controls are U+0080 to U+009F: c2 80 to c2 9f.
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else if ((c < 0x20 && !(keep_lines && (c == '\n' || c == '\t'))) || c == 0x7f)
      out += fmt::format("\\x{:02x}", c);
    else
      out += text[i];
  }
  return out;
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB", nullptr};
  return bytes < 1000 ? fmt::format("{} bytes", bytes) : scaled(double(bytes) / 1e3, kUnits, 1e3);
}

std::string count_text(std::uint64_t count) {
  static constexpr const char* kUnits[] = {"M", "G", "T", nullptr};
  return count < 1'000'000 ? fmt::format("{}", count) : scaled(double(count) / 1e6, kUnits, 1e3);
}

std::string table(std::span<const std::vector<std::string>> rows, std::span<const std::size_t> right) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], width(row[c]));
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - width(row[c]), ' ');
      const bool is_right = std::find(right.begin(), right.end(), c) != right.end();
      line += (c > 0 ? "  " : "") + (is_right ? padding + row[c] : row[c] + padding);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace quern::cli
