#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace quern::cpu {

/// Memory for packed weights, aligned to 64, freed with its last owner. Many small matrices share pages of 2 MiB: on pages of 4 KiB a token
/// that reads all weights once spends as long on address translation as on the weights (measured in a virtual machine: 11 and 22 GB/s). Any
/// thread. Errors: resource_exhausted.
std::shared_ptr<std::uint8_t[]> allocate_weights(std::size_t bytes);

}  // namespace quern::cpu
