#include "walls.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

namespace quern::rooms {
namespace {

namespace fs = std::filesystem;

using Rows = std::map<std::string, std::set<std::string>>;  // room: the rooms it may include

struct Library {
  const char* prefix;
  const char* name;
};
constexpr Library kHeavy[] = {{"nlohmann/", "nlohmann-json"},
                              {"simdjson", "simdjson"},
                              {"utf8proc", "utf8proc"},
                              {"CLI/", "CLI11"},
                              {"fmt/", "fmt"},
                              {"spdlog/", "spdlog"},
                              {"boost/", "Boost"},
                              {"prometheus/", "prometheus-cpp"},
                              {"google/protobuf/", "protobuf"},
                              {"grpc", "gRPC"},
                              {"hwy/", "Highway"}};

std::string stripped(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Rows read_rows(const fs::path& list, std::vector<std::string>& problems) {
  Rows rows;
  std::ifstream stream(list);
  if (!stream) problems.push_back("rooms.txt: cannot be read");
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    line = stripped(line);
    if (line.empty() || line[0] == '#') continue;
    const std::string where = "rooms.txt:" + std::to_string(number) + ": ";
    std::istringstream columns(line);
    std::string room, purpose, may_include;
    std::getline(columns, room, '|');
    std::getline(columns, purpose, '|');
    std::getline(columns, may_include);
    room = stripped(room);
    if (room.empty() || stripped(purpose).empty()) {
      problems.push_back(where + "a row is: room | purpose | rooms it may include");
      continue;
    }
    std::set<std::string> edges;
    std::istringstream words(may_include);
    // A room lists rooms above it only, so the list is in order and the walls have no cycle.
    for (std::string other; words >> other; edges.insert(other)) {
      if (!rows.contains(other)) problems.push_back(where + room + " may include '" + other + "', which is no row above");
    }
    if (!rows.emplace(room, edges).second) problems.push_back(where + room + " has two rows");
  }
  return rows;
}

/// The room that holds a path relative to src, if one does.
std::optional<std::string> room_of(std::string path, const Rows& rows) {
  for (size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
    path.resize(slash);
    if (rows.contains(path)) return path;
  }
  return std::nullopt;
}

struct Include {
  int line;
  bool quoted;
  std::string path;
};

std::vector<Include> includes_of(const fs::path& file) {
  std::vector<Include> result;
  std::ifstream stream(file);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    std::string text = stripped(line);
    if (text.empty() || text[0] != '#') continue;
    text = stripped(text.substr(1));
    if (!text.starts_with("include")) continue;
    text = stripped(text.substr(7));
    if (text.empty() || (text[0] != '"' && text[0] != '<')) continue;  // a macro, such as HWY_TARGET_INCLUDE
    const size_t end = text.find(text[0] == '"' ? '"' : '>', 1);
    if (end != std::string::npos) result.push_back({number, text[0] == '"', text.substr(1, end - 1)});
  }
  return result;
}

/// Files of one instruction set may not share inline functions with others (CONTRIBUTING.md says why), so they include next to nothing.
bool fits_instruction_set_file(const Include& include, const std::string& file) {
  static const std::set<std::string> kPlain = {"immintrin.h", "arm_neon.h", "arm_sve.h", "cstddef", "cstdint", "cstring"};
  if (!include.quoted) return kPlain.contains(include.path);
  const fs::path from = fs::path(file).parent_path(), to = fs::path(include.path).parent_path();
  if (from == to) return true;
  // An .inc is compiled anew into each file that includes it; one that several folders use lies in the folder above them.
  return fs::path(include.path).extension() == ".inc" && from.parent_path() == to;
}

void check_file(const fs::path& src, const std::string& file, const Rows& rows, std::vector<std::string>& problems) {
  const std::optional<std::string> room = room_of(file, rows);
  if (!room) {
    problems.push_back(file + ":1: is in no room of rooms.txt");
    return;
  }
  const bool header = file.ends_with(".h");
  const bool one_instruction_set = file.ends_with(".cc") && fs::path(file).stem().has_extension();
  for (const Include& include : includes_of(src / file)) {
    const auto problem = [&](const std::string& what) { problems.push_back(file + ":" + std::to_string(include.line) + ": " + what); };
    for (const Library& library : kHeavy) {
      const bool welcome = !header || include.path == "nlohmann/json_fwd.hpp" ||  // declares, and is a page long
                           (file.ends_with("-inl.h") && std::string(library.prefix) == "hwy/");
      if (include.path.starts_with(library.prefix) && !welcome) problem(std::string(library.name) + " belongs into .cc files");
    }
    if (one_instruction_set && !fits_instruction_set_file(include, file))
      problem("a file of one instruction set may not include " + include.path);
    if (!include.quoted || include.path.starts_with("hwy/")) continue;
    if (!fs::exists(src / include.path)) {
      problem("there is no src/" + include.path + " (includes are written from src/)");
      continue;
    }
    const std::optional<std::string> other = room_of(include.path, rows);
    if (!other) {
      problem(include.path + " is in no room of rooms.txt");
    } else if (*other != *room) {
      if (!rows.at(*room).contains(*other)) problem(*room + " may not include " + *other + " (" + include.path + ")");
      if (include.path.find("/detail/") != std::string::npos) problem(include.path + " is private to " + *other);
    }
  }
}

}  // namespace

std::vector<std::string> broken_walls(const fs::path& src) {
  std::vector<std::string> problems;
  const Rows rows = read_rows(src / "rooms.txt", problems);
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(src)) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file() || (path.extension() != ".h" && path.extension() != ".cc" && path.extension() != ".inc")) continue;
    files.push_back(path.lexically_relative(src).generic_string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) check_file(src, file, rows, problems);
  return problems;
}

}  // namespace quern::rooms
