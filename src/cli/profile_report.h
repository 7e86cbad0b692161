#pragma once

#include <fstream>
#include <string>

#include "backends/cpu/measure/measure.h"
#include "plan/profile.h"

namespace quern::cli {

/// For people: a table for each set of sizes that ran, the longest first. A line a kernel, then the nodes that took longest: share of the
/// time, how much of it workers waited for it, bytes and arithmetic a second, and the share of what the machine allows: arithmetic at the
/// measured peak, or weights and caches at the measured speed of memory, whichever takes longer.
std::string profile_text(const plan::Profile& profile, const cpu::Speed& speed);

/// The same and each step as one JSON object: {"machine", "limits", "complete", "groups": [{"sizes", "runs", "wall_s", "processor_s",
/// "idle_s", "kernels", "nodes", "steps"}]}. Times are sums over all runs, divided by the number of workers.
std::string profile_json(const plan::Profile& profile, const cpu::Speed& speed);

/// `--profile F.json`: a Chrome trace (chrome://tracing, ui.perfetto.dev), with the object of profile_json() beside its events.
class ProfileFile {
 public:
  /// Opens the file. Errors: invalid_argument.
  explicit ProfileFile(const std::string& path);
  plan::Profile& profile() { return profile_; }
  /// Measures the machine, writes the file, and the table on stderr. Errors: invalid_argument when the file takes no more.
  void finish();

 private:
  static constexpr std::size_t kMaxEvents = std::size_t{1} << 19;  // some 100 MB of text; viewers give up on more

  std::string path_;
  std::ofstream out_;
  plan::Profile profile_{kMaxEvents};
};

}  // namespace quern::cli
