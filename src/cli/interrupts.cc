#include "cli/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace quern::cli {
namespace {

int interrupt_fd = -1;  // what the signal handler may touch
struct sigaction before;

int make_eventfd() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw Error(Code::resource_exhausted, std::string("no file descriptor left: ") + std::strerror(errno));
  return fd;
}

void signal(int fd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(fd, &one, sizeof one));  // fails only when it is signalled already
}

void on_signal(int) {
  const int saved = errno;
  signal(interrupt_fd);
  errno = saved;
}

}  // namespace

Interrupts::Interrupts() {
  QUERN_ASSERT(interrupt_fd < 0);
  interrupt_fd = make_eventfd();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &before);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &before, nullptr);
  ::close(std::exchange(interrupt_fd, -1));
}

int Interrupts::fd() const { return interrupt_fd; }

bool Interrupts::take() {
  std::uint64_t count = 0;
  return ::read(interrupt_fd, &count, sizeof count) == sizeof count;
}

OnInterrupt::OnInterrupt(Interrupts& interrupts, std::function<void()> act) : stop_(make_eventfd()) {
  thread_ = std::thread([this, &interrupts, act = std::move(act)] {
    pollfd fds[] = {{interrupts.fd(), POLLIN, 0}, {stop_, POLLIN, 0}};
    while (::poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    if (fds[0].revents != 0 && interrupts.take()) act();
  });
}

OnInterrupt::~OnInterrupt() {
  signal(stop_);
  thread_.join();
  ::close(stop_);
}

}  // namespace quern::cli
