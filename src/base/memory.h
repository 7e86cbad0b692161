#pragma once

#include <cstdint>

namespace quern {

struct Memory {
  std::int64_t total = 0, available = 0;  // bytes; 0 when unknown
};

/// The machine's memory, and how much of it a process may take now without others being pushed out; both within this process's cgroup.
Memory memory();

}  // namespace quern
