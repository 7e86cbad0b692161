#pragma once

#include <cstdint>
#include <string_view>

namespace quern::cpu {

/// y[i] = f(gate[i]) * up[i]; an element's bits depend on its gate and up alone.
using GateLoop = void (*)(const float* gate, const float* up, float* y, std::int64_t n);

/// The loop of this machine for an activation of the op glu.
GateLoop gate_loop(std::string_view activation);

}  // namespace quern::cpu
