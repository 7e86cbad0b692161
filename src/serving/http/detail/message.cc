#include "serving/http/detail/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>

namespace quern::http {
namespace {

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[parts.tm_wday], parts.tm_mday, kMonths[parts.tm_mon],
                     parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void append(std::string& out, const Headers& headers) {
  for (const auto& [name, value] : headers) {
    out += name;
    out += ": ";
    for (const char c : value) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;  // no line of its own making
    out += "\r\n";
  }
}

std::string head(int status, const Framing& framing) {
  return fmt::format("HTTP/1.1 {} {}\r\ndate: {}\r\n{}", status, reason(status), date(), framing.keep_alive ? "" : "connection: close\r\n");
}

}  // namespace

std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Unknown";
  }
}

bool is_plain_word(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c < 128 && std::isalnum(c) != 0) || c == '.' || c == '_' || c == ':' || c == '-';
  });
}

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string to_bytes(const Response& response, const Framing& framing, const Headers& common) {
  std::string out = head(response.status, framing);
  append(out, common);
  append(out, response.headers);
  if (response.status != 204) {
    append(out, {{"content-type", response.content_type}, {"x-content-type-options", "nosniff"}});
    out += fmt::format("content-length: {}\r\n", response.body.size());
  }
  out += "\r\n";
  if (!framing.head_only && response.status != 204) out += response.body;
  return out;
}

std::string event_head(const Headers& headers, const Framing& framing, const Headers& common) {
  std::string out = head(200, framing);
  append(out, common);
  append(out, headers);
  out +=
      "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"
      "x-content-type-options: nosniff\r\n";
  if (framing.chunked) out += "transfer-encoding: chunked\r\n";
  out += "\r\n";
  return out;
}

void append_chunk(std::string& out, std::string_view bytes, const Framing& framing) {
  if (!framing.chunked) {
    out += bytes;
    return;
  }
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
}

}  // namespace quern::http
