#pragma once

#include <string>
#include <string_view>

#include "serving/http/server.h"

// The bytes of answers, as HTTP/1.1 wants them.
namespace quern::http {

struct Framing {
  bool keep_alive = true;
  bool head_only = false;  // the answer to HEAD
  bool chunked = true;     // of streams; HTTP/1.0 has none, there the end of the connection ends the body
};

/// A whole answer.
std::string to_bytes(const Response& response, const Framing& framing, const Headers& common);
/// The head of a stream of server-sent events.
std::string event_head(const Headers& headers, const Framing& framing, const Headers& common);
/// A piece of a stream's body.
void append_chunk(std::string& out, std::string_view bytes, const Framing& framing);

}  // namespace quern::http
