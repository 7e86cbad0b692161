// Any bytes as a tokenizer's own file: it is refused with an error, or reads, encodes and decodes. The first byte chooses the kind of file.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tokenizers/detail/rank_file.h"
#include "tokenizers/detail/sentence_piece.h"
#include "tokenizers/detail/tokenizer_json.h"

namespace {

using namespace quern::tokenizers;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const auto t = data[0] % 4 == 0   ? detail::read_sentence_piece_file(bytes, {})
                   : data[0] % 4 == 1 ? detail::read_tekken(bytes, {})
                                      : detail::read_tokenizer_json(bytes, {.bos = "<s>", .eos = "</s>"});
    for (const std::string_view text : {std::string_view(" Hello  wörld's\n12\xFF ab"), std::string_view("<s>"), bytes.substr(0, 64)}) {
      for (const bool special : {false, true}) {
        const auto ids = t->encode(text, {.parse_special = special, .add_special = special});
        for (const Id id : ids) check(id >= 0 && static_cast<std::size_t>(id) < t->size());
        StreamDecoder stream(*t);
        std::string streamed;
        for (const Id id : ids) streamed += stream.push(id);
        streamed += stream.finish();
        check(streamed == t->decode(ids));
      }
    }
  } catch (const quern::Error& error) {
    check(error.code() != quern::Code::internal);
  }
  return 0;
}
