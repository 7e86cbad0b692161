#include "cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace quern::cli {
namespace {

constexpr int kPatience = 60;  // seconds; other programs may keep the machine busy

[[noreturn]] void execute(const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(QUERN_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

void redirect(const std::string& path, int flags, int to) {
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd < 0) ::_exit(126);
  ::dup2(fd, to);
  ::close(fd);
}

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "quern_cli_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder");
  path_ = pattern;
}

Folder::~Folder() { std::filesystem::remove_all(path_); }

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome quern(const std::vector<std::string>& arguments, const std::string& in, const std::string& out) {
  const Folder folder;
  write_file(folder / "in", in);
  const std::string out_path = out.empty() ? folder / "out" : out;
  const pid_t child = ::fork();
  if (child == 0) {
    redirect(folder / "in", O_RDONLY, 0);
    redirect(out_path, O_WRONLY | O_CREAT, 1);
    redirect(folder / "err", O_WRONLY | O_CREAT, 2);
    execute(arguments);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {exit_status(status), out.empty() ? read_file(out_path) : "", read_file(folder / "err")};
}

Terminal::Terminal(const std::vector<std::string>& arguments, const std::filesystem::path& cache) {
  winsize size = {.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  child_ = ::forkpty(&fd_, nullptr, nullptr, &size);
  if (child_ != 0) return;
  ::setenv("TERM", "xterm", 1);
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  ::setenv("HOME", cache.c_str(), 1);
  execute(arguments);
}

Terminal::~Terminal() {
  ::close(fd_);
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
}

void Terminal::type(const std::string& keys) {
  // The prompt is on the screen a moment before the editor reads; nobody types that fast.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (::write(fd_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) throw std::runtime_error("the terminal takes nothing");
}

bool Terminal::read_some(int milliseconds) {
  pollfd waiting = {fd_, POLLIN, 0};
  if (::poll(&waiting, 1, milliseconds) <= 0) return true;
  char bytes[4096];
  const ssize_t got = ::read(fd_, bytes, sizeof bytes);
  if (got <= 0) return false;  // the program has gone
  shown_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

bool Terminal::shows(const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience);
  for (bool open = true;;) {
    if (const auto at = shown_.find(text, seen_); at != std::string::npos) {
      seen_ = at + text.size();
      return true;
    }
    if (!open || std::chrono::steady_clock::now() > end) return false;
    open = read_some(100);
  }
}

double Terminal::processor_seconds() const {
  const std::string line = read_file("/proc/" + std::to_string(child_) + "/stat");
  std::istringstream fields(line.substr(line.rfind(')') + 2));  // the name before it may hold anything
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / double(::sysconf(_SC_CLK_TCK));
}

int Terminal::status() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience);
  while (std::chrono::steady_clock::now() < end && read_some(100)) {
  }
  int status = 0;
  if (::waitpid(child_, &status, WNOHANG) != child_) {
    ::usleep(500'000);
    if (::waitpid(child_, &status, WNOHANG) != child_) return -1;
  }
  child_ = -1;
  return exit_status(status);
}

}  // namespace quern::cli
