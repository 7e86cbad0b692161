#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::http::testing {

struct Reply {
  int status = 0;  // 0: the connection ended first
  std::string head, body;
  bool has(std::string_view header) const { return head.find(header) != std::string::npos; }
};

/// A socket to a server on this machine, and as much HTTP as reading answers takes. Bytes go out as they are given.
class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  void get(const std::string& path, const std::string& more = "") {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n");
  }
  void post(const std::string& path, const std::string& body, const std::string& more = "") {
    send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  /// The next answer, whole.
  Reply reply() {
    Reply r;
    const std::string head = until("\r\n\r\n");
    if (head.empty()) return r;
    r.head = head;
    std::transform(r.head.begin(), r.head.end(), r.head.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
    r.status = std::atoi(head.c_str() + 9);
    if (const std::size_t at = r.head.find("content-length: "); at != std::string::npos) {
      r.body = exactly(static_cast<std::size_t>(std::atoll(r.head.c_str() + at + 16)));
    } else if (r.has("transfer-encoding: chunked")) {
      for (;;) {
        const std::string line = until("\r\n");
        const auto size = static_cast<std::size_t>(std::strtoull(line.c_str(), nullptr, 16));
        const std::string piece = exactly(size);
        if (exactly(2) != "\r\n" || piece.size() < size) {
          r.status = -1;  // cut off
          break;
        }
        if (size == 0) break;
        r.body += piece;
      }
    } else if (r.status >= 200 && r.status != 204) {
      r.body = rest();
    }
    return r;
  }
  /// Bytes up to and with the mark; nothing when the connection ends or stays silent before.
  std::string until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos)
      if (!read()) return "";
    return taken(at + mark.size());
  }
  std::string exactly(std::size_t size) {
    while (buffer_.size() < size && read()) {
    }
    return taken(std::min(size, buffer_.size()));
  }
  std::string rest() {
    while (read()) {
    }
    return taken(buffer_.size());
  }
  /// Whether the server closes the connection, without a word more.
  bool ends() { return rest().empty() && ended_; }

 private:
  std::string taken(std::size_t size) {
    std::string out = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return out;
  }
  bool read() {
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, 20'000) <= 0) return false;
    char bytes[16384];
    const auto n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  int fd_;
  bool connected_ = false, ended_ = false;
  std::string buffer_;
};

/// The data of a stream's events.
inline std::vector<std::string> events(std::string_view body) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string_view event = body.substr(at, end - at);
    if (event.starts_with("data: ")) all.emplace_back(event.substr(6));
    at = end + 2;
  }
  return all;
}

}  // namespace quern::http::testing
