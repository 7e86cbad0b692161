#pragma once

#include <cstddef>

namespace quern::gguf::testing {

/// Counts heap memory from its construction on: the most that was in use at one time, beyond what was in use at the start. One at a time,
/// over the whole process, whose operator new allocation_peak_test.cc replaces.
class AllocationPeak {
 public:
  AllocationPeak();
  std::size_t bytes() const;

 private:
  long long start_;
};

}  // namespace quern::gguf::testing
