#pragma once

#include <functional>
#include <thread>

namespace quern::cli {

/// While one lives, Ctrl-C (SIGINT) does not end the program but becomes something to wait for. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Readable after a Ctrl-C that take() has not yet seen.
  int fd() const;
  /// Whether there was one since the last call.
  bool take();
};

/// While it lives, the first Ctrl-C calls `act`, from a thread of its own.
class OnInterrupt {
 public:
  OnInterrupt(Interrupts& interrupts, std::function<void()> act);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  int stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace quern::cli
