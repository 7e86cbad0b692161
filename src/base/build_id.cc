#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace quern {
namespace {

constexpr char kHere = 0;  // lies in the object that is asked about

std::size_t rounded(std::size_t n) { return (n + 3) / 4 * 4; }

/// The build id among these notes, each a header, a name and a description, padded to four bytes.
std::string id_in(const char* notes, std::size_t bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof note);
    const std::size_t name = at + sizeof note, text = name + rounded(note.n_namesz);
    if (text + note.n_descsz > bytes) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string id;
      for (std::size_t i = 0; i < note.n_descsz; ++i) {
        const auto byte = static_cast<std::uint8_t>(notes[text + i]);
        id += {kHex[byte >> 4], kHex[byte & 15]};
      }
      return id;
    }
    at = text + rounded(note.n_descsz);
  }
  return "";
}

int look(dl_phdr_info* object, std::size_t, void* result) {
  const auto here = reinterpret_cast<std::uintptr_t>(&kHere);
  const std::uintptr_t base = object->dlpi_addr;
  const auto* begin = object->dlpi_phdr;
  const auto* end = begin + object->dlpi_phnum;
  if (std::none_of(begin, end, [&](const ElfW(Phdr) & segment) {
        return segment.p_type == PT_LOAD && here >= base + segment.p_vaddr && here - base - segment.p_vaddr < segment.p_memsz;
      }))
    return 0;
  auto& id = *static_cast<std::string*>(result);
  for (const auto* segment = begin; segment != end && id.empty(); ++segment)
    if (segment->p_type == PT_NOTE) id = id_in(reinterpret_cast<const char*>(base + segment->p_vaddr), segment->p_memsz);
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id;
  ::dl_iterate_phdr(look, &id);
  return id;
}

}  // namespace quern
