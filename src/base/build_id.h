#pragma once

#include <string>

namespace quern {

/// Tells this build of the program (or of the shared library that holds this code) from all others: the hash that the linker put into it,
/// as hexadecimal. Empty when it put none.
std::string build_id();

}  // namespace quern
