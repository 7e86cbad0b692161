#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace quern::rooms {

/// Every way in which the sources below `src` break the walls of `src`/rooms.txt, as "file:line: what is wrong", sorted by file:
///   - an #include "…" of a room that the including file's room may not include, or of a file that is not there
///   - an #include "…" of another room's detail/
///   - a heavy library in a header (Highway is welcome in *-inl.h)
///   - a file of one instruction set (NAME.<isa>.cc) that includes more than intrinsics, plain C headers and headers of its own folder
///   - a source file in no room, a row of the list that names an unknown room or itself, or that cannot be read
/// A file's room is the longest row whose folder holds it.
std::vector<std::string> broken_walls(const std::filesystem::path& src);

}  // namespace quern::rooms
