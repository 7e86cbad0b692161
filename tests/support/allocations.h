#pragma once

#include <cstddef>

namespace quern::testing {

/// Whether allocations are counted in this build: not under sanitizers, which bring their own allocator.
bool counts_allocations();
/// Calls of malloc and its kin (operator new among them) by all threads of the process so far.
std::size_t allocations();

}  // namespace quern::testing
