#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "serving/http/server.h"

// Who answers a request: the handler of a route, or the server itself, and who may read that.
namespace quern::http {

struct Routed {
  const Route* route = nullptr;          // for the request's path and method; null: there is none
  std::optional<Response> instead = {};  // what the server answers itself; always there without a route
};
Routed route_of(const Request& request, const std::vector<Route>& routes, const ServerOptions& options, bool draining);

/// How the server itself says no.
Response refusal(const ServerOptions& options, int status, std::string_view message, const Headers& headers = {});

/// What lets pages of this origin read an answer; empty if they may not.
Headers cors_headers(std::string_view origin, const ServerOptions& options);

}  // namespace quern::http
