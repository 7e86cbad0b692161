#include "base/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace quern {
namespace {

/// Bytes after "name:" in /proc/meminfo; 0 when unknown.
std::int64_t meminfo(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return std::strtoll(line.c_str() + name.size(), nullptr, 10) * 1024;
  return 0;
}

/// The number a file holds; nothing when there is no such file, or the word "max" in it.
std::optional<std::int64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

Memory memory() {
  Memory memory{meminfo("MemTotal:"), meminfo("MemAvailable:")};
  for (const auto& [limit_file, used_file] :
       {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const auto limit = number_in(limit_file), used = number_in(used_file);
    if (!limit || !used) continue;
    memory.total = std::min(memory.total, *limit);
    memory.available = std::min(memory.available, std::max<std::int64_t>(0, *limit - *used));
  }
  return memory;
}

}  // namespace quern
