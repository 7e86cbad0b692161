#pragma once

#include <string_view>

namespace quern::faults {

/// Where a failure can be made to happen: no free block of the cache, a step of a language model or of its draft model, reading or writing
/// a block on disk.
enum class Point { block, step, disk_read, disk_write, draft };

/// Whether this occasion is to fail. Without a schedule this costs one load, so it is in every build: what is tested is what is shipped.
/// Any thread.
bool due(Point point);

/// "step=50,disk_read=3": every 50th step and every third read fail, counted from now; "" is no fault. Errors: invalid_argument.
void set(std::string_view schedule);
/// The first call of a process takes the schedule of the environment variable QUERN_FAULTS, if there is one. Errors: invalid_argument.
void set_from_environment();

}  // namespace quern::faults
