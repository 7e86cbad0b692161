#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace quern::cpu {

/// Memory for packed weights, aligned to 64, freed with its last owner. Many small matrices share huge pages (base/page_memory.h). Any
/// thread. Errors: resource_exhausted.
std::shared_ptr<std::uint8_t[]> allocate_weights(std::size_t bytes);

}  // namespace quern::cpu
