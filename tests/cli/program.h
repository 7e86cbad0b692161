#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace quern::cli {

/// What `quern ARGUMENTS` did.
struct Outcome {
  int status = -1;  // 128 + the signal's number when one ended it
  std::string out, err;
};
/// `out`: a file to write standard output to, instead of Outcome::out.
Outcome quern(const std::vector<std::string>& arguments, const std::string& in = "", const std::string& out = "");

/// `quern ARGUMENTS` on a terminal of its own.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments, const std::filesystem::path& cache);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);
  /// Waits until the text has appeared since the last call that found one; false when it has not within some seconds.
  bool shows(const std::string& text);
  /// What the program has used up so far, in seconds; counted in ticks of 1/100.
  double processor_seconds() const;
  /// Waits for the program's end: its exit status, or -1 when it does not end.
  int status();
  /// All that was shown, for messages.
  const std::string& shown() const { return shown_; }

 private:
  bool read_some(int milliseconds);

  pid_t child_ = -1;
  int fd_ = -1;
  std::string shown_;
  std::size_t seen_ = 0;
};

/// A folder that goes away with it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::string& bytes);
std::string read_file(const std::string& path);

}  // namespace quern::cli
