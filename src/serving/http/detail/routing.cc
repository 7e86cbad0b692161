#include "serving/http/detail/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace quern::http {
namespace {

bool equal(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// The Host header names us: loopback, or one of `hosts`. Keeps pages from reaching a local server through a name of their own.
bool is_known_host(std::string_view host, const std::vector<std::string>& hosts) {
  // The port, which may be that of a tunnel, is no matter.
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return false;
    host = host.substr(1, end - 1);
  } else if (const std::size_t colon = host.rfind(':'); colon != std::string_view::npos) {
    host = host.substr(0, colon);
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  if (equal(host, "localhost") || host == "::1") return true;
  if (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos) return true;
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& known) { return known == "*" || equal(host, known); });
}

bool matches(const Route& route, std::string_view path) {
  if (!route.path.ends_with("/*")) return route.path == path;
  const std::string_view stem = std::string_view(route.path).substr(0, route.path.size() - 1);
  return path.size() > stem.size() && path.starts_with(stem);
}

Response preflight(const Request& request, const std::string& methods, const ServerOptions& options) {
  Response response{.status = 204};
  if (!cors_headers(request.header("origin"), options).empty())
    response.headers = {
        {"access-control-allow-methods", methods},
        {"access-control-allow-headers", "authorization, content-type, x-api-key, api-key, x-request-id, x-request-timeout-ms"},
        {"access-control-max-age", "600"}};
  return response;
}

}  // namespace

Routed route_of(const Request& request, const std::vector<Route>& routes, const ServerOptions& options, bool draining) {
  const auto refused = [&](const Route* route, int status, std::string_view message, const Headers& headers = {}) {
    return Routed{route, refusal(options, status, message, headers)};
  };
  if (!is_known_host(request.header("host"), options.hosts) && !request.header("host").empty())
    return refused(nullptr, 403, "the Host header names another server");
  if (request.path.empty() || request.path[0] != '/') return refused(nullptr, 400, "the request names no path");
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const Route* found = nullptr;
  std::string methods;
  for (const Route& route : routes) {
    if (!matches(route, request.path)) continue;
    if (route.method == method) {
      found = &route;
      break;
    }
    methods += (methods.empty() ? "" : ", ") + route.method;
  }
  if (found == nullptr && request.method == "OPTIONS" && !methods.empty()) return {nullptr, preflight(request, methods, options)};
  if (found == nullptr && !methods.empty())
    return refused(nullptr, 405, fmt::format("{} takes {}, not {}", request.path, methods, request.method), {{"allow", methods}});
  if (found == nullptr) return refused(nullptr, 404, fmt::format("there is no {} here", request.path));
  if (!found->open && options.admits && !options.admits(request))
    return refused(found, 401, "a valid API key is needed: Authorization: Bearer KEY", {{"www-authenticate", "Bearer"}});
  // A form of another site can send anything but JSON without being asked.
  static constexpr std::string_view kJson = "application/json";
  const bool from_page = !request.header("origin").empty() || !request.header("sec-fetch-site").empty();
  if (from_page && method == "POST" && !equal(request.header("content-type").substr(0, kJson.size()), kJson))
    return refused(found, 415, "what a web page sends must have the content type application/json");
  if (draining && !found->open) return refused(found, 503, "the server is shutting down", {{"retry-after", "5"}});
  return {found};
}

Response refusal(const ServerOptions& options, int status, std::string_view message, const Headers& headers) {
  Response response = options.refusal(status, message);
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  return response;
}

Headers cors_headers(std::string_view origin, const ServerOptions& options) {
  if (origin.empty()) return {};
  for (const std::string& allowed : options.cors_origins) {
    if (allowed != "*" && allowed != origin) continue;
    Headers headers = {{"access-control-allow-origin", allowed}, {"access-control-expose-headers", "x-request-id, x-ignored-fields"}};
    if (allowed != "*") headers.emplace_back("vary", "origin");
    return headers;
  }
  return {};
}

}  // namespace quern::http
