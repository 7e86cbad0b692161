#include "base/error.h"

#include <utility>

namespace quern {

namespace {

/// Messages quote files, templates and arguments, where a name may have a megabyte: both ends of it are enough.
std::string shortened(std::string text) {
  constexpr std::size_t kMost = 2000, kEnd = 500;
  if (text.size() <= kMost) return text;
  const auto inside = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80; };  // of a UTF-8 character
  std::size_t from = kMost - kEnd, to = text.size() - kEnd;
  for (int i = 0; i < 3 && inside(from); ++i) --from;
  for (int i = 0; i < 3 && inside(to); ++i) ++to;
  return text.replace(from, to - from, " … ");
}

}  // namespace

std::string_view name(Code code) {
  switch (code) {
    case Code::invalid_argument: return "invalid_argument";
    case Code::not_found: return "not_found";
    case Code::unsupported: return "unsupported";
    case Code::resource_exhausted: return "resource_exhausted";
    case Code::data_corrupt: return "data_corrupt";
    case Code::cancelled: return "cancelled";
    case Code::internal: return "internal";
  }
  return "internal";
}

Error::Error(Code code, std::string message) : code_(code), message_(shortened(std::move(message))) { compose(); }

Error& Error::at(std::string_view path, std::optional<std::uint64_t> offset) {
  if (!where_.empty()) where_ += "; ";
  where_ += "at ";
  where_ += shortened(std::string(path));
  if (offset) where_ += ", offset " + std::to_string(*offset);
  compose();
  return *this;
}

Error& Error::in(std::string_view place) {
  if (!where_.empty()) where_ += "; ";
  where_ += "in ";
  where_ += shortened(std::string(place));
  compose();
  return *this;
}

Error& Error::hint(std::string_view text) {
  hint_ = shortened(std::string(text));
  compose();
  return *this;
}

void Error::compose() {
  what_ = message_;
  if (!where_.empty()) what_ += " (" + where_ + ")";
  if (!hint_.empty()) what_ += ": " + hint_;
}

namespace detail {
void assertion_failed(const char* expression, const char* file, int line) {
  throw Error(Code::internal, std::string("broken invariant: ") + expression)
      .at(file, static_cast<std::uint64_t>(line))
      .hint("this is a bug in Quern");
}
}  // namespace detail

}  // namespace quern
